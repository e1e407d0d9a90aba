//! One WebSocket: reads and writes messages, sends heartbeats, and closes so that the peer can read why. The session
//! gives the messages their meaning.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use relay_proto::frame::{self, FrameError};
use relay_proto::session::SILENT_HEARTBEATS;
use relay_proto::wire::message::Payload;
use relay_proto::{ErrorCode, wire};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::sync::watch;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error as WebSocketError, Message};

use crate::auth::Verifier;
use crate::heard::LastHeard;
use crate::lifecycle::Phase;
use crate::meter::{Abuse, Metered};
use crate::outbound::{Outbound, OutboundQueue};
use crate::session::{Reply, Session};

/// Maximum time for a peer to read and answer our close.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);
/// Number of messages of one peer after which the others on its thread have their turn.
const MESSAGES_IN_A_ROW: u32 = 32;
/// Number of bytes after which a round of writing ends.
const BATCH_BYTES: usize = 1 << 20;
/// Maximum number of bytes that are discarded of a peer that has not read our close.
const MAX_DISCARDED_BYTES: u64 = 64 << 20;

/// Returns the caps of the transport. The cap of each kind of message is checked when it is decoded.
pub(crate) fn websocket_config() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(32 << 10)
        .write_buffer_size(64 << 10)
        .max_write_buffer_size(4 * frame::MAX_FRAME_BYTES)
        .max_message_size(Some(frame::MAX_FRAME_BYTES))
        .max_frame_size(Some(frame::MAX_FRAME_BYTES))
}

/// Reason why a connection ends.
enum End {
    /// We close it. `last` is sent before the close.
    Close { code: CloseCode, reason: String, last: Option<Box<Payload>> },
    /// We close it in the middle of a message, whose rest is discarded.
    CloseUnread { code: CloseCode, reason: String },
    /// The peer closes it.
    ClosedByPeer,
    /// The peer is gone, or silent.
    Gone,
}

/// Makes the end of a connection that we close.
fn close(code: CloseCode, reason: impl Into<String>) -> End {
    End::Close { code, reason: reason.into(), last: None }
}

/// Configuration of connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionConfig {
    /// Interval between two pings; a peer that is silent for [`SILENT_HEARTBEATS`] of them is closed.
    pub(crate) heartbeat: Duration,
    /// Time without a message and without an execution after which a connection is closed; `None`: never.
    pub(crate) idle: Option<Duration>,
}

/// Parts of a connection beside its socket.
pub(crate) struct Connection {
    pub(crate) config: ConnectionConfig,
    pub(crate) verifier: Arc<Verifier>,
    pub(crate) phase: watch::Receiver<Phase>,
    pub(crate) session: Session,
    pub(crate) outbound: Outbound,
    pub(crate) queue: OutboundQueue,
    pub(crate) heard: Arc<LastHeard>,
}

/// Serves a connection until it ends. The session and its executions end with it.
pub(crate) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    socket: WebSocketStream<Metered<S>>,
    connection: Connection,
) {
    let Connection { config, verifier, phase, mut session, outbound, mut queue, heard } = connection;
    let (idle, expired) = (session.idle(), session.expired());
    let unused = unused(&session, &heard, config.idle);
    let (mut sink, mut stream) = socket.split();
    let end = tokio::select! {
        end = read(&mut stream, &mut session, &verifier, &outbound, &heard) => end,
        end = write(&mut sink, &mut queue, &heard, config.heartbeat) => end,
        () = expired => close(CloseCode::Policy, "the token has expired"),
        () = unused => close(CloseCode::Normal, "nothing has happened for long"),
        end = drained(phase, idle) => end,
    };
    drop(session);
    let Ok(mut socket) = stream.reunite(sink) else { return };
    let (frame, last) = match end {
        End::Gone => return,
        End::ClosedByPeer => {
            // The library has an answer ready, which reading on sends.
            let answered = async { while socket.next().await.is_some_and(|message| message.is_ok()) {} };
            let _ = tokio::time::timeout(CLOSE_WITHIN, answered).await;
            return;
        }
        End::Close { code, reason, last } => (CloseFrame { code, reason: reason.into() }, last),
        End::CloseUnread { code, reason } => {
            let frame = CloseFrame { code, reason: reason.into() };
            let discarded = async {
                socket.get_mut().stop();
                // Sending works although reading has failed.
                if socket.close(Some(frame)).await.is_ok() {
                    discard(socket.get_mut()).await;
                }
            };
            let _ = tokio::time::timeout(CLOSE_WITHIN, discarded).await;
            return;
        }
    };
    tracing::debug!(code = %frame.code, reason = %frame.reason, "closing");
    let closed = async {
        while let Some(message) = queue.try_next() {
            socket.feed(Message::Binary(frame::encode(&message))).await?;
        }
        if let Some(last) = last {
            socket.feed(Message::Binary(frame::encode(&queue.number(*last)))).await?;
        }
        socket.close(Some(frame)).await?;
        // The peer's answer to the close, and whatever it sent before it.
        while socket.next().await.is_some_and(|message| message.is_ok()) {}
        Ok::<_, WebSocketError>(())
    };
    // A peer that does not answer has been told; there is nothing more to do for it.
    let _ = tokio::time::timeout(CLOSE_WITHIN, closed).await;
}

/// Discards what a peer still sends, so that it can read our close before the connection is reset under it.
async fn discard(socket: &mut (impl AsyncRead + Unpin)) {
    let mut scratch = vec![0; 64 << 10];
    let mut discarded = 0;
    while discarded < MAX_DISCARDED_BYTES {
        match socket.read(&mut scratch).await {
            Ok(length) if length > 0 => discarded += length as u64,
            _ => return,
        }
    }
}

