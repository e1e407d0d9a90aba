//! Takes the messages of one connection.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::SplitStream;
use relay_proto::frame::{self, FrameError};
use relay_proto::wire::message::Payload;
use relay_proto::{ErrorCode, wire};
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error as WebSocketError, Message};

use super::close::{self, Close, End};
use super::{Resumption, Socket};
use crate::auth::Verifier;
use crate::heard::LastHeard;
use crate::meter::Abuse;
use crate::metrics;
use crate::outbound::Outbound;
use crate::resume::{Resumable, Resumables};
use crate::session::{Session, Taken};

/// Number of messages of one peer after which the others on its thread have their turn.
const MESSAGES_IN_A_ROW: u32 = 32;

pub(super) type Stream = SplitStream<Socket>;

/// Reads the messages of one connection for a session.
pub(super) struct Reader<'a> {
    pub(super) session: &'a mut Session,
    pub(super) verifier: &'a Verifier,
    pub(super) outbound: &'a Outbound,
    pub(super) resumables: &'a Resumables<Resumption>,
    pub(super) resumable: &'a mut Option<Arc<Resumable<Resumption>>>,
    pub(super) heard: &'a LastHeard,
    /// Epoch of the connection.
    pub(super) epoch: u64,
}

impl Reader<'_> {
    /// Reads messages until the connection ends, or its host resumes the session on another one.
    pub(super) async fn read(&mut self, stream: &mut Stream) -> End {
        // Hello makes it a session that can be resumed.
        if self.resumable.is_none()
            && let Some(end) = self.read_until(stream, |reader| reader.resumable.is_some()).await
        {
            return end;
        }
        let Some(resumable) = self.resumable.as_ref().map(Arc::clone) else { return End::Lost };
        tokio::select! {
            biased;
            resumption = resumable.next() => End::Replaced(resumption),
            end = self.read_resumable(stream, &resumable) => end,
        }
    }

    async fn read_resumable(&mut self, stream: &mut Stream, resumable: &Resumable<Resumption>) -> End {
        if let Some(end) = self.read_until(stream, |_| true).await {
            return end;
        }
        // A message on this connection shows that its host has the newest secret.
        resumable.confirm(self.epoch);
        self.read_until(stream, |_| false).await.unwrap_or(End::Lost)
    }

    /// Reads messages until the connection ends; `None`: after a message, `until` is true.
    async fn read_until(&mut self, stream: &mut Stream, until: impl Fn(&Self) -> bool) -> Option<End> {
        let (outbound, mut taken) = (self.outbound, 0_u32);
        let room = outbound.reserve(0);
        tokio::pin!(room);
        loop {
            if let Some(token) = self.session.renewal() {
                let verified = self.verifier.verify_token(token).await;
                self.session.renew(verified);
            }
            // The acknowledgement that makes room may be in the next message, so a few answers may wait while the relay reads
            // on. When the connection is lost, the next one gets them.
            let message = tokio::select! {
                biased;
                found = room.as_mut(), if self.session.has_answer() => {
                    let Some(found) = found else { return Some(End::Lost) };
                    if let Some(answer) = self.session.take_answer() {
                        found.send(answer);
                    }
                    room.set(outbound.reserve(0));
                    continue;
                }
                message = stream.next(), if self.session.has_room_for_answers() => message,
            };
            taken = taken.wrapping_add(1);
            // However fast a peer sends, the others on this thread have their turn.
            if taken.is_multiple_of(MESSAGES_IN_A_ROW) {
                tokio::task::yield_now().await;
            }
            match self.take(message) {
                Ok(true) if until(self) => return None,
                Ok(_) => {}
                Err(end) => return Some(*end),
            }
        }
    }

    /// Takes one message of the transport. Returns whether it was one for the session.
    fn take(&mut self, message: Option<Result<Message, WebSocketError>>) -> Result<bool, Box<End>> {
        let end = |code, reason: &str| Err(Box::new(Close::new(code, reason).into()));
        let frame = match message {
            Some(Ok(Message::Binary(frame))) => frame,
            Some(Ok(Message::Text(_))) => return end(CloseCode::Unsupported, "messages are binary protobuf"),
            Some(Ok(Message::Close(close))) => return Err(Box::new(close::of_peer(close))),
            // The library answers pings by itself.
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => return Ok(false),
            Some(Err(error)) => return Err(Box::new(failed(&error))),
            None => return Err(Box::new(End::Lost)),
        };
        let bytes = frame.len();
        let message = match frame::decode(frame) {
            Ok(message) => message,
            Err(error @ FrameError::OverCap { .. }) => return end(CloseCode::Size, &error.to_string()),
            Err(error) => return end(CloseCode::Invalid, &error.to_string()),
        };
        self.heard.message();
        metrics::received(bytes);
        match self.session.take(message, bytes) {
            Ok(Taken::Resume(resume)) => return Err(Box::new(End::Resume(resume))),
            Ok(Taken::Done) => {}
            Err(violation) => {
                let reason = close::reason(&violation.to_string());
                tracing::info!(reason, "the peer broke the protocol");
                let code = ErrorCode::ProtocolError.as_str().into();
                let last = Payload::Error(wire::Error { error: reason.clone(), code, ..wire::Error::default() });
                return Err(Box::new(Close::new(CloseCode::Protocol, &reason).saying(last).into()));
            }
        }
        if let Some(epochs) = self.session.take_epochs() {
            let (number, subject) = (self.session.number(), self.session.subject());
            *self.resumable = Some(self.resumables.register(number, subject, epochs, self.outbound.clone()));
        }
        Ok(true)
    }
}

/// Makes the end of a connection whose reading has failed.
fn failed(error: &WebSocketError) -> End {
    let (code, reason) = match error {
        WebSocketError::Capacity(_) => (CloseCode::Size, "the message is too large"),
        // The connection ended without a close, perhaps in the middle of a message.
        WebSocketError::Protocol(ProtocolError::ResetWithoutClosingHandshake) => return End::Lost,
        WebSocketError::Protocol(_) => (CloseCode::Protocol, "not the WebSocket protocol"),
        WebSocketError::Utf8(_) => (CloseCode::Invalid, "text that is not UTF-8"),
        WebSocketError::Io(error) => match error.get_ref().and_then(|error| error.downcast_ref::<Abuse>()) {
            Some(abuse) => {
                let code = if *abuse == Abuse::Length { CloseCode::Protocol } else { CloseCode::Policy };
                return End::CloseUnread { code, reason: abuse.to_string() };
            }
            None => return End::Lost,
        },
        _ => return End::Lost,
    };
    End::CloseUnread { code, reason: reason.into() }
}
