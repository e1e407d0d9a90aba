//! Set of MCP servers that an application holds.

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
use super::problem::ServerProblem;
use super::transport::{Launch, SharedService};
use host_client_core::error::Error;
use host_client_core::tools::{Mount, Tools};

/// Options of [`McpServers`].
///
/// ```
/// use std::time::Duration;
///
/// use host_client_core::Tools;
/// use host_client_sources::{McpOptions, McpServers};
///
/// // No cache on disk, and calls that do not wait for servers that start.
/// let options = McpOptions { catalogues: None, call_waits: Duration::ZERO, ..McpOptions::default() };
/// let servers = McpServers::with_options(&Tools::new(), options);
/// assert!(servers.status().is_empty());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpOptions {
    /// Folder that keeps each server's last list of tools, so that the tools are known while the server still starts;
    /// `None` keeps no lists. Default: `sandbox-relay/catalogue` in `$XDG_CACHE_HOME` or `~/.cache`.
    pub catalogues: Option<PathBuf>,
    /// Maximum time for a server to start, answer `initialize` and list its tools. After this time it is ended and started
    /// again. Default: 10 min, because a first start may download packages.
    pub connect_within: Duration,
    /// Maximum time that a call waits for a server that is being started. Default: 30 s.
    pub call_waits: Duration,
}

impl Default for McpOptions {
    fn default() -> Self {
        Self {
            catalogues: default_folder(),
            connect_within: Duration::from_secs(600),
            call_waits: Duration::from_secs(30),
        }
    }
}

/// MCP servers whose tools are registered in a [`Tools`]. Each server is started in the background, and restarted when
/// it dies.
///
/// Dropping this ends the connections and kills the servers' processes; [`McpServers::close`] lets them end by
/// themselves.
///
/// ```no_run
/// use std::time::Duration;
///
/// use host_client_core::Tools;
/// use host_client_sources::{McpConfig, McpServers, ServerState};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let tools = Tools::new();
/// let servers = McpServers::new(&tools);
/// servers.start(McpConfig::from_file("mcp.json")?)?;
/// for status in servers.ready(Duration::from_secs(30)).await {
///     if !matches!(status.state, ServerState::Connected { .. }) {
///         eprintln!("{status}");
///     }
/// }
/// // … connect a `Client` with `tools`, run code …
/// servers.close().await;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct McpServers {
    tools: Tools,
    options: McpOptions,
    stop: CancellationToken,
    inner: Mutex<Inner>,
}

/// Servers by name, each with its origin, and their background tasks.
#[derive(Debug, Default)]
struct Inner {
    links: BTreeMap<String, (Arc<Link>, String)>,
    lives: JoinSet<()>,
    invalid: Vec<InvalidServer>,
}

/// Server that cannot be started, because its entry is invalid.
#[derive(Debug)]
struct InvalidServer {
    status: ServerStatus,
    /// Keeps the server's name, so that calls learn the problem; `None` if no server can have this name.
    _mount: Option<Mount>,
}

/// State of one server, with its name and origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerStatus {
    /// Name of the server.
    pub name: String,
    /// Origin of the server, such as `the MCP server "git" of mcp.json`.
    pub origin: String,
    /// State of the server.
    pub state: ServerState,
}

/// State of an MCP server. Only a `Connected` one answers calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerState {
    /// The server is being started.
    Starting {
        /// Reason of the failure before, if this is a restart; `None` at the first start.
        after: Option<String>,
        /// Time since the start.
        since: Duration,
    },
    /// The server is connected, and answers calls.
    Connected {
        /// Number of registered tools.
        tools: usize,
        /// Tools that are not registered, each with the reason.
        left_out: Vec<String>,
    },
    /// The server failed, and is restarted after a pause.
    Failed {
        /// Reason of the last failure.
        reason: String,
        /// Delay before the next attempt.
        again_in: Duration,
    },
    /// The entry of the server in its configuration is invalid, so that it is never started.
    Invalid {
        /// The problem with the entry, and what to do about it.
        reason: String,
    },
    /// The server never connected, failed five times, and is not restarted.
    GivenUp {
        /// Reason of the last failure.
        reason: String,
    },
    /// The server was closed by [`McpServers::close`].
    Closed,
}

impl McpServers {
    /// Creates an empty set with the default options. Tools of its servers are registered in `tools`.
    pub fn new(tools: &Tools) -> Self {
        Self::with_options(tools, McpOptions::default())
    }

