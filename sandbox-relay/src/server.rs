//! Accepts connections and speaks HTTP until a WebSocket begins.
//!
//! Each connection lives on one of a few single-threaded runtimes, with its session and its executions: a tool call
//! crosses no thread on its way through the relay.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::get;
use http::{HeaderMap, StatusCode, header};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

use crate::App;
use crate::Phase;
use crate::admission::SessionNumber;
use crate::auth::{Identity, Unauthenticated};
use crate::connection::{self, Connection};
use crate::meter::{Heard, Metered};
use crate::outbound::outbound;
use crate::session::Session;
use crate::subject::SubjectPermit;

/// How many accepted connections wait for one thread.
const HANDED_OVER: usize = 64;
/// The most bytes of a request's head.
const MAX_HEAD_BYTES: usize = 16 << 10;
/// The pause after the system had no descriptor or memory for a connection.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// The routes. `/ws` is the only one that asks for a token.
fn routes(app: Arc<App>) -> Router {
    Router::new().route("/ws", get(websocket)).route("/health", get(health)).route("/ready", get(ready)).with_state(app)
}

async fn health(State(app): State<Arc<App>>) -> Json<serde_json::Value> {
    let (executions, queued) = app.admission.load();
    Json(json!({
        "ok": true,
        "connected": app.sessions.load(Ordering::Relaxed),
        "encoding": "protobuf",
        "executions": executions,
        "queued": queued,
        "version": env!("CARGO_PKG_VERSION"),
    }))
}

async fn ready(State(app): State<Arc<App>>) -> Response {
    let draining = *app.phase.borrow() != Phase::Serving;
    let reason = match (draining, app.pool.is_ready()) {
        (true, _) => "draining",
        (false, false) => "no worker is ready",
        (false, true) => return Json(json!({ "ready": true })).into_response(),
    };
    (StatusCode::SERVICE_UNAVAILABLE, Json(json!({ "ready": false, "reason": reason }))).into_response()
}

async fn websocket(State(app): State<Arc<App>>, mut request: Request) -> Response {
    let headers = request.headers();
    if let Some(origin) = headers.get(header::ORIGIN)
        && !app.origins.iter().any(|allowed| allowed.as_bytes() == origin.as_bytes())
    {
        // A page in somebody's browser, which that page's author controls.
        return (StatusCode::FORBIDDEN, "this origin is not allowed\n").into_response();
    }
    let authorization = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let identity = match app.verifier.verify(authorization).await {
        Ok(identity) => identity,
        Err(error) => {
            return unauthorized(&error);
        }
    };
    let Some(key) = websocket_key(headers) else {
        let upgrade = [(header::UPGRADE, "websocket"), (header::SEC_WEBSOCKET_VERSION, "13")];
        return (StatusCode::UPGRADE_REQUIRED, upgrade, "this address speaks WebSocket, version 13\n").into_response();
    };
    if *app.phase.borrow() != Phase::Serving {
        return (StatusCode::SERVICE_UNAVAILABLE, "the relay is shutting down\n").into_response();
    }
    let Some(subject) = app.subjects.enter(&identity.subject) else {
        tracing::info!(subject = &*identity.subject, "429");
        return (StatusCode::TOO_MANY_REQUESTS, "this subject has too many connections\n").into_response();
    };
    if let Err(error) = app.verifier.use_up(&identity) {
        return unauthorized(&error);
    }
    let accept = derive_accept_key(key.as_bytes());
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let Ok(upgraded) = upgrade.await else { return };
        let Ok(parts) = upgraded.downcast::<TokioIo<Counted>>() else { return };
        serve_websocket(app, identity, subject, parts.io.into_inner(), parts.read_buf.to_vec()).await;
    });
    let switch = [
        (header::CONNECTION, "upgrade".to_owned()),
        (header::UPGRADE, "websocket".to_owned()),
        (header::SEC_WEBSOCKET_ACCEPT, accept),
    ];
    (StatusCode::SWITCHING_PROTOCOLS, switch, Body::empty()).into_response()
}

