//! A relay of one's own, for development and tests: a child process, or a container, with a secret made up for it.

#[cfg(feature = "container")]
mod container;
mod process;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
mod token;

use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use relay_proto::{LimitName, LimitOverrides};

use crate::client::ClientConfig;
use crate::error::Error;
use process::Process;
use token::Grants;

pub use process::{BINARY_VARIABLE, find_binary};
pub use token::TokenRequest;

/// The environment variable of the relay that holds its secret.
const SECRET_VARIABLE: &str = "RELAY_JWT_SECRET";

/// The time for which a client tries to resume its session with a relay on this machine.
const RESUME_WITHIN: Duration = Duration::from_secs(1);

/// A relay on loopback that lives as long as this value; it also ends when this process does.
///
/// ```no_run
/// use std::time::Duration;
/// use host_client_core::local::TokenRequest;
/// use host_client_core::{Client, ClientConfig, ExecuteRequest, LimitName, LocalRelay, Tools};
///
/// # async fn example() -> Result<(), host_client_core::Error> {
/// // The relay of the same build, with limits of its own.
/// let relay = LocalRelay::builder().limit(LimitName::WallMs, 5_000).start().await?;
/// let client = Client::connect(relay.client_config().await?, Tools::new()).await?;
/// assert_eq!(client.run(ExecuteRequest::new("return 6 * 7")).await?.value()?, 42);
///
/// // A client that may call some tools, for a while.
/// let request = TokenRequest::new("guest").ttl(Duration::from_secs(60)).tools(["github.*"]);
/// let config = ClientConfig::new(relay.url(), relay.token_for(&request).await?);
/// let guest = Client::connect(config, Tools::new()).await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct LocalRelay {
    running: Running,
    address: String,
    grants: Grants,
}

/// The process or container that a relay runs in.
#[derive(Debug)]
enum Running {
    Process(Process),
    #[cfg(feature = "container")]
    Container(container::Container),
}

/// The place where a relay is to be started.
#[derive(Debug, Clone, Default)]
enum Place {
    /// In a process of the program that [`find_binary`] finds.
    #[default]
    Found,
    /// In a process of this program.
    Binary(PathBuf),
    /// In a container of this image.
    #[cfg(feature = "container")]
    Image(String),
}

/// The arguments and environment variables that a relay is started with, its secret among them.
#[derive(Debug)]
struct Launch {
    arguments: Vec<String>,
    variables: Vec<(String, String)>,
}

/// A relay that is not started yet; made by [`LocalRelay::builder`].
///
/// ```no_run
/// use host_client_core::{LimitName, LocalRelay};
///
/// # async fn example() -> Result<(), host_client_core::Error> {
/// let relay = LocalRelay::builder()
///     .limit(LimitName::ToolCalls, 50)
///     .max_limit(LimitName::MemoryBytes, 512 << 20)
///     .env("RELAY_LOG", "info")
///     .argument("--worker-stock=2")
///     .start()
///     .await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "the relay is started by `start`"]
pub struct LocalRelayBuilder {
    place: Place,
    arguments: Vec<String>,
    variables: Vec<(String, String)>,
    grants: Grants,
}

impl LocalRelay {
    /// Creates a builder of a relay. Without options, its relay is that of [`LocalRelay::start`].
    pub fn builder() -> LocalRelayBuilder {
        LocalRelayBuilder::default()
    }

    /// Creates a builder of a relay in a container of an image, such as `sandbox-relay:local`; see
    /// [`LocalRelayBuilder::in_container`].
    #[cfg(feature = "container")]
    pub fn in_container(image: impl Into<String>) -> LocalRelayBuilder {
        Self::builder().in_container(image)
    }

    /// Starts the `sandbox-relay` of the same build: the one that [`BINARY_VARIABLE`] names, else the one beside this
    /// program, else the one on the `PATH`.
    ///
    /// # Errors
    /// [`Error::Local`]: there is no such program, or it does not start.
    pub async fn start() -> Result<Self, Error> {
        Self::builder().start().await
    }

