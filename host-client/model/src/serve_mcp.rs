//! Code execution as an MCP server: to an IDE or an assistant, all tools of a host are one server with a few tools.
//!
//! `execute_code` runs code that calls the tools, `search_tools` and `describe_tools` describe them, and `read_output`
//! returns the rest of a result that was too long to show: the tools of [`agent`](crate::agent). Tool calls are
//! reported as progress, and a cancelled request cancels its execution.
//!
//! - `code`: whether code outlives its request
//! - `execute`: code that does not; `elicit`: approvals that are requested meanwhile
//! - `durable`: code that does; `rounds`: approvals between two requests; `lingering`: code meanwhile; `tasks`: such code as tasks
//! - `offered`: the tools; `owned`: whose tools, results and runs a request has; `life`, `lines`, `http`, `sessions`: the transports

mod code;
mod durable;
mod elicit;
mod execute;
mod http;
mod life;
mod lines;
mod lingering;
mod offered;
mod owned;
mod progress;
mod rounds;
mod sessions;
mod tasks;

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use relay_proto::LimitName;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, CustomRequest, CustomResult, ErrorCode,
    GetTaskParams, GetTaskResult, Implementation, ListToolsResult, PaginatedRequestParams, ServerCapabilities,
    ServerConfig, SubscriptionFilter, TASKS_EXTENSION_ID, UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer};
use serde_json::{Map, Value};
use tokio::task::JoinSet;

use crate::agent::handles::Found;
use crate::agent::{ExecuteCode, WAIT_TOOL};
use crate::arguments::parse;
use crate::output::{OutputConfig, StoreConfig};
use crate::report::refused;
use host_client_core::Runs;
use host_client_core::client::{Client, ConnectionPool, LazyClient};
use host_client_core::error::Error;
use host_client_core::host::Host;
use host_client_core::text::{short_name, visible};

use lingering::Lingering;
use offered::offered;
use owned::{ANSWERED_WITHIN, Owned, Stateless, kept_options};
use rounds::Round;

pub use http::{HttpConfig, HttpToken, HttpUser, InvalidDigest, WeakToken, router};
pub use lines::ServeError;
pub use owned::Subject;

/// Default maximum number of connections to the relay: as many as the executions that one subject may run at once.
const CONNECTIONS: usize = 32;
/// Default time after which a connection to the relay is given up that runs nothing.
const CONNECTION_IDLE: Duration = Duration::from_secs(10);
/// Requests that the server knows, if their parameters fit.
const KNOWN_METHODS: [&str; 9] = [
    "initialize",
    "ping",
    "server/discover",
    "subscriptions/listen",
    "tasks/cancel",
    "tasks/get",
    "tasks/update",
    "tools/call",
    "tools/list",
];
/// Header with the session of a request over HTTP.
const SESSION: &str = "mcp-session-id";
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
    /// Runs of code without a journal, for clients that ask their users between two requests.
    kept: Runs,
    /// Those of them whose clients are to come back.
    lingering: Lingering,
    /// Maximum time for that.
    answers_within: Duration,
    /// `false`: the approver of the host is asked about calls, and clients are not.
    asks_clients: bool,
    owned: Arc<OnceLock<Owned>>,
    stateless: Arc<Stateless>,
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
        let client = client.pooled(ConnectionPool::new(CONNECTIONS, CONNECTION_IDLE));
        let kept = Runs::in_memory(client.clone(), kept_options(ANSWERED_WITHIN));
        Self {
            host,
            tools: ExecuteCode::new(client),
            kept,
            lingering: Lingering::default(),
            answers_within: ANSWERED_WITHIN,
            asks_clients: true,
            owned: Arc::default(),
            stateless: Arc::default(),
            tasks: Arc::default(),
        }
    }

    /// Sets the pool of connections to the relay that all sessions share. Default: at most 32 at once, each given up when
    /// it was not used for 10 s.
    #[must_use]
    pub fn connections(mut self, pool: ConnectionPool) -> Self {
        self.tools = self.tools.pooled(pool);
        self.kept = Runs::in_memory(self.tools.client().clone(), kept_options(self.answers_within));
        self
    }

    /// Sets the time in which a client that asks its user between two requests has to come back with the answer, where code has no
    /// journal; after that the code is cancelled. Default: 10 min.
    #[must_use]
    pub fn answers_within(mut self, within: Duration) -> Self {
        self.answers_within = within;
        self.kept = Runs::in_memory(self.tools.client().clone(), kept_options(within));
        self
    }

    /// Leaves questions about calls to the approver of the host, such as a webhook, and to people who decide by the journal. Clients
    /// are not asked, and what they answer does not count. Default: clients are asked.
    #[must_use]
    pub fn asks_no_clients(mut self) -> Self {
        self.asks_clients = false;
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

    /// Runs all code as durable runs, as [`ExecuteCode::durable`] does. While a request waits for a run, the client's user is
    /// asked about its calls; where a client cannot ask, the question waits for people elsewhere, such as at
    /// `relay-host runs approve`.
    ///
    /// All sessions know the runs that `runs` knows. Over HTTP, a [`Subject`] among the extensions of a request narrows that
    /// to the subject's own runs.
    #[must_use]
    pub fn durable(mut self, runs: Runs) -> Self {
        self.tools = self.tools.durable(runs);
        self
    }

    /// Returns the server for another MCP session. It shares the host, but neither the approvals nor the results of
    /// this session.
    #[must_use]
    pub fn for_another_session(&self) -> Self {
        let (tools, kept) = (self.tools.for_another_conversation(), self.kept.separate());
        Self { tools, kept, owned: Arc::default(), tasks: Arc::default(), ..self.clone() }
    }

    /// Returns the tools and the durable runs, which tasks are.
    ///
    /// # Errors
    /// Method not found: there is no journal. Invalid request: the session is another subject's.
    fn task_runs(&self, context: &RequestContext<RoleServer>) -> Result<(&ExecuteCode, &Runs), ErrorData> {
        let tools = &self.owned(context)?.tools;
        let runs =
            tools.runs().ok_or_else(|| ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "there are no tasks", None))?;
        Ok((tools, runs))
    }
}

