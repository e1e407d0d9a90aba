//! A host by hand, which counts as a host does and keeps nothing, and what it needs to go on with its session.

use futures_util::{SinkExt as _, StreamExt as _};
use host_client::LocalRelay;
use relay_proto::wire::message::Payload;
use relay_proto::{frame, wire};
use serde_json::Value;
use tokio_tungstenite::tungstenite::Message;

use crate::suite::programs::http;
use crate::suite::wire::{Raw, success};
use crate::support::within;

/// The subject of the tokens that [`Raw::open`] and [`Ticket::resume`] use.
pub(super) const SUBJECT: &str = "raw";

/// One end of a session with the feature `resume`. Dropping it drops the socket, without a close.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) raw: Raw,
    ticket: Ticket,
}

/// The data that a host keeps to resume its session.
#[derive(Debug, Clone)]
pub(super) struct Ticket {
    pub(super) session_id: String,
    pub(super) epoch: u64,
    pub(super) secret: Vec<u8>,
    /// The sequence of the last message to the relay.
    pub(super) sent: u64,
    /// The sequence of the last message from the relay.
    pub(super) received: u64,
    /// The number of the attempt to resume; 0: the host does not count them.
    pub(super) attempt: u64,
}

impl Peer {
    pub(super) async fn hello(relay: &LocalRelay, tools: &[&str]) -> (Self, wire::Welcome) {
        Self::hello_over(Raw::open(relay).await, tools).await
    }

    pub(super) async fn hello_over(mut raw: Raw, tools: &[&str]) -> (Self, wire::Welcome) {
        let welcome = raw.hello_with(tools, &["resume"]).await;
        let ticket = Ticket {
            session_id: welcome.session_id.clone(),
            epoch: welcome.epoch,
            secret: welcome.resume_secret.to_vec(),
            sent: 1,
            received: 1,
            attempt: 0,
        };
        (Self { raw, ticket }, welcome)
    }

    pub(super) fn ticket(&self) -> Ticket {
        self.ticket.clone()
    }

    pub(super) async fn send(&mut self, payload: Payload) {
        self.ticket.sent += 1;
        let (sequence, acknowledged) = (self.ticket.sent, self.ticket.received);
        self.raw.send_message(wire::Message { sequence, acknowledged, ..payload.into() }).await;
    }

    /// Sends a message that is not counted.
    pub(super) async fn send_unnumbered(&mut self, message: wire::Message) {
        self.raw.send_message(message).await;
    }

    /// Sends an acknowledgement of its own.
    pub(super) async fn acknowledge(&mut self, acknowledged: u64) {
        self.send_unnumbered(wire::Message { acknowledged, ..wire::Message::default() }).await;
    }

    pub(super) async fn answer(&mut self, call: &wire::ToolCall, result: &str) {
        self.send(success(&call.id, result)).await;
    }

    /// Returns the relay's next message but acknowledgements; its sequence has to be the next one.
    pub(super) async fn message(&mut self) -> wire::Message {
        loop {
            let message = self.raw.message().await;
            if message.payload.is_none() && message.sequence == 0 {
                continue;
            }
            let ends_the_session =
                matches!(&message.payload, Some(Payload::Error(error)) if error.execution_id.is_empty());
            if !ends_the_session {
                self.ticket.received += 1;
                assert_eq!(message.sequence, self.ticket.received, "{message:?}");
            }
            return message;
        }
    }

    /// Returns the relay's next acknowledgement of its own; other messages are counted.
    pub(super) async fn acknowledgement(&mut self) -> u64 {
        loop {
            let message = self.raw.message().await;
            if message.payload.is_none() && message.sequence == 0 {
                return message.acknowledged;
            }
            self.ticket.received += 1;
        }
    }

    pub(super) async fn payload(&mut self) -> Payload {
        self.message().await.payload.unwrap()
    }

    pub(super) async fn call(&mut self) -> wire::ToolCall {
        match self.payload().await {
            Payload::ToolCall(call) => call,
            other => panic!("{other:?}"),
        }
    }

