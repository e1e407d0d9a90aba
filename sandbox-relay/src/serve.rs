//! `serve`: the life of the server, from its settings to the end of its drain.

use std::collections::HashSet;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{DumpableBehavior, Pid, PidfdFlags, Resource, Rlimit, WaitId, WaitIdOptions};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;
use zeroize::Zeroizing;

use crate::admission::{Admission, AdmissionConfig, Room};
use crate::auth::{self, KeyError, KeySource, TokenRequest, Verifier};
use crate::config::{ConfigError, ServeArgs, ServerSettings, Settings};
use crate::connection::ConnectionConfig;
use crate::engine::{Engine, Pools};
use crate::fairness::Fairness;
use crate::lifecycle::Lifecycle;
use crate::metrics;
use crate::sandbox::pool::{Pool, PoolConfig};
use crate::scrape;
use crate::server::{self, HttpConfig, Server};
use crate::session::{SessionConfig, SessionContext};
use crate::subject::Subjects;
use crate::tls::{Certificate, TlsError};

/// Lifetime of the token of `--dev`.
const DEV_TOKEN_TTL: Duration = Duration::from_secs(24 * 3600);
/// Number of descriptors that connections leave for the rest: two for each worker, and those of the runtime.
const RESERVED_DESCRIPTORS: usize = 256;
/// Maximum time for closing connections after the drain.
const CLOSE_WITHIN: Duration = Duration::from_secs(3);

/// Reports why the server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A setting cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The key cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The address is taken, not of this machine, or not allowed.
    #[error("{address} cannot be listened on: {error}")]
    Listen {
        /// Address of the setting `listen`.
        address: SocketAddr,
        /// Error of the system.
        error: std::io::Error,
    },
    /// `--dev` was given with an address that is not loopback.
    #[error("--dev listens on loopback only, not on {0}: its token is printed")]
    DevAddress(SocketAddr),
    /// The system refuses a thread, a descriptor or a signal handler.
    #[error(transparent)]
    System(#[from] std::io::Error),
}

/// Serves until SIGTERM or SIGINT (or the end of standard input, with `--exit-with-stdin`), then drains.
///
/// # Errors
/// - [`ServeError::Config`], [`ServeError::Key`], [`ServeError::Tls`]: a setting, a key or a certificate cannot be used
/// - [`ServeError::Listen`], [`ServeError::DevAddress`]: the address cannot be listened on, or not with `--dev`
/// - [`ServeError::System`]: the system refuses a thread, a descriptor or a signal handler
pub async fn serve(args: ServeArgs) -> Result<(), ServeError> {
    // This process holds keys: no process of the same user may look into its memory or its environment.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(std::io::Error::from)?;
    let settings = Settings::load(&args)?;
    let auth = if args.dev {
        if !settings.server.listen.ip().is_loopback() {
            return Err(ServeError::DevAddress(settings.server.listen));
        }
        settings.one_time(settings.keys.auth_with(KeySource::Secret(made_up_secret()?)))
    } else {
        settings.auth()?
    };
    let verifier = Arc::new(Verifier::new(&auth).await?);
    let certificate = settings.server.certificate()?.map(Certificate::read).transpose()?;
    let tls = certificate.as_ref().map(Certificate::server_config).transpose()?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let http = http_config(&settings.server, cores)?;
    // Before anything is counted.
    let kept = settings.server.metrics_listen.map(|address| metrics::keep().map(|kept| (address, kept)));
    let kept = kept.transpose().map_err(std::io::Error::other)?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let engine = Arc::new(engine(&settings, cores)?);
    let config = SessionConfig {
        limits: settings.limits()?,
        executions: settings.server.session_executions,
        resume_window: settings.server.resume_window(),
    };
    let server = Arc::new(Server {
        http,
        connection: ConnectionConfig {
            heartbeat: settings.server.heartbeat(),
            idle: settings.server.idle(),
            drain_timeout: settings.server.drain_timeout(),
        },
        sessions: SessionContext { config, engine: Arc::clone(&engine), verifier: Arc::clone(&verifier) },
        subjects: Subjects::new(settings.server.subject_connections.max(1)),
        lifecycle: Arc::new(Lifecycle::new()),
        resumables: Arc::default(),
        detached_bytes: Arc::new(Semaphore::new(server::DETACHED_BYTES)),
    });
    let bound = server::bind(settings.server.listen).await;
    let (listener, address) = bound.map_err(|error| ServeError::Listen { address: settings.server.listen, error })?;
    if args.dev {
        let request = TokenRequest { subject: "dev".into(), ttl: DEV_TOKEN_TTL, ..TokenRequest::default() };
        print_dev_help(address, tls.is_some(), &auth::make_token(&auth, request)?);
    }
    // The verifier has its keys; the secret itself is not needed any more.
    drop(auth);
    if let Some((address, kept)) = kept {
        let bound = server::bind(address).await;
        let (listener, address) = bound.map_err(|error| ServeError::Listen { address, error })?;
        tracing::info!(%address, "answering GET /metrics");
        tokio::spawn(scrape::serve(listener, Arc::clone(&server), kept));
    }
    announce(address)?;
    tracing::info!(%address, threads = server.http.threads, executions = engine.capacity(), "serving");
    if rustix::process::getpid() == Pid::INIT {
        tokio::spawn(reap_orphans(Arc::clone(&engine)));
    }
    if let Some(certificate) = certificate {
        tokio::spawn(certificate.keep_fresh());
    }
    tokio::spawn(async move { verifier.keep_fresh().await });
    let lifecycle = Arc::clone(&server.lifecycle);
    let accepting = tokio::spawn(server::accept(server, listener, tls));
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        () = stdin_closed(), if args.exit_with_stdin => {}
    }
    tracing::info!(executions = engine.load().0, "draining");
    engine.drain();
    lifecycle.drain(settings.server.drain_timeout(), CLOSE_WITHIN).await;
    let accepted = match accepting.await {
        Ok(result) => result.map_err(ServeError::from),
        Err(error) => Err(std::io::Error::other(error).into()),
    };
    tracing::info!("stopped");
    accepted
}

