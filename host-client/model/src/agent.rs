//! Tools for any agent loop: their definitions in the shape of the model's provider, and reports of calls for the
//! model.
//!
//! ```no_run
//! # async fn example(client: host_client_core::Client) {
//! use host_client_model::ExecuteCode;
//!
//! let tool = ExecuteCode::new(client);
//! let tools: Vec<_> = tool.definitions().iter().map(|definition| definition.openai_chat()).collect();
//! // The model is given `tools`, and calls one by its name, with arguments:
//! let report = tool.call_tool("execute_code", serde_json::json!({"code": "return 6 * 7"})).await;
//! assert_eq!(report.text, "42");
//! # }
//! ```

mod definition;
pub(crate) mod handles;
mod lookup;
#[cfg(feature = "rig")]
pub(crate) mod rig;

use relay_proto::{ErrorCode, LimitName, LimitOverrides};
use schemars::JsonSchema;
use serde_json::Value;

use crate::arguments::{
    CancelArguments, DescribeArguments, ExecuteArguments, ReadArguments, SearchArguments, WaitArguments, parse, schema,
};
use crate::output::{OutputConfig, OutputStore, READ_TOOL, StoreConfig};
use crate::report;
use crate::surroundings::surroundings;
#[cfg(feature = "serve-mcp")]
use host_client_core::client::ConnectionPool;
use host_client_core::client::{ExecuteRequest, LazyClient};
use host_client_core::error::Error;
use host_client_core::{Outcome, Runs};

pub use crate::report::Report;
pub use definition::Definition;
#[cfg(feature = "rig")]
pub use rig::ToolFailed;

/// Name of the tool that searches the tools that code can call.
pub const SEARCH_TOOL: &str = "search_tools";
/// Name of the tool that returns the types and schemas of tools that code can call.
pub const DESCRIBE_TOOL: &str = "describe_tools";
/// Names and descriptions of the tools beside `execute_code`.
const LOOKUPS: [(&str, &str); 3] = [
    (SEARCH_TOOL, "Finds tools that code can call, by words, and gives their types; the best first."),
    (DESCRIBE_TOOL, "Gives descriptions and types of tools that code can call, by their names."),
    (
        READ_TOOL,
        "Gives more of a value that execute_code returned and that was too long to show, by the handle that came with \
         it: a part by its path, page by page.",
    ),
];
/// Name of the tool that waits for a durable run, or lists those that have not ended.
pub const WAIT_TOOL: &str = "wait_for_run";
/// Name of the tool that cancels a durable run.
pub const CANCEL_TOOL: &str = "cancel_run";
/// Names and descriptions of the tools that exist where runs are durable.
const RUN_TOOLS: [(&str, &str); 2] = [
    (
        WAIT_TOOL,
        "Waits for a run that execute_code left waiting, and gives its result. A wait that is over changes nothing: call \
         it again, or later.",
    ),
    (CANCEL_TOOL, "Cancels a run that execute_code left waiting. Calls that it has made are not undone."),
];
/// Default of [`ExecuteCode::overview_tokens`].
const OVERVIEW_TOKENS: usize = 3_000;

/// `execute_code` as a tool of an agent loop: the model writes one program instead of many tool calls.
///
/// Beside it are `search_tools` and `describe_tools`, which describe the tools that programs can call, and
/// `read_output`, which returns the rest of a result that was too long to show. `serve_mcp` offers the same tools over
/// MCP.
///
/// Use one for each conversation: it keeps the results of that conversation. Clones share them.
///
/// ```
/// use host_client_core::client::LazyClient;
/// use host_client_core::{Client, ClientConfig, Tools};
/// use host_client_model::ExecuteCode;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// // Connects at the first call. A connected `Client` can be given as well.
/// let config = ClientConfig::new("ws://127.0.0.1:8080/ws", "the token");
/// let client = LazyClient::new(Tools::new(), move |host| Client::connect(config.clone(), host));
/// let tool = ExecuteCode::new(client);
///
/// // Give the model the definitions …
/// let names: Vec<_> = tool.definitions().into_iter().map(|definition| definition.name).collect();
/// assert_eq!(names, ["execute_code", "search_tools", "describe_tools", "read_output"]);
/// // … and pass on its calls. An error is a report, too: the model reads it.
/// let report = tool.call_tool("execute_code", serde_json::json!({"script": "return 6 * 7"})).await;
/// assert!(report.is_error && report.text.starts_with("INVALID_INPUT"));
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct ExecuteCode {
    client: LazyClient,
    overview_tokens: usize,
    /// Limits of each execution, which a model can only lower.
    limits: LimitOverrides,
    /// Settings by which results are shortened.
    output: OutputConfig,
    /// Results of this conversation that were not shown as a whole.
    store: OutputStore,
    /// The durable runs, as one of which all code is run; `None`: code ends with its call.
    runs: Option<Runs>,
}

