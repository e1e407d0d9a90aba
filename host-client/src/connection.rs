//! One WebSocket to a relay: messages in, messages out, heartbeat. It ends for both directions at once.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use http::{StatusCode, Uri, header};
use relay_proto::wire::message::Payload;
use relay_proto::{ExecutionId, PROTOCOL_VERSION, frame, wire};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error as WebSocketError, Message};

use crate::approval::Grants;
use crate::client::ClientConfig;
use crate::dispatch::{self, Caller};
use crate::error::{Error, ExecutionError};
use crate::host::{Host, random_key};
use crate::ledger::{Ledger, Refused};
use crate::registry::Tools;
use crate::tls;
use crate::tools::ToolSpec;

/// How many messages wait to be written.
const MESSAGES: usize = 256;
/// How many bytes are written in one round.
const BATCH_BYTES: usize = 1 << 20;
/// The most bytes that a text of the relay adds to an error of ours.
const MAX_REASON_BYTES: usize = 200;

type Socket = WebSocketStream<Box<dyn Duplex>>;

/// TCP, or TLS over it.
trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Duplex for S {}

/// What both directions share with the client.
pub(crate) struct Shared {
    pub(crate) host: Arc<Host>,
    /// What was approved for the whole session.
    pub(crate) grants: Grants,
    /// What the session is told apart by in the audit: not by a word of the relay.
    pub(crate) key: String,
    pub(crate) ledger: Ledger,
    pub(crate) outbound: mpsc::Sender<Payload>,
    /// Who waits for the answer to a renewal.
    pub(crate) renewal: Mutex<Option<oneshot::Sender<wire::Renewed>>>,
    /// Whether the relay wants to know of calls that await approval.
    knows_states: bool,
    received: AtomicU64,
}

impl Shared {
    /// What a session begins with, and its messages to the relay.
    fn new(host: Arc<Host>, knows_states: bool) -> (Arc<Self>, mpsc::Receiver<Payload>) {
        let (outbound, queue) = mpsc::channel(MESSAGES);
        let shared = Self {
            host,
            grants: Grants::default(),
            key: random_key(),
            ledger: Ledger::default(),
            outbound,
            renewal: Mutex::default(),
            knows_states,
            received: AtomicU64::new(1),
        };
        (Arc::new(shared), queue)
    }

    /// Who waits for the answer to a renewal, once.
    pub(crate) fn take_renewal(&self) -> Option<oneshot::Sender<wire::Renewed>> {
        self.renewal.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Connects, says hello, and takes messages from then on in a task of its own.
pub(crate) async fn connect(config: &ClientConfig, host: Arc<Host>) -> Result<(Arc<Shared>, wire::Welcome), Error> {
    // What changes from here on is told later.
    let changes = host.tools.changes();
    let connected = tokio::time::timeout(config.connect_timeout, open(config, &host.tools)).await;
    let (socket, welcome) = connected.unwrap_or_else(|_| {
        let error = std::io::Error::from(std::io::ErrorKind::TimedOut);
        Err(Error::Unreachable { url: config.url.clone(), error })
    })?;
    let offers = |name: &str| welcome.features.iter().any(|feature| feature == name);
    let knows_changes = offers("tools_changed");
    let (shared, queue) = Shared::new(host, offers("call_state"));
    let weak = Arc::downgrade(&shared);
    // A timer takes neither nothing nor for ever.
    let heartbeat = config.heartbeat.clamp(Duration::from_millis(10), Duration::from_secs(3_600));
    tokio::spawn(async move {
        let mut end = EndGuard { shared: weak.clone(), reason: "the runtime of the connection is gone".into() };
        let (sink, stream) = socket.split();
        let heard = Heard { start: Instant::now(), at_ms: AtomicU64::new(0) };
        let reason = tokio::select! {
            reason = read(stream, &weak, &heard) => reason,
            reason = write(sink, queue, &weak, &heard, heartbeat) => reason,
            never = announce(changes, &weak), if knows_changes => match never {},
        };
        end.reason = reason;
    });
    Ok((shared, welcome))
}

/// How long changes of the tools are collected before the relay is told, and how long until it is told of others.
const COLLECTED: Duration = Duration::from_millis(50);
const BETWEEN_CHANGES: Duration = Duration::from_secs(1);

/// Tells the relay whenever there are other tools.
async fn announce(mut changes: watch::Receiver<u64>, shared: &WeakShared) -> Infallible {
    // What the relay knows, by its digest.
    let mut known = None;
    while changes.changed().await.is_ok() {
        tokio::time::sleep(if known.is_some() { BETWEEN_CHANGES } else { COLLECTED }).await;
        changes.mark_unchanged();
        let Some((tools, outbound)) = shared.upgrade().map(|it| (announced(&it.host.tools), it.outbound.clone()))
        else {
            break;
        };
        match tools {
            // Nobody is left to hear it when this fails.
            Ok(tools) => {
                let payload = Payload::ToolsChanged(wire::ToolsChanged { tools });
                let digest: [u8; 32] = Sha256::digest(frame::encode(&payload.clone().into())).into();
                if known.replace(digest) != Some(digest) {
                    drop(outbound.send(payload).await);
                }
            }
            Err(reason) => tracing::error!(reason, "the relay is not told that there are other tools"),
        }
    }
    std::future::pending().await
}

/// Ends everything that runs when the connection's task does, however it does.
struct EndGuard {
    shared: WeakShared,
    reason: String,
}

impl Drop for EndGuard {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            tracing::debug!(reason = self.reason, "the session is over");
            shared.ledger.lose(&self.reason);
            // Whoever waits for a renewal waits no longer.
            shared.take_renewal();
        }
    }
}

