//! Running code as an MCP server: to an IDE or an assistant, all tools of a host are one server with three tools.
//!
//! `execute_code` runs code that calls the tools, `search_tools` and `describe_tools` tell which there are. Tool calls are
//! told as progress, a cancelled request cancels its execution, and approvals are asked for by elicitation.

mod execute;
mod http;

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, ListToolsResult,
    PaginatedRequestParams, ProtocolVersion, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::catalogue::first_line;
use crate::client::Client;
use crate::error::Error;
use crate::host::Host;

pub use http::{HttpConfig, router};

/// The most bytes of the overview of tools in a description.
const OVERVIEW_BYTES: usize = 4_000;
/// How many tools a search gives unless told otherwise, and at most.
const FOUND: usize = 10;
const MAX_FOUND: usize = 50;
/// How many tools are described at once.
const MAX_DESCRIBED: usize = 20;
/// The most bytes of JSON that code may return unless it asks for more: what it returns goes into a model's context.
const RESULT_BYTES: u64 = 100_000;

type Connect = dyn Fn(Arc<Host>) -> BoxFuture<'static, Result<Client, Error>> + Send + Sync;

/// An MCP server that runs code. One for each MCP session; its connection to the relay is made at the first code, and again
/// when it was lost.
#[derive(Clone)]
pub struct CodeServer {
    host: Arc<Host>,
    connect: Arc<Connect>,
    client: Arc<tokio::sync::Mutex<Option<Client>>>,
}

impl fmt::Debug for CodeServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CodeServer").field("host", &self.host).finish_non_exhaustive()
    }
}

impl CodeServer {
    /// A server for the tools of a host. `connect` makes a client of that host.
    pub fn new<Fut>(host: Arc<Host>, connect: impl Fn(Arc<Host>) -> Fut + Send + Sync + 'static) -> Self
    where
        Fut: Future<Output = Result<Client, Error>> + Send + 'static,
    {
        let connect = Arc::new(move |host| -> BoxFuture<'static, _> { Box::pin(connect(host)) });
        Self { host, connect, client: Arc::default() }
    }

    /// The same server for another MCP session: it shares the host, and no approval of a session.
    #[must_use]
    pub fn for_another_session(&self) -> Self {
        Self { host: Arc::clone(&self.host), connect: Arc::clone(&self.connect), client: Arc::default() }
    }

    /// A client whose session goes on.
    async fn client(&self) -> Result<Client, Error> {
        let mut client = self.client.lock().await;
        if let Some(client) = client.as_ref().filter(|client| !client.is_over()) {
            return Ok(client.clone());
        }
        Ok(client.insert((self.connect)(Arc::clone(&self.host)).await?).clone())
    }

    fn search(&self, arguments: SearchArguments) -> CallToolResult {
        let limit = arguments.limit.map_or(FOUND, |limit| limit.clamp(1, MAX_FOUND));
        let found = self.host.tools().search(&arguments.query, limit);
        let of = |spec: &crate::tools::ToolSpec| json!({"name": spec.name, "description": first_line(&spec.description), "effect": spec.manifest.effect});
        CallToolResult::structured(json!({"tools": found.iter().map(of).collect::<Vec<_>>()}))
    }

    fn describe(&self, arguments: &DescribeArguments) -> CallToolResult {
        let tools = self.host.tools();
        let describe = |name: &String| match tools.get(name) {
            Some(registered) => {
                let spec = &registered.spec;
                json!({
                    "name": spec.name,
                    "description": spec.description,
                    "input_schema": spec.input_schema,
                    "output_schema": spec.output_schema,
                    "effect": spec.manifest.effect,
                })
            }
            None => {
                let error = match relay_proto::ToolName::try_from(name.clone()) {
                    Ok(name) => tools.unknown(&name).1,
                    Err(error) => error.to_string(),
                };
                json!({"name": name, "error": error})
            }
        };
        let described: Vec<_> = arguments.names.iter().take(MAX_DESCRIBED).map(describe).collect();
        CallToolResult::structured(json!({"tools": described}))
    }

    fn offered(&self) -> Vec<Tool> {
        let overview = self.host.tools().overview(OVERVIEW_BYTES);
        let execute = format!(
            "Runs JavaScript in a sandbox and returns its value. The code calls tools with \
             `await mcp.call(\"server.tool\", args)`; it has no other access to anything: no files, no network, no imports. \
             Do in one program what would be many tool calls: loop, filter, join, call independent tools together with \
             Promise.all, and `return` only what is needed. A failed call throws an Error with `code`, which can be caught. \
             search_tools and describe_tools say more about the tools; these are the ones that the code can call:\n{overview}"
        );
        let reads = |title: &str| ToolAnnotations::with_title(title).read_only(true).open_world(false);
        vec![
            Tool::new("execute_code", execute, schema::<ExecuteArguments>())
                .with_raw_output_schema(object(execute::output_schema()))
                .with_annotations(ToolAnnotations::with_title("Run code that calls tools").read_only(false)),
            Tool::new(
                "search_tools",
                "Finds tools that code can call, by words; the best first.",
                schema::<SearchArguments>(),
            )
            .with_annotations(reads("Find tools")),
            Tool::new(
                "describe_tools",
                "Gives the schemas of tools that code can call, by their full names.",
                schema::<DescribeArguments>(),
            )
            .with_annotations(reads("Describe tools")),
        ]
    }
}

/// What `execute_code` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ExecuteArguments {
    /// JavaScript: statements with `return`, an expression, a function, or a module with `export default`.
    code: String,
    /// Limits to lower, or, for result_bytes, to raise: wall_ms, cpu_ms, tool_calls, result_bytes (100000 unless said), ...
    #[serde(default)]
    limits: std::collections::BTreeMap<String, u64>,
    /// What the code is for, in one sentence. It is shown to the person who is asked for an approval.
    intent: Option<String>,
}

/// What `search_tools` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SearchArguments {
    /// Words that say what the tool should do.
    query: String,
    /// How many tools to give at most: 10 unless said, up to 50.
    limit: Option<usize>,
}