/// Reads messages until the connection ends.
async fn read<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut SplitStream<WebSocketStream<S>>,
    session: &mut Session,
    verifier: &Verifier,
    outbound: &Outbound,
    heard: &LastHeard,
) -> End {
    let mut taken = 0_u32;
    while let Some(message) = stream.next().await {
        taken += 1;
        // However fast a peer sends, the others on this thread have their turn.
        if taken.is_multiple_of(MESSAGES_IN_A_ROW) {
            tokio::task::yield_now().await;
        }
        let frame = match message {
            Ok(Message::Binary(frame)) => frame,
            Ok(Message::Text(_)) => return close(CloseCode::Unsupported, "messages are binary protobuf"),
            Ok(Message::Close(_)) => return End::ClosedByPeer,
            // The library answers pings by itself.
            Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => continue,
            Err(error) => return failed(&error),
        };
        let message = match frame::decode(frame) {
            Ok(message) => message,
            Err(error @ FrameError::OverCap { .. }) => return close(CloseCode::Size, error.to_string()),
            Err(error) => return close(CloseCode::Invalid, close_reason(&error.to_string())),
        };
        heard.message();
        let answer = match session.handle(message) {
            Ok(Some(Reply::Renewal(token))) => Ok(Some(session.renew(verifier.verify_token(&token).await))),
            Ok(Some(Reply::Now(answer))) => Ok(Some(*answer)),
            Ok(None) => Ok(None),
            Err(violation) => Err(violation),
        };
        match answer {
            Ok(None) => {}
            Ok(Some(answer)) => match outbound.reserve(0).await {
                Some(room) => room.send(answer),
                None => return End::Gone,
            },
            Err(violation) => {
                let reason = close_reason(&violation.to_string());
                tracing::info!(reason, "the peer broke the protocol");
                let code = ErrorCode::ProtocolError.as_str().into();
                let last = Payload::Error(wire::Error { error: reason.clone(), code, ..wire::Error::default() });
                return End::Close { code: CloseCode::Protocol, reason, last: Some(Box::new(last)) };
            }
        }
    }
    End::Gone
}

/// Makes the end of a connection whose reading has failed.
fn failed(error: &WebSocketError) -> End {
    let (code, reason) = match error {
        WebSocketError::Capacity(_) => (CloseCode::Size, "the message is too large"),
        WebSocketError::Protocol(_) => (CloseCode::Protocol, "not the WebSocket protocol"),
        WebSocketError::Utf8(_) => (CloseCode::Invalid, "text that is not UTF-8"),
        WebSocketError::Io(error) => match error.get_ref().and_then(|error| error.downcast_ref::<Abuse>()) {
            Some(abuse) => {
                let code = if *abuse == Abuse::Length { CloseCode::Protocol } else { CloseCode::Policy };
                return End::CloseUnread { code, reason: abuse.to_string() };
            }
            None => return End::Gone,
        },
        _ => return End::Gone,
    };
    End::CloseUnread { code, reason: reason.into() }
}

/// Waits until the session has run nothing and the peer has sent no message for `most`; `None`: for ever.
fn unused<'a>(session: &Session, heard: &'a LastHeard, most: Option<Duration>) -> impl Future<Output = ()> + use<'a> {
    let activity = session.activity();
    async move {
        let Some(most) = most else { return std::future::pending().await };
        loop {
            let quiet = heard.quiet();
            if quiet >= most && activity.is_idle() {
                return;
            }
            // While something runs, the next look is as late as if it had just begun.
            let wait = if quiet >= most { most } else { most - quiet };
            tokio::time::sleep(wait.max(Duration::from_millis(10))).await;
        }
    }
}

/// Cuts a close reason, which may have 123 bytes.
fn close_reason(text: &str) -> String {
    text[..text.floor_char_boundary(120)].to_owned()
}

/// Writes queued messages, those that came together in one round, and pings.
async fn write<S: AsyncRead + AsyncWrite + Unpin>(
    sink: &mut SplitSink<WebSocketStream<S>, Message>,
    queue: &mut OutboundQueue,
    heard: &LastHeard,
    heartbeat: Duration,
) -> End {
    let patience = heartbeat * SILENT_HEARTBEATS;
    let mut beat = tokio::time::interval(heartbeat);
    beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let first = tokio::select! {
            biased;
            message = queue.next() => match message {
                Some(message) => Message::Binary(frame::encode(&message)),
                None => return End::Gone,
            },
            _ = beat.tick() => {
                if heard.silence() > patience {
                    return End::Gone;
                }
                Message::Ping(bytes::Bytes::new())
            }
        };
        let written = async {
            sink.feed(first).await?;
            // A bounded round: each has to end within the patience.
            let mut bytes = 0;
            while bytes < BATCH_BYTES
                && let Some(message) = queue.try_next()
            {
                let frame = frame::encode(&message);
                bytes += frame.len();
                sink.feed(Message::Binary(frame)).await?;
            }
            sink.flush().await
        };
        match tokio::time::timeout(patience, written).await {
            Ok(Ok(())) => {}
            // The socket has failed, or the peer reads nothing for too long.
            Ok(Err(_)) | Err(_) => return End::Gone,
        }
    }
}

/// Waits until a relay that shuts down may close the connection: nothing runs for it, or the phase is
/// [`Phase::Closing`].
async fn drained(mut phase: watch::Receiver<Phase>, idle: impl Future<Output = ()>) -> End {
    // The sender lives as long as the server.
    let _ = phase.wait_for(|phase| *phase != Phase::Serving).await;
    tokio::select! {
        () = idle => {}
        _ = phase.wait_for(|phase| *phase == Phase::Closing) => {}
    }
    close(CloseCode::Away, "the relay is shutting down")
}
