//! Makes a host of the command line: tools, policy, audit log and approver; and a connection to the relay.

use std::io::{self, IsTerminal as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use host_client::audit::{Redaction, SyncMode};
use host_client::page::LocalPage;
use host_client::sets::http::HttpSet;
use host_client::sets::workspace::WorkspaceSet;
use host_client::{
    Approval, ApprovalRequest, Approver, Audit, AuditConfig, CallbackApprover, Client, ClientConfig, Error, Host,
    Journal, LocalRelay, McpConfig, McpOptions, McpServers, Mount, Policy, RemoteAccess, ServerState, ServerStatus,
    TerminalApprover, Tools,
};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use crate::approvals::Approvals;
use crate::args::{HostArgs, RelayArgs};
use crate::commands::commands;
use crate::connection;
use crate::exit::Failure;
use crate::openapi::documents;
use crate::output::{inline, note};
use crate::progress::Progress;
use crate::warnings::print_warnings;

/// Ways to ask people, beside the terminal.
#[derive(Default)]
pub(crate) struct Asking<'a> {
    pub(crate) approvals: Option<&'a Approvals>,
    pub(crate) journal: Option<Arc<dyn Journal>>,
    pub(crate) page: Option<&'a LocalPage>,
}

/// Host of a command. [`Setup::close`] ends what was started for it.
pub(crate) struct Setup {
    pub(crate) host: Arc<Host>,
    servers: Arc<McpServers>,
    /// Task that reports servers that failed, where nobody waits for them; ends with this.
    reports: JoinSet<()>,
    audit: Option<Audit>,
    _mounts: Vec<Mount>,
}

impl Setup {
    /// Mounts everything that the arguments name. With `progress`, a person at the terminal sees the progress and is
    /// asked for approvals. Files are checked before MCP servers are started, so that errors show early.
    pub(crate) async fn new(args: &HostArgs, progress: Option<&Progress>) -> Result<Self, Failure> {
        Self::asking(args, progress, Asking::default()).await
    }

    /// Does the same with durable runs in a journal, or with approvals by links. Where there is no terminal to ask at, people
    /// decide by the journal.
    pub(crate) async fn asking(
        args: &HostArgs,
        progress: Option<&Progress>,
        asking: Asking<'_>,
    ) -> Result<Self, Failure> {
        let mut setup = Self::without_servers(args, progress, asking).await?;
        let (host, servers) = (Arc::clone(&setup.host), Arc::clone(&setup.servers));
        let (within, redact) = (Duration::from_secs(args.start_timeout), args.redact.clone());
        let report = async move |progress: Option<&Progress>| {
            started(&servers, within, progress).await;
            print_warnings(&host, &redact, &missing(&servers));
        };
        match progress {
            Some(_) => report(progress).await,
            // An MCP client is answered at once: servers come when they come.
            None => drop(setup.reports.spawn(async move { report(None).await })),
        }
        Ok(setup)
    }

    /// Does the same for a person who is shown the policy's warnings in another way.
    pub(crate) async fn without_warnings(args: &HostArgs, progress: &Progress) -> Result<Self, Failure> {
        let setup = Self::without_servers(args, Some(progress), Asking::default()).await?;
        started(&setup.servers, Duration::from_secs(args.start_timeout), Some(progress)).await;
        Ok(setup)
    }

    /// Mounts everything, and starts the MCP servers without waiting for them.
    async fn without_servers(
        args: &HostArgs,
        progress: Option<&Progress>,
        asking: Asking<'_>,
    ) -> Result<Self, Failure> {
        let tools = Tools::new();
        let (host, audit) = host(tools.clone(), args)?;
        let approver: Option<Arc<dyn Approver>> = match (asking.approvals, progress) {
            (Some(approvals), _) => Some(Arc::new(approvals.approver.clone())),
            (None, Some(progress)) => terminal(progress),
            (None, None) => None,
        };
        let host = match (asking.page, approver) {
            (Some(page), approver) => page.watch(host).approver(page.approver(approver)),
            (None, Some(approver)) => host.approver(approver),
            // Durable runs can wait for another process.
            (None, None) if progress.is_some() && asking.journal.is_none() => {
                let unattended = |request: ApprovalRequest| std::future::ready(unattended(&request));
                host.approver(CallbackApprover::new("nobody", unattended))
            }
            (None, None) => host,
        };
        let host = match asking.journal {
            Some(journal) => host.journal(journal),
            None => host,
        };
        let within = Duration::from_secs(args.start_timeout);
        let servers = McpServers::with_options(&tools, McpOptions { call_waits: within, ..McpOptions::default() });
        let configs = args.mcp.iter().map(McpConfig::from_file).collect::<Result<Vec<_>, _>>().map_err(Error::from)?;
        let mut mounts = sets(&tools, args)?;
        mounts.extend(commands(&tools, &args.commands)?);
        mounts.extend(documents(&tools, &args.openapi).await?);
        for config in configs {
            servers.start(config)?;
        }
        let (servers, reports) = (Arc::new(servers), JoinSet::new());
        Ok(Self { host: Arc::new(host), servers, reports, audit, _mounts: mounts })
    }