/// What `describe_tools` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DescribeArguments {
    /// Full names, such as `github.list_issues`; the first 20 are described.
    names: Vec<String>,
}

type Object = serde_json::Map<String, Value>;

fn object(value: Value) -> Arc<Object> {
    match value {
        Value::Object(object) => Arc::new(object),
        _ => Arc::default(),
    }
}

fn schema<T: JsonSchema>() -> Arc<Object> {
    object(schemars::schema_for!(T).to_value())
}

/// Arguments as a type, or what is wrong with them, for the model.
fn arguments<T: DeserializeOwned>(request: CallToolRequestParams) -> Result<T, CallToolResult> {
    let value = Value::Object(request.arguments.unwrap_or_default());
    serde_json::from_value(value).map_err(|error| failure(format!("INVALID_INPUT: {}: {error}", request.name)))
}

fn failure(text: impl Into<String>) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text)])
}

impl ServerHandler for CodeServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("relay-host", env!("CARGO_PKG_VERSION")))
            .with_instructions(
                "Write one program with execute_code instead of many tool calls. search_tools and describe_tools say which \
                 tools the program can call.",
            )
    }

    fn supported_protocol_versions(&self) -> std::borrow::Cow<'static, [ProtocolVersion]> {
        // Later ones have no requests from server to client, and so no way to ask for an approval while code runs.
        ProtocolVersion::known_up_to(&ProtocolVersion::V_2025_11_25).into()
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.offered()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let result = match &*request.name {
            "execute_code" => match arguments(request) {
                Ok(arguments) => self.execute(arguments, context).await,
                Err(wrong) => wrong,
            },
            "search_tools" => arguments(request).map_or_else(|wrong| wrong, |arguments| self.search(arguments)),
            "describe_tools" => arguments(request).map_or_else(|wrong| wrong, |arguments| self.describe(&arguments)),
            other => {
                let text = format!("there is no tool {other:?}; there are: execute_code, search_tools, describe_tools");
                return Err(ErrorData::invalid_params(text, None));
            }
        };
        Ok(result.into())
    }
}