/// The TCP connection, the WebSocket, hello and welcome.
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
        Some(tls) => Box::new(tls.connect(stream).await.map_err(unreachable)?),
        None => Box::new(stream),
    };
    let limits = WebSocketConfig::default()
        .read_buffer_size(32 << 10)
        .write_buffer_size(64 << 10)
        .max_write_buffer_size(4 * frame::MAX_FRAME_BYTES)
        .max_message_size(Some(frame::MAX_FRAME_BYTES))
        .max_frame_size(Some(frame::MAX_FRAME_BYTES));
    let opened = tokio_tungstenite::client_async_with_config(request, stream, Some(limits)).await;
    let (mut socket, _response) = opened.map_err(|error| match error {
        WebSocketError::Http(response) if response.status() == StatusCode::UNAUTHORIZED => Error::Unauthenticated,
        // A redirect is refused like everything else: the token is for this address alone.
        WebSocketError::Http(response) => Error::Refused(format!("HTTP status {}", response.status())),
        WebSocketError::Io(error) => unreachable(error),
        error => Error::Refused(error.to_string()),
    })?;
    let tools = announced(tools).map_err(Error::Tools)?;
    let hello =
        wire::Hello { protocol_version: PROTOCOL_VERSION, features: Vec::new(), tools, client: config.name.clone() };
    let hello = wire::Message { sequence: 1, ..Payload::Hello(hello).into() };
    let sent = socket.send(Message::Binary(frame::encode(&hello))).await;
    sent.map_err(|error| Error::Refused(error.to_string()))?;
    let welcome = welcome(&mut socket).await.map_err(Error::Refused)?;
    Ok((socket, welcome))
}

/// The tools that code may call, for the relay.
///
/// # Errors
/// They are more than one message can hold.
fn announced(tools: &Tools) -> Result<Vec<wire::Tool>, String> {
    let of = |spec: &ToolSpec| wire::Tool {
        name: spec.name.clone(),
        description: spec.description.clone(),
        input_schema: spec.input_schema.to_string().into(),
        output_schema: spec.output_schema.as_ref().map(ToString::to_string).unwrap_or_default().into(),
    };
    let tools: Vec<_> = tools.callable().iter().map(|registered| of(&registered.spec)).collect();
    let message = Payload::ToolsChanged(wire::ToolsChanged { tools });
    // A hello says a little more.
    if let Some(cap) = frame::cap(message.kind().0)
        && let Payload::ToolsChanged(wire::ToolsChanged { tools }) = &message
        && (frame::payload_len(&message) + 1_024 > cap.bytes || tools.len() + 16 > cap.items)
    {
        let (count, bytes) = (tools.len(), frame::payload_len(&message));
        return Err(format!(
            "{count} tools with {bytes} bytes of names, descriptions and schemas are too many; at most {} tools and {} bytes can \
             be announced: register fewer, or amend the manifest of those that code need not call",
            cap.items, cap.bytes
        ));
    }
    match message {
        Payload::ToolsChanged(wire::ToolsChanged { tools }) => Ok(tools),
        _ => Ok(Vec::new()),
    }
}

