//! A client of a few lines over HTTP, for what no SDK would do.

use reqwest::{RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};

use super::setup::HttpServer;
use super::within;

/// A session over HTTP. Dropping it says nothing to the server.
pub(crate) struct Web {
    client: reqwest::Client,
    url: String,
    token: Option<String>,
    pub(crate) id: String,
}

/// A stream of events, read one after another.
pub(crate) struct Events {
    response: Response,
    read: String,
}

/// Returns a client that uses no proxy.
pub(crate) fn plain_client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().unwrap()
}

pub(crate) fn hello() -> Value {
    let params = json!({
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"},
    });
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
}

fn bearing(request: RequestBuilder, token: Option<&str>) -> RequestBuilder {
    match token {
        Some(token) => request.bearer_auth(token),
        None => request,
    }
}

impl Web {
    /// A session that was begun; an error status if it was refused.
    pub(crate) async fn open(server: &HttpServer) -> Result<Self, StatusCode> {
        Self::open_with(server, None).await
    }

    /// The same with a bearer token.
    pub(crate) async fn open_with(server: &HttpServer, token: Option<&str>) -> Result<Self, StatusCode> {
        let client = plain_client();
        let accepted = "application/json, text/event-stream";
        let request = bearing(client.post(&server.url).header("accept", accepted), token);
        let response = within(request.json(&hello()).send()).await.unwrap();
        if !response.status().is_success() {
            return Err(response.status());
        }
        let id = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        let web = Self { client, url: server.url.clone(), token: token.map(str::to_owned), id };
        let told = web.post(json!({"method": "notifications/initialized"})).await;
        assert_eq!(told.status(), StatusCode::ACCEPTED);
        Ok(web)
    }

    fn with_headers(&self, request: RequestBuilder) -> RequestBuilder {
        let request =
            request.header("accept", "application/json, text/event-stream").header("mcp-session-id", &self.id);
        bearing(request, self.token.as_deref())
    }

    /// The same session as somebody would use it who has learned its id.
    pub(crate) fn stolen_by(&self, token: Option<&str>) -> Self {
        Self {
            client: self.client.clone(),
            url: self.url.clone(),
            token: token.map(str::to_owned),
            id: self.id.clone(),
        }
    }

    /// The statuses of all that can be asked of a session but its end.
    pub(crate) async fn statuses(&self) -> Vec<StatusCode> {
        let mut statuses = vec![self.ping().await];
        for message in [
            json!({"id": 98, "method": "tools/list"}),
            json!({"id": 97, "method": "tools/call", "params": {"name": "wait_for_run", "arguments": {}}}),
            json!({"method": "notifications/cancelled", "params": {"requestId": 1}}),
        ] {
            statuses.push(self.post(message).await.status());
        }
        let listen = self.with_headers(self.client.get(&self.url));
        statuses.push(within(listen.send()).await.unwrap().status());
        let goes_on = self.with_headers(self.client.get(&self.url)).header("last-event-id", "0/0");
        statuses.push(within(goes_on.send()).await.unwrap().status());
        statuses
    }

    /// Calls a tool, and returns its result.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        self.begin(2, "tools/call", params).await.answer(2).await["result"].take()
    }

    async fn post(&self, mut message: Value) -> Response {
        message["jsonrpc"] = "2.0".into();
        within(self.with_headers(self.client.post(&self.url)).json(&message).send()).await.unwrap()
    }

    /// The status of a request of this session.
    pub(crate) async fn ping(&self) -> StatusCode {
        self.post(json!({"id": 99, "method": "ping"})).await.status()
    }

    /// Begins a request, whose answer comes on the stream.
    pub(crate) async fn begin(&self, id: u64, method: &str, params: Value) -> Events {
        let response = self.post(json!({"id": id, "method": method, "params": params})).await;
        assert_eq!(response.status(), StatusCode::OK);
        Events { response, read: String::new() }
    }

    pub(crate) async fn begin_code(&self, id: u64, code: &str) -> Events {
        let arguments = json!({"code": code, "limits": {"wall_ms": 60_000}});
        let token = json!({"progressToken": id});
        self.begin(id, "tools/call", json!({"name": "execute_code", "arguments": arguments, "_meta": token})).await
    }

    /// Runs code and returns the structured result.
    pub(crate) async fn execute(&self, code: &str) -> Value {
        let mut answer = self.begin_code(1, code).await.answer(1).await;
        answer["result"]["structuredContent"].take()
    }

    /// Goes on with a stream after an event.
    pub(crate) async fn resume(&self, last_event: &str) -> Events {
        let request = self.with_headers(self.client.get(&self.url)).header("last-event-id", last_event);
        let response = within(request.send()).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        Events { response, read: String::new() }
    }

    /// Ends the session, and returns the status of the answer.
    pub(crate) async fn delete(&self) -> StatusCode {
        within(self.with_headers(self.client.delete(&self.url)).send()).await.unwrap().status()
    }
}

impl Events {
    /// The id and the message of the next event; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some((event, rest)) = self.read.split_once("\n\n") {
                let member = |name: &str| {
                    event.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim).collect()
                };
                let (id, data): (String, String) = (member("id"), member("data"));
                self.read = rest.to_owned();
                if !data.is_empty() {
                    return Some((id, serde_json::from_str(&data).unwrap()));
                }
                continue;
            }
            let bytes = within(self.response.chunk()).await.unwrap()?;
            self.read.push_str(&String::from_utf8(bytes.to_vec()).unwrap().replace("\r\n", "\n"));
        }
    }

    /// The answer to a request.
    pub(crate) async fn answer(&mut self, id: u64) -> Value {
        loop {
            let (_, message) = self.next().await.expect("the stream ended without the answer");
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }
}
