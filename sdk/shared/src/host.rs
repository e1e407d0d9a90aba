//! A started host: tools, rules, audit and relay of one application, until it is closed.

mod parts;

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use host_client::page::LocalPage;
use host_client::{
    Error, ExecuteCode, Host, LazyClient, LimitOverrides, McpServers, Mount, OutputConfig, Policy, Runs, Tools,
};
use serde::Serialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::agent::Conversation;
use crate::durable::DurableRuns;
use crate::error::SdkError;
use crate::execution::Execution;
use crate::foreign::{ForeignApprover, ForeignCall, ForeignModel, ForeignTokens, asked};
use crate::options::HostOptions;
use crate::programmatic::{ForeignProgrammatic, ProgrammaticOptions};
use crate::relay::Relay;
use crate::request::RequestOptions;
use crate::runtime;
use crate::shape::ToolShape;
use crate::tool::{ForeignTool, ToolDescription};

/// The functions that a host is started with.
#[derive(Default)]
pub struct Functions {
    /// The tools, each with its function.
    pub tools: Vec<(ToolDescription, Arc<dyn ForeignCall>)>,
    /// The approver; `None`: calls that need an approval are denied.
    ///
    /// With the option `ui`, the page is asked at the same time, and the first answer counts.
    pub approver: Option<Arc<dyn ForeignApprover>>,
    /// The source of tokens; `None`: the options have the token.
    pub tokens: Option<Arc<dyn ForeignTokens>>,
}

impl std::fmt::Debug for Functions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Functions").field("tools", &self.tools.len()).finish_non_exhaustive()
    }
}

/// The time for which the end of the relay is waited for, beside all else.
const RELAY_ENDS_WITHIN: Duration = Duration::from_secs(2);
/// The interval at which it is looked whether a host is still in use.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// A started host. Clones are of the same one. When the last is dropped, all that runs is stopped.
#[derive(Clone)]
pub struct SdkHost(Arc<Inner>);

impl Drop for SdkHost {
    fn drop(&mut self) {
        if runtime::is_forked() {
            // The relay and the MCP servers are the other process's: nothing may end them here.
            std::mem::forget(Arc::clone(&self.0));
        }
    }
}

impl std::fmt::Debug for SdkHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SdkHost").field("tools", &self.0.tools).finish_non_exhaustive()
    }
}

struct Inner {
    tools: Tools,
    /// The parts that a closed host lets go, with the audit log's lock and the journal; `None`: it is closed.
    open: Mutex<Option<Open>>,
    /// The hosts that share the rules and the relay of this one.
    siblings: Mutex<Vec<Weak<Inner>>>,
    conversations: Mutex<Vec<Weak<Mutex<Option<ExecuteCode>>>>>,
    relay: Relay,
    servers: McpServers,
    limits: LimitOverrides,
    output: OutputConfig,
    /// Stops all that runs.
    cancel: CancellationToken,
    tasks: TaskTracker,
    _mounts: Vec<Mount>,
}

/// The parts of a host that is not closed.
#[derive(Clone)]
struct Open {
    host: Arc<Host>,
    /// What the host was made of, beside its tools.
    rules: parts::Rules,
    client: LazyClient,
    /// The durable runs; `None`: there is no journal.
    runs: Option<Runs>,
    /// The page; `None`: the options ask for none.
    page: Option<Arc<LocalPage>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

/// The state of an MCP server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ServerShape {
    /// Its name.
    pub name: String,
    /// Its source, such as `the MCP server "git" of mcp.json`.
    pub origin: String,
    /// Whether it answers calls.
    pub connected: bool,
    /// Its state, for people.
    pub state: String,
}

impl SdkHost {
    /// Starts a host: checks the options, opens files, starts MCP servers and waits for them for a while. The relay is
    /// connected, and started if it is this host's own, when code first needs it.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](crate::ErrorKind): an option cannot be used, or a file cannot be read.
    pub async fn start(options: HostOptions, functions: Functions) -> Result<Self, SdkError> {
        parts::start(options, functions).await.map(|inner| Self(Arc::new(inner)))
    }