/// Starts what runs executions.
fn engine(settings: &Settings, cores: usize) -> Result<Engine, ServeError> {
    let server = &settings.server;
    let pool = settings.workers.pool(settings.limits()?.maxima);
    let room = Room::of_this_process();
    let threads = if server.threads == 0 { cores } else { server.threads };
    let ahead = pool.stock.saturating_mul(if server.jit { 2 } else { 1 });
    let places = room.places_or(server.executions, threads.saturating_add(ahead) as u64);
    tracing::info!(executions = places.executions, origin = %places.reason, cores, "places chosen");
    let admission = Admission::new(AdmissionConfig {
        running: places.executions,
        running_per_subject: server.subject_executions,
        running_per_session: server.session_executions,
        waiting: server.queue,
        waiting_per_subject: server.subject_queue,
        parked_bytes: match server.approval_memory {
            0 => room.parked_bytes(),
            mib => mib.saturating_mul(1 << 20),
        },
    });
    let pools = Pools {
        interpreter: Pool::start(pool)?,
        compiler: if server.jit { Some(Pool::start(PoolConfig { jit: true, ..pool })?) } else { None },
    };
    let subject_cpus = if server.subject_cpus == 0 { cores - 1 } else { server.subject_cpus };
    Ok(Engine::new(admission, pools, Fairness::start(subject_cpus)?))
}

/// Makes the listener's configuration. There are at most as many connections as descriptors are left for them.
fn http_config(settings: &ServerSettings, cores: usize) -> Result<HttpConfig, ServeError> {
    let descriptors = raise_descriptor_limit()?.saturating_sub(RESERVED_DESCRIPTORS);
    Ok(HttpConfig {
        threads: if settings.threads == 0 { cores } else { settings.threads },
        connections: settings.connections.min(descriptors).max(1),
        connections_of_address: settings.address_connections.max(1),
        allowed_origins: settings.allow_origin.clone(),
        handshake_timeout: settings.handshake_timeout(),
    })
}

/// Waits until the other end of standard input is closed.
async fn stdin_closed() {
    // The reading thread may live as long as the process; nobody waits for it.
    let (closed, wait) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        let _ = closed.send(());
    });
    let _ = wait.await;
}

/// Raises this process's limit of descriptors to its maximum, and returns it.
fn raise_descriptor_limit() -> std::io::Result<usize> {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    rustix::process::setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?;
    Ok(limit.maximum.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX))
}

/// Prints the one line that is ever written to standard output.
#[expect(clippy::print_stdout, reason = "the line that scripts wait for")]
fn announce(address: SocketAddr) -> std::io::Result<()> {
    println!("listening on {address}");
    std::io::stdout().flush()
}

/// Makes a random secret.
fn made_up_secret() -> std::io::Result<Zeroizing<Vec<u8>>> {
    let mut secret = Zeroizing::new(vec![0; 64]);
    rustix::rand::getrandom(secret.as_mut_slice(), rustix::rand::GetRandomFlags::empty())?;
    Ok(secret)
}

/// Prints the token of `--dev`, and a command to try it, to standard error.
fn print_dev_help(address: SocketAddr, tls: bool, token: &str) {
    let url = format!("{}://{address}/ws", if tls { "wss" } else { "ws" });
    // In a build, the host's program lies beside this one.
    let beside = std::env::current_exe().unwrap_or_default().with_file_name("relay-host");
    let host = if beside.is_file() { beside.display().to_string() } else { "relay-host".into() };
    eprintln!(
        "A relay for development, with a secret made up for this run.\n\
         The token, good for 24 hours:\n\n  {token}\n\n\
         Try it from another terminal:\n\n  \
         echo 'return 6 * 7' | RELAY_URL={url} RELAY_TOKEN={token} {host} run -\n"
    );
}

/// Reaps orphans, which process 1 inherits. Workers are left to their pools; every process is reaped by its own
/// descriptor.
async fn reap_orphans(engine: Arc<Engine>) {
    let mut seen_before = HashSet::new();
    let mut tick = tokio::time::interval(Duration::from_secs(5));
    loop {
        tick.tick().await;
        // A pool reaps its worker within moments: a process that is still there at the next look has no pool.
        let ended = ended_children();
        for pid in ended.intersection(&seen_before) {
            if let Some(pid) = Pid::from_raw(*pid)
                && !engine.owns(pid)
                && let Ok(pidfd) = rustix::process::pidfd_open(pid, PidfdFlags::empty())
            {
                let _ = rustix::process::waitid(
                    WaitId::PidFd(pidfd.as_fd()),
                    WaitIdOptions::EXITED | WaitIdOptions::NOHANG,
                );
            }
        }
        seen_before = ended;
    }
}

/// Returns the children of this process that have ended and were not reaped.
fn ended_children() -> HashSet<i32> {
    let own = std::process::id().to_string();
    let Ok(entries) = std::fs::read_dir("/proc") else { return HashSet::new() };
    let ended = entries.flatten().filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        // Behind the name, which ends with the last bracket, stand the state and the parent.
        let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
        (fields.next() == Some("Z") && fields.next() == Some(&own)).then_some(pid)
    });
    ended.collect()
}
