//! A client made of the official Python SDK, in a process of its own.

use std::collections::VecDeque;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::setup::{HttpServer, RELAY_HOST, Setup};
use super::{PATIENCE, within};
use crate::servers::program;

pub(crate) struct Client {
    child: Child,
    /// Until it is closed.
    commands: Option<ChildStdin>,
    said: Lines<BufReader<ChildStdout>>,
    /// The messages that came while another one was waited for.
    heard: VecDeque<Value>,
    /// The revision of MCP that it speaks with the server.
    pub(crate) revision: String,
    calls: u64,
}

impl Client {
    /// A client that starts the server.
    pub(crate) async fn over_stdio(setup: &Setup) -> Self {
        Self::start(&[], "stdio", &[vec![RELAY_HOST.to_owned()], setup.arguments()].concat()).await
    }

    /// The same, with a person whom the server can ask by requests of its own.
    pub(crate) async fn asked_by_requests(setup: &Setup) -> Self {
        let program = [vec![RELAY_HOST.to_owned()], setup.arguments()].concat();
        Self::start(&["--asks", "--legacy"], "stdio", &program).await
    }

    /// The same, with a person whom the server can ask.
    pub(crate) async fn asking(setup: &Setup) -> Self {
        Self::start(&["--asks"], "stdio", &[vec![RELAY_HOST.to_owned()], setup.arguments()].concat()).await
    }

    pub(crate) async fn over_http(server: &HttpServer, token: Option<&str>) -> Self {
        Self::start(&[], "http", &[vec![server.url.clone()], token.map(str::to_owned).into_iter().collect()].concat())
            .await
    }

    pub(crate) async fn asking_over_http(server: &HttpServer) -> Self {
        Self::start(&["--asks"], "http", std::slice::from_ref(&server.url)).await
    }

    /// The same, in a session: with a revision of MCP that has them.
    pub(crate) async fn in_session(server: &HttpServer) -> Self {
        Self::start(&["--asks", "--legacy"], "http", std::slice::from_ref(&server.url)).await
    }

    async fn start(options: &[&str], how: &str, arguments: &[String]) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/serve_mcp/client.py");
        let mut command = Command::new(program("python3"));
        command.arg(script).args(options).arg(how).args(arguments).kill_on_drop(true);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        let commands = child.stdin.take();
        let mut client = Self { child, commands, said, heard: VecDeque::new(), revision: String::new(), calls: 0 };
        let ready = client.hear(|said| said.get("ready").is_some()).await;
        client.revision = ready["ready"].as_str().unwrap().to_owned();
        client
    }

    pub(crate) fn process(&self) -> u32 {
        self.child.id().unwrap()
    }

    async fn say(&mut self, command: Value) {
        self.commands.as_mut().unwrap().write_all(format!("{command}\n").as_bytes()).await.unwrap();
    }

    /// The first thing said that is wanted.
    pub(crate) async fn hear(&mut self, is_wanted: impl Fn(&Value) -> bool) -> Value {
        if let Some(position) = self.heard.iter().position(&is_wanted) {
            return self.heard.remove(position).unwrap();
        }
        loop {
            let line = within(self.said.next_line()).await.unwrap().expect("the client ended");
            let said: Value = serde_json::from_str(&line).unwrap();
            if is_wanted(&said) {
                return said;
            }
            self.heard.push_back(said);
        }
    }

    pub(crate) async fn list(&mut self) -> Value {
        self.say(json!({"do": "list"})).await;
        self.hear(|said| said.get("tools").is_some()).await["tools"].take()
    }

    /// Waits until all servers behind the program have started, so that their tools are known.
    pub(crate) async fn ready(&mut self) {
        let since = std::time::Instant::now();
        loop {
            let found = self.call("search_tools", json!({"query": "x"})).await;
            let starting = &found["structuredContent"]["still_starting"];
            if starting.as_array().is_none_or(Vec::is_empty) {
                return;
            }
            assert!(since.elapsed() < PATIENCE, "they never start: {starting}");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }

    pub(crate) async fn begin(&mut self, tool: &str, arguments: Value) -> u64 {
        self.calls += 1;
        let id = self.calls;
        let call = json!({"do": "call", "id": id, "name": tool, "arguments": arguments, "progress": true});
        self.say(call).await;
        id
    }

    /// Waits for the end of a call: a result, an error, or its cancellation.
    pub(crate) async fn end(&mut self, id: u64) -> Value {
        let is_end = |said: &Value| ["result", "error", "cancelled"].iter().any(|end| said.get(end).is_some());
        self.hear(|said| said["id"] == id && is_end(said)).await
    }

    pub(crate) async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let id = self.begin(tool, arguments).await;
        self.end(id).await["result"].take()
    }

    pub(crate) async fn execute(&mut self, code: &str) -> Value {
        self.call("execute_code", json!({"code": code})).await
    }

    /// Runs code and returns its value.
    pub(crate) async fn value(&mut self, code: &str) -> Value {
        let mut result = self.execute(code).await;
        assert_eq!(result["isError"], false, "{result}");
        result["structuredContent"]["result"].take()
    }

    pub(crate) async fn cancel(&mut self, id: u64) {
        self.say(json!({"do": "cancel", "id": id})).await;
    }

    /// The question that the server asks.
    pub(crate) async fn question(&mut self) -> Value {
        self.hear(|said| said.get("asked").is_some()).await["asked"].take()
    }

    pub(crate) async fn answer(&mut self, action: &str, content: Value) {
        self.say(json!({"do": "answer", "action": action, "content": content})).await;
    }

    pub(crate) async fn allow(&mut self, scope: &str) {
        self.answer("accept", json!({"allow": scope})).await;
    }

    /// The messages of the progress that was told of a call.
    pub(crate) fn progress(&self, id: u64) -> Vec<(f64, String)> {
        let of = |said: &Value| Some((said.get("progress")?.as_f64()?, said["message"].as_str()?.to_owned()));
        self.heard.iter().filter(|said| said["id"] == id).filter_map(of).collect()
    }

    /// Returns whether a question was asked that nobody has looked at.
    pub(crate) fn was_asked(&self) -> bool {
        self.heard.iter().any(|said| said.get("asked").is_some())
    }

    /// Ends the connection as the SDK does.
    pub(crate) async fn close(mut self) {
        self.commands = None;
        self.hear(|said| said.get("closed").is_some()).await;
        assert!(within(self.child.wait()).await.unwrap().success());
    }
}
