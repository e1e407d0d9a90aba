//! Settings: flags, then environment, then a TOML file, then defaults.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use figment::Figment;
use figment::providers::{Format, Serialized, Toml};
use relay_proto::{LimitOverrides, Limits};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::auth::{AuthConfig, KeySource, RemoteKeySource};
use crate::sandbox::pool::PoolConfig;
use crate::sandbox::spawn::Backend;
use crate::tls::CertificateFiles;

/// The environment variable with the shared secret. It has no flag: command lines can be read by everybody.
pub const SECRET_VARIABLE: &str = "RELAY_JWT_SECRET";

/// Where the keys come from, as flags and environment variables.
#[derive(Debug, Clone, Default, Args, Serialize)]
pub struct KeyArgs {
    /// A TOML file with settings, named as the flags are, with underscores
    #[arg(long, env = "RELAY_CONFIG", value_name = "FILE")]
    #[serde(skip)]
    pub config: Option<PathBuf>,
    /// A file with the shared secret for HS256, at least 32 bytes; or set RELAY_JWT_SECRET
    #[arg(long, env = "RELAY_JWT_SECRET_FILE", value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwt_secret_file: Option<PathBuf>,
    /// A PEM file with the public key for RS256, ES256 or EdDSA
    #[arg(long, env = "RELAY_JWT_PUBLIC_KEY_FILE", value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwt_public_key_file: Option<PathBuf>,
    /// A file with a JSON Web Key Set
    #[arg(long, env = "RELAY_JWKS_FILE", value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwks_file: Option<PathBuf>,
    /// An https:// address with a JSON Web Key Set; it is fetched again now and then
    #[arg(long, env = "RELAY_JWKS_URL", value_name = "URL")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwks_url: Option<String>,
    /// A PEM file with the authorities that the server of that address is trusted by [default: those of the web]
    #[arg(long, env = "RELAY_JWKS_CA_FILE", value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwks_ca_file: Option<PathBuf>,
    /// The audience that a token has to name [default: sandbox-relay]
    #[arg(long, env = "RELAY_JWT_AUDIENCE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwt_audience: Option<String>,
    /// The issuer that a token has to name [default: sandbox-relay]
    #[arg(long, env = "RELAY_JWT_ISSUER")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwt_issuer: Option<String>,
}

/// How workers are made, as flags and environment variables.
#[derive(Debug, Clone, Default, Args, Serialize)]
pub struct WorkerArgs {
    /// How workers are made: `fork` a warm process, or `exec` one per execution [default: fork]
    #[arg(long, env = "RELAY_WORKER_BACKEND")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_backend: Option<Backend>,
    /// How many workers are made ahead [default: 8]
    #[arg(long, env = "RELAY_WORKER_STOCK")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_stock: Option<usize>,
    /// How many workers one forking process makes before it is replaced [default: 5000]
    #[arg(long, env = "RELAY_WORKER_FORKS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_forks: Option<u32>,
}