/// The one answer to every token that is not taken. Why goes to the log, with control characters escaped: parts of it may be
/// the client's words.
fn unauthorized(error: &Unauthenticated) -> Response {
    let mut reason = error.to_string();
    reason.truncate(reason.floor_char_boundary(200));
    tracing::info!(?reason, "401");
    let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
    (StatusCode::UNAUTHORIZED, challenge, "a bearer token is needed\n").into_response()
}

/// The key of a well-formed upgrade request.
fn websocket_key(headers: &HeaderMap) -> Option<String> {
    let value = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let names_token = |name, token: &str| {
        value(name).is_some_and(|list: &str| list.split(',').any(|it| it.trim().eq_ignore_ascii_case(token)))
    };
    let is_upgrade = names_token(header::CONNECTION, "upgrade")
        && names_token(header::UPGRADE, "websocket")
        && value(header::SEC_WEBSOCKET_VERSION) == Some("13");
    let key = value(header::SEC_WEBSOCKET_KEY)?;
    // Sixteen bytes in base64.
    (is_upgrade && key.len() == 24).then(|| key.to_owned())
}

async fn serve_websocket(
    app: Arc<App>,
    identity: Identity,
    subject: SubjectPermit,
    socket: Counted,
    read_ahead: Vec<u8>,
) {
    let number = SessionNumber(app.next_session.fetch_add(1, Ordering::Relaxed));
    app.sessions.fetch_add(1, Ordering::Relaxed);
    let _guard = SessionGuard(Arc::clone(&app));
    tracing::info!(session = number.0, subject = &*identity.subject, "connected");
    let config = Some(connection::websocket_config());
    let heard = Heard::new();
    let budget = Arc::clone(&subject.budgets.incoming);
    let Ok(socket) = Metered::new(socket, &read_ahead, budget, Arc::clone(&heard)) else { return };
    let socket = WebSocketStream::from_partially_read(socket, read_ahead, Role::Server, config).await;
    let (outbound, queue) = outbound();
    let session = Session::new(Arc::clone(&app), number, identity, subject, outbound.clone());
    connection::serve(socket, Connection { app, session, outbound, queue, heard }).await;
    tracing::info!(session = number.0, "disconnected");
}

struct SessionGuard(Arc<App>);

impl Drop for SessionGuard {
    fn drop(&mut self) {
        self.0.sessions.fetch_sub(1, Ordering::Relaxed);
        self.0.session_ended.notify_waiters();
    }
}

/// A connection that counts as one until it is closed.
struct Counted {
    stream: Stream,
    _place: Place,
    _load: LoadGuard,
}

/// TCP, or TLS over it.
type Stream = Box<dyn Duplex>;

trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Duplex for S {}

mod counted {
    //! Reading and writing of [`super::Counted`] is that of its stream.

    use std::io;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

    use super::Counted;

    impl AsyncRead for Counted {
        fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.stream).poll_read(cx, buffer)
        }
    }

    impl AsyncWrite for Counted {
        fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            Pin::new(&mut self.stream).poll_write(cx, bytes)
        }

        fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.stream).poll_flush(cx)
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.stream).poll_shutdown(cx)
        }
    }
}

/// One thread that serves connections.
struct Shard {
    connections: mpsc::Sender<(std::net::TcpStream, Place)>,
    load: Arc<AtomicUsize>,
}

impl Shard {
    fn start(number: usize, app: Arc<App>, tls: Option<TlsAcceptor>) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (connections, mut handed_over) = mpsc::channel(HANDED_OVER);
        let load = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&load);
        let serve = async move {
            let routes = routes(Arc::clone(&app));
            while let Some((stream, place)) = handed_over.recv().await {
                let (routes, tls, counted) = (routes.clone(), tls.clone(), Arc::clone(&counted));
                let handshake = app.handshake_timeout;
                tokio::spawn(async move {
                    // It counts until it is closed, as a WebSocket too.
                    let load = LoadGuard(counted);
                    if let Some(stream) = secured(stream, tls, handshake).await {
                        serve_http(Counted { stream, _place: place, _load: load }, routes, handshake).await;
                    }
                });
            }
            // Nothing more comes, but what runs goes on until the process ends.
            std::future::pending::<()>().await;
        };
        // The thread ends with the process: its connections were closed before.
        std::thread::Builder::new().name(format!("connections-{number}")).spawn(move || runtime.block_on(serve))?;
        Ok(Self { connections, load })
    }
}