impl ServerHandler for CodeServer {
    fn get_info(&self) -> ServerConfig {
        let mut capabilities = ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build();
        if self.tools.runs().is_some() {
            capabilities.extensions.get_or_insert_default().insert(TASKS_EXTENSION_ID.to_owned(), Map::new());
        }
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("relay-host", env!("CARGO_PKG_VERSION")))
            .with_instructions(
                "Write one program with execute_code instead of many tool calls. search_tools and describe_tools say \
                 which tools the program can call.",
            )
    }

    fn accepted_subscription_filter(&self, _: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(SubscriptionFilter::builder().tools_list_changed().build())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let Ok(_place) = self.stateless.listeners.try_acquire() else {
            return Err(ErrorData::internal_error("there are too many subscriptions; end one of them", None));
        };
        let mut changes = self.host.tools().changes();
        let telling = async {
            while changes.changed().await.is_ok() && context.sink().notify_tool_list_changed().await.is_ok() {
                tokio::time::sleep(TOLD_EVERY).await;
            }
            context.cancelled().await;
        };
        tokio::select! {
            () = telling => {}
            () = context.cancelled() => {}
        }
        Ok(())
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let (tools, runs) = self.task_runs(&context)?;
        Ok(GetTaskResult::new(tasks::get(tools, runs, &request.task_id, (&context, self.asks_clients)).await?))
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let (tools, runs) = self.task_runs(&context)?;
        if let Found::Here(run) = tasks::find(tools, runs, &request.task_id).await?
            && self.asks_clients
        {
            rounds::answer(&run, request.input_responses, &context);
        }
        Ok(())
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let (tools, runs) = self.task_runs(&context)?;
        tasks::cancel(tools, runs, &request.task_id).await
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
        let owned = self.owned(&context)?;
        let tools = &owned.tools;
        if !tools.names().any(|known| known == name) {
            return Err(ErrorData::invalid_params(tools.no_such_tool(), None));
        }
        if let Some(client) = owned::caller(&context) {
            tools.client().on_behalf_of(&*client);
            for runs in tools.runs().into_iter().chain([&owned.kept]) {
                runs.on_behalf_of(&*client);
            }
        }
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let names_run = arguments.get("run").is_some_and(|run| !run.is_null());
        let round = Round::new(request.request_state.as_deref(), request.input_responses);
        match name {
            // These report progress and request approvals here.
            ExecuteCode::NAME => Ok(self.run_code(owned, arguments, round, context).await),
            WAIT_TOOL
                if let Some(runs) = tools.runs()
                    && names_run =>
            {
                match parse(name, arguments) {
                    Ok(arguments) => Ok(self.place(tools, runs, &context).wait(&arguments, round).await),
                    Err(wrong) => Ok(CallToolResult::from(refused(wrong)).into()),
                }
            }
            _ => Ok(CallToolResult::from(tools.call_tool(name, arguments).await).into()),
        }
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
