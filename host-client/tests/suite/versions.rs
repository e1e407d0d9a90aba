//! A relay of an older version and this host: a recorded session goes as it went then.

use std::collections::HashMap;

use futures_util::{SinkExt as _, StreamExt as _};
use host_client::{Client, ClientConfig, ConnectionState, Effect, Error, ExecuteRequest, ToolError, Tools};
use relay_proto::wire::message::Payload;
use relay_proto::{frame, wire};
use relay_test_support::fault::Way;
use relay_test_support::{transcript, within};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio_tungstenite::tungstenite::Message;

#[derive(Debug, Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Nothing {}

/// Makes the tools that the recorded host had.
fn tools() -> Tools {
    let tools = Tools::new();
    let add = |Add { a, b }: Add| async move { Ok::<_, ToolError>(a + b) };
    tools.add("t.add", "Adds two numbers", Effect::ReadOnly, add).unwrap();
    let fail = |_: Nothing| async { Err::<(), _>(ToolError::new("it is broken")) };
    tools.add("t.fail", "Fails", Effect::ReadOnly, fail).unwrap();
    tools
}

/// A relay that says what the older one said, and expects what its host said.
#[derive(Default)]
struct OldRelay {
    /// Ids of the recorded executions, and what this host calls them.
    ids: HashMap<String, String>,
}

impl OldRelay {
    /// Takes one connection, and ends it after the last message.
    async fn serve(mut self, listener: TcpListener) {
        let (stream, _) = listener.accept().await.unwrap();
        let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
        for (way, bytes) in transcript::before_resume() {
            let recorded = frame::decode(bytes).unwrap();
            match way {
                Way::ToHost => {
                    let message = Message::Binary(frame::encode(&self.renamed(recorded)));
                    socket.send(message).await.unwrap();
                }
                Way::ToRelay => loop {
                    match socket.next().await.unwrap().unwrap() {
                        Message::Binary(bytes) => break self.check(frame::decode(bytes).unwrap(), recorded),
                        other => assert!(other.is_ping() || other.is_pong(), "{other:?}"),
                    }
                },
            }
        }
    }

    /// Fails unless the host says what it said then.
    fn check(&mut self, message: wire::Message, recorded: wire::Message) {
        assert_eq!((message.sequence, message.acknowledged), (recorded.sequence, recorded.acknowledged), "{message:?}");
        match (message.payload.unwrap(), recorded.payload.unwrap()) {
            (Payload::Hello(hello), Payload::Hello(before)) => {
                assert_eq!(hello.protocol_version, before.protocol_version);
                let tools = |hello: &wire::Hello| hello.tools.iter().map(|tool| tool.name.clone()).collect::<Vec<_>>();
                assert_eq!(tools(&hello), tools(&before));
            }
            (Payload::Execute(execute), Payload::Execute(before)) => {
                self.ids.insert(before.execution_id.clone(), execute.execution_id.clone());
                // Ids are random, and nothing is sent that the relay does not offer.
                let same_ids = wire::Execute {
                    execution_id: execute.execution_id.clone(),
                    traceparent: execute.traceparent.clone(),
                    ..before
                };
                assert_eq!(execute, same_ids);
            }
            (payload, before) => assert_eq!(payload, before),
        }
    }

    /// Puts this host's id of the execution into a recorded message.
    fn renamed(&self, mut message: wire::Message) -> wire::Message {
        let id = match &mut message.payload {
            Some(Payload::ToolCall(call)) => &mut call.execution_id,
            Some(Payload::Output(output)) => &mut output.execution_id,
            Some(Payload::Result(result)) => &mut result.execution_id,
            Some(Payload::Error(error)) => &mut error.execution_id,
            _ => return message,
        };
        id.clone_from(&self.ids[&*id]);
        message
    }
}

#[tokio::test]
async fn a_relay_from_before_sessions_could_be_resumed_is_used_as_then() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/ws", listener.local_addr().unwrap());
    let relay = tokio::spawn(OldRelay::default().serve(listener));
    let client = within(Client::connect(ClientConfig::new(url, "the token"), tools())).await.unwrap();
    assert!(client.resume_window().is_zero());
    for (code, expected) in transcript::CODES {
        let outcome = match within(client.run(ExecuteRequest::new(code))).await {
            Ok(outcome) => outcome.value().unwrap().to_string(),
            Err(error @ Error::Execution(_)) => error.to_string(),
            Err(error) => panic!("{error}"),
        };
        assert_eq!(outcome, expected, "{code}");
    }
    within(relay).await.unwrap();
    // The session ends with its connection.
    let mut changes = client.state_changes();
    while !matches!(client.state(), ConnectionState::Lost { .. }) {
        within(changes.next()).await.unwrap();
    }
}