    /// Creates an empty set with these options. Tools of its servers are registered in `tools`.
    pub fn with_options(tools: &Tools, options: McpOptions) -> Self {
        Self { tools: tools.clone(), options, stop: CancellationToken::new(), inner: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves the names of all servers of a configuration, then starts them in the background, all at once. A server
    /// with an invalid entry is not started: its state is [`ServerState::Invalid`], and calls of its tools are told why.
    ///
    /// # Errors
    /// The error of [`Tools::mount`] if a name is taken. It names both origins, and no server of the configuration is
    /// started.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub fn start(&self, config: McpConfig) -> Result<(), Error> {
        let mut invalid = Vec::new();
        for (server, problem) in &config.problems {
            let origin = config.origin_of(server);
            let has_name = !matches!(problem, ServerProblem::Name | ServerProblem::Reserved);
            let mount = has_name.then(|| self.tools.mount(server, origin.clone())).transpose()?;
            if let Some(mount) = &mount {
                mount.set_note(Some(format!("{origin} is not started: {problem}")));
            }
            let status = ServerStatus {
                name: server.clone(),
                origin,
                state: ServerState::Invalid { reason: problem.to_string() },
            };
            invalid.push(InvalidServer { status, _mount: mount });
        }
        let mut mounted = Vec::new();
        for (server, entry) in &config.servers {
            let origin = config.origin_of(server);
            let mount = self.tools.mount(server, origin.clone())?;
            let catalogue = self.options.catalogues.as_deref().map(|folder| Catalogue::new(folder, server, entry));
            mounted.push((mount, origin, Launch::Configured(entry.clone()), catalogue));
        }
        self.lock().invalid.extend(invalid);
        for (mount, origin, launch, catalogue) in mounted {
            self.spawn(mount, origin, launch, catalogue);
        }
        Ok(())
    }

    /// Adds an MCP service of this process, such as one written with the macros of `rmcp`, as the server `server`.
    ///
    /// # Errors
    /// The error of [`Tools::mount`] if the name is taken or is not a valid server name.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub fn add_service(&self, server: &str, service: impl Service<RoleServer>) -> Result<(), Error> {
        let origin = format!("the MCP service {server:?} of the application");
        let mount = self.tools.mount(server, origin.clone())?;
        self.spawn(mount, origin, Launch::Service(SharedService::new(service)), None);
        Ok(())
    }

    fn spawn(&self, mount: Mount, origin: String, launch: Launch, catalogue: Option<Catalogue>) {
        let McpOptions { connect_within, call_waits, .. } = self.options;
        let link = Arc::new(Link::new(mount.server(), launch.secrets(), launch.trusts_annotations(), call_waits));
        let life = Life { link: Arc::clone(&link), mount, launch, catalogue, connect_within, call_waits };
        life.mount_catalogue();
        let mut inner = self.lock();
        inner.links.insert(link.server().to_owned(), (link, origin));
        inner.lives.spawn(life.live(self.stop.clone()));
    }

    /// Waits until each server is connected or has failed its first attempt, for at most `within`, and returns
    /// [`McpServers::status`].
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

    /// Returns the state of each server, sorted by name.
    pub fn status(&self) -> Vec<ServerStatus> {
        let inner = self.lock();
        let status = inner.links.iter().map(|(name, (link, origin))| ServerStatus {
            name: name.clone(),
            origin: origin.clone(),
            state: link.state().into(),
        });
        let mut all: Vec<_> = status.chain(inner.invalid.iter().map(|invalid| invalid.status.clone())).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// Closes all servers and removes their tools. Their processes get up to 4 s to end by themselves. Open calls end
    /// with `OUTCOME_UNKNOWN`. Servers that are added later are closed at once.
    pub async fn close(&self) {
        self.stop.cancel();
        let mut lives = {
            let mut inner = self.lock();
            inner.invalid.clear();
            std::mem::take(&mut inner.lives)
        };
        while lives.join_next().await.is_some() {}
    }
}

impl From<State> for ServerState {
    fn from(state: State) -> Self {
        match state {
            State::Starting { after, since } => {
                Self::Starting { after: after.map(|why| why.to_string()), since: since.elapsed() }
            }
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
            Self::Starting { after: None, since } => write!(f, "still starting, since {} s", since.as_secs()),
            Self::Starting { after: Some(why), since } => {
                write!(f, "starting again, since {} s, because {why}", since.as_secs())
            }
            Self::Connected { tools, left_out } if left_out.is_empty() => write!(f, "connected, {tools} tools"),
            Self::Connected { tools, left_out } => {
                write!(f, "connected, {tools} tools; left out: {}", left_out.join("; "))
            }
            Self::Failed { reason, again_in } => {
                write!(f, "not available: {reason}; started again in {} s", again_in.as_secs() + 1)
            }
            Self::Invalid { reason } => write!(f, "not started: {reason}"),
            Self::GivenUp { reason } => write!(f, "given up: {reason}"),
            Self::Closed => f.write_str("closed"),
        }
    }
}
