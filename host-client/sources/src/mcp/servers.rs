//! The set of MCP servers that an application holds.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::{RoleServer, Service};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::catalogue::{Catalogue, default_folder};
use super::config::McpConfig;
use super::life::Life;
use super::link::{Link, State};
use super::transport::{Launch, SharedService};
use host_client_core::error::Error;
use host_client_core::tools::{Mount, Tools};

/// How servers are treated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpOptions {
    /// The folder that keeps each server's last list of tools, so that its tools are known while it still starts; none keeps
    /// nothing. By default `sandbox-relay/catalogue` in `$XDG_CACHE_HOME` or `~/.cache`.
    pub catalogues: Option<PathBuf>,
    /// How long a server may take to start, answer `initialize` and list its tools: 30 s by default.
    pub connect_within: Duration,
}

impl Default for McpOptions {
    fn default() -> Self {
        Self { catalogues: default_folder(), connect_within: Duration::from_secs(30) }
    }
}

/// MCP servers whose tools are in a registry. Each is started in the background, and started again when it dies.
///
/// When this is dropped, the connections end and the servers' processes are killed; [`McpServers::close`] lets them end in
/// peace.
#[derive(Debug)]
pub struct McpServers {
    tools: Tools,
    options: McpOptions,
    stop: CancellationToken,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    links: BTreeMap<String, (Arc<Link>, String)>,
    lives: JoinSet<()>,
}

/// Where one server stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerStatus {
    /// Its name.
    pub name: String,
    /// Where it comes from, such as `the MCP server "git" of mcp.json`.
    pub origin: String,
    /// Where it stands.
    pub state: ServerState,
}

/// Whether a server can be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerState {
    /// It is being started; after a failure, with the reason.
    Starting {
        /// Why it is started again.
        after: Option<String>,
    },
    /// It can be called.
    Connected {
        /// How many tools it has.
        tools: usize,
        /// Which tools are left out, and why.
        left_out: Vec<String>,
    },
    /// It failed, and is started again.
    Failed {
        /// Why.
        reason: String,
        /// How long until then.
        again_in: Duration,
    },
    /// It failed too often, and is not started again.
    GivenUp {
        /// Why.
        reason: String,
    },
    /// It was closed.
    Closed,
}

impl McpServers {
    /// No servers yet. Their tools go into `tools`.
    pub fn new(tools: &Tools) -> Self {
        Self::with_options(tools, McpOptions::default())
    }

    /// No servers yet, and how they will be treated.
    pub fn with_options(tools: &Tools, options: McpOptions) -> Self {
        Self { tools: tools.clone(), options, stop: CancellationToken::new(), inner: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the names of all servers of a configuration and starts them together, in the background.
    ///
    /// # Errors
    /// A name is taken: both origins are named, and none of the servers is started.
    ///
    /// # Panics
    /// It is called outside of a Tokio runtime.
    pub fn start(&self, config: McpConfig) -> Result<(), Error> {
        let McpConfig { origin: file, servers } = config;
        let mut mounted = Vec::new();
        for (server, config) in servers {
            let origin = format!("the MCP server {server:?} of {file}");
            let mount = self.tools.mount(&server, origin.clone())?;
            let catalogue = self.options.catalogues.as_deref().map(|folder| Catalogue::new(folder, &server, &config));
            mounted.push((mount, origin, Launch::Configured(config), catalogue));
        }
        for (mount, origin, launch, catalogue) in mounted {
            self.spawn(mount, origin, launch, catalogue);
        }
        Ok(())
    }

    /// Adds a service of this process, such as one written with the macros of `rmcp`.
    ///
    /// # Errors
    /// The name is taken, or is none.
    ///
    /// # Panics
    /// It is called outside of a Tokio runtime.
    pub fn add_service(&self, server: &str, service: impl Service<RoleServer>) -> Result<(), Error> {
        let origin = format!("the MCP service {server:?} of the application");
        let mount = self.tools.mount(server, origin.clone())?;
        self.spawn(mount, origin, Launch::Service(SharedService::new(service)), None);
        Ok(())
    }

    fn spawn(&self, mount: Mount, origin: String, launch: Launch, catalogue: Option<Catalogue>) {
        let link = Arc::new(Link::new(mount.server(), launch.secrets()));
        let connect_within = self.options.connect_within;
        let life = Life { link: Arc::clone(&link), mount, launch, catalogue, connect_within };
        life.mount_catalogue();
        let mut inner = self.lock();
        inner.links.insert(link.server().to_owned(), (link, origin));
        inner.lives.spawn(life.live(self.stop.clone()));
    }

    /// Waits until each server is connected or has failed its first try, at most so long. Then as [`McpServers::status`].
    pub async fn ready(&self, within: Duration) -> Vec<ServerStatus> {
        let deadline = Instant::now() + within;
        let links: Vec<_> = self.lock().links.values().map(|(link, _)| Arc::clone(link)).collect();
        for link in links {
            if timeout_at(deadline, link.settled()).await.is_err() {
                break;
            }
        }
        self.status()
    }

    /// Where each server stands, by name.
    pub fn status(&self) -> Vec<ServerStatus> {
        let inner = self.lock();
        let status = inner.links.iter().map(|(name, (link, origin))| ServerStatus {
            name: name.clone(),
            origin: origin.clone(),
            state: link.state().into(),
        });
        status.collect()
    }

    /// Closes all servers: their tools go, their processes get a few seconds to end by themselves. Calls that are still open
    /// end with `OUTCOME_UNKNOWN`. Servers that are added later are closed at once.
    pub async fn close(&self) {
        self.stop.cancel();
        let mut lives = std::mem::take(&mut self.lock().lives);
        while lives.join_next().await.is_some() {}
    }
}

impl From<State> for ServerState {
    fn from(state: State) -> Self {
        match state {
            State::Starting { after } => Self::Starting { after: after.map(|why| why.to_string()) },
            State::Connected(connection) => {
                Self::Connected { tools: connection.tools, left_out: connection.left_out.to_vec() }
            }
            State::Waiting { why, until } => {
                let again_in = until.saturating_duration_since(Instant::now());
                Self::Failed { reason: why.to_string(), again_in }
            }
            State::GivenUp { why } => Self::GivenUp { reason: why.to_string() },
            State::Closed => Self::Closed,
        }
    }
}

impl fmt::Display for ServerStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.state)
    }
}

impl fmt::Display for ServerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Starting { after: None } => f.write_str("starting"),
            Self::Starting { after: Some(why) } => write!(f, "starting again, because {why}"),
            Self::Connected { tools, left_out } if left_out.is_empty() => write!(f, "connected, {tools} tools"),
            Self::Connected { tools, left_out } => {
                write!(f, "connected, {tools} tools; left out: {}", left_out.join("; "))
            }
            Self::Failed { reason, again_in } => {
                write!(f, "not available: {reason}; started again in {} s", again_in.as_secs() + 1)
            }
            Self::GivenUp { reason } => write!(f, "given up: {reason}"),
            Self::Closed => f.write_str("closed"),
        }
    }
}
