//! Ends connections so that the peer can read why.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use relay_proto::wire::SessionLoss;
use relay_proto::wire::message::Payload;
use relay_proto::{ErrorCode, frame, wire};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error as WebSocketError, Message};

use super::{Resumption, Socket};
use crate::outbound::OutboundQueue;

/// Maximum time for a peer to read and answer our close.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);
/// Maximum number of bytes that are discarded of a peer that has not read our close.
const MAX_DISCARDED_BYTES: u64 = 64 << 20;

/// Reason why a connection ends.
pub(super) enum End {
    /// We close it.
    Close(Close),
    /// We close it in the middle of a message, whose rest is discarded.
    CloseUnread { code: CloseCode, reason: String },
    /// The peer closes it. `is_over`: it wants no more of its session.
    ClosedByPeer { is_over: bool },
    /// It is lost: the peer is gone or silent.
    Lost,
    /// The host has resumed its session on another connection.
    Replaced(Box<Resumption>),
    /// The host wants to go on with a session of an earlier connection.
    Resume(wire::Resume),
}

/// A close of ours.
pub(super) struct Close {
    code: CloseCode,
    reason: String,
    /// Message that is sent before the close.
    last: Option<Box<Payload>>,
    /// Reason that a host is told which can resume sessions.
    pub(super) loss: Option<SessionLoss>,
}

impl Close {
    /// Makes a close of ours.
    pub(super) fn new(code: CloseCode, reason: &str) -> Self {
        Self { code, reason: self::reason(reason), last: None, loss: None }
    }

    /// Adds a message that is sent before the close.
    pub(super) fn saying(self, message: Payload) -> Self {
        Self { last: Some(Box::new(message)), ..self }
    }

    /// Adds the reason for which the session cannot be resumed.
    pub(super) fn losing(self, loss: SessionLoss) -> Self {
        Self { loss: Some(loss), ..self }
    }
}

impl From<Close> for End {
    fn from(close: Close) -> Self {
        Self::Close(close)
    }
}

/// Cuts a close reason, which may have 123 bytes.
pub(super) fn reason(text: &str) -> String {
    text[..text.floor_char_boundary(120)].to_owned()
}

/// Makes the end of a connection that the peer closes. With a code that tells of a fault, the session is not over.
pub(super) fn of_peer(close: Option<CloseFrame>) -> End {
    let is_over =
        close.is_none_or(|close| matches!(close.code, CloseCode::Normal | CloseCode::Away | CloseCode::Status));
    End::ClosedByPeer { is_over }
}

/// Closes a connection: sends what is queued, the last message, and the close. `knows_loss`: the peer can resume sessions.
pub(super) async fn close(mut socket: Socket, mut queue: OutboundQueue, close: Close, knows_loss: bool) {
    let Close { code, reason, last, loss } = close;
    tracing::debug!(%code, reason, "closing");
    let lost = loss.filter(|_| knows_loss).map(|loss| Box::new(session_lost(loss, &reason)));
    let closed = async {
        while let Some(frame) = queue.try_next() {
            socket.feed(Message::Binary(frame)).await?;
        }
        // The last word of a session has no number.
        for payload in last.into_iter().chain(lost) {
            socket.feed(Message::Binary(frame::encode(&(*payload).into()))).await?;
        }
        socket.close(Some(CloseFrame { code, reason: reason.into() })).await?;
        // The peer's answer to the close, and whatever it sent before it.
        while socket.next().await.is_some_and(|message| message.is_ok()) {}
        Ok::<_, WebSocketError>(())
    };
    // A peer that does not answer has been told; there is nothing more to do for it.
    let _ = tokio::time::timeout(CLOSE_WITHIN, closed).await;
}

/// Returns the last word of a session that cannot be resumed.
fn session_lost(loss: SessionLoss, reason: &str) -> Payload {
    let (error, code) = (reason.to_owned(), ErrorCode::SessionLost.as_str().into());
    Payload::Error(wire::Error { error, code, loss: loss.into(), ..wire::Error::default() })
}

/// Closes a connection that another one of the same session has replaced.
pub(super) async fn replaced(mut socket: Socket) {
    let reason = "the session was resumed on another connection";
    let closed = async {
        let last = frame::encode(&session_lost(SessionLoss::Epoch, reason).into());
        socket.send(Message::Binary(last)).await?;
        socket.close(Some(CloseFrame { code: CloseCode::Policy, reason: reason.into() })).await?;
        while socket.next().await.is_some_and(|message| message.is_ok()) {}
        Ok::<_, WebSocketError>(())
    };
    let _ = tokio::time::timeout(CLOSE_WITHIN, closed).await;
}

/// Sends the library's answer to the peer's close.
pub(super) async fn answered(mut socket: Socket) {
    // The library has it ready; reading on sends it.
    let answered = async { while socket.next().await.is_some_and(|message| message.is_ok()) {} };
    let _ = tokio::time::timeout(CLOSE_WITHIN, answered).await;
}

/// Closes a connection in the middle of a message.
pub(super) async fn unread(mut socket: Socket, code: CloseCode, reason: String) {
    let frame = CloseFrame { code, reason: self::reason(&reason).into() };
    let discarded = async {
        socket.get_mut().stop();
        // Sending works although reading has failed.
        if socket.close(Some(frame)).await.is_ok() {
            discard(socket.get_mut()).await;
        }
    };
    let _ = tokio::time::timeout(CLOSE_WITHIN, discarded).await;
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
