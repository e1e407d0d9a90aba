//! A relay for tests: its sessions outlive their connections, and the test decides about every message.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use host_client_core::{Backoff, Client, ClientConfig, Effect, Host, Policy, Tools};
use relay_proto::wire::message::Payload;
use relay_proto::{frame, wire};
use relay_test_support::within;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

/// A relay with one session.
pub(crate) struct Relay {
    listener: TcpListener,
    /// All that it has sent in the session, from welcome on.
    sent: Vec<wire::Message>,
    /// The sequence of the last message of the host that it has handed over.
    pub(crate) received: u64,
    pub(crate) epoch: u64,
    /// The token of the newest connection.
    pub(crate) token: String,
    /// `true`: the newest connection is announced as one that resumes.
    resumes: bool,
}

/// One connection.
pub(crate) struct Link(pub(crate) WebSocketStream<TcpStream>);

/// A host's tools, which count how often they ran.
pub(crate) struct Counted {
    pub(crate) host: Host,
    pub(crate) ran: Arc<AtomicUsize>,
}

/// Tools: `a.count` returns how often it ran, `a.slow` never ends, `a.large` returns 4 MiB.
pub(crate) fn counted() -> Counted {
    let (tools, ran) = (Tools::new(), Arc::new(AtomicUsize::new(0)));
    let runs = Arc::clone(&ran);
    let none = || host_client_core::ToolSpec::new("a.none", "", json!({"type": "object"})).effect(Effect::ReadOnly);
    let named = |name: &str| host_client_core::ToolSpec { name: name.into(), ..none() };
    let count = move |_, _| {
        let count = runs.fetch_add(1, Ordering::SeqCst) + 1;
        async move { Ok(count.to_string().into()) }
    };
    tools.add_with(named("a.count"), count).unwrap();
    tools.add_with(named("a.slow"), |_, _| std::future::pending()).unwrap();
    let large = format!("{:?}", "x".repeat(4 << 20));
    let large = move |_, _| std::future::ready(Ok(large.clone().into()));
    tools.add_with(named("a.large"), large).unwrap();
    Counted { host: Host::new(tools).policy(Policy::new().allow(["*"])), ran }
}

pub(crate) fn secret(epoch: u64) -> bytes::Bytes {
    vec![u8::try_from(epoch % 256).unwrap(); 32].into()
}

impl Relay {
    pub(crate) async fn start() -> Self {
        Self::at("127.0.0.1:0".parse().unwrap()).await
    }

    pub(crate) async fn at(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        Self { listener, sent: Vec::new(), received: 0, epoch: 1, token: String::new(), resumes: false }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }

    /// Stops listening; the connections stay.
    pub(crate) fn unlisten(&mut self) -> TcpListener {
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        closed.set_nonblocking(true).unwrap();
        std::mem::replace(&mut self.listener, TcpListener::from_std(closed).unwrap())
    }

    /// Returns a relay with another session at the same address, which takes all connections from now on.
    pub(crate) fn again(&mut self) -> Self {
        let listener = self.unlisten();
        Self { listener, sent: Vec::new(), received: 0, epoch: 1, token: String::new(), resumes: false }
    }

    /// Settings of a client that tries again at once.
    pub(crate) fn config(&self) -> ClientConfig {
        let backoff = Backoff { first: Duration::from_millis(1), most: Duration::from_millis(20) };
        ClientConfig { backoff, ..ClientConfig::new(format!("ws://{}/ws", self.address()), "the token") }
    }

    /// Connects a client with these tools, whose session can be resumed.
    pub(crate) async fn connect(&mut self, host: Host) -> (Client, Link) {
        let config = self.config();
        self.connect_with(host, config, |_| {}).await
    }

    pub(crate) async fn connect_with(
        &mut self,
        host: Host,
        config: ClientConfig,
        change: impl FnOnce(&mut wire::Welcome),
    ) -> (Client, Link) {
        let (client, link) = tokio::join!(Client::connect(config, host), self.welcome(change));
        (client.unwrap(), link)
    }

    /// Takes a connection, and welcomes the host.
    pub(crate) async fn welcome(&mut self, change: impl FnOnce(&mut wire::Welcome)) -> Link {
        let mut link = self.accept().await;
        assert!(!self.resumes);
        let Some(Payload::Hello(_)) = self.next(&mut link).await else { panic!("no hello") };
        let mut welcome = wire::Welcome {
            protocol_version: 1,
            session_id: "the session".into(),
            features: ["resume", "go_away"].map(String::from).to_vec(),
            limits: [("tool_calls".to_owned(), 10_000), ("tool_calls_in_flight".to_owned(), 64)].into(),
            resume_secret: secret(1),
            resume_window_ms: 60_000,
            epoch: 1,
            unacknowledged_bytes: 16 << 20,
            expires_in_ms: 3_600_000,
            ..wire::Welcome::default()
        };
        change(&mut welcome);
        self.send(&mut link, Payload::Welcome(welcome)).await;
        link
    }

    /// Takes a connection.
    pub(crate) async fn accept(&mut self) -> Link {
        let (stream, _) = within(self.listener.accept()).await.unwrap();
        let (token, resumes) = (&mut self.token, &mut self.resumes);
        let keep = |request: &Request, response: Response| {
            *resumes = request.headers().get("relay-resume").is_some_and(|it| it == "1");
            let bearer = request.headers()["authorization"].to_str().unwrap();
            *token = bearer.strip_prefix("Bearer ").unwrap().to_owned();
            Ok(response)
        };
        Link(within(tokio_tungstenite::accept_hdr_async(stream, keep)).await.unwrap())
    }

