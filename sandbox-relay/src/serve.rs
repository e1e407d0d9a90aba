//! `serve`: the life of the server. Settings, workers, the listening socket, connections, a signal, the drain.

use std::collections::HashSet;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use rustix::process::{DumpableBehavior, Pid, PidfdFlags, Resource, Rlimit, WaitId, WaitIdOptions};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, Semaphore, watch};
use zeroize::Zeroizing;

use crate::admission::{self, Admission, AdmissionConfig};
use crate::auth::{self, KeyError, KeySource, TokenRequest, Verifier};
use crate::config::{ConfigError, ServeArgs, Settings};
use crate::fairness::Fairness;
use crate::sandbox::pool::{Pool, PoolConfig};
use crate::server::AcceptLimits;
use crate::subject::Subjects;
use crate::tls::{Certificate, TlsError};
use crate::{App, Phase, server};

/// How long a token of `--dev` is good.
const DEV_TOKEN_TTL: Duration = Duration::from_secs(24 * 3600);
/// How many bytes of source and input all executions may hold, running or waiting.
const SOURCE_BYTES: usize = 256 << 20;
/// How many descriptors connections leave to everything else: two for each worker, and those of the runtime.
const RESERVED_DESCRIPTORS: usize = 256;
/// How long closing connections may take after the drain.
const CLOSE_WITHIN: Duration = Duration::from_secs(3);

/// The server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A setting is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The key is wrong.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The address cannot be listened on.
    #[error("{address} cannot be listened on: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        error: std::io::Error,
    },
    /// `--dev` with an address that others could reach.
    #[error("--dev listens on loopback only, not on {0}: its token is printed")]
    DevAddress(SocketAddr),
    /// The system refuses a thread, a descriptor or a signal handler.
    #[error(transparent)]
    System(#[from] std::io::Error),
}

/// Serves until SIGTERM or SIGINT, then drains.
///
/// # Errors
/// It cannot start.
pub async fn serve(args: ServeArgs) -> Result<(), ServeError> {
    // This process holds keys: nobody of the same user looks into its memory or its environment.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(std::io::Error::from)?;
    let settings = Settings::load(args.keys.config.as_ref(), &args)?;
    let auth = if args.dev {
        if !settings.listen.ip().is_loopback() {
            return Err(ServeError::DevAddress(settings.listen));
        }
        settings.auth_with(KeySource::Secret(made_up_secret()?))
    } else {
        settings.auth()?
    };
    let verifier = Verifier::new(&auth).await?;
    let certificate = settings.certificate()?.map(Certificate::read).transpose()?;
    let tls = certificate.as_ref().map(Certificate::server_config).transpose()?;
    let limits = settings.limits()?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = if settings.threads == 0 { cores } else { settings.threads };
    let subject_cpus = if settings.subject_cpus == 0 { cores - 1 } else { settings.subject_cpus };
    let running = if settings.executions == 0 { admission::executions_for_memory() } else { settings.executions };
    let admission = Admission::new(AdmissionConfig {
        running,
        running_per_subject: settings.subject_executions,
        running_per_session: settings.session_executions,
        waiting: settings.queue,
        waiting_per_subject: settings.subject_queue,
    });
    let connections = settings.connections.min(raise_descriptor_limit()?.saturating_sub(RESERVED_DESCRIPTORS)).max(1);
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let app = Arc::new(App {
        verifier,
        admission,
        pool: Pool::start(settings.pool()?)?,
        jit_pool: if settings.jit { Some(Pool::start(PoolConfig { jit: true, ..settings.pool()? })?) } else { None },
        fairness: Fairness::start(subject_cpus)?,
        subjects: Subjects::new(settings.subject_connections.max(1)),
        origins: settings.allow_origin.clone(),
        limits,
        session_executions: settings.session_executions,
        source_bytes: Arc::new(Semaphore::new(SOURCE_BYTES)),
        handshake_timeout: settings.handshake_timeout(),
        heartbeat: settings.heartbeat(),
        idle: settings.idle(),
        phase: watch::Sender::new(Phase::Serving),
        sessions: AtomicUsize::new(0),
        session_ended: Notify::new(),
        next_session: AtomicU64::new(1),
    });
    let bound = server::bind(settings.listen).await;
    let (listener, address) = bound.map_err(|error| ServeError::Listen { address: settings.listen, error })?;
    if args.dev {
        let request = TokenRequest { subject: "dev".into(), ttl: DEV_TOKEN_TTL, ..TokenRequest::default() };
        print_dev_help(address, tls.is_some(), &auth::make_token(&auth, request)?);
    }
    // The keys were made of it; nothing needs the secret itself any more.
    drop(auth);
    announce(address)?;
    tracing::info!(%address, threads, executions = running, "serving");
    if rustix::process::getpid() == Pid::INIT {
        tokio::spawn(reap_orphans(Arc::clone(&app)));
    }
    if let Some(certificate) = certificate {
        tokio::spawn(certificate.keep_fresh());
    }
    tokio::spawn({
        let app = Arc::clone(&app);
        async move { app.verifier.keep_fresh().await }
    });
    let limits = AcceptLimits { threads, connections, of_address: settings.address_connections.max(1) };
    let accepting = tokio::spawn(server::accept(Arc::clone(&app), listener, tls, limits));
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        () = stdin_closed(), if args.exit_with_stdin => {}
    }
    let accepted = drain(&app, settings.drain_timeout(), accepting).await;
    tracing::info!("stopped");
    accepted
}

