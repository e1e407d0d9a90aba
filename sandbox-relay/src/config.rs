//! Settings of `serve`, each written once: its name, type, default and text. Flags come first, then environment
//! variables, then the TOML file, then defaults.
//!
//! The name of a field gives the flag (`idle_ms`: `--idle-ms`), the variable (`RELAY_IDLE_MS`) and the name in the
//! file. Its comment is the text of `--help` and of `docs/settings.md`.

mod keys;
mod layers;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};
use relay_proto::session::DEFAULT_HEARTBEAT;
use relay_proto::time::millis;
use relay_proto::{LimitOverrides, Limits};
use serde::{Deserialize, Serialize};

use crate::auth::AuthConfig;
use crate::sandbox::pool::PoolConfig;
use crate::sandbox::spawn::Backend;
use crate::tls::CertificateFiles;
pub use keys::{KeySettings, SECRET_VARIABLE};
pub use layers::Given;
use layers::SettingsFile;

/// Default of the setting `listen`.
pub const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

/// Maximum of the setting `resume_window_ms`.
const MAX_RESUME_WINDOW: Duration = Duration::from_secs(3_600);

/// Flag that names the file with settings.
#[derive(Debug, Clone, Default, Args)]
pub struct ConfigArgs {
    /// TOML file with settings, named as the flags are, with underscores
    #[arg(long, env = "RELAY_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Flags of `serve`.
#[derive(Debug, Clone, Args)]
pub struct ServeArgs {
    /// File with settings.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Settings of the keys.
    #[command(flatten)]
    pub keys: Given<KeySettings>,
    /// Settings of the workers.
    #[command(flatten)]
    pub workers: Given<WorkerSettings>,
    /// Settings of the server.
    #[command(flatten)]
    pub server: Given<ServerSettings>,
    /// Form of the log on standard error: `text` for people, or one JSON object a line; RELAY_LOG sets its level
    #[arg(long, env = "RELAY_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
    /// Make up a secret, listen on loopback only, and print a token and a command to try
    #[arg(long)]
    pub dev: bool,
    /// Stop when standard input is closed: for a relay that must not outlive the application that starts it
    #[arg(long)]
    pub exit_with_stdin: bool,
}

/// Form of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines for people, in colours on a terminal.
    Text,
    /// One JSON object a line.
    Json,
}

/// Settings of the workers.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct WorkerSettings {
    /// How to make workers: `fork` a warm process, or `exec` a new one for each execution
    #[arg(long, env = "RELAY_WORKER_BACKEND", value_enum, default_value_t = Backend::Fork)]
    worker_backend: Backend,
    /// Number of workers that are made ahead
    #[arg(long, env = "RELAY_WORKER_STOCK", default_value_t = 8)]
    worker_stock: usize,
    /// Number of workers that one forking process makes before it is replaced
    #[arg(long, env = "RELAY_WORKER_FORKS", default_value_t = 5_000)]
    worker_forks: u32,
}

impl WorkerSettings {
    /// Returns the configuration of a pool whose V8 interprets. No execution can be granted more than `maxima`.
    pub fn pool(&self, maxima: Limits) -> PoolConfig {
        PoolConfig {
            backend: self.worker_backend,
            stock: self.worker_stock,
            forks_per_process: self.worker_forks,
            maxima,
            jit: false,
        }
    }
}