    /// Makes a host with other tools, and with the rules, the approver, the audit, the limits and the relay of this one. It has a
    /// session of its own, and no durable runs. It ends with this one; closing it does not end the relay.
    ///
    /// # Errors
    /// Those of [`SdkHost::add_tool`]. [`ErrorKind::Closed`](crate::ErrorKind): the host is closed.
    pub fn with_tools(&self, tools: Vec<(ToolDescription, Arc<dyn ForeignCall>)>) -> Result<Self, SdkError> {
        let sibling = Arc::new(parts::sibling(&self.0, &self.open()?.rules, tools)?);
        let mut all = self.0.siblings.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|one| one.strong_count() > 0);
        all.push(Arc::downgrade(&sibling));
        Ok(Self(sibling))
    }

    /// Adds a tool. Code that runs already may not see it.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](crate::ErrorKind): the name is not `server.tool`, is reserved or taken, or a schema
    /// cannot be used. [`ErrorKind::Closed`](crate::ErrorKind): the host is closed.
    pub fn add_tool(&self, description: ToolDescription, function: Arc<dyn ForeignCall>) -> Result<(), SdkError> {
        self.open()?;
        self.0.tools.add_tool(ForeignTool { description, function }).map(drop).map_err(Into::into)
    }

    /// Starts code. Its approver, if it has one of its own, decides in the place of the host's; the page is asked as well.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](crate::ErrorKind): an option cannot be used. [`ErrorKind::Closed`](crate::ErrorKind):
    /// the host is closed.
    pub fn execute(
        &self,
        options: RequestOptions,
        approver: Option<Arc<dyn ForeignApprover>>,
    ) -> Result<Execution, SdkError> {
        let Open { client, page, .. } = self.open()?;
        let request = options.request(&self.0.limits, approver.and_then(|own| asked(Some(own), page.as_deref())))?;
        Execution::start(client, request, (self.0.cancel.child_token(), &self.0.tasks))
    }

    /// Calls one tool without code and without a relay, through the same checks, rules, approvals and audit. Returns JSON.
    ///
    /// # Errors
    /// [`ErrorKind::Script`](crate::ErrorKind): there is no such tool, the arguments do not fit, the call was denied, or the
    /// tool failed. [`ErrorKind::Closed`](crate::ErrorKind): the host is closed.
    pub async fn call(&self, tool: &str, arguments: &Value) -> Result<String, SdkError> {
        let host = self.open()?.host;
        let answer = self.until_closed(async { Ok(host.call(tool, arguments).await?) }).await?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    /// Returns the tools that there are, those included that code may not call.
    pub fn tools(&self) -> Vec<ToolShape> {
        self.seen().specs().iter().map(Into::into).collect()
    }

    /// Searches the tools that code can call; the best match comes first.
    pub fn search(&self, words: &str, most: usize) -> Vec<ToolShape> {
        self.seen().search(words, most).iter().map(Into::into).collect()
    }

    /// Returns the tools that code can call as a text for a prompt, of about as many tokens.
    pub fn overview(&self, most_tokens: usize) -> String {
        self.seen().overview(most_tokens)
    }

    /// Returns the MCP servers with their states.
    pub fn servers(&self) -> Vec<ServerShape> {
        let status = self.0.servers.status().into_iter();
        let shape = |it: host_client::ServerStatus| ServerShape {
            connected: matches!(it.state, host_client::ServerState::Connected { .. }),
            state: it.state.to_string(),
            name: it.name,
            origin: it.origin,
        };
        status.map(shape).collect()
    }

    /// Returns what the author of the configuration should look at, as sentences: warnings about the policy, and tools that
    /// are left out.
    pub fn warnings(&self) -> Vec<String> {
        let policy = self.open().map(|open| open.host.policy_warnings()).unwrap_or_default();
        let policy = policy.into_iter().map(|it| it.to_string());
        let left_out = self.seen().left_out().into_iter();
        policy.chain(left_out.map(|it| Error::from(it).to_string())).collect()
    }

    /// Returns the process id of the relay that was started; `None`: there is none.
    pub async fn relay_process(&self) -> Option<u32> {
        self.0.relay.process_id().await
    }

    /// Returns the address that opens the host's page in a browser, once; `None`: the host has none, or is closed.
    pub fn page(&self) -> Option<String> {
        self.open().ok()?.page.map(|page| page.address().to_owned())
    }

    /// Begins a conversation of a model, with `execute_code` and the tools beside it.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`](crate::ErrorKind): the host is closed.
    pub fn conversation(&self) -> Result<Conversation, SdkError> {
        let mut tool = ExecuteCode::new(self.open()?.client.separate()).output(self.0.output);
        for name in host_client::LimitName::ALL {
            if let Some(value) = self.0.limits.get(*name) {
                tool = tool.limit(*name, value);
            }
        }
        let shared = Arc::new(Mutex::new(Some(tool)));
        let mut all = self.0.conversations.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|one| one.strong_count() > 0);
        all.push(Arc::downgrade(&shared));
        Ok(Conversation::new(shared, self.0.cancel.child_token(), self.0.tasks.clone()))
    }

    /// Creates one that answers requests with programs of a model.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](crate::ErrorKind): an option cannot be used. [`ErrorKind::Closed`](crate::ErrorKind):
    /// the host is closed.
    pub fn programmatic(
        &self,
        model: Arc<dyn ForeignModel>,
        options: ProgrammaticOptions,
    ) -> Result<ForeignProgrammatic, SdkError> {
        ForeignProgrammatic::new(self.open()?.client, model, options, (&self.0.limits, self.0.cancel.clone()))
    }

    /// Returns the durable runs of this host.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](crate::ErrorKind): the options name no journal. [`ErrorKind::Closed`](crate::ErrorKind):
    /// the host is closed.
    pub fn runs(&self) -> Result<DurableRuns, SdkError> {
        let runs = self.open()?.runs;
        let without =
            || SdkError::option("durable runs need a journal: start the host with the option journal, such as runs.db");
        Ok(DurableRuns::new(runs.ok_or_else(without)?, self.0.limits.clone()))
    }

    /// Closes the host: cancels what runs, leaves durable runs for another process, lets MCP servers end, and ends the relay
    /// that was started. It returns within `within` and two seconds more, whatever happens. Later calls find it closed.
    pub async fn close(&self, within: Duration) {
        let Some(open) = self.0.open.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            // Who closed it before may still be waiting for this.
            let _ = tokio::time::timeout(within, self.0.tasks.wait()).await;
            return;
        };
        let host = Arc::downgrade(&open.host);
        let siblings = std::mem::take(&mut *self.0.siblings.lock().unwrap_or_else(PoisonError::into_inner));
        let ends = async {
            // Before their calls are cancelled: they go on elsewhere.
            if let Some(runs) = &open.runs {
                runs.leave().await;
            }
            self.0.cancel.cancel();
            self.0.tasks.close();
            self.0.tasks.wait().await;
            self.0.servers.close().await;
        };
        // What has not ended by then is stopped when the last handle is dropped.
        let _ = tokio::time::timeout(within, ends).await;
        self.0.cancel.cancel();
        for sibling in siblings.iter().filter_map(Weak::upgrade) {
            drop(sibling.open.lock().unwrap_or_else(PoisonError::into_inner).take());
            sibling.end_conversations();
        }
        self.0.end_conversations();
        drop(open);
        let ended = async {
            self.0.relay.close().await;
            // Sessions end a moment after their clients. The audit log is free then.
            while host.strong_count() > 0 {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        let _ = tokio::time::timeout(RELAY_ENDS_WITHIN, ended).await;
    }

    fn open(&self) -> Result<Open, SdkError> {
        let open = self.0.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.clone().ok_or_else(SdkError::closed)
    }

    /// Returns the tools with what the policy says of them; of a closed host, as they were registered.
    fn seen(&self) -> Tools {
        self.open().map_or_else(|_| self.0.tools.clone(), |open| open.host.tools().clone())
    }

    /// Awaits a future until the host is closed.
    async fn until_closed<T>(&self, future: impl Future<Output = Result<T, SdkError>>) -> Result<T, SdkError> {
        self.0.cancel.run_until_cancelled(future).await.unwrap_or_else(|| Err(SdkError::closed()))
    }
}

impl Inner {
    /// Ends the sessions of conversations that their owners keep.
    fn end_conversations(&self) {
        let all = std::mem::take(&mut *self.conversations.lock().unwrap_or_else(PoisonError::into_inner));
        for one in all.iter().filter_map(Weak::upgrade) {
            one.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
    }
}

/// Makes a policy that can be used.
///
/// # Errors
/// [`ErrorKind::Configuration`](crate::ErrorKind): it cannot be read, or a pattern can fit no tool.
fn policy(options: &HostOptions) -> Result<Option<Policy>, SdkError> {
    let Some(options) = &options.policy else { return Ok(None) };
    let policy = options.0.policy()?;
    policy.check().map_err(Error::from)?;
    Ok(Some(policy))
}
