//! Tools for any agent loop: what its model is told of them, in the shape of its provider, and what it reads of a call.
//!
//! ```no_run
//! # async fn example(client: host_client::Client) {
//! use host_client::ExecuteCode;
//!
//! let tool = ExecuteCode::new(client);
//! let tools = [tool.definition().openai_chat()];
//! // The model is given `tools`, and calls one with arguments:
//! let report = tool.call(serde_json::json!({"code": "return 6 * 7"})).await;
//! assert_eq!(report.text, "42");
//! # }
//! ```

mod definition;
#[cfg(feature = "rig")]
mod rig;

use serde_json::Value;

use crate::arguments::{ExecuteArguments, parse, schema};
use crate::lazy_client::LazyClient;
use crate::report;

pub use crate::report::Report;
pub use definition::Definition;
#[cfg(feature = "rig")]
pub use rig::ToolFailed;

/// What a model is told of `execute_code`, wherever it is offered.
pub(crate) const EXECUTE_CODE: &str = "\
Runs JavaScript in a sandbox and returns its value. The code calls tools with `await mcp.call(\"server.tool\", args)`; it \
has no other access to anything: no files, no network, no imports. Do in one program what would be many tool calls: loop, \
filter, join, call independent tools together with Promise.all, and `return` only what is needed. A failed call throws an \
Error with `code`, which can be caught.";
/// The most bytes of the overview of tools in a description.
pub(crate) const OVERVIEW_BYTES: usize = 4_000;

/// `execute_code` as one tool of an agent loop: the model writes one program in the place of many tool calls. Over MCP, the
/// same tool is [`serve_mcp`](crate::serve_mcp).
#[derive(Debug, Clone)]
pub struct ExecuteCode {
    client: LazyClient,
    overview_bytes: usize,
}

impl ExecuteCode {
    /// What the tool is called.
    pub const NAME: &'static str = "execute_code";

    /// The tool for the tools of a host: give it a [`Client`](crate::Client), or a [`LazyClient`] that connects at the first
    /// call.
    pub fn new(client: impl Into<LazyClient>) -> Self {
        Self { client: client.into(), overview_bytes: OVERVIEW_BYTES }
    }

    /// Sets how long the overview of tools in its description may be, in bytes; 4,000 unless set.
    #[must_use]
    pub fn overview_bytes(mut self, most: usize) -> Self {
        self.overview_bytes = most;
        self
    }

    /// What the model is told of it. The tools in it are those of now: ask again for each turn.
    pub fn definition(&self) -> Definition {
        let overview = self.client.host().tools().overview(self.overview_bytes);
        let description = format!("{EXECUTE_CODE} The tools that the code can call:\n{overview}");
        Definition::new(Self::NAME, description, Value::Object((*schema::<ExecuteArguments>()).clone()))
    }

    /// Runs what the model asks for, and gives what it should read: never an error of ours, whatever it sent. Arguments may
    /// be an object, or its JSON as a text, as OpenAI has it.
    pub async fn call(&self, arguments: Value) -> Report {
        let request = parse::<ExecuteArguments>(Self::NAME, unwrapped(arguments));
        let request = match request.and_then(|mut arguments| arguments.request()) {
            Ok(request) => request,
            Err(wrong) => return report::refused(wrong),
        };
        let outcome = async { self.client.get().await?.run(request).await };
        report::report(outcome.await)
    }
}

/// Arguments that came as the text of their JSON.
pub(crate) fn unwrapped(arguments: Value) -> Value {
    match &arguments {
        // What is no JSON stays a text, which fits no schema.
        Value::String(text) => serde_json::from_str(text).unwrap_or(arguments),
        _ => arguments,
    }
}