/// The flags and environment variables of `serve`.
#[derive(Debug, Clone, Default, Args, Serialize)]
pub struct ServeArgs {
    #[command(flatten)]
    #[serde(flatten)]
    pub keys: KeyArgs,
    #[command(flatten)]
    #[serde(flatten)]
    pub workers: WorkerArgs,
    /// The address to listen on; port 0 picks a free one [default: 127.0.0.1:8080]
    #[arg(long, env = "RELAY_LISTEN")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen: Option<SocketAddr>,
    /// Make up a secret, listen on loopback only, and print a token and a command to try
    #[arg(long)]
    #[serde(skip)]
    pub dev: bool,
    /// Stop when standard input is closed: for a relay that an application starts and that must not outlive it
    #[arg(long)]
    #[serde(skip)]
    pub exit_with_stdin: bool,
    /// A PEM file with a certificate: the relay then speaks TLS (wss://); it is read again when it changes
    #[arg(long, env = "RELAY_TLS_CERT_FILE", value_name = "FILE", requires = "tls_key_file")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_cert_file: Option<PathBuf>,
    /// A PEM file with the certificate's private key
    #[arg(long, env = "RELAY_TLS_KEY_FILE", value_name = "FILE", requires = "tls_cert_file")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_key_file: Option<PathBuf>,
    /// Take each token for one connection only: it has to have a `jti` [default: false]
    #[arg(long, env = "RELAY_ONE_TIME_TOKENS", num_args = 0..=1, default_missing_value = "true")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub one_time_tokens: Option<bool>,
    /// A web origin that may connect; may be repeated; without one, requests of browsers are refused
    #[arg(long = "allow-origin", env = "RELAY_ALLOW_ORIGIN", value_name = "ORIGIN", value_delimiter = ',')]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_origin: Vec<String>,
    /// Let V8 compile to machine code for tokens that allow it: faster, and a larger surface [default: false]
    #[arg(long, env = "RELAY_JIT", num_args = 0..=1, default_missing_value = "true")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jit: Option<bool>,
    /// How many threads serve connections [default: the number of cores]
    #[arg(long, env = "RELAY_THREADS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
    /// How many connections there may be at once [default: 1024]
    #[arg(long, env = "RELAY_CONNECTIONS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<usize>,
    /// How many connections of one address there may be at once [default: 256]
    #[arg(long, env = "RELAY_ADDRESS_CONNECTIONS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address_connections: Option<usize>,
    /// How many connections of one subject there may be at once [default: 64]
    #[arg(long, env = "RELAY_SUBJECT_CONNECTIONS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject_connections: Option<usize>,
    /// How many executions run at once [default: what the memory holds at 96 MiB each]
    #[arg(long, env = "RELAY_EXECUTIONS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executions: Option<usize>,
    /// How many executions of one session run at once [default: 8]
    #[arg(long, env = "RELAY_SESSION_EXECUTIONS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_executions: Option<usize>,
    /// How many executions of one subject run at once [default: 32]
    #[arg(long, env = "RELAY_SUBJECT_EXECUTIONS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject_executions: Option<usize>,
    /// How many executions of one subject burn CPU at once while those of others run [default: one less than the cores]
    #[arg(long, env = "RELAY_SUBJECT_CPUS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject_cpus: Option<usize>,
    /// How many executions of one subject may wait for their turn [default: 256]
    #[arg(long, env = "RELAY_SUBJECT_QUEUE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject_queue: Option<usize>,
    /// How many executions may wait for their turn in all [default: 1024]
    #[arg(long, env = "RELAY_QUEUE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<usize>,
    /// How long a client may take for its request's headers, in ms [default: 10000]
    #[arg(long, env = "RELAY_HANDSHAKE_MS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handshake_ms: Option<u64>,
    /// How often a peer is pinged, in ms; one that is silent for three times as long is closed [default: 15000]
    #[arg(long, env = "RELAY_HEARTBEAT_MS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heartbeat_ms: Option<u64>,
    /// After how long without a message and without an execution a connection is closed, in ms; 0 is never [default:
    /// 3600000]
    #[arg(long, env = "RELAY_IDLE_MS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_ms: Option<u64>,
    /// How long executions may go on after SIGTERM, in ms [default: 8000]
    #[arg(long, env = "RELAY_DRAIN_MS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain_ms: Option<u64>,
}