    /// Starts a certain program with further arguments and environment variables of `serve`.
    ///
    /// # Errors
    /// [`Error::Local`]: there is no such program, or it does not start.
    pub async fn start_with(binary: PathBuf, arguments: &[&str], variables: &[(&str, &str)]) -> Result<Self, Error> {
        let builder = arguments.iter().fold(Self::builder().binary(binary), |builder, it| builder.argument(*it));
        variables.iter().fold(builder, |builder, (name, value)| builder.env(*name, *value)).start().await
    }

    /// Returns the relay's address and port, such as `127.0.0.1:8080`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the address that a client connects to, such as `ws://127.0.0.1:8080/ws`.
    pub fn url(&self) -> String {
        format!("ws://{}/ws", self.address)
    }

    /// Returns the relay's process id; `None`: it has ended, or runs in a container.
    pub fn process_id(&self) -> Option<u32> {
        match &self.running {
            Running::Process(process) => process.id(),
            #[cfg(feature = "container")]
            Running::Container(_) => None,
        }
    }

    /// Returns the id of the relay's container; `None`: it runs in a process.
    #[cfg(feature = "container")]
    pub fn container_id(&self) -> Option<&str> {
        match &self.running {
            Running::Process(_) => None,
            Running::Container(container) => Some(container.id()),
        }
    }

    /// Returns whether the relay has not ended yet.
    pub fn is_running(&mut self) -> bool {
        match &mut self.running {
            Running::Process(process) => process.is_running(),
            #[cfg(feature = "container")]
            Running::Container(container) => container.is_running(),
        }
    }

    /// Makes a token with the arguments of `sandbox-relay token`, such as `["--subject", "me"]`, and with nothing else: the
    /// builder's limits do not hold for it.
    ///
    /// # Errors
    /// [`Error::Local`]: no token could be made, such as because the arguments are wrong.
    pub async fn token(&self, arguments: &[&str]) -> Result<String, Error> {
        match &self.running {
            Running::Process(process) => process.token(arguments).await,
            #[cfg(feature = "container")]
            Running::Container(container) => container.token(arguments).await,
        }
    }

    /// Makes a token with typed options. The limits of the builder hold for it.
    ///
    /// # Errors
    /// [`Error::Local`]: no token could be made.
    pub async fn token_for(&self, request: &TokenRequest) -> Result<String, Error> {
        let arguments = request.arguments(&self.grants);
        self.token(&arguments.iter().map(String::as_str).collect::<Vec<_>>()).await
    }

    /// Returns what a client needs to connect: the address, and a token for the subject `local` with all that the builder
    /// allows. A session is resumed within one second: a relay on this machine that does not answer has ended.
    ///
    /// # Errors
    /// [`Error::Local`]: no token could be made.
    pub async fn client_config(&self) -> Result<ClientConfig, Error> {
        let request = TokenRequest::new("local").jit(self.grants.jit);
        let resume = Some(RESUME_WITHIN);
        Ok(ClientConfig { resume, ..ClientConfig::new(self.url(), self.token_for(&request).await?) })
    }

    /// Kills the relay at once.
    ///
    /// # Errors
    /// [`std::io::Error`]: the system, or the container engine, refuses.
    pub async fn kill(&mut self) -> std::io::Result<()> {
        match &mut self.running {
            Running::Process(process) => process.kill().await,
            #[cfg(feature = "container")]
            Running::Container(container) => container.kill().await,
        }
    }

    /// Waits until the relay has ended by itself.
    ///
    /// # Errors
    /// [`std::io::Error`]: the system refuses, or the container engine does not say how the container ended.
    pub async fn wait(&mut self) -> std::io::Result<ExitStatus> {
        match &mut self.running {
            Running::Process(process) => process.wait().await,
            #[cfg(feature = "container")]
            Running::Container(container) => container.wait().await,
        }
    }
}

