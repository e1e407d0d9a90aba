//! A client of a few lines over standard input and output, for what no SDK would do.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};

use super::setup::Setup;
use super::within;

pub(crate) struct Raw {
    pub(crate) child: Child,
    pub(crate) input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

impl Raw {
    /// A client that says of itself what it can with each request: of the revision 2026-07-28.
    pub(crate) async fn without_session(setup: &Setup) -> Self {
        let mut command = setup.command();
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()).lines());
        Self { child, input, output }
    }

    /// Sends such a request, and returns its answer.
    pub(crate) async fn request(&mut self, id: u64, method: &str, mut params: Value, capabilities: Value) -> Value {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        });
        self.send(json!({"id": id, "method": method, "params": params})).await;
        self.answer(id).await
    }

    pub(crate) async fn call(&mut self, id: u64, tool: &str, arguments: Value, capabilities: Value) -> Value {
        self.request(id, "tools/call", json!({"name": tool, "arguments": arguments}), capabilities).await
    }

    /// Waits until all servers behind the program have started.
    pub(crate) async fn ready(&mut self) {
        let mut id = 2_000_000;
        loop {
            let found = self.call(id, "search_tools", json!({"query": "x"}), json!({})).await;
            if found["result"]["structuredContent"]["still_starting"].as_array().is_none_or(Vec::is_empty) {
                return;
            }
            id += 1;
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }

    /// A client that has said hello.
    pub(crate) async fn start(setup: &Setup) -> Self {
        let mut raw = Self::without_session(setup).await;
        let hello = json!({
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"},
        });
        raw.send(json!({"id": 0, "method": "initialize", "params": hello})).await;
        assert_eq!(raw.next().await.unwrap()["result"]["protocolVersion"], "2025-06-18");
        raw.send(json!({"method": "notifications/initialized"})).await;
        raw
    }

    pub(crate) async fn write(&mut self, text: &str) {
        within(self.input.as_mut().unwrap().write_all(text.as_bytes())).await.unwrap();
    }

    pub(crate) async fn send(&mut self, mut message: Value) {
        message["jsonrpc"] = "2.0".into();
        self.write(&format!("{message}\n")).await;
    }

    pub(crate) async fn execute(&mut self, id: u64, code: &str) {
        let params = json!({
            "name": "execute_code", "arguments": {"code": code}, "_meta": {"progressToken": format!("token {id}")},
        });
        self.send(json!({"id": id, "method": "tools/call", "params": params})).await;
    }

    /// The next message, all of which have to be JSON-RPC; nothing at the end.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        let line = within(self.output.next_line()).await.unwrap()?;
        let message: Value = serde_json::from_str(&line).expect(&line);
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        Some(message)
    }

    /// The answer to a request.
    pub(crate) async fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.next().await.expect("the server ended");
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }
}