/// The settings of `serve`, each with a value.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    jwt_secret_file: Option<PathBuf>,
    jwt_public_key_file: Option<PathBuf>,
    jwks_file: Option<PathBuf>,
    jwks_url: Option<String>,
    jwks_ca_file: Option<PathBuf>,
    jwt_audience: String,
    jwt_issuer: String,
    one_time_tokens: bool,
    tls_cert_file: Option<PathBuf>,
    tls_key_file: Option<PathBuf>,
    /// The web origins that may connect.
    pub allow_origin: Vec<String>,
    /// Whether tokens may allow that code is compiled to machine code.
    pub jit: bool,
    worker_backend: Backend,
    worker_stock: usize,
    worker_forks: u32,
    /// The address to listen on.
    pub listen: SocketAddr,
    /// Threads that serve connections; 0 is one for each core.
    pub threads: usize,
    /// Connections at once.
    pub connections: usize,
    /// Connections of one address at once.
    pub address_connections: usize,
    /// Connections of one subject at once.
    pub subject_connections: usize,
    /// Executions at once; 0 is what the memory holds.
    pub executions: usize,
    /// Executions of one session at once.
    pub session_executions: usize,
    /// Executions of one subject at once.
    pub subject_executions: usize,
    /// Executions of one subject that burn CPU at once while others run; 0 is one less than the cores.
    pub subject_cpus: usize,
    /// Executions of one subject that may wait.
    pub subject_queue: usize,
    /// Executions that may wait in all.
    pub queue: usize,
    handshake_ms: u64,
    heartbeat_ms: u64,
    idle_ms: u64,
    drain_ms: u64,
    /// Defaults of limits, by name.
    limits: BTreeMap<String, u64>,
    /// Maxima of limits, by name.
    max_limits: BTreeMap<String, u64>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            jwt_secret_file: None,
            jwt_public_key_file: None,
            jwks_file: None,
            jwks_url: None,
            jwks_ca_file: None,
            jwt_audience: "sandbox-relay".into(),
            jwt_issuer: "sandbox-relay".into(),
            one_time_tokens: false,
            tls_cert_file: None,
            tls_key_file: None,
            allow_origin: Vec::new(),
            jit: false,
            worker_backend: Backend::default(),
            worker_stock: 8,
            worker_forks: 5_000,
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            threads: 0,
            connections: 1_024,
            address_connections: 256,
            subject_connections: 64,
            executions: 0,
            session_executions: 8,
            subject_executions: 32,
            subject_cpus: 0,
            subject_queue: 256,
            queue: 1_024,
            handshake_ms: 10_000,
            heartbeat_ms: 15_000,
            idle_ms: 3_600_000,
            drain_ms: 8_000,
            limits: BTreeMap::new(),
            max_limits: BTreeMap::new(),
        }
    }
}

