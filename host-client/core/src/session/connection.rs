//! One WebSocket to a relay: messages in, messages out, heartbeat. It ends for both directions at once.

mod handshake;

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use http::{Uri, header};
use relay_proto::session::{SILENT_HEARTBEATS, feature};
use relay_proto::wire::message::Payload;
use relay_proto::{PROTOCOL_VERSION, frame, wire};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error as WebSocketError, Message};

use super::announce::{Announced, announce, announced};
use super::config::ClientConfig;
use super::{Outbox, Session, short_reason};
use crate::error::{ConnectStep, Error};
use crate::host::Host;
use crate::tls;
use crate::tools::Tools;

/// The number of bytes after which one round of writing ends.
const BATCH_BYTES: usize = 1 << 20;

type Socket = WebSocketStream<Box<dyn Duplex>>;

/// TCP, or TLS over it.
trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Duplex for S {}

/// Connects, says hello, and starts the task that handles messages from then on.
///
/// # Errors
/// [`Error::Address`], [`Error::Unreachable`], [`Error::Certificate`], [`Error::Cut`], [`Error::NoRelay`],
/// [`Error::Unauthenticated`], [`Error::Status`], [`Error::Refused`], [`Error::Tools`].
pub(crate) async fn connect(config: &ClientConfig, host: Arc<Host>) -> Result<(Arc<Session>, wire::Welcome), Error> {
    // Changes from here on are announced later.
    let changes = host.tools.changes();
    let version = *changes.borrow();
    let connected = tokio::time::timeout(config.connect_timeout, open(config, &host.tools)).await;
    let (socket, welcome) = connected.unwrap_or_else(|_| {
        let error = std::io::Error::from(std::io::ErrorKind::TimedOut);
        Err(Error::Unreachable { url: config.url.clone(), error })
    })?;
    let offers = |name: &str| welcome.features.iter().any(|feature| feature == name);
    let knows_changes = offers(feature::TOOLS_CHANGED);
    let (session, outbox) = Session::with_announced(host, offers(feature::CALL_STATE), Announced::version(version));
    let weak = Arc::downgrade(&session);
    // Bounds for the timer, which takes neither zero nor an endless time.
    let heartbeat = config.heartbeat.clamp(Duration::from_millis(10), Duration::from_secs(3_600));
    tokio::spawn(async move {
        let mut end = EndGuard { session: weak.clone(), reason: "the runtime of the connection is gone".into() };
        let (sink, stream) = socket.split();
        let heard = Heard::new();
        let reason = tokio::select! {
            reason = read(stream, &weak, &heard) => reason,
            reason = write(sink, outbox, &heard, heartbeat) => reason,
            never = announce(changes, &weak), if knows_changes => match never {},
        };
        end.reason = reason + &heard.blocked_note();
    });
    Ok((session, welcome))
}

/// Ends the session when it is dropped with the connection's task, however that task ends.
struct EndGuard {
    session: Weak<Session>,
    reason: String,
}

impl Drop for EndGuard {
    fn drop(&mut self) {
        if let Some(session) = self.session.upgrade() {
            session.end(&self.reason);
        }
    }
}