impl ExecuteCode {
    /// Name of the tool.
    pub const NAME: &'static str = "execute_code";

    /// Creates the tool for the tools of a host, given as a [`Client`](host_client_core::Client), or as a
    /// [`LazyClient`] that connects at the first call.
    pub fn new(client: impl Into<LazyClient>) -> Self {
        Self {
            client: client.into(),
            overview_tokens: OVERVIEW_TOKENS,
            limits: LimitOverrides::default(),
            output: OutputConfig::default(),
            store: OutputStore::default(),
            runs: None,
        }
    }

    /// Runs all code as durable runs. Code that waits for a person or a timer for longer than
    /// [`RunOptions::passivate_after`](host_client_core::RunOptions::passivate_after), 30 s by default, gives the model a
    /// handle in the place of a value: `{"run": "…", "status": "waiting", "for": "…"}`. The run goes on by itself, also in
    /// another process; the tools `wait_for_run`, which also lists the runs that have not ended, and `cancel_run` are added.
    ///
    /// A run whose handle the model does not have ends as any execution does: it is cancelled where the call is given up, and
    /// removed from the journal with its outcome. The others stay there until they are forgotten.
    ///
    /// The model knows the runs that `runs` knows: give each user [`Runs::of`] that user. The client of `runs` runs the code.
    #[must_use]
    pub fn durable(mut self, runs: Runs) -> Self {
        self.runs = Some(runs);
        self
    }

    /// Sets the maximum length of the overview of tools in the description, in estimated tokens. Default: 3,000.
    #[must_use]
    pub fn overview_tokens(mut self, most: usize) -> Self {
        self.overview_tokens = most;
        self
    }

    /// Lowers a limit of every execution, in the unit of its name. A model can lower it further. Default: the limits of the
    /// relay's token.
    #[must_use]
    pub fn limit(mut self, name: LimitName, value: u64) -> Self {
        self.limits.set(name, value);
        self
    }

    /// Sets how results are shortened for the model. Default: [`OutputConfig::default`].
    #[must_use]
    pub fn output(mut self, output: OutputConfig) -> Self {
        self.output = output;
        self
    }

    /// Sets how much is kept of results that are not shown as a whole, and drops those that are kept. Default:
    /// [`StoreConfig::default`].
    #[must_use]
    pub fn keep(mut self, kept: StoreConfig) -> Self {
        self.store = OutputStore::new(kept);
        self
    }

    /// Returns the tool for another conversation. It shares the host and the memory limit of results, but neither
    /// results nor the session with its approvals. If the tool was created from a connected
    /// [`Client`](host_client_core::Client), the session is shared, too.
    #[must_use]
    pub fn for_another_conversation(&self) -> Self {
        let runs = self.runs.as_ref().map(Runs::separate);
        Self { client: self.client.separate(), store: self.store.for_another_session(), runs, ..self.clone() }
    }

    /// Returns the definition of `execute_code`. It lists the tools that exist now: call it again for each turn.
    pub fn definition(&self) -> Definition {
        let description = format!(
            "Runs JavaScript or TypeScript in a sandbox and returns its value. Do in one program what would be many \
             tool calls: loop, filter, join.\n{}\
             - {SEARCH_TOOL} and {DESCRIBE_TOOL} say more about the tools; they are called outside of programs.\n\
             {}",
            surroundings(&self.client.model_bindings()),
            self.client.host().tools().overview(self.overview_tokens),
        );
        defined::<ExecuteArguments>(Self::NAME, description)
    }

    /// Returns the definitions of all tools, `execute_code` first.
    pub fn definitions(&self) -> Vec<Definition> {
        let lookups = LOOKUPS.map(|(name, description)| match name {
            SEARCH_TOOL => defined::<SearchArguments>(name, description.to_owned()),
            DESCRIBE_TOOL => defined::<DescribeArguments>(name, description.to_owned()),
            _ => defined::<ReadArguments>(name, description.to_owned()),
        });
        let of_runs = RUN_TOOLS.iter().filter(|_| self.runs.is_some()).map(|(name, description)| match *name {
            WAIT_TOOL => defined::<WaitArguments>(name, (*description).to_owned()),
            _ => defined::<CancelArguments>(name, (*description).to_owned()),
        });
        [self.definition()].into_iter().chain(lookups).chain(of_runs).collect()
    }

