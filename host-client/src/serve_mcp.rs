//! Running code as an MCP server: to an IDE or an assistant, all tools of a host are one server with three tools.
//!
//! `execute_code` runs code that calls the tools, `search_tools` and `describe_tools` tell which there are. Tool calls are
//! told as progress, a cancelled request cancels its execution, and approvals are asked for by elicitation.

mod elicit;
mod execute;
mod http;
mod progress;

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use relay_proto::id::MAX_TOOL_NAME_BYTES;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, Implementation, ListToolsResult, PaginatedRequestParams,
    ProtocolVersion, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::agent;
use crate::arguments::{DescribeArguments, ExecuteArguments, SearchArguments, parse, schema};
use crate::catalogue::first_line;
use crate::client::Client;
use crate::error::Error;
use crate::host::Host;
use crate::lazy_client::LazyClient;
use crate::report::{self, refused};

pub use http::{HttpConfig, HttpToken, WeakToken, router};

/// How many tools a search gives unless told otherwise, and at most.
const FOUND: usize = 10;
const MAX_FOUND: usize = 50;
/// How many tools are described at once.
const MAX_DESCRIBED: usize = 20;
/// The most bytes of JSON that describe tools in one answer; the first is described whatever its length.
const MAX_DESCRIPTION_BYTES: usize = 100_000;

/// Of one change after another, the client is told once in this time.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// An MCP server that runs code. One for each MCP session; its connection to the relay is made at the first code, and again
/// when it was lost.
#[derive(Clone)]
pub struct CodeServer {
    host: Arc<Host>,
    client: LazyClient,
    /// What goes on beside the requests of the session, and ends with it.
    tasks: Arc<Mutex<JoinSet<()>>>,
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
        let client = LazyClient::new(Arc::clone(&host), connect);
        Self { host, client, tasks: Arc::default() }
    }

    /// The same server for another MCP session: it shares the host, and no approval of a session.
    #[must_use]
    pub fn for_another_session(&self) -> Self {
        Self { host: Arc::clone(&self.host), client: self.client.separate(), tasks: Arc::default() }
    }

    fn search(&self, arguments: SearchArguments) -> CallToolResult {
        let limit = arguments.limit.map_or(FOUND, |limit| limit.clamp(1, MAX_FOUND));
        let found = self.host.tools().search(&arguments.query, limit);
        let found = found.iter().map(|spec| {
            json!({"name": spec.name, "description": first_line(&spec.description), "effect": spec.manifest.effect})
        });
        let mut answer = json!({"tools": found.collect::<Vec<_>>()});
        if answer["tools"] == json!([]) {
            let servers = self.host.tools().servers();
            let names: Vec<_> = servers.iter().take(MAX_FOUND).map(|(name, _)| name.as_str()).collect();
            answer["hint"] =
                format!("no tool has such words; try others, or the names of servers: {}", names.join(", ")).into();
        }
        CallToolResult::structured(answer)
    }

    fn describe(&self, arguments: &DescribeArguments) -> CallToolResult {
        let (mut described, mut bytes) = (Vec::new(), 0);
        for name in arguments.names.iter().take(MAX_DESCRIBED) {
            let tool = self.describe_one(name);
            bytes += tool.to_string().len();
            if bytes > MAX_DESCRIPTION_BYTES && !described.is_empty() {
                break;
            }
            described.push(tool);
        }
        let left_out = arguments.names.len() - described.len();
        let mut answer = json!({"tools": described});
        if left_out > 0 {
            answer["hint"] = format!("the last {left_out} are left out; ask for them by themselves").into();
        }
        CallToolResult::structured(answer)
    }

    fn describe_one(&self, name: &str) -> Value {
        let tools = self.host.tools();
        let Some(registered) = tools.get(name) else {
            let error = match relay_proto::ToolName::try_from(name.to_owned()) {
                Ok(name) => tools.unknown(&name).1,
                Err(error) => error.to_string(),
            };
            return json!({"name": &name[..name.floor_char_boundary(MAX_TOOL_NAME_BYTES)], "error": error});
        };
        let spec = &registered.spec;
        json!({
            "name": spec.name,
            "description": spec.description,
            "input_schema": spec.input_schema,
            "output_schema": spec.output_schema,
            "effect": spec.manifest.effect,
        })
    }

    fn offered(&self) -> Vec<Tool> {
        let execute = format!(
            "{} search_tools and describe_tools say more about the tools; these are the ones that the code can call:\n{}",
            agent::EXECUTE_CODE,
            self.host.tools().overview(agent::OVERVIEW_BYTES),
        );
        let result = Arc::new(report::schema().as_object().cloned().unwrap_or_default());
        let reads = |title: &str| ToolAnnotations::with_title(title).read_only(true).open_world(false);
        vec![
            Tool::new("execute_code", execute, schema::<ExecuteArguments>())
                .with_raw_output_schema(result)
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

impl ServerHandler for CodeServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build())
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

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let mut changes = self.host.tools().changes();
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever says twice that it is initialized is told once.
        if !tasks.is_empty() {
            return;
        }
        tasks.spawn(async move {
            while changes.changed().await.is_ok() {
                // The overview of the tools is in a description.
                if context.peer.notify_tool_list_changed().await.is_err() {
                    break;
                }
                tokio::time::sleep(TOLD_EVERY).await;
            }
        });
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
        let name = &*request.name;
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let refused = |wrong| refused(wrong).into();
        let result = match name {
            "execute_code" => match parse(name, arguments) {
                Ok(arguments) => self.execute(arguments, context).await,
                Err(wrong) => refused(wrong),
            },
            "search_tools" => parse(name, arguments).map_or_else(refused, |arguments| self.search(arguments)),
            "describe_tools" => parse(name, arguments).map_or_else(refused, |arguments| self.describe(&arguments)),
            _ => {
                let text = "there is no such tool; there are: execute_code, search_tools, describe_tools";
                return Err(ErrorData::invalid_params(text, None));
            }
        };
        Ok(result.into())
    }
}
