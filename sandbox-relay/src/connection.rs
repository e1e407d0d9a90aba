//! One WebSocket: frames in, frames out, heartbeat, and an end that the peer can read. What the messages mean is the
//! session's.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use relay_proto::frame::{self, FrameError};
use relay_proto::wire::message::Payload;
use relay_proto::{ErrorCode, wire};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::sync::watch;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error as WebSocketError, Message};

use crate::auth::Verifier;
use crate::meter::{Abuse, Heard, Metered};
use crate::outbound::{Outbound, OutboundQueue};
use crate::session::{Reply, Session};
use crate::{App, Phase};

/// How long a peer has to read and answer our close.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);
/// After how many messages of one peer the others on its thread have their turn.
const MESSAGES_IN_A_ROW: u32 = 32;
/// How many bytes are written in one round.
const BATCH_BYTES: usize = 1 << 20;
/// How much a peer may still send while it has not read our close.
const MAX_DISCARDED_BYTES: u64 = 64 << 20;

/// The caps of the transport; those of each kind of message are checked when it is decoded.
pub(crate) fn websocket_config() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(32 << 10)
        .write_buffer_size(64 << 10)
        .max_write_buffer_size(4 * frame::MAX_FRAME_BYTES)
        .max_message_size(Some(frame::MAX_FRAME_BYTES))
        .max_frame_size(Some(frame::MAX_FRAME_BYTES))
}

/// Why a connection ends.
enum End {
    /// We close it.
    Close { code: CloseCode, reason: String, last: Option<Box<Payload>> },
    /// We close it in the middle of a message that is not read to its end.
    CloseUnread { code: CloseCode, reason: String },
    /// The peer closes it.
    ClosedByPeer,
    /// The peer is not there any more.
    Gone,
}

fn close(code: CloseCode, reason: impl Into<String>) -> End {
    End::Close { code, reason: reason.into(), last: None }
}

/// What a connection has beside its socket.
pub(crate) struct Connection {
    pub(crate) app: Arc<App>,
    pub(crate) session: Session,
    pub(crate) outbound: Outbound,
    pub(crate) queue: OutboundQueue,
    pub(crate) heard: Arc<Heard>,
}

/// Serves a connection until it ends; executions of its session end with it.
pub(crate) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    socket: WebSocketStream<Metered<S>>,
    connection: Connection,
) {
    let Connection { app, mut session, outbound, mut queue, heard } = connection;
    let (idle, expired) = (session.idle(), session.expired());
    let phase = app.phase.subscribe();
    let unused = unused(&session, &heard, app.idle);
    let (mut sink, mut stream) = socket.split();
    let end = tokio::select! {
        end = read(&mut stream, &mut session, &app.verifier, &outbound, &heard) => end,
        end = write(&mut sink, &mut queue, &heard, app.heartbeat) => end,
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

/// Reads and forgets, so that the peer gets to read our close before the connection is reset under it.
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

/// Takes messages until the connection ends.
async fn read<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut SplitStream<WebSocketStream<S>>,
    session: &mut Session,
    verifier: &Verifier,
    outbound: &Outbound,
    heard: &Heard,
) -> End {
    let mut taken = 0_u32;
    while let Some(message) = stream.next().await {
        taken += 1;
        // However fast a peer sends: the others on this thread have their turn.
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
            Err(error) => return close(CloseCode::Invalid, short(&error.to_string())),
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
                let reason = short(&violation.to_string());
                tracing::info!(reason, "the peer broke the protocol");
                let code = ErrorCode::ProtocolError.as_str().into();
                let last = Payload::Error(wire::Error { error: reason.clone(), code, ..wire::Error::default() });
                return End::Close { code: CloseCode::Protocol, reason, last: Some(Box::new(last)) };
            }
        }
    }
    End::Gone
}

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

/// Completes when the session has run nothing and the peer has said nothing for `most`.
fn unused<'a>(session: &Session, heard: &'a Heard, most: Option<Duration>) -> impl Future<Output = ()> + use<'a> {
    let activity = session.activity();
    async move {
        let Some(most) = most else { return std::future::pending().await };
        loop {
            let quiet = heard.quiet();
            if quiet >= most && activity.is_idle() {
                return;
            }
            // While something runs, it is looked at again after as long as if it had just begun.
            let wait = if quiet >= most { most } else { most - quiet };
            tokio::time::sleep(wait.max(Duration::from_millis(10))).await;
        }
    }
}

/// A close reason has room for 123 bytes.
fn short(text: &str) -> String {
    text[..text.floor_char_boundary(120)].to_owned()
}

/// Writes what is queued, together what came together, and pings.
async fn write<S: AsyncRead + AsyncWrite + Unpin>(
    sink: &mut SplitSink<WebSocketStream<S>, Message>,
    queue: &mut OutboundQueue,
    heard: &Heard,
    heartbeat: Duration,
) -> End {
    let patience = heartbeat * 3;
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
            // Together, but not for ever: each round has to come to its end within the patience.
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
            // It takes nothing any more, or reads nothing for too long.
            Ok(Err(_)) | Err(_) => return End::Gone,
        }
    }
}

/// Ends the connection when the relay shuts down: as soon as nothing runs for it, and at the latest when told.
async fn drained(mut phase: watch::Receiver<Phase>, idle: impl Future<Output = ()>) -> End {
    // The sender lives as long as the server.
    let _ = phase.wait_for(|phase| *phase != Phase::Serving).await;
    tokio::select! {
        () = idle => {}
        _ = phase.wait_for(|phase| *phase == Phase::Closing) => {}
    }
    close(CloseCode::Away, "the relay is shutting down")
}