    /// Runs a call of `execute_code`, and returns the report for the model. Failures are reports, too. `arguments` is
    /// an object, or a string with its JSON, as OpenAI sends it.
    pub async fn call(&self, arguments: Value) -> Report {
        let parsed = parse::<ExecuteArguments>(Self::NAME, unwrapped(arguments));
        let (request, intent) = match parsed.and_then(|arguments| self.request(arguments)) {
            Ok(request) => request,
            Err(wrong) => return report::refused(wrong),
        };
        if let Some(runs) = &self.runs {
            return match self.begin(runs, request).await {
                Ok(begun) => self.settled(begun, intent).await,
                Err(report) => report,
            };
        }
        let outcome = self.client.run(request).await;
        self.report(outcome, intent).await
    }

    /// Runs a call of any of the tools, as [`call`](Self::call) does. An unknown name gives a report with
    /// `INVALID_INPUT`.
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
            WAIT_TOOL if let Some(runs) = &self.runs => match parse(name, arguments) {
                Ok(arguments) => Ok(self.wait(runs, arguments).await),
                Err(wrong) => Err(wrong),
            },
            CANCEL_TOOL if let Some(runs) = &self.runs => match parse(name, arguments) {
                Ok(arguments) => Ok(self.cancel(runs, arguments).await),
                Err(wrong) => Err(wrong),
            },
            _ => Err(format!("{}: {}", ErrorCode::InvalidInput, self.no_such_tool())),
        };
        done.unwrap_or_else(report::refused)
    }

    /// Sets the pool from which the tool takes its connections to the relay.
    #[cfg(feature = "serve-mcp")]
    pub(crate) fn pooled(self, pool: ConnectionPool) -> Self {
        Self { client: self.client.pooled(pool), ..self }
    }

    /// Returns the durable runs; `None`: code ends with its call.
    #[cfg(feature = "serve-mcp")]
    pub(crate) fn runs(&self) -> Option<&Runs> {
        self.runs.as_ref()
    }

    /// Returns the tool with the results of another one.
    #[cfg(feature = "serve-mcp")]
    pub(crate) fn with_results_of(&self, other: &Self) -> Self {
        Self { store: other.store.clone(), ..self.clone() }
    }

    /// Returns the tool for one of several owners of durable runs.
    #[cfg(feature = "serve-mcp")]
    pub(crate) fn of(&self, owner: &str) -> Self {
        Self { runs: self.runs.as_ref().map(|runs| runs.of(owner)), ..self.clone() }
    }

    /// Returns the client, which connects when it is first used.
    #[cfg(feature = "serve-mcp")]
    pub(crate) fn client(&self) -> &LazyClient {
        &self.client
    }

    /// Makes the request of an execution, and returns it with the model's intent.
    ///
    /// # Errors
    /// `INVALID_INPUT` with a message for the model.
    pub(crate) fn request(&self, arguments: ExecuteArguments) -> Result<(ExecuteRequest, Option<String>), String> {
        arguments.into_request(&self.limits)
    }

    /// Returns the error message for a call of another tool.
    pub(crate) fn no_such_tool(&self) -> String {
        let names: Vec<_> = self.names().collect();
        format!("there is no such tool; there are: {}", names.join(", "))
    }

    /// Returns the names of the tools.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        let of_runs = RUN_TOOLS.iter().filter(|_| self.runs.is_some());
        [Self::NAME].into_iter().chain(LOOKUPS.iter().chain(of_runs).map(|(name, _)| *name))
    }

    /// Makes the report of an execution.
    pub(crate) async fn report(&self, outcome: Result<Outcome, Error>, intent: Option<String>) -> Report {
        report::report(outcome, intent, self.output, &self.store).await
    }
}

/// Makes a definition with the schema of an arguments type.
fn defined<T: JsonSchema>(name: &str, description: String) -> Definition {
    Definition::new(name, description, Value::Object((*schema::<T>()).clone()))
}

/// Parses arguments that are a string with JSON.
pub(crate) fn unwrapped(arguments: Value) -> Value {
    match &arguments {
        // A string that is not JSON stays one, and then does not match the schema.
        Value::String(text) => serde_json::from_str(text).unwrap_or(arguments),
        _ => arguments,
    }
}
