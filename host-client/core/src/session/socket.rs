//! One WebSocket to a relay: messages in, messages out, heartbeat. It ends for both directions at once.

use std::sync::Weak;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use relay_proto::session::SILENT_HEARTBEATS;
use relay_proto::time::millis;
use relay_proto::{frame, wire};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error as WebSocketError, Message, error::ProtocolError};

use super::connection::Socket;
use super::state::SessionLoss;
use super::{Outbox, Session, SessionFault, short_reason};

/// The number of bytes after which one round of writing ends.
const BATCH_BYTES: usize = 1 << 20;
/// The maximum time for the last words on a connection.
const FAREWELL: Duration = Duration::from_secs(5);

/// The end of a connection.
pub(super) enum End {
    /// It was lost; the session can go on on another one.
    Cut(String),
    /// The relay closed the session.
    Closed(SessionFault),
    /// This host ends the session: the client is gone, or the relay broke the protocol or ended the session.
    Ended(SessionFault),
}

impl End {
    fn cut(reason: impl Into<String>) -> Self {
        Self::Cut(reason.into())
    }

    fn ended(reason: impl Into<String>) -> Self {
        Self::Ended(SessionFault::new(reason.into()))
    }
}

/// Carries messages both ways until the connection ends.
pub(super) async fn carry(socket: Socket, session: &Weak<Session>, outbox: &mut Outbox, heartbeat: Duration) -> End {
    let (mut sink, stream) = socket.split();
    let heard = Heard::new();
    let end = tokio::select! {
        end = read(stream, session, &heard) => end,
        end = write(&mut sink, outbox, &heard, heartbeat) => end,
    };
    if matches!(end, End::Ended(_)) {
        farewell(&mut sink).await;
    }
    let note = heard.blocked_note();
    match end {
        End::Cut(reason) => End::Cut(reason + &note),
        End::Closed(SessionFault { reason, loss }) => End::Closed(SessionFault { reason: reason + &note, loss }),
        End::Ended(SessionFault { reason, loss }) => End::Ended(SessionFault { reason: reason + &note, loss }),
    }
}

/// Closes a connection so that the relay ends the session at once.
pub(super) async fn farewell<S: SinkExt<Message> + Unpin>(sink: &mut S) {
    let frame = CloseFrame { code: CloseCode::Normal, reason: "".into() };
    // A relay that is gone needs no farewell.
    let _ = tokio::time::timeout(FAREWELL, async {
        sink.send(Message::Close(Some(frame))).await?;
        sink.close().await
    })
    .await;
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
        millis(self.start.elapsed())
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
        tracing::warn!(late_ms = millis(late), "{BLOCKED}");
        self.blocked_ms.fetch_max(millis(late), Ordering::Relaxed);
        self.note();
    }

    /// Explains the loss of a connection in which the runtime was blocked; empty: it was not blocked.
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

/// Handles messages until the connection ends.
async fn read(mut stream: SplitStream<Socket>, session: &Weak<Session>, heard: &Heard) -> End {
    loop {
        let message = match stream.next().await {
            Some(Ok(message)) => message,
            Some(Err(error)) => return broken(&error),
            None => return End::cut("the connection to the relay was lost"),
        };
        heard.note();
        let frame = match message {
            Message::Binary(frame) => frame,
            Message::Close(close) => return closed(close, session),
            Message::Ping(_) | Message::Pong(_) => continue,
            Message::Text(_) | Message::Frame(_) => return End::ended("the relay sent what is not of the protocol"),
        };
        let Some(session) = session.upgrade() else { return End::ended("the client is gone") };
        let bytes = frame.len();
        let message = match frame::decode(frame) {
            Ok(message) => message,
            Err(error) => return End::ended(format!("the relay sent what is not of the protocol: {error}")),
        };
        if let Err(SessionFault { reason, loss }) = session.handle(message, bytes) {
            return End::Ended(SessionFault { reason: format!("the session ended: {reason}"), loss });
        }
    }
}

/// Returns the end of a connection that broke with this error.
fn broken(error: &WebSocketError) -> End {
    let reason = format!("the connection to the relay was lost: {error}");
    match error {
        WebSocketError::Protocol(ProtocolError::ResetWithoutClosingHandshake)
        | WebSocketError::Io(_)
        | WebSocketError::ConnectionClosed
        | WebSocketError::AlreadyClosed => End::Cut(reason),
        // The relay broke the WebSocket protocol, or sent too large a message.
        _ => End::ended(reason),
    }
}

/// Returns the end of a connection that the other side closed.
fn closed(close: Option<CloseFrame>, session: &Weak<Session>) -> End {
    let Some(CloseFrame { code, reason }) = close else { return End::cut("the relay closed the session") };
    let reason = format!("the relay closed the session: {}", short_reason(&reason));
    match code {
        CloseCode::Away if session.upgrade().is_some_and(|session| session.drains_at().is_some()) => {
            End::Closed(SessionFault::lost(SessionLoss::Drained, reason))
        }
        CloseCode::Normal
        | CloseCode::Protocol
        | CloseCode::Unsupported
        | CloseCode::Invalid
        | CloseCode::Policy
        | CloseCode::Size => End::Closed(SessionFault::new(reason)),
        // A server between the two went away, or the relay closed without a word about the session.
        _ => End::Cut(reason),
    }
}

/// Writes queued messages, several in one round, and pings, until the connection ends.
async fn write(sink: &mut SplitSink<Socket, Message>, outbox: &mut Outbox, heard: &Heard, heartbeat: Duration) -> End {
    let patience = heartbeat * SILENT_HEARTBEATS;
    let frame = |message: &wire::Message| Message::Binary(frame::encode(message));
    let mut beat = tokio::time::interval(heartbeat);
    beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let first = tokio::select! {
            biased;
            message = outbox.next_with(frame) => match message {
                Some(message) => message,
                None => return End::ended("the client is gone"),
            },
            due = beat.tick() => {
                let late = due.elapsed();
                let silence = heard.silence();
                match silence > patience {
                    true if late >= patience => heard.note_late_beat(late),
                    true => return End::cut(format!("the relay was silent for {} ms", millis(silence))),
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
                && let Some(message) = outbox.try_next_with(frame)
            {
                bytes += message.len();
                sink.feed(message).await?;
            }
            sink.flush().await
        };
        match tokio::time::timeout(patience, written).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return broken(&error),
            Err(_elapsed) => return End::cut("the relay takes no more messages"),
        }
    }
}
