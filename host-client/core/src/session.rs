//! A session with a relay, as messages: it handles those of the relay, and queues those for the relay. There is no
//! socket here.

mod announce;
pub(crate) mod config;
pub(crate) mod connection;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use relay_proto::wire::message::Payload;
use relay_proto::{CallId, ExecutionId, wire};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot, watch};

use crate::call::dispatch::{self, Caller};
use crate::call::ledger::{Ledger, Refused};
use crate::error::ExecutionError;
use crate::host::Host;
use crate::random::random_key;
use crate::text::short_name;
use announce::Announced;

/// The maximum number of messages that wait to be written.
const MESSAGES: usize = 256;
/// The maximum length of a relay's text in an error of the host, in bytes; the rest is cut off.
const MAX_REASON_BYTES: usize = 200;

/// The reason why a session ends: the relay ended it, or broke the protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct SessionFault(String);

/// One session: the executions and calls that run in it, and the way to the relay.
pub(crate) struct Session {
    pub(crate) host: Arc<Host>,
    /// The random name of the session in the audit. The relay does not choose it.
    pub(crate) key: String,
    pub(crate) ledger: Ledger,
    pub(crate) outbound: mpsc::Sender<Payload>,
    /// The receiver's end of a renewal's answer; `None`: no renewal is on its way.
    renewal: Mutex<Option<oneshot::Sender<wire::Renewed>>>,
    /// `true`: the relay wants to know of calls that await approval.
    knows_states: bool,
    /// The sequence number of the last message of the relay. Welcome was the first.
    received: AtomicU64,
    /// The last announcement of the tools to the relay.
    announced: watch::Sender<Announced>,
    /// `true`: the session is over.
    is_over: watch::Sender<bool>,
    /// The place among a pool's connections, which is free when the session is gone.
    place: Mutex<Option<OwnedSemaphorePermit>>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("host", &self.host).finish_non_exhaustive()
    }
}

/// The messages of a session to the relay, in the order in which they are sent.
pub(crate) struct Outbox {
    queue: mpsc::Receiver<Payload>,
    session: Weak<Session>,
    /// The sequence number of the last message. Hello was the first.
    sequence: u64,
}

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox").field("sequence", &self.sequence).finish_non_exhaustive()
    }
}

impl Outbox {
    /// Waits for the next message; `None`: the client is gone.
    pub(crate) async fn next(&mut self) -> Option<wire::Message> {
        let payload = self.queue.recv().await?;
        Some(self.numbered(payload))
    }

    /// Returns the next message if one is queued; `None`: the queue is empty, or the client is gone.
    pub(crate) fn try_next(&mut self) -> Option<wire::Message> {
        let payload = self.queue.try_recv().ok()?;
        Some(self.numbered(payload))
    }

    fn numbered(&mut self, payload: Payload) -> wire::Message {
        self.sequence += 1;
        let acknowledged = self.session.upgrade().map_or(0, |session| session.received.load(Ordering::Relaxed));
        wire::Message { sequence: self.sequence, acknowledged, ..payload.into() }
    }
}

impl Session {
    /// Begins a session without a connection. `knows_states`: the relay offers `call_state`.
    #[cfg(any(test, feature = "bench", feature = "fuzzing"))]
    pub(crate) fn new(host: Arc<Host>, knows_states: bool) -> (Arc<Self>, Outbox) {
        Self::with_announced(host, knows_states, Announced::default())
    }

    /// Begins a session after hello, which has announced a version of the tools, and welcome. `knows_states`: the relay offers
    /// `call_state`.
    fn with_announced(host: Arc<Host>, knows_states: bool, announced: Announced) -> (Arc<Self>, Outbox) {
        let (outbound, queue) = mpsc::channel(MESSAGES);
        let session = Arc::new(Self {
            host,
            key: random_key(),
            ledger: Ledger::default(),
            outbound,
            renewal: Mutex::default(),
            knows_states,
            received: AtomicU64::new(1),
            announced: watch::Sender::new(announced),
            is_over: watch::Sender::new(false),
            place: Mutex::default(),
        });
        let outbox = Outbox { queue, session: Arc::downgrade(&session), sequence: 1 };
        (session, outbox)
    }

    /// Keeps a place among a pool's connections until the session is gone.
    pub(crate) fn hold(&self, place: Option<OwnedSemaphorePermit>) {
        if place.is_some() {
            *self.place.lock().unwrap_or_else(PoisonError::into_inner) = place;
        }
    }

    /// Ends the session, and with this reason all executions in it.
    pub(crate) fn end(&self, reason: &str) {
        tracing::debug!(reason, "the session is over");
        self.ledger.lose(reason);
        // Dropping the sender ends the wait for a renewal.
        self.take_renewal();
        self.is_over.send_replace(true);
    }

    /// Waits until the session is over.
    async fn ended(&self) {
        // The sender is ours: this cannot fail.
        let _ = self.is_over.subscribe().wait_for(|is_over| *is_over).await;
    }

    /// Returns the receiver for the answer to a renewal that is about to be sent; `None`: another renewal is on its
    /// way.
    pub(crate) fn expect_renewal(&self) -> Option<oneshot::Receiver<wire::Renewed>> {
        let mut waiting = self.renewal.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.is_some() {
            return None;
        }
        let (sender, answer) = oneshot::channel();
        *waiting = Some(sender);
        Some(answer)
    }