/// Settings of the server.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct ServerSettings {
    /// Address to listen on; port 0 picks a free one
    #[arg(long, env = "RELAY_LISTEN", value_name = "ADDRESS", default_value_t = DEFAULT_LISTEN)]
    pub(crate) listen: SocketAddr,
    /// Address that answers `GET /metrics` for Prometheus, without TLS and without a token; absent: there are no metrics
    #[arg(long, env = "RELAY_METRICS_LISTEN", value_name = "ADDRESS")]
    pub(crate) metrics_listen: Option<SocketAddr>,
    /// PEM file with a certificate: the relay then speaks TLS (wss://); it is read again when it changes
    #[arg(long, env = "RELAY_TLS_CERT_FILE", value_name = "FILE", requires = "tls_key_file")]
    tls_cert_file: Option<PathBuf>,
    /// PEM file with the certificate's private key
    #[arg(long, env = "RELAY_TLS_KEY_FILE", value_name = "FILE", requires = "tls_cert_file")]
    tls_key_file: Option<PathBuf>,
    /// Accept each token for one connection only: it has to have a `jti`
    #[arg(long, env = "RELAY_ONE_TIME_TOKENS", action = ArgAction::Set, num_args = 0..=1,
        default_missing_value = "true", default_value_t = false)]
    one_time_tokens: bool,
    /// Web origin that may connect; may be repeated; without one, requests of browsers are refused
    #[arg(long, env = "RELAY_ALLOW_ORIGIN", value_name = "ORIGIN", value_delimiter = ',')]
    pub(crate) allow_origin: Vec<String>,
    /// Let V8 compile to machine code for tokens that allow it: faster, and a larger attack surface
    #[arg(long, env = "RELAY_JIT", action = ArgAction::Set, num_args = 0..=1,
        default_missing_value = "true", default_value_t = false)]
    pub(crate) jit: bool,
    /// Number of threads that serve connections; 0 is the number of cores
    #[arg(long, env = "RELAY_THREADS", default_value_t = 0)]
    pub(crate) threads: usize,
    /// Maximum number of connections
    #[arg(long, env = "RELAY_CONNECTIONS", default_value_t = 1_024)]
    pub(crate) connections: usize,
    /// Maximum number of connections of one address
    #[arg(long, env = "RELAY_ADDRESS_CONNECTIONS", default_value_t = 256)]
    pub(crate) address_connections: usize,
    /// Maximum number of connections of one subject
    #[arg(long, env = "RELAY_SUBJECT_CONNECTIONS", default_value_t = 64)]
    pub(crate) subject_connections: usize,
    /// Maximum number of running executions; 0 is what the memory holds at 96 MiB each, and at most half of the tasks that
    /// the cgroup allows
    #[arg(long, env = "RELAY_EXECUTIONS", default_value_t = 0)]
    pub(crate) executions: usize,
    /// Maximum number of running executions of one session
    #[arg(long, env = "RELAY_SESSION_EXECUTIONS", default_value_t = 8)]
    pub(crate) session_executions: usize,
    /// Maximum number of running executions of one subject
    #[arg(long, env = "RELAY_SUBJECT_EXECUTIONS", default_value_t = 32)]
    pub(crate) subject_executions: usize,
    /// Memory that the workers of executions may hold that wait for a person's approval and have given their places
    /// back, in MiB, of which one subject may have half; 0 is a quarter of the memory
    #[arg(long, env = "RELAY_APPROVAL_MEMORY", default_value_t = 0)]
    pub(crate) approval_memory: u64,
    /// Number of executions of one subject that use a processor while others want it; 0 is the number of cores less one
    #[arg(long, env = "RELAY_SUBJECT_CPUS", default_value_t = 0)]
    pub(crate) subject_cpus: usize,
    /// Maximum number of queued executions of one subject
    #[arg(long, env = "RELAY_SUBJECT_QUEUE", default_value_t = 256)]
    pub(crate) subject_queue: usize,
    /// Maximum number of queued executions
    #[arg(long, env = "RELAY_QUEUE", default_value_t = 1_024)]
    pub(crate) queue: usize,
    /// Maximum time for a client's TLS handshake, and again for its request's headers, in ms
    #[arg(long, env = "RELAY_HANDSHAKE_MS", default_value_t = 10_000)]
    handshake_ms: u64,
    /// Interval between two pings of a peer, in ms; one that is silent for three times as long is closed
    #[arg(long, env = "RELAY_HEARTBEAT_MS", default_value_t = millis(DEFAULT_HEARTBEAT))]
    heartbeat_ms: u64,
    /// Time without a message and without an execution after which a connection is closed, in ms; 0 is never
    #[arg(long, env = "RELAY_IDLE_MS", default_value_t = 3_600_000)]
    idle_ms: u64,
    /// Time for which a session is kept whose connection was lost, in ms; 0 ends it with its connection
    #[arg(long, env = "RELAY_RESUME_WINDOW_MS", default_value_t = 60_000)]
    resume_window_ms: u64,
    /// Maximum time for running executions after SIGTERM, in ms
    #[arg(long, env = "RELAY_DRAIN_MS", default_value_t = 8_000)]
    drain_ms: u64,
}

/// All settings, each with its value.
#[derive(Debug, Clone, Serialize)]
pub struct Settings {
    /// Keys that tokens are verified with.
    #[serde(flatten)]
    pub keys: KeySettings,
    /// Workers.
    #[serde(flatten)]
    pub workers: WorkerSettings,
    /// The server.
    #[serde(flatten)]
    pub server: ServerSettings,
    /// Defaults of limits by name, from the file's table `limits`.
    limits: BTreeMap<String, u64>,
    /// Maxima of limits by name, from the file's table `max_limits`.
    max_limits: BTreeMap<String, u64>,
}

