//! Accepts connections and speaks HTTP until a WebSocket begins.
//!
//! Each connection lives on one of a few single-threaded runtimes (shards), with its session and its executions: a tool
//! call crosses no thread on its way through the relay.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::get;
use http::{HeaderMap, StatusCode, header};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use relay_proto::session::RESUME_HEADER;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

use crate::auth::{Identity, Unauthenticated};
use crate::connection::{self, Connection, ConnectionConfig, Resumption, Served};
use crate::heard::LastHeard;
use crate::lifecycle::{Lifecycle, Phase};
use crate::meter::Metered;
use crate::metrics::{self, Refusal};
use crate::outbound::{KeptBudgets, outbound};
use crate::peer::{Counted, LoadGuard, Stream};
use crate::places::{Place, Places};
use crate::resume::Resumables;
use crate::session::{Session, SessionContext};
use crate::subject::{SubjectPermit, Subjects};

/// Maximum number of accepted connections that wait for one thread.
const HANDED_OVER: usize = 64;
/// Maximum length in bytes of a request's head.
const MAX_HEAD_BYTES: usize = 16 << 10;
/// Maximum number of headers of a request.
const MAX_HEADERS: usize = 64;
/// Pause after the system had no descriptor or memory for a connection.
pub(crate) const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(50);
/// Maximum number of bytes of messages that are kept or queued for all sessions without a connection.
pub(crate) const DETACHED_BYTES: usize = 256 << 20;
/// `Retry-After` of refusals that end by themselves, in seconds.
const RETRY_AFTER_SECONDS: &str = "1";

/// Configuration of the listener and of HTTP.
#[derive(Debug, Clone)]
pub(crate) struct HttpConfig {
    /// Number of threads that serve connections.
    pub(crate) threads: usize,
    /// Number of connections at once.
    pub(crate) connections: usize,
    /// Number of connections of one address at once.
    pub(crate) connections_of_address: usize,
    /// Web origins that may connect.
    pub(crate) allowed_origins: Vec<String>,
    /// Maximum time for a TLS handshake, and again for a request's head.
    pub(crate) handshake_timeout: Duration,
}

/// Configuration and handles that all connections of a server use.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) http: HttpConfig,
    pub(crate) connection: ConnectionConfig,
    pub(crate) sessions: SessionContext,
    pub(crate) subjects: Subjects,
    pub(crate) lifecycle: Arc<Lifecycle>,
    pub(crate) resumables: Arc<Resumables<Resumption>>,
    /// Budget for what sessions without a connection hold, in bytes.
    pub(crate) detached_bytes: Arc<Semaphore>,
}

/// Returns the routes. `/ws` is the only one that asks for a token.
fn routes(server: Arc<Server>) -> Router {
    let router = Router::new().route("/ws", get(websocket)).route("/health", get(health)).route("/ready", get(ready));
    router.with_state(server)
}

async fn health(State(server): State<Arc<Server>>) -> Json<serde_json::Value> {
    let engine = &server.sessions.engine;
    let ((executions, queued), parked) = (engine.load(), engine.parked());
    Json(json!({
        "ok": true,
        "connected": server.lifecycle.connected(),
        "detached": server.lifecycle.detached(),
        "encoding": "protobuf",
        "executions": executions,
        "queued": queued,
        "waiting_for_people": parked,
        "version": env!("CARGO_PKG_VERSION"),
    }))
}

async fn ready(State(server): State<Arc<Server>>) -> Response {
    let reason = match (server.lifecycle.is_serving(), server.sessions.engine.is_ready()) {
        (false, _) => "draining",
        (true, false) => "no worker is ready",
        (true, true) => return Json(json!({ "ready": true })).into_response(),
    };
    (StatusCode::SERVICE_UNAVAILABLE, Json(json!({ "ready": false, "reason": reason }))).into_response()
}

