//! The shared part of the libraries against a real relay: functions as tools, approvals, events, errors, ends.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod ends;
mod functions;
mod options;
mod runs;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use relay_sdk::{
    Answer, ForeignApprover, ForeignCall, ForeignContext, ForeignFault, Functions, HostOptions, Question,
    RequestOptions, SdkHost, ToolDescription, ToolFault,
};
use serde_json::{Value, json};
use tokio::sync::Notify;

/// A function that adds, fails, panics or waits, as its arguments say.
#[derive(Default)]
struct Calls {
    /// Completed when a call waits.
    waits: Notify,
    /// The number of calls that were dropped while they waited.
    dropped: Arc<AtomicUsize>,
}

impl Calls {
    fn shared() -> Arc<dyn ForeignCall> {
        Arc::new(Self::default())
    }
}

struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl ForeignCall for Calls {
    async fn call(&self, arguments: String, context: ForeignContext) -> Result<Bytes, ToolFault> {
        let arguments: Value = serde_json::from_str(&arguments).unwrap();
        match arguments["do"].as_str() {
            Some("fail") => Err(ToolFault { code: "TOOL_DENIED".into(), message: "not for you".into() }),
            Some("panic") => panic!("the function is broken"),
            Some("wait") => {
                let _dropped = Dropped(Arc::clone(&self.dropped));
                context.progress(1.0, Some(2.0), "half way");
                self.waits.notify_one();
                std::future::pending().await
            }
            _ => {
                Ok(json!({"sum": arguments["a"].as_i64().unwrap() + 1, "tool": context.info().tool}).to_string().into())
            }
        }
    }
}

struct Asks(Answer);

#[async_trait]
impl ForeignApprover for Asks {
    fn name(&self) -> String {
        "a test".into()
    }

    async fn approve(&self, question: Question) -> Result<Answer, ForeignFault> {
        assert!(question.text.contains("demo.change"), "{}", question.text);
        assert_eq!(question.arguments, json!({"a": 7}));
        Ok(self.0.clone())
    }
}

fn description(name: &str, effect: &str) -> ToolDescription {
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}, "do": {"type": "string"}}});
    serde_json::from_value(json!({"name": name, "description": "A test", "input_schema": schema, "effect": effect}))
        .unwrap()
}

/// Starts a host with the tools `demo.read` and `demo.change`.
async fn host(options: Value, approver: Option<Answer>) -> (SdkHost, Arc<Calls>) {
    let calls = Arc::new(Calls::default());
    let function: Arc<dyn ForeignCall> = calls.clone();
    let tools = vec![
        (description("demo.read", "read_only"), Arc::clone(&function)),
        (description("demo.change", "mutating"), function),
    ];
    let approver = approver.map(|answer| Arc::new(Asks(answer)) as Arc<dyn ForeignApprover>);
    let functions = Functions { tools, approver, ..Functions::default() };
    let options = HostOptions::from_json(&options.to_string()).unwrap();
    let host = relay_sdk::runtime::run(SdkHost::start(options, functions)).await.unwrap();
    (host, calls)
}

/// Code that is run in the sandbox, whatever it is.
fn request(code: &str) -> RequestOptions {
    RequestOptions { code: code.into(), always_in_sandbox: true, ..RequestOptions::default() }
}
