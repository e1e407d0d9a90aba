//! Tools for any agent loop: what its model is told of them, in the shape of its provider, and what it reads of a call.
//!
//! ```no_run
//! # async fn example(client: host_client::Client) {
//! use host_client::ExecuteCode;
//!
//! let tool = ExecuteCode::new(client);
//! let tools: Vec<_> = tool.definitions().iter().map(|definition| definition.openai_chat()).collect();
//! // The model is given `tools`, and calls one by its name, with arguments:
//! let report = tool.call_tool("execute_code", serde_json::json!({"code": "return 6 * 7"})).await;
//! assert_eq!(report.text, "42");
//! # }
//! ```

mod definition;
mod lookup;
#[cfg(feature = "rig")]
pub(crate) mod rig;

use relay_proto::ErrorCode;
use schemars::JsonSchema;
use serde_json::Value;

use crate::arguments::{DescribeArguments, ExecuteArguments, ReadArguments, SearchArguments, parse, schema};
use crate::output::{OutputConfig, OutputStore, READ_TOOL, StoreConfig};
use crate::report;
use crate::surroundings::surroundings;
use host_client_core::Outcome;
use host_client_core::client::LazyClient;
use host_client_core::error::Error;

pub use crate::report::Report;
pub use definition::Definition;
#[cfg(feature = "rig")]
pub use rig::ToolFailed;

/// The tool that finds tools for code, as the texts name it.
pub const SEARCH_TOOL: &str = "search_tools";
/// The tool that says how tools are called by code, as the texts name it.
pub const DESCRIBE_TOOL: &str = "describe_tools";
/// The tools beside `execute_code`, and what they do.
const LOOKUPS: [(&str, &str); 3] = [
    (SEARCH_TOOL, "Finds tools that code can call, by words, and gives their types; the best first."),
    (DESCRIBE_TOOL, "Gives the types and schemas of tools that code can call, by their names."),
    (
        READ_TOOL,
        "Gives more of a value that execute_code returned and that was too long to show, by the handle that came with it: a \
         part by its path, page by page.",
    ),
];
/// The most tokens of the overview of tools in a description, about.
const OVERVIEW_TOKENS: usize = 3_000;

/// `execute_code` as a tool of an agent loop: the model writes one program in the place of many tool calls. Beside it are
/// `search_tools` and `describe_tools`, which tell what programs can call, and `read_output`, which gives the rest of a result
/// that was too long to show. Over MCP, the same tools are [`serve_mcp`](crate::serve_mcp).
///
/// One is good for one conversation, whose results it keeps; clones are the same one.
#[derive(Debug, Clone)]
pub struct ExecuteCode {
    client: LazyClient,
    overview_tokens: usize,
    /// How results are shown.
    output: OutputConfig,
    /// Those of this conversation that were not shown as a whole.
    store: OutputStore,
}

impl ExecuteCode {
    /// What the tool is called.
    pub const NAME: &'static str = "execute_code";

    /// The tool for the tools of a host: give it a [`Client`](host_client_core::Client), or a [`LazyClient`] that connects at the first
    /// call.
    pub fn new(client: impl Into<LazyClient>) -> Self {
        Self {
            client: client.into(),
            overview_tokens: OVERVIEW_TOKENS,
            output: OutputConfig::default(),
            store: OutputStore::default(),
        }
    }

    /// Sets how long the overview of tools in its description may be, in tokens, about; 3,000 unless set.
    #[must_use]
    pub fn overview_tokens(mut self, most: usize) -> Self {
        self.overview_tokens = most;
        self
    }

    /// Sets how results are shown to the model.
    #[must_use]
    pub fn output(mut self, output: OutputConfig) -> Self {
        self.output = output;
        self
    }

    /// Sets how much is kept of the results that are not shown as a whole, and forgets those that there are.
    #[must_use]
    pub fn keep(mut self, kept: StoreConfig) -> Self {
        self.store = OutputStore::new(kept);
        self
    }