impl LocalRelayBuilder {
    /// Sets the program. Without, it is the one that [`LocalRelay::start`] finds.
    pub fn binary(mut self, path: impl Into<PathBuf>) -> Self {
        self.place = Place::Binary(path.into());
        self
    }

    /// Runs the relay in a container of this image, such as `sandbox-relay:local`, which has to be there: images are not pulled.
    ///
    /// It is hardened as the documentation advises: a read-only file system, no capabilities, no new privileges, 1 GiB of
    /// memory, 256 processes; its port is published on 127.0.0.1 of the engine's machine. The engine is the one that
    /// `DOCKER_HOST` names, else that of `/var/run/docker.sock`. The container is gone with the value, also after a panic, and
    /// when this process is killed.
    ///
    /// ```no_run
    /// use host_client_core::{Client, ExecuteRequest, LocalRelay, Tools};
    ///
    /// # async fn example() -> Result<(), host_client_core::Error> {
    /// let relay = LocalRelay::in_container("sandbox-relay:local").start().await?;
    /// let client = Client::connect(relay.client_config().await?, Tools::new()).await?;
    /// assert_eq!(client.run(ExecuteRequest::new("return 6 * 7")).await?.value()?, 42);
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "container")]
    pub fn in_container(mut self, image: impl Into<String>) -> Self {
        self.place = Place::Image(image.into());
        self
    }

    /// Sets the default of a limit, in the unit of its name: the tokens of [`LocalRelay::token_for`] and
    /// [`LocalRelay::client_config`] have it unless they ask for another value.
    pub fn limit(mut self, name: LimitName, value: u64) -> Self {
        self.grants.limits.set(name, value);
        self
    }

    /// Sets the maximum of a limit, in the unit of its name: no token of [`LocalRelay::token_for`] and
    /// [`LocalRelay::client_config`] has more.
    pub fn max_limit(mut self, name: LimitName, value: u64) -> Self {
        self.grants.max_limits.set(name, value);
        self
    }

    /// Sets whether V8 may compile to machine code for tokens that allow it, as that of [`LocalRelay::client_config`] then does;
    /// the default is `false`.
    pub fn jit(mut self, allowed: bool) -> Self {
        self.grants.jit = allowed;
        self
    }

    /// Adds an environment variable of the relay, such as `RELAY_LOG`.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// Adds an argument of `sandbox-relay serve`, such as `--worker-stock=2`.
    pub fn argument(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Starts the relay, and waits until it listens, for at most 30 s.
    ///
    /// # Errors
    /// [`Error::Local`]: there is no such program or image, no container engine answers, or the relay does not start.
    pub async fn start(self) -> Result<LocalRelay, Error> {
        let Self { place, arguments, mut variables, grants } = self;
        if !variables.iter().any(|(name, _)| name == SECRET_VARIABLE) {
            let secret = process::secret().map_err(|error| Error::Local(error.to_string()))?;
            variables.push((SECRET_VARIABLE.to_owned(), secret));
        }
        let has = |name| variables.iter().any(|(variable, _)| variable == name) || std::env::var_os(name).is_some();
        if !has("RELAY_LOG") {
            variables.push(("RELAY_LOG".to_owned(), "warn".to_owned()));
        }
        let jit = grants.jit.then(|| "--jit".to_owned());
        let launch = Launch { arguments: jit.into_iter().chain(arguments).collect(), variables };
        let (running, address) = match place {
            Place::Found => Process::start(find_binary(), launch).await.map(|(it, at)| (Running::Process(it), at)),
            Place::Binary(path) => Process::start(path, launch).await.map(|(it, at)| (Running::Process(it), at)),
            #[cfg(feature = "container")]
            Place::Image(image) => {
                container::Container::start(image, launch).await.map(|(it, at)| (Running::Container(it), at))
            }
        }
        .map_err(Error::Local)?;
        Ok(LocalRelay { running, address, grants })
    }
}