async fn welcome(socket: &mut Socket) -> Result<wire::Welcome, String> {
    loop {
        let frame = match socket.next().await {
            Some(Ok(Message::Binary(frame))) => frame,
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
            Some(Ok(Message::Close(Some(close)))) => return Err(format!("it closed: {}", short(&close.reason))),
            Some(Ok(_)) | None => return Err("it closed before welcome".into()),
            Some(Err(error)) => return Err(error.to_string()),
        };
        let message = frame::decode(frame).map_err(|error| error.to_string())?;
        return match message.payload {
            Some(Payload::Welcome(welcome)) if message.sequence == 1 => Ok(welcome),
            Some(Payload::Error(error)) => Err(short(&error.error).to_owned()),
            _ => Err("its first message is no welcome".into()),
        };
    }
}

fn short(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_REASON_BYTES)]
}

/// When the relay was last heard.
struct Heard {
    start: Instant,
    at_ms: AtomicU64,
}

impl Heard {
    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

type WeakShared = std::sync::Weak<Shared>;

/// Takes messages until the session is over; gives the reason.
async fn read(mut stream: SplitStream<Socket>, shared: &WeakShared, heard: &Heard) -> String {
    loop {
        let message = match stream.next().await {
            Some(Ok(message)) => message,
            Some(Err(error)) => return format!("the connection to the relay was lost: {error}"),
            None => return "the connection to the relay was lost".into(),
        };
        heard.at_ms.store(heard.elapsed_ms(), Ordering::Relaxed);
        let frame = match message {
            Message::Binary(frame) => frame,
            Message::Close(Some(close)) => return format!("the relay closed the session: {}", short(&close.reason)),
            Message::Close(None) => return "the relay closed the session".into(),
            Message::Ping(_) | Message::Pong(_) => continue,
            Message::Text(_) | Message::Frame(_) => return "the relay sent what is not of the protocol".into(),
        };
        let Some(shared) = shared.upgrade() else { return "the client is gone".into() };
        let message = match frame::decode(frame) {
            Ok(message) => message,
            Err(error) => return format!("the relay sent what is not of the protocol: {error}"),
        };
        if let Err(reason) = handle(&shared, message) {
            return format!("the session ended: {reason}");
        }
    }
}

/// A session without a connection, and what it would send.
#[cfg(any(feature = "bench", feature = "fuzzing"))]
pub(crate) fn without_socket(host: Arc<Host>) -> (Arc<Shared>, mpsc::Receiver<Payload>) {
    Shared::new(host, true)
}

/// What one message means.
pub(crate) fn handle(shared: &Arc<Shared>, message: wire::Message) -> Result<(), String> {
    if let Some(Payload::Error(error)) = &message.payload
        && error.execution_id.is_empty()
    {
        // The last word of a relay that ends the session, outside its numbering.
        return Err(short(&error.error).to_owned());
    }
    if message.payload.is_none() && message.sequence == 0 {
        // What is empty altogether does not even count.
        return Ok(());
    }
    let expected = shared.received.fetch_add(1, Ordering::Relaxed) + 1;
    if message.sequence != expected {
        return Err(format!("message {} came in the place of {expected}", message.sequence));
    }
    // A kind that a newer relay has counts, and means nothing here.
    let Some(payload) = message.payload else { return Ok(()) };
    let execution = |id: String| ExecutionId::try_from(id).map_err(|error| error.to_string());
    match payload {
        Payload::ToolCall(call) => start_call(shared, call),
        Payload::Result(mut result) => {
            let id = execution(std::mem::take(&mut result.execution_id))?;
            if shared.ledger.is_relays(&id) {
                shared.ledger.end(&id, Ok(result));
            }
            Ok(())
        }
        Payload::Error(mut error) => {
            let id = execution(std::mem::take(&mut error.execution_id))?;
            if shared.ledger.is_relays(&id) {
                shared.ledger.end(&id, Err(ExecutionError::from(error)));
            }
            Ok(())
        }
        Payload::Output(output) => {
            let id = execution(output.execution_id)?;
            if shared.ledger.is_relays(&id) {
                shared.ledger.output(&id, output.items);
            }
            Ok(())
        }
        Payload::Cancel(cancel) => {
            let id = relay_proto::CallId::try_from(cancel.call_id.as_str()).map_err(|error| error.to_string())?;
            let execution = execution(cancel.execution_id)?;
            if shared.ledger.is_relays(&execution) {
                shared.ledger.cancel_call(id, &execution);
            }
            Ok(())
        }
        Payload::Ping(wire::Ping { id }) => {
            // A relay that asks faster than it reads goes without an answer.
            let _ = shared.outbound.try_send(Payload::Pong(wire::Pong { id }));
            Ok(())
        }
        Payload::Pong(_) => Ok(()),
        Payload::Renewed(renewed) => {
            let waiting = shared.take_renewal().ok_or("a renewal was answered that nobody asked for")?;
            // Whoever asked may have stopped waiting.
            let _ = waiting.send(renewed);
            Ok(())
        }
        other => Err(format!("a {} message is not expected here", other.kind().1)),
    }
}

fn start_call(shared: &Arc<Shared>, call: wire::ToolCall) -> Result<(), String> {
    let id = dispatch::call_id(&call).ok_or("a tool call has no usable id")?;
    let execution = ExecutionId::try_from(call.execution_id.clone()).map_err(|error| error.to_string())?;
    let permit = match shared.ledger.enter(id, &execution, &call) {
        Ok(permit) => permit,
        Err(Refused::Violation(reason)) => {
            tracing::warn!(tool = dispatch::short(&call.tool), reason, "the relay broke its word");
            return Err(reason);
        }
        Err(refused) => {
            if let Refused::Failed(code, reason) = &refused {
                tracing::warn!(tool = dispatch::short(&call.tool), %code, reason, "a call was not let in");
            }
            if let Some(answer) = dispatch::refusal(call, refused) {
                // Refusals come only from a relay that breaks its word; it may wait for them in vain.
                let _ = shared.outbound.try_send(Payload::ToolResult(answer));
            }
            return Ok(());
        }
    };
    let task = {
        let (shared, execution) = (Arc::clone(shared), execution.clone());
        tokio::spawn(async move {
            let caller = match shared.knows_states {
                true => Caller::Relay(&shared.outbound),
                false => Caller::UnawareRelay,
            };
            if let Some(answer) =
                dispatch::dispatch(&shared.host, &shared.grants, &shared.ledger, permit, call, caller).await
            {
                // While the queue is full, the call keeps its place. Nobody is left to hear the answer when this fails.
                if let Ok(room) = shared.outbound.reserve().await {
                    shared.ledger.sent(id, &execution);
                    room.send(Payload::ToolResult(answer));
                }
            }
        })
    };
    shared.ledger.set_abort(id, &execution, task.abort_handle());
    Ok(())
}

/// Writes what is queued, together what came together, and pings; gives the reason when it ends.
async fn write(
    mut sink: SplitSink<Socket, Message>,
    mut queue: mpsc::Receiver<Payload>,
    shared: &WeakShared,
    heard: &Heard,
    heartbeat: Duration,
) -> String {
    let patience = heartbeat * 3;
    // Hello was the first.
    let mut sequence = 1;
    let mut frame = |payload: Payload| {
        sequence += 1;
        let acknowledged = shared.upgrade().map_or(0, |shared| shared.received.load(Ordering::Relaxed));
        Message::Binary(frame::encode(&wire::Message { sequence, acknowledged, ..payload.into() }))
    };
    let mut beat = tokio::time::interval(heartbeat);
    beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let first = tokio::select! {
            biased;
            payload = queue.recv() => match payload {
                Some(payload) => frame(payload),
                None => {
                    let _ = tokio::time::timeout(patience, sink.close()).await;
                    return "the client is gone".into();
                }
            },
            _ = beat.tick() => {
                let silence = heard.elapsed_ms().saturating_sub(heard.at_ms.load(Ordering::Relaxed));
                if Duration::from_millis(silence) > patience {
                    return format!("the relay was silent for {silence} ms");
                }
                Message::Ping(bytes::Bytes::new())
            }
        };
        let written = async {
            sink.feed(first).await?;
            // Together, but not for ever: each round has to come to its end within the patience.
            let mut bytes = 0;
            while bytes < BATCH_BYTES
                && let Ok(payload) = queue.try_recv()
            {
                let message = frame(payload);
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