    /// The same for another conversation: it shares the host and the room for results, and neither approvals nor results of
    /// a session. Only where it was made for a [`Client`](host_client_core::Client) that was connected already, that session is shared,
    /// too.
    #[must_use]
    pub fn for_another_conversation(&self) -> Self {
        Self { client: self.client.separate(), store: self.store.for_another_session(), ..self.clone() }
    }

    /// What the model is told of `execute_code`. The tools in it are those of now: ask again for each turn.
    pub fn definition(&self) -> Definition {
        let description = format!(
            "Runs JavaScript or TypeScript in a sandbox and returns its value. Do in one program what would be many tool \
             calls: loop, filter, join.\n{}\
             - {SEARCH_TOOL} and {DESCRIBE_TOOL} say more about the tools; they are called outside of programs.\n\
             {}",
            surroundings(&self.client.model_bindings()),
            self.client.host().tools().overview(self.overview_tokens),
        );
        defined::<ExecuteArguments>(Self::NAME, description)
    }

    /// What the model is told of all four tools, `execute_code` first.
    pub fn definitions(&self) -> Vec<Definition> {
        let lookups = LOOKUPS.map(|(name, description)| match name {
            SEARCH_TOOL => defined::<SearchArguments>(name, description.to_owned()),
            DESCRIBE_TOOL => defined::<DescribeArguments>(name, description.to_owned()),
            _ => defined::<ReadArguments>(name, description.to_owned()),
        });
        [self.definition()].into_iter().chain(lookups).collect()
    }

    /// Runs what the model asks for with `execute_code`, and gives what it should read: never an error of ours, whatever it
    /// sent. Arguments may be an object, or its JSON as a text, as OpenAI has it.
    pub async fn call(&self, arguments: Value) -> Report {
        let parsed = parse::<ExecuteArguments>(Self::NAME, unwrapped(arguments));
        let (request, intent) = match parsed.and_then(ExecuteArguments::into_request) {
            Ok(request) => request,
            Err(wrong) => return report::refused(wrong),
        };
        let outcome = async { self.client.get().await?.run(request).await };
        self.report(outcome.await, intent).await
    }

    /// Does what the model asks for with any of the four tools, in the same way.
    pub async fn call_tool(&self, name: &str, arguments: Value) -> Report {
        let arguments = unwrapped(arguments);
        let done = match name {
            Self::NAME => Ok(self.call(arguments).await),
            SEARCH_TOOL => parse(name, arguments).map(|arguments| self.search(arguments)),
            DESCRIBE_TOOL => parse(name, arguments).map(|arguments| self.describe(&arguments)),
            READ_TOOL => match parse(name, arguments) {
                Ok(arguments) => Ok(self.read(arguments).await),
                Err(wrong) => Err(wrong),
            },
            _ => Err(format!("{}: {}", ErrorCode::InvalidInput, no_such_tool())),
        };
        done.unwrap_or_else(report::refused)
    }

    #[cfg(feature = "serve-mcp")]
    pub(crate) fn client(&self) -> &LazyClient {
        &self.client
    }

    /// What the model reads of an execution.
    pub(crate) async fn report(&self, outcome: Result<Outcome, Error>, intent: Option<String>) -> Report {
        report::report(outcome, intent, self.output, &self.store).await
    }
}

/// Whether it is the name of one of the four tools.
#[cfg(feature = "serve-mcp")]
pub(crate) fn is_tool(name: &str) -> bool {
    name == ExecuteCode::NAME || LOOKUPS.iter().any(|(lookup, _)| *lookup == name)
}

/// What is said to whoever calls another tool.
pub(crate) fn no_such_tool() -> String {
    let lookups = LOOKUPS.map(|(name, _)| name).join(", ");
    format!("there is no such tool; there are: {}, {lookups}", ExecuteCode::NAME)
}

fn defined<T: JsonSchema>(name: &str, description: String) -> Definition {
    Definition::new(name, description, Value::Object((*schema::<T>()).clone()))
}

/// Arguments that came as the text of their JSON.
pub(crate) fn unwrapped(arguments: Value) -> Value {
    match &arguments {
        // What is no JSON stays a text, which fits no schema.
        Value::String(text) => serde_json::from_str(text).unwrap_or(arguments),
        _ => arguments,
    }
}