/// Opens the TCP connection and the WebSocket, sends hello, and reads welcome.
async fn open(config: &ClientConfig, tools: &Tools) -> Result<(Socket, wire::Welcome), Error> {
    let address = |reason: &str| Error::Address { url: config.url.clone(), reason: reason.to_owned() };
    let uri: Uri = config.url.parse().map_err(|_| address("it is no address"))?;
    let secure = match uri.scheme_str() {
        Some("ws") => false,
        Some("wss") => true,
        _ => return Err(address("it has to begin with wss:// or ws://")),
    };
    let host = uri.host().ok_or_else(|| address("it names no host"))?.trim_matches(['[', ']']).to_owned();
    let is_loopback = host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
    if !secure && !is_loopback && !config.allow_plain_remote {
        let why = "ws:// would send the token in the clear; it is for loopback only, unless allowed: use wss://";
        return Err(address(why));
    }
    let tls = secure.then(|| tls::connector(&host, config.authorities.as_deref())).transpose();
    let tls = tls.map_err(|reason| address(&reason))?;
    let mut request = config.url.as_str().into_client_request().map_err(|error| address(&error.to_string()))?;
    let bearer =
        format!("Bearer {}", config.token).parse().map_err(|_| address("the token is not usable in a header"))?;
    request.headers_mut().insert(header::AUTHORIZATION, bearer);

    let unreachable = |error| Error::Unreachable { url: config.url.clone(), error };
    let stream = TcpStream::connect((host, uri.port_u16().unwrap_or(if secure { 443 } else { 80 })))
        .await
        .map_err(unreachable)?;
    // Small frames have to leave at once.
    stream.set_nodelay(true).map_err(unreachable)?;
    let stream: Box<dyn Duplex> = match tls {
        Some(tls) => Box::new(tls.connect(stream).await.map_err(|error| handshake::tls_failure(&config.url, error))?),
        None => Box::new(stream),
    };
    let limits = WebSocketConfig::default()
        .read_buffer_size(32 << 10)
        .write_buffer_size(64 << 10)
        .max_write_buffer_size(4 * frame::MAX_FRAME_BYTES)
        .max_message_size(Some(frame::MAX_FRAME_BYTES))
        .max_frame_size(Some(frame::MAX_FRAME_BYTES));
    let opened = tokio_tungstenite::client_async_with_config(request, stream, Some(limits)).await;
    let broken = |step| move |error: WebSocketError| handshake::websocket_failure(&config.url, step, error);
    let (mut socket, _response) = opened.map_err(broken(ConnectStep::WebSocket))?;
    let tools = announced(tools).map_err(Error::Tools)?;
    let hello = wire::Hello {
        protocol_version: PROTOCOL_VERSION,
        tools,
        client: config.name.clone(),
        ..wire::Hello::default()
    };
    let hello = wire::Message { sequence: 1, ..Payload::Hello(hello).into() };
    let sent = socket.send(Message::Binary(frame::encode(&hello))).await;
    sent.map_err(broken(ConnectStep::Welcome))?;
    let welcome = welcome(&mut socket, &config.url).await?;
    Ok((socket, welcome))
}

/// Reads welcome, the relay's first message.
async fn welcome(socket: &mut Socket, url: &str) -> Result<wire::Welcome, Error> {
    let step = ConnectStep::Welcome;
    loop {
        let frame = match socket.next().await {
            Some(Ok(Message::Binary(frame))) => frame,
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
            Some(Ok(Message::Close(Some(close)))) => {
                return Err(Error::Refused(format!("it closed: {}", short_reason(&close.reason))));
            }
            Some(Ok(Message::Close(None))) | None => return Err(handshake::cut(url, step)),
            Some(Ok(_)) => return Err(handshake::no_relay(url, "its first message is text")),
            Some(Err(error)) => return Err(handshake::websocket_failure(url, step, error)),
        };
        let message = frame::decode(frame).map_err(|error| handshake::no_relay(url, &error.to_string()))?;
        return match message.payload {
            Some(Payload::Welcome(welcome)) if message.sequence == 1 => Ok(welcome),
            Some(Payload::Error(error)) => Err(Error::Refused(short_reason(&error.error).to_owned())),
            _ => Err(handshake::no_relay(url, "its first message is no welcome")),
        };
    }
}

/// The time at which the relay was last heard, and the longest time for which this program could not listen.
struct Heard {
    start: Instant,
    at_ms: AtomicU64,
    /// The longest time in which the runtime did not run the connection's task.
    blocked_ms: AtomicU64,
}

impl Heard {
    fn new() -> Self {
        Self { start: Instant::now(), at_ms: AtomicU64::new(0), blocked_ms: AtomicU64::new(0) }
    }

    fn now_ms(&self) -> u64 {
        milliseconds(self.start.elapsed())
    }

