//! Helpers for tests of tools: a relay that calls them as code would, and HTTP servers that keep the requests that they
//! got.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, Method};
use axum::response::Response;
use futures_util::{SinkExt, StreamExt};
use host_client::{Client, ClientConfig, ExecuteRequest, Host, Policy, Tools};
use relay_proto::wire::message::Payload;
use relay_proto::{frame, wire};
use relay_test_support::{PATIENCE, within};
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

/// A relay with one execution that never ends, whose code is the test.
pub(crate) struct Caller {
    socket: WebSocketStream<TcpStream>,
    execution: String,
    sequence: u64,
    calls: u64,
    /// The host, which lives as long as this.
    _host: JoinHandle<()>,
}

/// A call that failed, as code would read it.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) code: String,
    pub(crate) message: String,
}

impl Caller {
    /// Connects a host that has these tools.
    pub(crate) async fn new(tools: &Tools) -> Self {
        let host = Host::new(tools.clone()).policy(Policy::new().allow(["*"]));
        Self::with(host, ExecuteRequest::new("the test")).await
    }

    /// Connects a host, and lets it ask for this execution.
    pub(crate) async fn with(host: Host, mut request: ExecuteRequest) -> Self {
        request.bindings.push("introspection".into());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let config = ClientConfig::new(format!("ws://{}/ws", listener.local_addr().unwrap()), "token");
        let host = tokio::spawn(async move {
            let client = Client::connect(config, host).await.unwrap();
            // It ends with the test, which is no success.
            drop(client.run(request).await);
        });
        let (stream, _) = within(listener.accept()).await.unwrap();
        let socket = within(tokio_tungstenite::accept_async(stream)).await.unwrap();
        let mut caller = Self { socket, execution: String::new(), sequence: 0, calls: 0, _host: host };
        assert!(matches!(caller.next().await, Payload::Hello(_)));
        let limits = [("tool_calls".to_owned(), 10_000), ("tool_calls_in_flight".to_owned(), 64)].into();
        caller.send(Payload::Welcome(wire::Welcome { protocol_version: 1, limits, ..Default::default() })).await;
        let Payload::Execute(execute) = caller.next().await else { panic!("no execution") };
        caller.execution = execute.execution_id;
        caller
    }

    pub(crate) async fn call(&mut self, tool: &str, arguments: Value) -> Result<Value, Failed> {
        self.call_within(PATIENCE, tool, arguments).await
    }

    /// Calls a tool that has this much time.
    pub(crate) async fn call_within(&mut self, time: Duration, tool: &str, arguments: Value) -> Result<Value, Failed> {
        self.calls += 1;
        let call = wire::ToolCall {
            id: self.calls.to_string(),
            tool: tool.to_owned(),
            arguments: arguments.to_string().into_bytes().into(),
            execution_id: self.execution.clone(),
            remaining_ms: time.as_millis().try_into().unwrap(),
            ..Default::default()
        };
        self.send(Payload::ToolCall(call)).await;
        loop {
            if let Payload::ToolResult(result) = self.next().await {
                assert_eq!(result.id, self.calls.to_string());
                return match result.success {
                    true => Ok(serde_json::from_slice(&result.result).unwrap()),
                    false => Err(Failed { code: result.code, message: result.error }),
                };
            }
        }
    }

    /// Calls a tool that has to fail with this code, and gives what it says.
    pub(crate) async fn refused(&mut self, tool: &str, arguments: Value, code: &str) -> String {
        match self.call(tool, arguments.clone()).await {
            Err(failed) if failed.code == code => failed.message,
            other => panic!("{tool} with {arguments} gave {other:?}, not {code}"),
        }
    }

    async fn send(&mut self, payload: Payload) {
        self.sequence += 1;
        let message = wire::Message { sequence: self.sequence, ..payload.into() };
        self.socket.send(Message::Binary(frame::encode(&message))).await.unwrap();
    }

    async fn next(&mut self) -> Payload {
        loop {
            match within(self.socket.next()).await {
                Some(Ok(Message::Binary(bytes))) => {
                    if let Some(payload) = frame::decode(bytes).unwrap().payload {
                        return payload;
                    }
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                other => panic!("the host has gone: {other:?}"),
            }
        }
    }
}

/// A request that a server got.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) method: Method,
    /// Path and query.
    pub(crate) target: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

/// An HTTP server that lives as long as this.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    serving: JoinHandle<()>,
}

impl Server {
    /// Serves on a free port of 127.0.0.1.
    pub(crate) async fn start(answer: impl Fn(&Seen) -> Response + Clone + Send + Sync + 'static) -> Self {
        Self::start_on("127.0.0.1:0", answer).await
    }

    pub(crate) async fn start_on(
        address: &str,
        answer: impl Fn(&Seen) -> Response + Clone + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let remembered = Arc::clone(&seen);
        let answering = move |request: Request| {
            let (answer, remembered) = (answer.clone(), Arc::clone(&remembered));
            async move {
                let (parts, body) = request.into_parts();
                let body = to_bytes(body, 16 << 20).await.unwrap();
                let seen = Seen {
                    method: parts.method,
                    target: parts.uri.to_string(),
                    headers: parts.headers,
                    body: String::from_utf8(body.to_vec()).unwrap(),
                };
                let response = answer(&seen);
                remembered.lock().unwrap().push(seen);
                response
            }
        };
        let router = Router::new().fallback(answering);
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, seen, serving }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns the requests since the last call of this method.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }

    /// The one request that it got since then.
    pub(crate) fn one(&self) -> Seen {
        let mut seen = self.seen();
        assert_eq!(seen.len(), 1, "{seen:?}");
        seen.remove(0)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// A response of this status, with these headers.
pub(crate) fn response(status: u16, headers: &[(&str, &str)], body: impl Into<Body>) -> Response {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    response.body(body.into()).unwrap()
}

pub(crate) fn json(status: u16, body: &Value) -> Response {
    response(status, &[("content-type", "application/json")], body.to_string())
}

pub(crate) fn redirect(status: u16, to: &str) -> Response {
    response(status, &[("location", to)], "")
}

/// A body of so many megabytes, made as it is read.
pub(crate) fn megabytes(count: usize) -> Body {
    let chunk = bytes::Bytes::from(vec![b'x'; 1 << 20]);
    Body::from_stream(futures_util::stream::iter((0..count).map(move |_| Ok::<_, std::io::Error>(chunk.clone()))))
}

/// A body that begins and never ends.
pub(crate) fn endless() -> Body {
    let begin = futures_util::stream::iter([Ok::<_, std::io::Error>(bytes::Bytes::from_static(b"{"))]);
    Body::from_stream(begin.chain(futures_util::stream::pending()))
}