    /// Returns the MCP servers.
    pub(crate) fn servers(&self) -> Arc<McpServers> {
        Arc::clone(&self.servers)
    }

    /// Returns the names of the MCP servers that are not connected, so that their tools are not known.
    pub(crate) fn missing_servers(&self) -> Vec<String> {
        missing(&self.servers)
    }

    pub(crate) async fn close(self) {
        self.servers.close().await;
        if let Some(audit) = &self.audit {
            let (seq, hash) = audit.head();
            tracing::info!(
                seq, %hash,
                "the audit log ends here: keep the hash elsewhere to notice if its end is cut off"
            );
        }
    }
}

/// Returns the names of the servers that are not connected.
pub(crate) fn missing(servers: &McpServers) -> Vec<String> {
    let status = servers.status().into_iter();
    status.filter(|it| !matches!(it.state, ServerState::Connected { .. })).map(|it| it.name).collect()
}

/// Mounts the sets `workspace` and `http`.
pub(crate) fn sets(tools: &Tools, args: &HostArgs) -> Result<Vec<Mount>, Failure> {
    let mut mounts = Vec::new();
    if let Some(folder) = &args.workspace {
        let set = WorkspaceSet::open(folder)?.writable(&args.writable)?;
        let set = set.allow_create(args.allow_create).allow_delete(args.allow_delete);
        mounts.push(set.mount(tools, "workspace")?);
    }
    if !args.fetch.is_empty() {
        let access = RemoteAccess::to(&args.fetch).map_err(Failure::usage)?;
        mounts.push(HttpSet::new(access).mount(tools, "http")?);
    }
    Ok(mounts)
}

/// Waits for MCP servers, and reports those that failed. The others can be called.
async fn started(servers: &McpServers, within: Duration, progress: Option<&Progress>) {
    let starting = servers.status().into_iter().filter(|it| !matches!(it.state, ServerState::Invalid { .. }));
    let names: Vec<_> = starting.map(|status| status.name).collect();
    if !names.is_empty()
        && let Some(progress) = progress
    {
        progress.say(format!("starting MCP servers: {}", inline(&names.join(", "))));
    }
    let since = Instant::now();
    let status = servers.ready(within).await;
    tracing::info!(servers = names.len(), elapsed = ?since.elapsed(), "MCP servers were waited for");
    if let Some(progress) = progress {
        progress.clear();
    }
    for ServerStatus { name, origin, state } in status {
        match state {
            ServerState::Invalid { reason } => {
                note(&format!("relay-host: {} is not started: {}", inline(&origin), inline(&reason)))
            }
            ServerState::Connected { left_out, .. } => {
                for left_out in left_out {
                    note(&format!("relay-host: the MCP server {name:?}: {}", inline(&left_out.to_string())));
                }
            }
            ServerState::Failed { reason, .. } | ServerState::Starting { after: Some(reason), .. } => {
                note(&format!("relay-host: the MCP server {name:?} failed: {}", inline(&reason)))
            }
            // The program ends.
            ServerState::Closed => {}
            state => note(&format!("relay-host: the MCP server {name:?}: {state}")),
        }
    }
}

