//! Running code as an MCP server: to an IDE or an assistant, all tools of a host are one server with four tools.
//!
//! `execute_code` runs code that calls the tools, `search_tools` and `describe_tools` tell which there are, and `read_output`
//! gives the rest of a result that was too long to show: the tools of [`agent`](crate::agent). Tool calls are told as progress,
//! a cancelled request cancels its execution, and approvals are asked for by elicitation.

mod elicit;
mod execute;
mod http;
mod progress;

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, Implementation, ListToolsResult, PaginatedRequestParams,
    ProtocolVersion, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ErrorData, RoleServer};
use serde_json::{Map, Value};
use tokio::task::JoinSet;

use crate::agent::{DESCRIBE_TOOL, Definition, ExecuteCode, SEARCH_TOOL, is_tool, no_such_tool};
use crate::arguments::parse;
use crate::output::{OutputConfig, StoreConfig};
use crate::report::{self, refused};
use host_client_core::client::Client;
use host_client_core::client::LazyClient;
use host_client_core::error::Error;
use host_client_core::host::Host;

pub use http::{HttpConfig, HttpToken, WeakToken, router};

/// Of one change after another, the client is told once in this time.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// An MCP server that runs code. One for each MCP session; its connection to the relay is made at the first code, and again
/// when it was lost.
#[derive(Clone)]
pub struct CodeServer {
    host: Arc<Host>,
    tools: ExecuteCode,
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
        let tools = ExecuteCode::new(LazyClient::new(Arc::clone(&host), connect));
        Self { host, tools, tasks: Arc::default() }
    }

    /// Sets how results are shown to the model, and how much of those that are not shown as a whole is kept for each session.
    #[must_use]
    pub fn output(mut self, output: OutputConfig, kept: StoreConfig) -> Self {
        self.tools = self.tools.output(output).keep(kept);
        self
    }

    /// The same server for another MCP session: it shares the host, and neither approvals nor results of a
    /// session.
    #[must_use]
    pub fn for_another_session(&self) -> Self {
        let tools = self.tools.for_another_conversation();
        Self { host: Arc::clone(&self.host), tools, tasks: Arc::default() }
    }
}

/// What the client is told of a tool.
fn offered(definition: Definition) -> Tool {
    let object = |value| match value {
        Value::Object(members) => Arc::new(members),
        _ => Arc::new(Map::new()),
    };
    let Definition { name, description, parameters, .. } = definition;
    let title = match &*name {
        ExecuteCode::NAME => {
            let annotations = ToolAnnotations::with_title("Run code that calls tools").read_only(false);
            return Tool::new(name, description, object(parameters))
                .with_raw_output_schema(object(report::schema()))
                .with_annotations(annotations);
        }
        SEARCH_TOOL => "Find tools",
        DESCRIBE_TOOL => "Describe tools",
        _ => "Read more of a result",
    };
    let annotations = ToolAnnotations::with_title(title).read_only(true).open_world(false);
    Tool::new(name, description, object(parameters)).with_annotations(annotations)
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
        Ok(ListToolsResult::with_all_items(self.tools.definitions().into_iter().map(offered).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let name = &*request.name;
        if !is_tool(name) {
            return Err(ErrorData::invalid_params(no_such_tool(), None));
        }
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let report = if name == ExecuteCode::NAME {
            // It is told as progress, asks its questions here, and ends with its request.
            match parse(name, arguments) {
                Ok(arguments) => self.execute(arguments, context).await,
                Err(wrong) => refused(wrong),
            }
        } else {
            self.tools.call_tool(name, arguments).await
        };
        Ok(CallToolResult::from(report).into())
    }
}
