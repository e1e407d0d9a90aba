//! Makes a host of the command line: tools, policy, audit log and approver; and a connection to the relay.

use std::io::{self, IsTerminal as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use host_client::audit::Redaction;
use host_client::sets::http::HttpSet;
use host_client::sets::workspace::WorkspaceSet;
use host_client::{
    Approval, ApprovalRequest, Audit, AuditConfig, CallbackApprover, Client, ClientConfig, Error, Host, LocalRelay,
    McpConfig, McpOptions, McpServers, Mount, OpenApi, Policy, RemoteAccess, ServerState, ServerStatus,
    TerminalApprover, Tools,
};
use tokio::sync::Mutex;

use crate::args::{HostArgs, RelayArgs};
use crate::exit::Failure;
use crate::output::note;
use crate::progress::Progress;

/// Time beyond `--start-timeout` after which servers are no longer waited for.
const SETTLED_WITHIN: Duration = Duration::from_secs(5);

/// Host of a command. [`Setup::close`] ends what was started for it.
pub(crate) struct Setup {
    pub(crate) host: Arc<Host>,
    servers: McpServers,
    audit: Option<Audit>,
    _mounts: Vec<Mount>,
}

impl Setup {
    /// Mounts everything that the arguments name. With `progress`, a person at the terminal sees the progress and is
    /// asked for approvals. Files are checked before MCP servers are started, so that errors show early.
    pub(crate) async fn new(args: &HostArgs, progress: Option<&Progress>) -> Result<Self, Failure> {
        let tools = Tools::new();
        let (host, audit) = host(tools.clone(), args, progress)?;
        let within = Duration::from_secs(args.start_timeout);
        let servers = McpServers::with_options(&tools, McpOptions { connect_within: within, ..McpOptions::default() });
        let configs = args.mcp.iter().map(McpConfig::from_file).collect::<Result<Vec<_>, _>>().map_err(Error::from)?;
        let mut mounts = sets(&tools, args)?;
        mounts.extend(documents(&tools, args).await?);
        for config in configs {
            servers.start(config)?;
        }
        started(&servers, within, progress).await;
        Ok(Self { host: Arc::new(host), servers, audit, _mounts: mounts })
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

/// Mounts the sets `workspace` and `http`.
fn sets(tools: &Tools, args: &HostArgs) -> Result<Vec<Mount>, Failure> {
    let mut mounts = Vec::new();
    if let Some(folder) = &args.workspace {
        let set = WorkspaceSet::open(folder)?.writable(&args.writable)?;
        mounts.push(set.mount(tools, "workspace")?);
    }
    if !args.fetch.is_empty() {
        let access = RemoteAccess::to(&args.fetch).map_err(Failure::usage)?;
        mounts.push(HttpSet::new(access).mount(tools, "http")?);
    }
    Ok(mounts)
}

/// Mounts the OpenAPI documents.
async fn documents(tools: &Tools, args: &HostArgs) -> Result<Vec<Mount>, Failure> {
    let mut mounts = Vec::new();
    for named in &args.openapi {
        let (name, document) = named.split_once('=').ok_or_else(|| {
            Failure::usage(format!("{named:?} is not NAME=FILE or NAME=URL, such as shop=openapi.yaml"))
        })?;
        let is_address = document.starts_with("https://") || document.starts_with("http://");
        let document = if is_address { OpenApi::from_url(document) } else { OpenApi::from_file(document) };
        let mounted = document.mount(tools, name).await?;
        for left_out in &mounted.left_out {
            tracing::warn!("{name}: {} is left out: {}", left_out.operation, left_out.reason);
        }
        mounts.push(mounted.mount);
    }
    Ok(mounts)
}

/// Waits for MCP servers, and reports those that failed. The others can be called.
async fn started(servers: &McpServers, within: Duration, progress: Option<&Progress>) {
    let names: Vec<_> = servers.status().into_iter().map(|status| status.name).collect();
    if names.is_empty() {
        return;
    }
    if let Some(progress) = progress {
        progress.say(format!("starting MCP servers: {}", names.join(", ")));
    }
    let since = Instant::now();
    let status = servers.ready(within + SETTLED_WITHIN).await;
    tracing::info!(servers = names.len(), elapsed = ?since.elapsed(), "MCP servers were waited for");
    if let Some(progress) = progress {
        progress.clear();
    }
    for ServerStatus { name, state, .. } in status {
        match state {
            ServerState::Connected { left_out, .. } => {
                for left_out in left_out {
                    note(&format!("relay-host: the MCP server {name:?}: {left_out}"));
                }
            }
            ServerState::Failed { reason, .. } | ServerState::Starting { after: Some(reason) } => {
                note(&format!("relay-host: the MCP server {name:?} failed: {reason}"))
            }
            state => note(&format!("relay-host: the MCP server {name:?}: {state}")),
        }
    }
}

/// Makes the host with its policy, audit log and approver.
fn host(tools: Tools, args: &HostArgs, progress: Option<&Progress>) -> Result<(Host, Option<Audit>), Failure> {
    let mut host = Host::new(tools);
    if let Some(file) = &args.policy {
        host = host.policy(Policy::from_file(file).map_err(Failure::usage)?);
    }
    let audit = match &args.audit {
        Some(file) => {
            let mut config = AuditConfig::new(file);
            for redaction in &args.redact {
                let (tools, path) = redaction
                    .split_once('=')
                    .ok_or_else(|| Failure::usage(format!("{redaction:?} is not TOOLS=PATH, such as bank.*=$.card")))?;
                config.redact.push(Redaction { tools: vec![tools.to_owned()], path: path.to_owned() });
            }
            Some(Audit::open(config).map_err(Failure::usage)?)
        }
        None => None,
    };
    if let Some(audit) = &audit {
        host = host.audit(audit.clone());
    }
    let Some(progress) = progress else { return Ok((host, audit)) };
    let is_attended = io::stdin().is_terminal() || io::stderr().is_terminal();
    let host = match TerminalApprover::open() {
        Ok(approver) if is_attended => {
            let progress = progress.clone();
            host.approver(approver.suspending(move |ask| progress.suspend(ask)))
        }
        _ => host.approver(CallbackApprover::new("nobody", |request| std::future::ready(unattended(&request)))),
    };
    Ok((host, audit))
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
    let mut config = ClientConfig::new(relay, token);
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
}

impl Connector {
    pub(crate) fn new(args: &RelayArgs) -> Result<Self, Failure> {
        Ok(Self { named: config(args)?, own: Arc::default() })
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
                own.insert(relay).client_config().await?
            }
        };
        Client::connect(config, host).await
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