/// Completes when whoever holds the other end of standard input closes it, or dies.
async fn stdin_closed() {
    // The thread that reads waits for as long as the process lives; it is not waited for at the end.
    let (closed, wait) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        let _ = closed.send(());
    });
    let _ = wait.await;
}

/// Allows this process as many descriptors as it may have, and gives how many that is.
fn raise_descriptor_limit() -> std::io::Result<usize> {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    rustix::process::setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?;
    Ok(limit.maximum.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX))
}

/// The one line that is ever written to standard output.
#[expect(clippy::print_stdout, reason = "the line that scripts wait for")]
fn announce(address: SocketAddr) -> std::io::Result<()> {
    println!("listening on {address}");
    std::io::stdout().flush()
}

fn made_up_secret() -> std::io::Result<Zeroizing<Vec<u8>>> {
    let mut secret = Zeroizing::new(vec![0; 64]);
    rustix::rand::getrandom(secret.as_mut_slice(), rustix::rand::GetRandomFlags::empty())?;
    Ok(secret)
}

fn print_dev_help(address: SocketAddr, tls: bool, token: &str) {
    let url = format!("{}://{address}/ws", if tls { "wss" } else { "ws" });
    // The host's program lies beside this one in a build, else it is installed.
    let beside = std::env::current_exe().unwrap_or_default().with_file_name("relay-host");
    let host = if beside.is_file() { beside.display().to_string() } else { "relay-host".into() };
    eprintln!(
        "A relay for development, with a secret made up for this run.\n\
         The token, good for 24 hours:\n\n  {token}\n\n\
         Try it from another terminal:\n\n  \
         echo 'return 6 * 7' | RELAY_URL={url} RELAY_TOKEN={token} {host} run -\n"
    );
}

/// Takes nothing new, lets what runs come to its end for `patience`, then closes everything.
async fn drain(
    app: &App,
    patience: Duration,
    accepting: tokio::task::JoinHandle<std::io::Result<()>>,
) -> Result<(), ServeError> {
    let (executions, _) = app.admission.load();
    tracing::info!(executions, "draining");
    app.admission.drain();
    app.phase.send_replace(Phase::Draining);
    if tokio::time::timeout(patience, all_sessions_ended(app)).await.is_err() {
        app.phase.send_replace(Phase::Closing);
        // A peer that does not read its close holds this up no longer.
        let _ = tokio::time::timeout(CLOSE_WITHIN, all_sessions_ended(app)).await;
    }
    match accepting.await {
        Ok(result) => Ok(result?),
        Err(error) => Err(std::io::Error::other(error).into()),
    }
}

async fn all_sessions_ended(app: &App) {
    loop {
        let ended = app.session_ended.notified();
        if app.sessions.load(Ordering::Relaxed) == 0 {
            return;
        }
        ended.await;
    }
}

/// As process 1, this process inherits whatever loses its parent. Only what nobody here waits for is reaped, each process
/// by its own descriptor: workers are reaped by whoever keeps them.
async fn reap_orphans(app: Arc<App>) {
    let mut seen_before = HashSet::new();
    let mut tick = tokio::time::interval(Duration::from_secs(5));
    loop {
        tick.tick().await;
        // A worker's end is collected within moments; what is still there at the next look is nobody's.
        let ended = ended_children();
        for pid in ended.intersection(&seen_before) {
            if let Some(pid) = Pid::from_raw(*pid)
                && !app.pool.owns(pid)
                && !app.jit_pool.as_ref().is_some_and(|pool| pool.owns(pid))
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

/// The children of this process that have ended and were not collected.
fn ended_children() -> HashSet<i32> {
    let own = std::process::id().to_string();
    let Ok(entries) = std::fs::read_dir("/proc") else { return HashSet::new() };
    let ended = entries.flatten().filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        // After the name, which may hold anything and ends with the last bracket: the state, then the parent.
        let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
        (fields.next() == Some("Z") && fields.next() == Some(&own)).then_some(pid)
    });
    ended.collect()
}