/// Makes the host with its policy and audit log.
fn host(tools: Tools, args: &HostArgs) -> Result<(Host, Option<Audit>), Failure> {
    let mut host = Host::new(tools).show_denied(args.show_denied).learn_results(!args.no_learned_types);
    if let Some(file) = &args.policy {
        host = host.policy(Policy::from_file(file).map_err(Failure::usage)?);
    }
    let audit = match &args.audit {
        Some(file) => {
            let mut config = AuditConfig::new(file);
            config.code = args.audit_code.into();
            config.redact = redactions(&args.redact)?;
            config.rotate_bytes = args.audit_file_mib << 20;
            config.keep = args.audit_keep;
            config.sync = if args.audit_sync { SyncMode::EveryRecord } else { SyncMode::Never };
            Some(Audit::open(config).map_err(Failure::usage)?)
        }
        None => None,
    };
    if let Some(audit) = &audit {
        host = host.audit(audit.clone());
    }
    Ok((host, audit))
}

/// Returns `true` if there is a terminal at which a person can be asked.
pub(crate) fn is_attended() -> bool {
    io::stdin().is_terminal() || io::stderr().is_terminal()
}

/// Returns the approver that asks the person at the terminal; `None`: there is no terminal.
fn terminal(progress: &Progress) -> Option<Arc<dyn Approver>> {
    let approver = TerminalApprover::open().ok().filter(|_| is_attended())?;
    let progress = progress.clone();
    Some(Arc::new(approver.suspending(move |ask| progress.suspend(ask))))
}

/// Reads the redactions of the command line.
pub(crate) fn redactions(redact: &[String]) -> Result<Vec<Redaction>, Failure> {
    let read = |redaction: &String| match redaction.split_once('=') {
        Some((tools, path)) => Ok(Redaction { tools: vec![tools.to_owned()], path: path.to_owned() }),
        None => Err(Failure::usage(format!("{redaction:?} is not TOOLS=PATH, such as bank.*=$.card"))),
    };
    redact.iter().map(read).collect()
}

/// Denies a call that needs an approval, because there is no terminal.
fn unattended(request: &ApprovalRequest) -> Approval {
    let tool = request.tool.as_str();
    let reason = format!(
        "it needs an approval, and there is no terminal to ask at. Allow it in a file that --policy names: \
         rule = [{{tools = [{tool:?}], decision = \"allow\"}}]"
    );
    Approval::Deny { reason: Some(reason) }
}

/// Returns the configuration of the relay that the arguments name; `None` if they name none.
pub(crate) fn config(args: &RelayArgs) -> Result<Option<ClientConfig>, Failure> {
    let (Some(relay), Some(token)) = (&args.relay, &args.token) else { return Ok(None) };
    let mut config = ClientConfig { resume: args.resume_window(), ..ClientConfig::new(relay, token) };
    if let Some(path) = &args.ca_file {
        let pem = std::fs::read(path);
        config.authorities =
            Some(pem.map_err(|error| Failure::usage(format!("{} cannot be read: {error}", path.display())))?);
    }
    Ok(Some(config))
}

/// Connects sessions of MCP clients to a relay. Without `--relay`, it starts a relay with the first connection, and
/// again if that has ended. Clones share the relay.
#[derive(Clone)]
pub(crate) struct Connector {
    /// Configuration of the relay of `--relay`; `None`: one is started.
    named: Option<ClientConfig>,
    own: Arc<Mutex<Option<LocalRelay>>>,
    /// Maximum time for which a session is resumed; `None`: it ends with its connection.
    resume: Option<Duration>,
    /// Progress line above which the state of the connection is reported.
    progress: Progress,
}

impl Connector {
    pub(crate) fn new(args: &RelayArgs, progress: Progress) -> Result<Self, Failure> {
        Ok(Self { named: config(args)?, own: Arc::default(), resume: args.resume_window(), progress })
    }

    /// Connects a client for a host.
    pub(crate) async fn connect(self, host: Arc<Host>) -> Result<Client, Error> {
        let config = match self.named {
            Some(named) => named,
            None => {
                let mut own = self.own.lock().await;
                let running = own.take_if(LocalRelay::is_running);
                let relay = match running {
                    Some(relay) => relay,
                    None => LocalRelay::start().await?,
                };
                let config = own.insert(relay).client_config().await?;
                ClientConfig { resume: config.resume.min(self.resume), ..config }
            }
        };
        let client = Client::connect_when_free(config, host).await?;
        connection::report(&client, &self.progress);
        Ok(client)
    }

    /// Ends the relay that was started.
    pub(crate) async fn close(self) {
        if let Some(mut relay) = self.own.lock().await.take()
            && let Err(error) = relay.kill().await
        {
            tracing::warn!(%error, "the relay could not be ended");
        }
    }
}
