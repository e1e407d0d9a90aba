//! From the command line to a host: tools from everywhere, the rules, the audit, who is asked. And to a relay.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::Duration;

use host_client::audit::Redaction;
use host_client::sets::http::HttpSet;
use host_client::sets::workspace::WorkspaceSet;
use host_client::{
    Audit, AuditConfig, Client, ClientConfig, Error, Host, LocalRelay, McpConfig, McpServers, Mount, OpenApi, Policy,
    RemoteAccess, ServerState, TerminalApprover, Tools,
};
use tokio::sync::Mutex;

use crate::args::{HostArgs, RelayArgs};
use crate::exit::Failure;
use crate::progress::Progress;

/// What a command works with. [`Setup::close`] ends what was started for it.
pub(crate) struct Setup {
    pub(crate) host: Arc<Host>,
    servers: McpServers,
    audit: Option<Audit>,
    _mounts: Vec<Mount>,
}

impl Setup {
    /// Everything that the arguments name. At a terminal, `progress` is what is there beside questions.
    pub(crate) async fn new(args: &HostArgs, progress: Option<&Progress>) -> Result<Self, Failure> {
        let tools = Tools::new();
        let servers = McpServers::new(&tools);
        let mut mounts = Vec::new();
        if let Some(folder) = &args.workspace {
            let set = WorkspaceSet::open(folder)?.writable(&args.writable)?;
            mounts.push(set.mount(&tools, "workspace")?);
        }
        if !args.fetch.is_empty() {
            let access = RemoteAccess::to(&args.fetch).map_err(Failure::usage)?;
            mounts.push(HttpSet::new(access).mount(&tools, "http")?);
        }
        for named in &args.openapi {
            let (name, document) = named
                .split_once('=')
                .ok_or_else(|| Failure::usage(format!("{named:?} is not NAME=FILE or NAME=URL")))?;
            let is_address = document.starts_with("https://") || document.starts_with("http://");
            let document = if is_address { OpenApi::from_url(document) } else { OpenApi::from_file(document) };
            let mounted = document.mount(&tools, name).await?;
            for left_out in &mounted.left_out {
                tracing::warn!("{name}: {} is left out: {}", left_out.operation, left_out.reason);
            }
            mounts.push(mounted.mount);
        }
        for file in &args.mcp {
            servers.start(McpConfig::from_file(file).map_err(Error::from)?)?;
        }
        started(&servers, Duration::from_secs(args.start_timeout), progress).await;
        let (host, audit) = host(tools, args, progress)?;
        Ok(Self { host: Arc::new(host), servers, audit, _mounts: mounts })
    }

    /// A client of the relay that the arguments name, or of one of its own, which lives as long as what is given beside it.
    pub(crate) async fn connect(&self, args: &RelayArgs) -> Result<(Client, Option<LocalRelay>), Failure> {
        let (config, relay) = match config(args)? {
            Some(config) => (config, None),
            None => {
                let relay = LocalRelay::start().await?;
                (relay.client_config().await?, Some(relay))
            }
        };
        Ok((Client::connect(config, Arc::clone(&self.host)).await?, relay))
    }

    pub(crate) async fn close(self) {
        self.servers.close().await;
        if let Some(audit) = &self.audit {
            let (seq, hash) = audit.head();
            tracing::info!(seq, %hash, "the audit log ends here: keep the hash elsewhere to notice if its end is cut off");
        }
    }
}

/// Waits for MCP servers, and says which do not work. The others do.
async fn started(servers: &McpServers, within: Duration, progress: Option<&Progress>) {
    if let Some(progress) = progress {
        progress.say("starting MCP servers");
    }
    for status in servers.ready(within).await {
        match &status.state {
            ServerState::Connected { left_out, .. } => {
                for left_out in left_out {
                    tracing::warn!("{}: {left_out}", status.name);
                }
            }
            state => {
                let say = || eprintln!("relay-host: the MCP server {:?}: {state}", status.name);
                progress.map_or_else(say, |progress| progress.suspend(say));
            }
        }
    }
    if let Some(progress) = progress {
        progress.clear();
    }
}

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
    if let Some(progress) = progress.filter(|_| std::io::stderr().is_terminal())
        && let Ok(approver) = TerminalApprover::open()
    {
        let progress = progress.clone();
        host = host.approver(approver.suspending(move |ask| progress.suspend(ask)));
    }
    Ok((host, audit))
}

/// The relay that the arguments name, if they name one.
fn config(args: &RelayArgs) -> Result<Option<ClientConfig>, Failure> {
    let (Some(relay), Some(token)) = (&args.relay, &args.token) else { return Ok(None) };
    let mut config = ClientConfig::new(relay, token);
    if let Some(path) = &args.ca_file {
        let pem = std::fs::read(path);
        config.authorities =
            Some(pem.map_err(|error| Failure::usage(format!("{} cannot be read: {error}", path.display())))?);
    }
    Ok(Some(config))
}

/// Connects again and again, as MCP sessions need it. A relay of one's own is started with the first, and again when it ended.
/// Clones share it.
#[derive(Clone)]
pub(crate) struct Connector {
    /// The relay that was named; without, one of one's own.
    named: Option<ClientConfig>,
    own: Arc<Mutex<Option<LocalRelay>>>,
}

impl Connector {
    pub(crate) fn new(args: &RelayArgs) -> Result<Self, Failure> {
        Ok(Self { named: config(args)?, own: Arc::default() })
    }

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

    /// Ends the relay of one's own.
    pub(crate) async fn close(self) {
        if let Some(mut relay) = self.own.lock().await.take()
            && let Err(error) = relay.kill().await
        {
            tracing::warn!(%error, "the relay could not be ended");
        }
    }
}