/// The connection, with TLS if it is asked for. Nothing where a client does not get through its handshake in time.
async fn secured(stream: std::net::TcpStream, tls: Option<TlsAcceptor>, within: Duration) -> Option<Stream> {
    let stream = TcpStream::from_std(stream).ok()?;
    let Some(tls) = tls else { return Some(Box::new(stream)) };
    let handshake = tokio::time::timeout(within, tls.accept(stream)).await;
    Some(Box::new(handshake.ok()?.ok()?))
}

struct LoadGuard(Arc<AtomicUsize>);

impl Drop for LoadGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn serve_http(socket: Counted, routes: Router, handshake: Duration) {
    let service = TowerToHyperService::new(routes);
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(handshake).max_buf_size(MAX_HEAD_BYTES).max_headers(64);
    // A client that breaks HTTP has been answered as far as it can be.
    let served = http.serve_connection(TokioIo::new(socket), service).with_upgrades();
    // Until the upgrade, or for ever: nobody keeps a place by asking for `/health` again and again, or by not reading.
    let _ = tokio::time::timeout(handshake * 3, served).await;
}

/// How connections are accepted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AcceptLimits {
    /// Threads that serve them.
    pub(crate) threads: usize,
    /// Connections at once.
    pub(crate) connections: usize,
    /// Of one address.
    pub(crate) of_address: usize,
}

/// The places that there are for connections.
struct Places {
    limits: AcceptLimits,
    taken: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// A connection's place, which is free again when this is dropped.
struct Place {
    address: IpAddr,
    taken: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

impl Places {
    fn new(limits: AcceptLimits) -> Self {
        Self { limits, taken: Arc::default() }
    }

    fn enter(&self, address: IpAddr) -> Option<Place> {
        let address = network(address);
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let of_address = taken.get(&address).copied().unwrap_or(0);
        if of_address >= self.limits.of_address || taken.values().sum::<usize>() >= self.limits.connections {
            return None;
        }
        taken.insert(address, of_address + 1);
        Some(Place { address, taken: Arc::clone(&self.taken) })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(of_address) = taken.get_mut(&self.address) {
            *of_address -= 1;
            if *of_address == 0 {
                taken.remove(&self.address);
            }
        }
    }
}

/// What counts as one address: with IPv6, everybody has 2^64 of them.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() >> 64 << 64).into()),
        v4 => v4,
    }
}

/// Accepts connections until the relay shuts down, and gives each to the thread that has fewest.
pub(crate) async fn accept(
    app: Arc<App>,
    listener: TcpListener,
    tls: Option<Arc<rustls::ServerConfig>>,
    limits: AcceptLimits,
) -> io::Result<()> {
    let tls = tls.map(TlsAcceptor::from);
    let shards = (0..limits.threads).map(|number| Shard::start(number, Arc::clone(&app), tls.clone()));
    let shards = shards.collect::<io::Result<Vec<_>>>()?;
    let places = Places::new(limits);
    let mut phase = app.phase.subscribe();
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
        // Over the limit, a connection is closed at once: whoever waits in the system's own queue learns nothing.
        let Some(place) = places.enter(peer.ip()) else { continue };
        let Some(shard) = shards.iter().min_by_key(|shard| shard.load.load(Ordering::Relaxed)) else { continue };
        // Small frames have to leave at once.
        if stream.set_nodelay(true).is_err() {
            continue;
        }
        if let Ok(stream) = stream.into_std() {
            shard.load.fetch_add(1, Ordering::Relaxed);
            if shard.connections.try_send((stream, place)).is_err() {
                shard.load.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

/// Opens the listening socket.
pub(crate) async fn bind(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}