/// Reports settings that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file is missing or no TOML, or a value has the wrong type.
    #[error("the settings cannot be read: {0}")]
    Unreadable(#[from] Box<figment::Error>),
    /// The file has a name that is no setting.
    #[error("the file {path} has an unknown setting {name:?}{suggestion}")]
    Unknown {
        /// File with settings.
        path: PathBuf,
        /// Unknown name.
        name: String,
        /// Words that suggest a similar name; may be empty.
        suggestion: String,
    },
    /// A limit has an unknown name.
    #[error("the settings name a limit: {0}")]
    Limit(#[from] relay_proto::limit::UnknownLimit),
    /// There is no key, or more than one.
    #[error("{0}")]
    Keys(&'static str),
    /// A certificate is set without its key, or a key without its certificate.
    #[error("tls_cert_file and tls_key_file are set together or not at all")]
    Certificate,
    /// A file with a key cannot be read.
    #[error("the key file {path} cannot be read: {error}")]
    KeyFile {
        /// File with the key.
        path: PathBuf,
        /// Error of the system.
        error: std::io::Error,
    },
}

impl KeySettings {
    /// Reads the file, if one is named, and puts flags and environment over it.
    ///
    /// # Errors
    /// [`ConfigError::Unreadable`], [`ConfigError::Unknown`].
    pub fn load(config: &ConfigArgs, given: &Given<Self>) -> Result<Self, ConfigError> {
        given.over(&SettingsFile::read(config.config.as_deref())?)
    }
}

impl Settings {
    /// Reads the file, if one is named, and puts flags and environment over it.
    ///
    /// # Errors
    /// [`ConfigError::Unreadable`], [`ConfigError::Unknown`].
    pub fn load(args: &ServeArgs) -> Result<Self, ConfigError> {
        let file = SettingsFile::read(args.config.config.as_deref())?;
        Ok(Self {
            keys: args.keys.over(&file)?,
            workers: args.workers.over(&file)?,
            server: args.server.over(&file)?,
            limits: file.table("limits")?,
            max_limits: file.table("max_limits")?,
        })
    }

    /// Returns what tokens are verified with.
    ///
    /// # Errors
    /// - [`ConfigError::Keys`]: there is no key, or more than one
    /// - [`ConfigError::KeyFile`]: the file with the key cannot be read
    pub fn auth(&self) -> Result<AuthConfig, ConfigError> {
        Ok(self.one_time(self.keys.auth()?))
    }

    /// Sets whether tokens are good for one connection only.
    pub(crate) fn one_time(&self, auth: AuthConfig) -> AuthConfig {
        AuthConfig { one_time: self.server.one_time_tokens, ..auth }
    }

    /// Returns the limits' defaults and maxima.
    ///
    /// # Errors
    /// [`ConfigError::Limit`]: a name is no limit.
    pub fn limits(&self) -> Result<LimitSettings, ConfigError> {
        let (maxima, _) = Limits::maxima().replaced(&LimitOverrides::try_from(&self.max_limits)?, &Limits::maxima());
        let (defaults, _) = Limits::defaults().replaced(&LimitOverrides::try_from(&self.limits)?, &maxima);
        Ok(LimitSettings { defaults: defaults.capped(&maxima), maxima })
    }
}

impl ServerSettings {
    /// Returns the files of the certificate to show; `None`: the relay speaks no TLS.
    ///
    /// # Errors
    /// [`ConfigError::Certificate`]: one file is named without the other.
    pub(crate) fn certificate(&self) -> Result<Option<CertificateFiles>, ConfigError> {
        match (self.tls_cert_file.clone(), self.tls_key_file.clone()) {
            (None, None) => Ok(None),
            (Some(certificate), Some(key)) => Ok(Some(CertificateFiles { certificate, key })),
            _ => Err(ConfigError::Certificate),
        }
    }

    /// Returns the time after which an idle connection is closed; `None`: never.
    pub(crate) fn idle(&self) -> Option<Duration> {
        (self.idle_ms > 0).then(|| Duration::from_millis(self.idle_ms))
    }

    /// Returns the maximum time for a TLS handshake, and for a request's headers.
    pub(crate) fn handshake_timeout(&self) -> Duration {
        Duration::from_millis(self.handshake_ms)
    }

    /// Returns the interval between two pings, at least 1 ms.
    pub(crate) fn heartbeat(&self) -> Duration {
        Duration::from_millis(self.heartbeat_ms.max(1))
    }

    /// Returns the time for which a session is kept whose connection was lost; zero: not at all. At most an hour.
    pub(crate) fn resume_window(&self) -> Duration {
        Duration::from_millis(self.resume_window_ms).min(MAX_RESUME_WINDOW)
    }

    /// Returns the maximum time for running executions after SIGTERM.
    pub(crate) fn drain_timeout(&self) -> Duration {
        Duration::from_millis(self.drain_ms)
    }
}

/// Defaults and maxima of the limits.
#[derive(Debug, Clone, Copy)]
pub struct LimitSettings {
    /// Limits of an execution unless its token or its request says otherwise.
    pub defaults: Limits,
    /// Limits that no token can exceed.
    pub maxima: Limits,
}
