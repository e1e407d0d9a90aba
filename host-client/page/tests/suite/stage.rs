//! What the tests have in common: a receiver of webhooks, a browser, and a host whose tool needs an approval.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use bytes::Bytes;
use host_client_core::{Client, Effect, ExecuteRequest, Execution, Host, LocalRelay, Policy, ToolError, Tools};
use host_client_page::{ApprovalLinks, LinkSecret, WebhookApprover, WebhookConfig, WebhookSecret};
use relay_test_support::within;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// The secret of all webhooks of the tests.
pub(crate) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A server that ends with this.
pub(crate) struct Server {
    pub(crate) url: String,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    pub(crate) async fn start(make: impl FnOnce(&str) -> Router) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = make(&url);
        Self { task: tokio::spawn(async move { axum::serve(listener, router).await.unwrap() }), url }
    }
}

/// A message as the receiver of a webhook gets it.
pub(crate) struct Received {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Received {
    /// Returns the part of a message that is about the call.
    pub(crate) fn data(&self) -> Value {
        let mut message: Value = serde_json::from_slice(&self.body).unwrap();
        assert_eq!(message["type"], "approval.requested");
        message["data"].take()
    }

    pub(crate) fn link(&self) -> String {
        self.data()["link"].as_str().unwrap().to_owned()
    }
}

/// A receiver of webhooks.
pub(crate) struct Receiver {
    pub(crate) server: Server,
    messages: mpsc::UnboundedReceiver<Received>,
}

type Answers = Arc<Mutex<VecDeque<Response>>>;

impl Receiver {
    /// Starts a receiver that gives these answers, and status 200 after them.
    pub(crate) async fn start(answers: impl IntoIterator<Item = Response>) -> Self {
        #[expect(clippy::disallowed_methods, reason = "the test reads it")]
        let (sender, messages) = mpsc::unbounded_channel();
        let answers: Answers = Arc::new(Mutex::new(answers.into_iter().collect()));
        let receive = move |State(answers): State<Answers>, headers: HeaderMap, body: Bytes| {
            let _ = sender.send(Received { headers, body });
            let answer = answers.lock().unwrap().pop_front();
            std::future::ready(answer.unwrap_or_else(|| StatusCode::OK.into_response()))
        };
        let router = Router::new().route("/hook", post(receive)).with_state(answers);
        Self { server: Server::start(|_| router).await, messages }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}/hook", self.server.url)
    }

    pub(crate) async fn next(&mut self) -> Received {
        within(self.messages.recv()).await.unwrap()
    }

    pub(crate) fn has_more(&mut self) -> bool {
        self.messages.try_recv().is_ok()
    }

    /// Returns the settings of a webhook that tells this receiver.
    pub(crate) fn config(&self) -> WebhookConfig {
        WebhookConfig::new(self.url(), WebhookSecret::new(SECRET).unwrap())
            .allow_private("127.0.0.0/8")
            .unwrap()
            .first_pause(Duration::from_millis(5))
    }
}

/// The pages of links, with their receiver.
pub(crate) struct Stage {
    pub(crate) receiver: Receiver,
    pub(crate) pages: Server,
    pub(crate) approver: WebhookApprover,
}

pub(crate) fn secret() -> LinkSecret {
    LinkSecret::new([7; 32]).unwrap()
}

impl Stage {
    pub(crate) async fn new() -> Self {
        Self::with(|links| links).await
    }

    pub(crate) async fn with(change: impl FnOnce(ApprovalLinks) -> ApprovalLinks) -> Self {
        let receiver = Receiver::start([]).await;
        let mut links = None;
        let pages =
            Server::start(|url| links.insert(change(ApprovalLinks::new(url, secret()).unwrap())).router()).await;
        let approver = WebhookApprover::new(links.unwrap(), receiver.config()).unwrap();
        Self { receiver, pages, approver }
    }
}

/// Returns the tools: `bank.pay` changes something.
pub(crate) fn tools() -> Tools {
    let tools = Tools::new();
    let pay = |arguments: Value| async move { Ok::<_, ToolError>(json!({"paid": arguments["to"]})) };
    tools.add("bank.pay", "Pays an amount", Effect::Mutating, pay).unwrap();
    tools
}

pub(crate) fn host(approver: &WebhookApprover) -> Host {
    Host::new(tools()).policy(Policy::new().ask(["bank.*"])).approver(approver.clone())
}

/// A client with a relay of its own.
pub(crate) struct Agent {
    pub(crate) client: Client,
    _relay: LocalRelay,
}

impl Agent {
    pub(crate) async fn new(host: Host) -> Self {
        let relay = LocalRelay::start().await.unwrap();
        let client = Client::connect(relay.client_config().await.unwrap(), host).await.unwrap();
        Self { client, _relay: relay }
    }

    pub(crate) async fn begin(&self, code: &str) -> Execution {
        self.client.execute(ExecuteRequest::new(code).always_in_sandbox()).await.unwrap()
    }
}

/// A browser: it keeps cookies, sends forms as a browser does, and follows no redirect.
pub(crate) struct Browser(reqwest::Client);

/// A page as a browser has it.
pub(crate) struct Page {
    pub(crate) url: String,
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) text: String,
}

impl Browser {
    pub(crate) fn new() -> Self {
        Self(reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap())
    }

    /// Returns a browser that finds a name of `localhost` on this machine, as browsers do.
    pub(crate) fn at(host: &str) -> Self {
        let builder = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
        Self(builder.resolve(host, ([127, 0, 0, 1], 0).into()).build().unwrap())
    }

    pub(crate) async fn open(&self, url: &str) -> Page {
        self.send(self.0.get(url), url).await
    }

    /// Sends the form of a page.
    pub(crate) async fn answer(&self, page: &Page, fields: &[(&str, &str)]) -> Page {
        let token = page.form_token();
        let all: Vec<_> = [("form", token.as_str())].into_iter().chain(fields.iter().copied()).collect();
        let origin = page.url.split("/approve/").next().unwrap();
        let request = self.0.post(&page.url).header("cookie", page.cookie()).header("origin", origin);
        self.send(form(request.header("sec-fetch-site", "same-origin"), &all), &page.url).await
    }

    pub(crate) fn request(&self, method: &str, url: &str) -> reqwest::RequestBuilder {
        self.0.request(method.parse().unwrap(), url)
    }

    pub(crate) async fn send(&self, request: reqwest::RequestBuilder, url: &str) -> Page {
        let response = within(request.send()).await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Page { url: url.to_owned(), status, headers, text: within(response.text()).await.unwrap() }
    }
}

/// Adds a form to a request.
pub(crate) fn form(request: reqwest::RequestBuilder, fields: &[(&str, &str)]) -> reqwest::RequestBuilder {
    let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    request.header("content-type", "application/x-www-form-urlencoded").body(body)
}

impl Page {
    pub(crate) fn form_token(&self) -> String {
        let rest = self.text.split("name=\"form\" value=\"").nth(1).unwrap();
        rest.split('"').next().unwrap().to_owned()
    }

    pub(crate) fn cookie(&self) -> String {
        let cookie = self.headers["set-cookie"].to_str().unwrap();
        assert!(cookie.contains("HttpOnly; SameSite=Strict"), "{cookie}");
        cookie.split(';').next().unwrap().to_owned()
    }
}
