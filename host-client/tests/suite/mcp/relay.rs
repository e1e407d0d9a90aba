//! A relay of a few lines, so that calls come in by the door that a relay's calls come in by.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use host_client::{Client, ClientConfig, ExecuteRequest, Host, Policy, Tools};
use relay_proto::wire::message::Payload;
use relay_proto::{frame, wire};
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use super::within;

/// A client with one execution, and the relay that calls its tools.
pub(crate) struct Relay {
    socket: WebSocketStream<TcpStream>,
    sequence: u64,
    execution: String,
    calls: u64,
    _client: Client,
    _execution: host_client::Execution,
}

impl Relay {
    pub(crate) async fn start(tools: &Tools) -> Self {
        let host = Host::new(tools.clone()).policy(Policy::new().allow(["*"]));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let config = ClientConfig::new(format!("ws://{}/ws", listener.local_addr().unwrap()), "token");
        let accepted = async {
            let (stream, _) = listener.accept().await.unwrap();
            let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
            assert!(matches!(receive(&mut socket).await, Payload::Hello(_)));
            let limits = [("tool_calls".to_owned(), 1_000), ("tool_calls_in_flight".to_owned(), 64)].into();
            let welcome = wire::Welcome { protocol_version: 1, limits, ..Default::default() };
            send(&mut socket, 1, Payload::Welcome(welcome)).await;
            socket
        };
        let (client, mut socket) = within(async { tokio::join!(Client::connect(config, host), accepted) }).await;
        let client = client.unwrap();
        let execution = client.execute(ExecuteRequest::new("return 1")).await.unwrap();
        let id = match receive(&mut socket).await {
            Payload::Execute(execute) => execute.execution_id,
            other => panic!("{other:?}"),
        };
        Self { socket, sequence: 1, execution: id, calls: 0, _client: client, _execution: execution }
    }

    async fn send(&mut self, payload: Payload) {
        self.sequence += 1;
        send(&mut self.socket, self.sequence, payload).await;
    }

    /// Calls a tool without waiting for its result.
    pub(crate) async fn begin(&mut self, tool: &str, arguments: Value, remaining: Duration) -> String {
        self.calls += 1;
        let id = self.calls.to_string();
        self.send(Payload::ToolCall(wire::ToolCall {
            id: id.clone(),
            tool: tool.into(),
            arguments: arguments.to_string().into_bytes().into(),
            execution_id: self.execution.clone(),
            remaining_ms: remaining.as_millis().try_into().unwrap(),
            ..Default::default()
        }))
        .await;
        id
    }

    /// The next result: its value, or its code and message.
    pub(crate) async fn result(&mut self) -> Result<Value, (String, String)> {
        loop {
            match receive(&mut self.socket).await {
                Payload::ToolResult(result) if result.success => {
                    return Ok(serde_json::from_slice(&result.result).unwrap());
                }
                Payload::ToolResult(result) => return Err((result.code, result.error)),
                _ => {}
            }
        }
    }

    pub(crate) async fn call(&mut self, tool: &str, arguments: Value) -> Result<Value, (String, String)> {
        self.begin(tool, arguments, Duration::from_secs(60)).await;
        self.result().await
    }

    /// The code and message of a call that fails.
    pub(crate) async fn fail(&mut self, tool: &str, arguments: Value) -> (String, String) {
        self.call(tool, arguments).await.expect_err("the call succeeded")
    }
}

async fn send(socket: &mut WebSocketStream<TcpStream>, sequence: u64, payload: Payload) {
    let message = wire::Message { sequence, ..payload.into() };
    socket.send(Message::Binary(frame::encode(&message))).await.unwrap();
}

async fn receive(socket: &mut WebSocketStream<TcpStream>) -> Payload {
    loop {
        match within(socket.next()).await {
            Some(Ok(Message::Binary(bytes))) => {
                if let Some(payload) = frame::decode(bytes).unwrap().payload {
                    return payload;
                }
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            other => panic!("the host closed: {other:?}"),
        }
    }
}