    fn note(&self) {
        self.at_ms.store(self.now_ms(), Ordering::Relaxed);
    }

    fn silence(&self) -> Duration {
        Duration::from_millis(self.now_ms().saturating_sub(self.at_ms.load(Ordering::Relaxed)))
    }

    /// Notes that a heartbeat was late by this time, and starts the relay's silence anew: the runtime was blocked, and
    /// the relay's messages of that time are still to be read.
    fn note_late_beat(&self, late: Duration) {
        tracing::warn!(late_ms = milliseconds(late), "{BLOCKED}");
        self.blocked_ms.fetch_max(milliseconds(late), Ordering::Relaxed);
        self.note();
    }

    /// Explains the end of a session in which the runtime was blocked; empty: it was not blocked.
    fn blocked_note(&self) -> String {
        match self.blocked_ms.load(Ordering::Relaxed) {
            0 => String::new(),
            milliseconds => format!(" ({BLOCKED}: for {milliseconds} ms)"),
        }
    }
}

/// The warning that the runtime did not run the connection's task in time.
const BLOCKED: &str = "this program's async runtime was blocked, so that the relay was not heard; a tool that computes or waits \
                       without `.await` belongs in `tokio::task::spawn_blocking`, or the runtime needs more threads";

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Handles messages until the session is over; returns the reason.
async fn read(mut stream: SplitStream<Socket>, session: &Weak<Session>, heard: &Heard) -> String {
    loop {
        let message = match stream.next().await {
            Some(Ok(message)) => message,
            Some(Err(error)) => return format!("the connection to the relay was lost: {error}"),
            None => return "the connection to the relay was lost".into(),
        };
        heard.note();
        let frame = match message {
            Message::Binary(frame) => frame,
            Message::Close(Some(close)) => {
                return format!("the relay closed the session: {}", short_reason(&close.reason));
            }
            Message::Close(None) => return "the relay closed the session".into(),
            Message::Ping(_) | Message::Pong(_) => continue,
            Message::Text(_) | Message::Frame(_) => return "the relay sent what is not of the protocol".into(),
        };
        let Some(session) = session.upgrade() else { return "the client is gone".into() };
        let message = match frame::decode(frame) {
            Ok(message) => message,
            Err(error) => return format!("the relay sent what is not of the protocol: {error}"),
        };
        if let Err(fault) = session.handle(message) {
            return format!("the session ended: {fault}");
        }
    }
}

/// Writes queued messages, several in one round, and pings; returns the reason when the session is over.
async fn write(mut sink: SplitSink<Socket, Message>, mut outbox: Outbox, heard: &Heard, heartbeat: Duration) -> String {
    let patience = heartbeat * SILENT_HEARTBEATS;
    let frame = |message: wire::Message| Message::Binary(frame::encode(&message));
    let mut beat = tokio::time::interval(heartbeat);
    beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let first = tokio::select! {
            biased;
            message = outbox.next() => match message {
                Some(message) => frame(message),
                None => {
                    let _ = tokio::time::timeout(patience, sink.close()).await;
                    return "the client is gone".into();
                }
            },
            due = beat.tick() => {
                let late = due.elapsed();
                let silence = heard.silence();
                match silence > patience {
                    true if late >= patience => heard.note_late_beat(late),
                    true => return format!("the relay was silent for {} ms", milliseconds(silence)),
                    false => {}
                }
                Message::Ping(bytes::Bytes::new())
            }
        };
        let written = async {
            sink.feed(first).await?;
            // A round is bounded, since it has to end within the patience.
            let mut bytes = 0;
            while bytes < BATCH_BYTES
                && let Some(message) = outbox.try_next()
            {
                let message = frame(message);
                bytes += message.len();
                sink.feed(message).await?;
            }
            sink.flush().await
        };
        match tokio::time::timeout(patience, written).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return format!("the connection to the relay was lost: {error}"),
            Err(_elapsed) => return "the relay takes no more messages".into(),
        }
    }
}
