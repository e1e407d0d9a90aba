//! A relay of its own for each test, tools to call, and a limit on how long a test may take.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use host_client::{
    Client, ClientConfig, Effect, Error, ErrorCode, ExecuteRequest, ExecutionError, LocalRelay, Outcome, ToolError,
    ToolSpec, Tools,
};
pub(crate) use relay_test_support::within;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// Waits for something that will be so soon.
pub(crate) async fn until(condition: impl Fn() -> bool) {
    within(async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

/// Waits for something that will be so soon, and that takes a question to see.
pub(crate) async fn until_async(condition: impl AsyncFn() -> bool) {
    within(async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

pub(crate) fn binary() -> PathBuf {
    env!("CARGO_BIN_EXE_sandbox-relay").into()
}

/// A relay, a client with the test tools, and what those tools noticed.
pub(crate) struct Fixture {
    pub(crate) relay: LocalRelay,
    pub(crate) client: Client,
    pub(crate) seen: Arc<Seen>,
}

#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) running: AtomicUsize,
    pub(crate) most: AtomicUsize,
    pub(crate) started: AtomicUsize,
    pub(crate) dropped: AtomicUsize,
}

impl Fixture {
    pub(crate) async fn start(arguments: &[&str]) -> Self {
        let relay = start_relay(arguments).await;
        let seen = Arc::new(Seen::default());
        let client = connect(&relay, tools(&seen)).await;
        Self { relay, client, seen }
    }

    pub(crate) async fn run(&self, code: &str) -> Result<Outcome, ExecutionError> {
        self.run_request(ExecuteRequest::new(code)).await
    }

    pub(crate) async fn run_request(&self, request: ExecuteRequest) -> Result<Outcome, ExecutionError> {
        // The code has to reach the relay.
        within(self.client.run(request.always_in_sandbox())).await.map_err(|error| match error {
            Error::Execution(error) => *error,
            error => panic!("{error}"),
        })
    }

    /// The value that code returns.
    pub(crate) async fn value(&self, code: &str) -> Value {
        let outcome = self.run(code).await.unwrap_or_else(|error| panic!("{code}: {error}"));
        outcome.value().unwrap()
    }

    /// The error that code ends with; the next execution has to work.
    pub(crate) async fn error(&self, code: &str) -> ExecutionError {
        self.request_error(ExecuteRequest::new(code)).await
    }

    pub(crate) async fn request_error(&self, request: ExecuteRequest) -> ExecutionError {
        let code = request.code.clone();
        let error = match self.run_request(request).await {
            Ok(outcome) => panic!("{code} gave {:?}", outcome.json),
            Err(error) => error,
        };
        assert_eq!(self.value("return 'next'").await, json!("next"), "after {code}");
        error
    }
}

pub(crate) async fn start_relay(arguments: &[&str]) -> LocalRelay {
    within(LocalRelay::start_with(binary(), arguments, &[])).await.unwrap()
}

pub(crate) async fn connect(relay: &LocalRelay, tools: Tools) -> Client {
    within(Client::connect(relay.client_config().await.unwrap(), tools)).await.unwrap()
}

pub(crate) async fn connect_as(relay: &LocalRelay, arguments: &[&str], tools: Tools) -> Result<Client, Error> {
    let token = relay.token(arguments).await.unwrap();
    let config = ClientConfig::new(format!("ws://{}/ws", relay.address()), token);
    within(Client::connect(config, tools)).await
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Size {
    bytes: usize,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Wait {
    ms: u64,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Nothing {}

/// Counts a call as dropped unless it came to its end.
struct Running(Arc<Seen>, bool);

impl Running {
    fn new(seen: &Arc<Seen>) -> Self {
        let now = seen.running.fetch_add(1, Ordering::SeqCst) + 1;
        seen.most.fetch_max(now, Ordering::SeqCst);
        seen.started.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(seen), false)
    }
}

impl Running {
    fn finish(mut self) {
        self.1 = true;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
        if !self.1 {
            self.0.dropped.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// The tools of the server `test`.
pub(crate) fn tools(seen: &Arc<Seen>) -> Tools {
    let tools = Tools::new();
    tools.add("test.add", "Adds", Effect::ReadOnly, |Add { a, b }| async move { Ok::<_, ToolError>(a + b) }).unwrap();
    tools
        .add("test.fail", "Fails", Effect::ReadOnly, |_: Nothing| async move {
            Err::<(), _>(ToolError::new("it did not work"))
        })
        .unwrap();
    tools
        .add("test.panic", "Panics", Effect::ReadOnly, |_: Nothing| async move {
            if true {
                panic!("inside")
            }
            Ok(())
        })
        .unwrap();
    tools
        .add("test.large", "Returns much", Effect::ReadOnly, |Size { bytes }| async move { Ok("x".repeat(bytes)) })
        .unwrap();
    let waiting = Arc::clone(seen);
    tools
        .add("test.wait", "Waits", Effect::ReadOnly, move |Wait { ms }| {
            let running = Running::new(&waiting);
            async move {
                tokio::time::sleep(Duration::from_millis(ms)).await;
                running.finish();
                Ok::<_, ToolError>(ms)
            }
        })
        .unwrap();
    let anything = ToolSpec::new("test.echo.it", "Gives its arguments back", json!(true)).effect(Effect::ReadOnly);
    tools.add_with(anything, |arguments, _| async move { Ok(arguments.to_string().into()) }).unwrap();
    let junk = ToolSpec::new("test.junk", "Answers what is no JSON", json!(true)).effect(Effect::ReadOnly);
    tools.add_with(junk, |_, _| async move { Ok("{]".into()) }).unwrap();
    tools
}

/// Fails unless the error has this code.
#[track_caller]
pub(crate) fn assert_code(error: &ExecutionError, code: ErrorCode) {
    assert!(error.code == code, "{error}");
}