    fn take_renewal(&self) -> Option<oneshot::Sender<wire::Renewed>> {
        self.renewal.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Handles one message of the relay.
    ///
    /// # Errors
    /// [`SessionFault`]: the relay ended the session or broke the protocol; the session is over.
    pub(crate) fn handle(self: &Arc<Self>, message: wire::Message) -> Result<(), SessionFault> {
        if let Some(Payload::Error(error)) = &message.payload
            && error.execution_id.is_empty()
        {
            // The last word of a relay that ends the session, outside its numbering.
            return Err(SessionFault(short_reason(&error.error).to_owned()));
        }
        if message.payload.is_none() && message.sequence == 0 {
            // A message that is empty altogether is ignored and not counted.
            return Ok(());
        }
        let expected = self.received.fetch_add(1, Ordering::Relaxed) + 1;
        if message.sequence != expected {
            return Err(SessionFault(format!("message {} came in the place of {expected}", message.sequence)));
        }
        // A kind of message that only a newer relay knows is counted, and otherwise ignored.
        let Some(payload) = message.payload else { return Ok(()) };
        match payload {
            Payload::ToolCall(call) => self.start_call(call)?,
            Payload::Result(mut result) => {
                if let Some(id) = self.running(std::mem::take(&mut result.execution_id))? {
                    self.ledger.end(&id, Ok(result));
                }
            }
            Payload::Error(mut error) => {
                if let Some(id) = self.running(std::mem::take(&mut error.execution_id))? {
                    self.ledger.end(&id, Err(ExecutionError::from(error)));
                }
            }
            Payload::Output(output) => {
                if let Some(id) = self.running(output.execution_id)? {
                    self.ledger.output(&id, output.items);
                }
            }
            Payload::Cancel(cancel) => {
                let call = CallId::try_from(cancel.call_id.as_str());
                let call = call.map_err(|error| SessionFault(error.to_string()))?;
                if let Some(execution) = self.running(cancel.execution_id)? {
                    self.ledger.cancel_call(call, &execution);
                }
            }
            Payload::Ping(wire::Ping { id }) => {
                // A relay that asks faster than it reads goes without an answer.
                let _ = self.outbound.try_send(Payload::Pong(wire::Pong { id }));
            }
            Payload::Pong(_) => {}
            Payload::Renewed(renewed) => {
                let unasked = || SessionFault("a renewal was answered that nobody asked for".into());
                // Fails only if the caller of `renew` has stopped waiting.
                let _ = self.take_renewal().ok_or_else(unasked)?.send(renewed);
            }
            other => return Err(SessionFault(format!("a {} message is not expected here", other.kind().1))),
        }
        Ok(())
    }

    /// Parses the id of an execution; `None`: the relay was not sent it, or it has ended, so that the message is
    /// ignored.
    ///
    /// # Errors
    /// [`SessionFault`]: it is not a valid id.
    fn running(&self, id: String) -> Result<Option<ExecutionId>, SessionFault> {
        let id = ExecutionId::try_from(id).map_err(|error| SessionFault(error.to_string()))?;
        Ok(self.ledger.is_relays(&id).then_some(id))
    }

    fn start_call(self: &Arc<Self>, call: wire::ToolCall) -> Result<(), SessionFault> {
        let id = dispatch::call_id(&call).ok_or_else(|| SessionFault("a tool call has no usable id".into()))?;
        let execution = ExecutionId::try_from(call.execution_id.clone());
        let execution = execution.map_err(|error| SessionFault(error.to_string()))?;
        let permit = match self.ledger.enter(id, &execution, &call) {
            Ok(permit) => permit,
            Err(Refused::Violation(reason)) => {
                tracing::warn!(tool = short_name(&call.tool), reason, "the relay broke the protocol");
                return Err(SessionFault(reason));
            }
            Err(refused) => {
                if let Refused::Failed(code, reason) = &refused {
                    tracing::warn!(tool = short_name(&call.tool), %code, reason, "a call was not let in");
                }
                if let Some(answer) = dispatch::refusal(call, refused) {
                    // Refusals come only from a relay that breaks the protocol; it may wait for them in vain.
                    let _ = self.outbound.try_send(Payload::ToolResult(answer));
                }
                return Ok(());
            }
        };
        let task = {
            let (session, execution) = (Arc::clone(self), execution.clone());
            tokio::spawn(async move {
                let caller = match session.knows_states {
                    true => Caller::Relay(&session.outbound),
                    false => Caller::RelayWithoutCallState,
                };
                let answer = dispatch::dispatch(&session.host, &permit, call, caller).await;
                if !session.ledger.answer(&permit, &answer) {
                    return;
                }
                // While the queue is full, the call keeps its place. Nobody is left to hear the answer when this fails.
                if let Ok(room) = session.outbound.reserve().await {
                    session.ledger.sent(id, &execution);
                    room.send(Payload::ToolResult(answer));
                }
            })
        };
        self.ledger.set_abort(id, &execution, task.abort_handle());
        Ok(())
    }
}

/// Returns the start of a relay's text, at most [`MAX_REASON_BYTES`], for an error of the host.
fn short_reason(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_REASON_BYTES)]
}
