//! Code execution as an MCP server: to an IDE or an assistant, all tools of a host are one server with four tools.
//!
//! `execute_code` runs code that calls the tools, `search_tools` and `describe_tools` describe them, and `read_output`
//! returns the rest of a result that was too long to show: the tools of [`agent`](crate::agent). Tool calls are
//! reported as progress, a cancelled request cancels its execution, and approvals are requested by elicitation.

mod elicit;
mod execute;
mod http;
mod life;
mod lines;
mod progress;
mod sessions;

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::request::Parts;
use relay_proto::LimitName;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CustomRequest, CustomResult, ErrorCode, Implementation,
    ListToolsResult, PaginatedRequestParams, ProtocolVersion, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ErrorData, RoleServer};
use serde_json::{Map, Value};
use tokio::task::JoinSet;

use crate::agent::{DESCRIBE_TOOL, Definition, ExecuteCode, SEARCH_TOOL, is_tool, no_such_tool};
use crate::arguments::parse;
use crate::output::{OutputConfig, StoreConfig};
use crate::report::{self, refused};
use host_client_core::client::{Client, ConnectionPool, LazyClient};
use host_client_core::error::Error;
use host_client_core::host::Host;
use host_client_core::text::{short_name, visible};

pub use http::{HttpConfig, HttpToken, WeakToken, router};
pub use lines::ServeError;

/// Default maximum number of connections to the relay: as many as the executions that one subject may run at once.
const CONNECTIONS: usize = 32;
/// Default time after which a connection to the relay is given up that runs nothing.
const CONNECTION_IDLE: Duration = Duration::from_secs(10);
/// Requests that the server knows, if their parameters fit.
const KNOWN_METHODS: [&str; 4] = ["initialize", "ping", "tools/list", "tools/call"];
/// Maximum length of the name of a client, in bytes.
const MAX_CLIENT_BYTES: usize = 100;
/// Minimum time between two notifications that the tools changed.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// MCP server that runs code, for one MCP session. It connects to the relay when code is run, and gives the connection up
/// when it has run nothing for 10 s or another session needs it.
///
/// ```no_run
/// use std::sync::Arc;
///
/// use host_client_core::{Client, ClientConfig, Host, Tools};
/// use host_client_model::serve_mcp::{CodeServer, HttpConfig, HttpToken, router};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let host = Arc::new(Host::new(Tools::new()));
/// let relay = ClientConfig::new("ws://127.0.0.1:8080/ws", "the token");
/// let server = CodeServer::new(host, move |host| Client::connect(relay.clone(), host));
/// // Over HTTP at `/mcp`; `server.serve_lines(…)` serves it on standard input and output.
/// let token = HttpToken::new("a secret of at least sixteen bytes")?;
/// let config = HttpConfig { token: Some(token), ..HttpConfig::default() };
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:8931").await?;
/// axum::serve(listener, router(server, config)).await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct CodeServer {
    host: Arc<Host>,
    tools: ExecuteCode,
    /// Background tasks of the session, which end with it.
    tasks: Arc<Mutex<JoinSet<()>>>,
}

impl fmt::Debug for CodeServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CodeServer").field("host", &self.host).finish_non_exhaustive()
    }
}

impl CodeServer {
    /// Creates a server for the tools of a host. `connect` connects a client for that host.
    pub fn new<Fut>(host: Arc<Host>, connect: impl Fn(Arc<Host>) -> Fut + Send + Sync + 'static) -> Self
    where
        Fut: Future<Output = Result<Client, Error>> + Send + 'static,
    {
        let client = LazyClient::new(Arc::clone(&host), connect);
        let tools = ExecuteCode::new(client.pooled(ConnectionPool::new(CONNECTIONS, CONNECTION_IDLE)));
        Self { host, tools, tasks: Arc::default() }
    }

    /// Sets the pool of connections to the relay that all sessions share. Default: at most 32 at once, each given up when
    /// it was not used for 10 s.
    #[must_use]
    pub fn connections(mut self, pool: ConnectionPool) -> Self {
        self.tools = self.tools.pooled(pool);
        self
    }

    /// Lowers a limit of every execution, in the unit of its name. A model can lower it further. Default: the limits of the
    /// relay's token.
    #[must_use]
    pub fn limit(mut self, name: LimitName, value: u64) -> Self {
        self.tools = self.tools.limit(name, value);
        self
    }

    /// Sets how results are shortened for the model, and how much of results that are not shown as a whole is kept for
    /// each session. Default: the defaults of both.
    #[must_use]
    pub fn output(mut self, output: OutputConfig, kept: StoreConfig) -> Self {
        self.tools = self.tools.output(output).keep(kept);
        self
    }

    /// Returns the server for another MCP session. It shares the host, but neither the approvals nor the results of
    /// this session.
    #[must_use]
    pub fn for_another_session(&self) -> Self {
        let tools = self.tools.for_another_conversation();
        Self { host: Arc::clone(&self.host), tools, tasks: Arc::default() }
    }
}

/// Converts a definition for the MCP client.
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
                "Write one program with execute_code instead of many tool calls. search_tools and describe_tools say \
                 which tools the program can call.",
            )
    }

    fn supported_protocol_versions(&self) -> std::borrow::Cow<'static, [ProtocolVersion]> {
        // Later versions have no requests from server to client, and so no way to ask for an approval while code runs.
        ProtocolVersion::known_up_to(&ProtocolVersion::V_2025_11_25).into()
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let mut changes = self.host.tools().changes();
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        // A client that sends `initialized` twice gets each notification once.
        if !tasks.is_empty() {
            return;
        }
        tasks.spawn(async move {
            while changes.changed().await.is_ok() {
                // The description of `execute_code` contains the overview of the tools.
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
        if let Some(client) = client_name(&context) {
            self.tools.client().on_behalf_of(client);
        }
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let report = if name == ExecuteCode::NAME {
            // An execution reports progress, requests approvals here, and ends with its request.
            match parse(name, arguments) {
                Ok(arguments) => self.execute(arguments, context).await,
                Err(wrong) => refused(wrong),
            }
        } else {
            self.tools.call_tool(name, arguments).await
        };
        Ok(CallToolResult::from(report).into())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        // The library takes a request whose parameters do not fit for one with an unknown method.
        if KNOWN_METHODS.contains(&&*request.method) {
            let text = format!("the parameters do not fit {:?}", request.method);
            return Err(ErrorData::invalid_params(text, None));
        }
        let text = format!("there is no method {:?}", visible(short_name(&request.method)));
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, text, None))
    }
}

/// Returns the name and version of the client, as it says, and the start of the id of its HTTP session; `None` if it has
/// not said them.
fn client_name(context: &RequestContext<RoleServer>) -> Option<String> {
    let Implementation { name, version, .. } = context.client_info()?;
    let cut = |text: &str| text[..text.floor_char_boundary(MAX_CLIENT_BYTES)].to_owned();
    let name = cut(format!("{} {}", cut(&name), cut(&version)).trim());
    let session = context.extensions.get::<Parts>().and_then(|parts| parts.headers.get(http::SESSION)?.to_str().ok());
    // The whole id would let whoever reads it take part in the session.
    Some(match session {
        Some(id) => format!("{name}, MCP session {}", &id[..id.floor_char_boundary(8)]),
        None => name,
    })
}