    /// Takes a connection, and refuses it with an HTTP status.
    pub(crate) async fn refuse(&mut self, status: u16) {
        let (stream, _) = within(self.listener.accept()).await.unwrap();
        let refuse = |_: &Request, _: Response| {
            let mut response = ErrorResponse::new(None);
            *response.status_mut() = status.try_into().unwrap();
            Err(response)
        };
        within(tokio_tungstenite::accept_hdr_async(stream, refuse)).await.unwrap_err();
    }

    /// Takes a connection on which the host asks to resume.
    pub(crate) async fn asked(&mut self) -> (Link, wire::Resume) {
        let mut link = self.accept().await;
        assert!(self.resumes);
        match link.message().await {
            Some(wire::Message { payload: Some(Payload::Resume(resume)), sequence: 0, .. }) => (link, resume),
            other => panic!("no resume: {other:?}"),
        }
    }

    /// Takes a connection, and goes on with the session there.
    pub(crate) async fn resume(&mut self) -> Link {
        let (mut link, resume) = self.asked().await;
        assert_eq!((resume.session_id.as_str(), resume.epoch), ("the session", self.epoch));
        assert_eq!(resume.secret, secret(self.epoch));
        self.epoch += 1;
        link.plain(Payload::Resumed(self.resumed())).await;
        let after = usize::try_from(resume.received).unwrap();
        for message in &self.sent[after..] {
            link.write(message).await;
        }
        link
    }

    /// The true answer to resume.
    pub(crate) fn resumed(&self) -> wire::Resumed {
        wire::Resumed {
            epoch: self.epoch,
            received: self.received,
            secret: secret(self.epoch),
            expires_in_ms: 3_600_000,
            limits: [("tool_calls".to_owned(), 10_000), ("tool_calls_in_flight".to_owned(), 64)].into(),
            ..wire::Resumed::default()
        }
    }

    /// Sends a message of the session.
    pub(crate) async fn send(&mut self, link: &mut Link, payload: Payload) {
        let message = self.keep(payload);
        link.write(&message).await;
    }

    /// Numbers a message as sent, and loses it.
    pub(crate) fn keep(&mut self, payload: Payload) -> wire::Message {
        let sequence = self.sent.len() as u64 + 1;
        let message = wire::Message { sequence, acknowledged: self.received, ..payload.into() };
        self.sent.push(message.clone());
        message
    }

    /// Returns the host's next message; `None`: it has closed. One that came before is an error.
    pub(crate) async fn next(&mut self, link: &mut Link) -> Option<Payload> {
        loop {
            let message = link.message().await?;
            let Some(payload) = message.payload else { continue };
            self.received += 1;
            assert_eq!(message.sequence, self.received, "{payload:?}");
            return Some(payload);
        }
    }

    /// Returns the id of the execution that the host sends.
    pub(crate) async fn execution(&mut self, link: &mut Link) -> String {
        match self.next(link).await {
            Some(Payload::Execute(execute)) => execute.execution_id,
            other => panic!("no execution: {other:?}"),
        }
    }

    /// Returns the result that the host sends for a call.
    pub(crate) async fn result(&mut self, link: &mut Link) -> wire::ToolResult {
        match self.next(link).await {
            Some(Payload::ToolResult(result)) => result,
            other => panic!("no result: {other:?}"),
        }
    }

    pub(crate) async fn call(&mut self, link: &mut Link, id: u64, execution: &str, tool: &str) {
        self.send(link, call(id, execution, tool)).await;
    }

    /// Ends an execution with the value `7`.
    pub(crate) async fn end(&mut self, link: &mut Link, execution: &str) {
        self.send(link, ended(execution)).await;
    }
}

pub(crate) fn call(id: u64, execution: &str, tool: &str) -> Payload {
    Payload::ToolCall(wire::ToolCall {
        id: id.to_string(),
        tool: tool.into(),
        arguments: b"{}".as_slice().into(),
        execution_id: execution.into(),
        remaining_ms: 60_000,
        ..wire::ToolCall::default()
    })
}

pub(crate) fn ended(execution: &str) -> Payload {
    let data = b"7".as_slice().into();
    Payload::Result(wire::Result { data, execution_id: execution.into(), ..wire::Result::default() })
}

impl Link {
    /// Returns the host's next message, an acknowledgement of its own included; `None`: it has closed.
    pub(crate) async fn message(&mut self) -> Option<wire::Message> {
        loop {
            match within(self.0.next()).await {
                Some(Ok(Message::Binary(bytes))) => return Some(frame::decode(bytes).unwrap()),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                _ => return None,
            }
        }
    }

    /// Sends a message outside the numbering.
    pub(crate) async fn plain(&mut self, payload: Payload) {
        self.write(&payload.into()).await;
    }

    pub(crate) async fn write(&mut self, message: &wire::Message) {
        // The host may have gone.
        let _ = self.0.send(Message::Binary(frame::encode(message))).await;
    }

    /// Returns the code with which the host closes; `None`: it is gone without one.
    pub(crate) async fn close_code(&mut self) -> Option<u16> {
        loop {
            match within(self.0.next()).await {
                Some(Ok(Message::Close(close))) => return close.map(|close| close.code.into()),
                Some(Ok(_)) => {}
                _ => return None,
            }
        }
    }

    /// Closes with a code.
    pub(crate) async fn close(&mut self, code: u16) {
        let frame = CloseFrame { code: code.into(), reason: "".into() };
        let _ = self.0.send(Message::Close(Some(frame))).await;
    }
}