async fn websocket(State(server): State<Arc<Server>>, mut request: Request) -> Response {
    let headers = request.headers();
    if let Some(origin) = headers.get(header::ORIGIN)
        && !server.http.allowed_origins.iter().any(|allowed| allowed.as_bytes() == origin.as_bytes())
    {
        // A browser sends it: the author of some page controls what it asks.
        metrics::refused(Refusal::Origin);
        return (StatusCode::FORBIDDEN, "this origin is not allowed\n").into_response();
    }
    let authorization = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let identity = match server.sessions.verifier.verify(authorization).await {
        Ok(identity) => identity,
        Err(error) => {
            return unauthorized(&error);
        }
    };
    let Some(key) = websocket_key(headers) else {
        metrics::refused(Refusal::NoWebSocket);
        let upgrade = [(header::UPGRADE, "websocket"), (header::SEC_WEBSOCKET_VERSION, "13")];
        return (StatusCode::UPGRADE_REQUIRED, upgrade, "this address speaks WebSocket, version 13\n").into_response();
    };
    if !server.lifecycle.is_serving() {
        metrics::refused(Refusal::Draining);
        let again = [(header::RETRY_AFTER, RETRY_AFTER_SECONDS)];
        return (StatusCode::SERVICE_UNAVAILABLE, again, "the relay is shutting down\n").into_response();
    }
    let Some(subject) = server.subjects.enter(&identity.subject, headers.contains_key(RESUME_HEADER)) else {
        tracing::info!(subject = &*identity.subject, "429");
        metrics::refused(Refusal::SubjectConnections);
        let again = [(header::RETRY_AFTER, RETRY_AFTER_SECONDS)];
        return (StatusCode::TOO_MANY_REQUESTS, again, "this subject has too many connections\n").into_response();
    };
    if let Err(error) = server.sessions.verifier.use_up(&identity) {
        return unauthorized(&error);
    }
    let accept = derive_accept_key(key.as_bytes());
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let Ok(upgraded) = upgrade.await else { return };
        let Ok(parts) = upgraded.downcast::<TokioIo<Counted>>() else { return };
        serve_websocket(&server, identity, subject, parts.io.into_inner(), parts.read_buf.to_vec()).await;
    });
    let switch = [
        (header::CONNECTION, "upgrade".to_owned()),
        (header::UPGRADE, "websocket".to_owned()),
        (header::SEC_WEBSOCKET_ACCEPT, accept),
    ];
    (StatusCode::SWITCHING_PROTOCOLS, switch, Body::empty()).into_response()
}

/// Answers every token that is not accepted alike. The reason goes to the log, with control characters escaped: parts
/// of it may be the client's.
fn unauthorized(error: &Unauthenticated) -> Response {
    let mut reason = error.to_string();
    reason.truncate(reason.floor_char_boundary(200));
    tracing::info!(?reason, "401");
    metrics::refused(Refusal::Token);
    let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
    (StatusCode::UNAUTHORIZED, challenge, "a bearer token is needed\n").into_response()
}

/// Returns the key of a WebSocket upgrade, version 13; `None`: the request is none.
fn websocket_key(headers: &HeaderMap) -> Option<String> {
    let value = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let names_token = |name, token: &str| {
        value(name).is_some_and(|list: &str| list.split(',').any(|it| it.trim().eq_ignore_ascii_case(token)))
    };
    let is_upgrade = names_token(header::CONNECTION, "upgrade")
        && names_token(header::UPGRADE, "websocket")
        && value(header::SEC_WEBSOCKET_VERSION) == Some("13");
    let key = value(header::SEC_WEBSOCKET_KEY)?;
    // The key is 16 bytes in base64.
    (is_upgrade && key.len() == 24).then(|| key.to_owned())
}

async fn serve_websocket(
    server: &Server,
    identity: Identity,
    subject: SubjectPermit,
    socket: Counted,
    read_ahead: Vec<u8>,
) {
    let guard = server.lifecycle.begin_session();
    let number = guard.number;
    tracing::info!(session = number.0, subject = &*identity.subject, "connected");
    let config = Some(connection::websocket_config());
    let heard = LastHeard::new();
    let budget = Arc::clone(&subject.budgets.incoming);
    let Ok(socket) = Metered::new(socket, &read_ahead, budget, Arc::clone(&heard)) else { return };
    let socket = WebSocketStream::from_partially_read(socket, read_ahead, Role::Server, config).await;
    let kept = Arc::clone(&subject.budgets.kept);
    let (outbound, queue) = outbound(KeptBudgets { of_subject: kept, detached: Arc::clone(&server.detached_bytes) });
    let session = Session::new(server.sessions.clone(), number, identity, subject, outbound.clone());
    let served = Served {
        config: server.connection,
        verifier: Arc::clone(&server.sessions.verifier),
        lifecycle: Arc::clone(&server.lifecycle),
        resumables: Arc::clone(&server.resumables),
        session,
        outbound,
        queue,
        resumable: None,
    };
    connection::serve(Connection { socket, heard }, served).await;
    tracing::info!(session = number.0, "disconnected");
}

/// One thread that serves connections, and their number.
struct Shard {
    connections: mpsc::Sender<(std::net::TcpStream, Place)>,
    load: Arc<AtomicUsize>,
}