/// The settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file or variable has an unknown name or a value of the wrong kind.
    #[error("the settings cannot be read: {0}")]
    Unreadable(#[from] Box<figment::Error>),
    /// A limit is named that there is not.
    #[error("the settings name a limit: {0}")]
    Limit(#[from] relay_proto::limit::UnknownLimit),
    /// No key, or more than one.
    #[error("{0}")]
    Keys(&'static str),
    /// A certificate without its key, or a key without its certificate.
    #[error("tls_cert_file and tls_key_file are set together or not at all")]
    Certificate,
    /// A file with a key cannot be read.
    #[error("the key file {path} cannot be read: {error}")]
    KeyFile {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
}

impl Settings {
    /// Reads the TOML file, if one is named, and puts `args` (flags and environment) over it.
    ///
    /// # Errors
    /// The file is missing or has a name or value that is not understood.
    pub fn load(config: Option<&PathBuf>, args: impl Serialize) -> Result<Self, ConfigError> {
        let mut figment = Figment::from(Serialized::defaults(Self::default()));
        if let Some(file) = config {
            figment = figment.merge(Toml::file_exact(file));
        }
        figment.merge(Serialized::defaults(args)).extract().map_err(|error| Box::new(error).into())
    }

    /// The keys and what else a token has to fit.
    ///
    /// # Errors
    /// There is no key or more than one, or its file cannot be read.
    pub fn auth(&self) -> Result<AuthConfig, ConfigError> {
        let read = |path: &PathBuf| {
            std::fs::read(path).map(Zeroizing::new).map_err(|error| ConfigError::KeyFile { path: path.clone(), error })
        };
        let mut sources = Vec::new();
        if let Some(secret) = std::env::var_os(SECRET_VARIABLE).map(OsString::into_vec) {
            sources.push(KeySource::Secret(Zeroizing::new(secret)));
        }
        if let Some(path) = &self.jwt_secret_file {
            let mut secret = read(path)?;
            if secret.ends_with(b"\n") {
                secret.pop();
            }
            sources.push(KeySource::Secret(secret));
        }
        if let Some(path) = &self.jwt_public_key_file {
            sources.push(KeySource::PublicKey(read(path)?));
        }
        if let Some(path) = &self.jwks_file {
            sources.push(KeySource::Jwks(read(path)?));
        }
        if let Some(url) = &self.jwks_url {
            let authorities = self.jwks_ca_file.as_ref().map(|path| read(path).map(|pem| pem.to_vec())).transpose()?;
            sources.push(KeySource::Remote(RemoteKeySource { url: url.clone(), authorities }));
        }
        let mut sources = sources.into_iter();
        match (sources.next(), sources.next()) {
            (Some(key), None) => Ok(self.auth_with(key)),
            (None, _) => Err(ConfigError::Keys(
                "there is no key to check tokens with: set RELAY_JWT_SECRET (at least 32 bytes), RELAY_JWT_SECRET_FILE, \
                 RELAY_JWT_PUBLIC_KEY_FILE, RELAY_JWKS_FILE or RELAY_JWKS_URL; or use `serve --dev` to try it out",
            )),
            (Some(_), Some(_)) => {
                Err(ConfigError::Keys("there is more than one key to check tokens with: set only one"))
            }
        }
    }

    /// The same with a key that is at hand.
    pub fn auth_with(&self, key: KeySource) -> AuthConfig {
        let (audience, issuer) = (self.jwt_audience.clone(), self.jwt_issuer.clone());
        AuthConfig { key, audience, issuer, one_time: self.one_time_tokens }
    }

    /// The certificate to show, if the relay is to speak TLS.
    ///
    /// # Errors
    /// One file is named without the other.
    pub(crate) fn certificate(&self) -> Result<Option<CertificateFiles>, ConfigError> {
        match (self.tls_cert_file.clone(), self.tls_key_file.clone()) {
            (None, None) => Ok(None),
            (Some(certificate), Some(key)) => Ok(Some(CertificateFiles { certificate, key })),
            _ => Err(ConfigError::Certificate),
        }
    }

    /// The limits' defaults and maxima.
    ///
    /// # Errors
    /// A limit is named that there is not.
    pub fn limits(&self) -> Result<LimitSettings, ConfigError> {
        let (maxima, _) = Limits::maxima().replaced(&LimitOverrides::try_from(&self.max_limits)?, &Limits::maxima());
        let (defaults, _) = Limits::defaults().replaced(&LimitOverrides::try_from(&self.limits)?, &maxima);
        Ok(LimitSettings { defaults: defaults.capped(&maxima), maxima })
    }

    /// How workers are made.
    ///
    /// # Errors
    /// A limit is named that there is not.
    pub fn pool(&self) -> Result<PoolConfig, ConfigError> {
        Ok(PoolConfig {
            backend: self.worker_backend,
            stock: self.worker_stock,
            forks_per_process: self.worker_forks,
            maxima: self.limits()?.maxima,
            jit: false,
        })
    }

    /// After how long without anything a connection is closed.
    pub fn idle(&self) -> Option<Duration> {
        (self.idle_ms > 0).then(|| Duration::from_millis(self.idle_ms))
    }

    /// How long a client may take for its headers.
    pub fn handshake_timeout(&self) -> Duration {
        Duration::from_millis(self.handshake_ms)
    }

    /// How often a peer is pinged.
    pub fn heartbeat(&self) -> Duration {
        Duration::from_millis(self.heartbeat_ms.max(1))
    }

    /// How long executions may go on after SIGTERM.
    pub fn drain_timeout(&self) -> Duration {
        Duration::from_millis(self.drain_ms)
    }
}

/// What an execution has unless its token says otherwise, and the most that a token can grant.
#[derive(Debug, Clone, Copy)]
pub struct LimitSettings {
    /// Without a token's word.
    pub defaults: Limits,
    /// With it.
    pub maxima: Limits,
}