    pub(super) async fn result(&mut self) -> Value {
        match self.payload().await {
            Payload::Result(result) => serde_json::from_slice(&result.data).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    pub(super) async fn error(&mut self) -> wire::Error {
        match self.payload().await {
            Payload::Error(error) => error,
            other => panic!("{other:?}"),
        }
    }

    pub(super) async fn output(&mut self) -> String {
        match self.payload().await {
            Payload::Output(output) => output.items.into_iter().map(|item| item.text).collect(),
            other => panic!("{other:?}"),
        }
    }

    /// Ends the session as a host does that has no more use for it.
    pub(super) async fn close(mut self) {
        self.raw.0.close(None).await.unwrap();
        while let Some(Ok(_)) = within(self.raw.0.next()).await {}
    }
}

impl Ticket {
    pub(super) fn message(&self) -> Payload {
        Payload::Resume(wire::Resume {
            session_id: self.session_id.clone(),
            epoch: self.epoch,
            secret: self.secret.clone().into(),
            received: self.received,
            attempt: self.attempt,
        })
    }

    /// Goes on with the session over a new socket; the relay's refusal is the error. This ticket stays as it is.
    pub(super) async fn resume(&self, relay: &LocalRelay) -> Result<(Peer, wire::Resumed), wire::Error> {
        let token = relay.token(&["--subject", SUBJECT]).await.unwrap();
        self.resume_with(relay, &token).await
    }

    pub(super) async fn resume_with(
        &self,
        relay: &LocalRelay,
        token: &str,
    ) -> Result<(Peer, wire::Resumed), wire::Error> {
        self.try_resume_with(relay, token).await.expect("the relay says nothing")
    }

    /// The same; `None`: the socket ended without an answer.
    pub(super) async fn try_resume_with(
        &self,
        relay: &LocalRelay,
        token: &str,
    ) -> Option<Result<(Peer, wire::Resumed), wire::Error>> {
        let mut raw = Raw::open_to_resume(relay, token).await.unwrap();
        raw.send_message(self.message().into()).await;
        let message = raw.try_message().await?;
        assert_eq!(message.sequence, 0, "{message:?}");
        match message.payload.unwrap() {
            Payload::Resumed(resumed) => {
                let (epoch, secret) = (resumed.epoch, resumed.secret.to_vec());
                Some(Ok((Peer { raw, ticket: Self { epoch, secret, ..self.clone() } }, resumed)))
            }
            Payload::Error(error) => {
                assert_eq!(u16::from(raw.close().await.code), 1008, "{error:?}");
                Some(Err(error))
            }
            other => panic!("{other:?}"),
        }
    }
}

/// An execution with this id.
pub(super) fn execute(id: &str, code: &str) -> Payload {
    limited(id, code, &[])
}

pub(super) fn limited(id: &str, code: &str, limits: &[(&str, u64)]) -> Payload {
    Payload::Execute(wire::Execute {
        code: code.into(),
        execution_id: id.into(),
        bindings: vec!["console".into()],
        limits: limits.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
        ..wire::Execute::default()
    })
}

/// Returns the number of executions that run at a relay.
pub(super) async fn load(relay: &LocalRelay) -> u64 {
    http(relay, "/health").await.1["executions"].as_u64().unwrap()
}

/// Returns the number of sessions at a relay that have a connection.
pub(super) async fn connected(relay: &LocalRelay) -> u64 {
    http(relay, "/health").await.1["connected"].as_u64().unwrap()
}

/// Returns the number of sessions at a relay that have none.
pub(super) async fn detached(relay: &LocalRelay) -> u64 {
    http(relay, "/health").await.1["detached"].as_u64().unwrap()
}

/// Feeds many messages into the socket before any is written.
pub(super) async fn feed(raw: &mut Raw, messages: impl IntoIterator<Item = wire::Message>) {
    for message in messages {
        raw.0.feed(Message::Binary(frame::encode(&message))).await.unwrap();
    }
    raw.0.flush().await.unwrap();
}