impl Shard {
    /// Starts the thread.
    fn start(number: usize, server: Arc<Server>, tls: Option<TlsAcceptor>) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (connections, mut handed_over) = mpsc::channel(HANDED_OVER);
        let load = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&load);
        let serve = async move {
            let routes = routes(Arc::clone(&server));
            while let Some((stream, place)) = handed_over.recv().await {
                let (routes, tls, counted) = (routes.clone(), tls.clone(), Arc::clone(&counted));
                let handshake = server.http.handshake_timeout;
                tokio::spawn(async move {
                    // It counts until it is closed, as a WebSocket too.
                    let load = LoadGuard::new(counted);
                    if let Some(stream) = secured(stream, tls, handshake).await {
                        serve_http(Counted::new(stream, place, load), routes, handshake).await;
                    }
                });
            }
            // No connection comes any more, but those that are there go on until the process ends.
            std::future::pending::<()>().await;
        };
        // The thread ends with the process, after its connections were closed.
        std::thread::Builder::new().name(format!("connections-{number}")).spawn(move || runtime.block_on(serve))?;
        Ok(Self { connections, load })
    }
}

/// Does the TLS handshake, if there is TLS. `None`: it failed, or took longer than `within`.
async fn secured(stream: std::net::TcpStream, tls: Option<TlsAcceptor>, within: Duration) -> Option<Stream> {
    let stream = TcpStream::from_std(stream).ok()?;
    let Some(tls) = tls else { return Some(Box::new(stream)) };
    match tokio::time::timeout(within, tls.accept(stream)).await {
        Ok(Ok(stream)) => return Some(Box::new(stream)),
        Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
        Err(_elapsed) => tracing::debug!("a TLS handshake took too long"),
    }
    metrics::refused(Refusal::Tls);
    None
}

/// Serves HTTP/1.1 until the upgrade, for at most three times the handshake's time.
async fn serve_http(socket: Counted, routes: Router, handshake: Duration) {
    let service = TowerToHyperService::new(routes);
    // A client that breaks HTTP has been answered as far as it can be.
    let served = http1(handshake, MAX_HEAD_BYTES).serve_connection(TokioIo::new(socket), service).with_upgrades();
    // No client keeps its place by asking for `/health` again and again, or by not reading.
    let _ = tokio::time::timeout(handshake * 3, served).await;
}

/// Returns the settings of HTTP/1.1: a request's head comes whole within `head_within`, and has at most `head_bytes`.
pub(crate) fn http1(head_within: Duration, head_bytes: usize) -> http1::Builder {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(head_within).max_buf_size(head_bytes).max_headers(MAX_HEADERS);
    http
}

/// Accepts connections until the relay shuts down, and gives each to the shard with the fewest.
///
/// # Errors
/// [`io::Error`]: the system refuses a thread.
pub(crate) async fn accept(
    server: Arc<Server>,
    listener: TcpListener,
    tls: Option<Arc<rustls::ServerConfig>>,
) -> io::Result<()> {
    let tls = tls.map(TlsAcceptor::from);
    let http = &server.http;
    let shards = (0..http.threads).map(|number| Shard::start(number, Arc::clone(&server), tls.clone()));
    let shards = shards.collect::<io::Result<Vec<_>>>()?;
    let places = Places::new(http.connections, http.connections_of_address);
    let mut phase = server.lifecycle.phase();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = phase.wait_for(|phase| *phase != Phase::Serving) => return Ok(()),
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_AGAIN_AFTER).await;
                continue;
            }
        };
        // Without a place a connection is closed at once: waiting in the system's queue would tell its client nothing.
        let Some(place) = places.take(peer.ip()) else {
            tracing::debug!(peer = %peer.ip(), "a connection was closed: all places are taken, or all of its address");
            metrics::refused(Refusal::Places);
            continue;
        };
        let Some(shard) = shards.iter().min_by_key(|shard| shard.load.load(Ordering::Relaxed)) else { continue };
        // Small frames have to leave without delay.
        if stream.set_nodelay(true).is_err() {
            continue;
        }
        if let Ok(stream) = stream.into_std() {
            shard.load.fetch_add(1, Ordering::Relaxed);
            if shard.connections.try_send((stream, place)).is_err() {
                tracing::debug!(peer = %peer.ip(), "a connection was closed: its thread has too many to begin");
                metrics::refused(Refusal::Busy);
                shard.load.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

/// Opens the listening socket and returns it with its address.
///
/// # Errors
/// [`io::Error`]: the address cannot be listened on.
pub(crate) async fn bind(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}
