//! A session with a relay, as messages: it handles those of the relay, and queues those for the relay. There is no
//! socket here.

mod announce;
pub(crate) mod begin;
mod calls;
pub(crate) mod config;
mod connection;
pub(crate) mod credit;
mod delivery;
mod fault;
pub(crate) mod grant;
mod life;
mod renewal;
mod socket;
pub(crate) mod state;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
pub(crate) mod token;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use relay_proto::wire::message::Payload;
use relay_proto::{CallId, ErrorCode, ExecutionId, wire};
use tokio::sync::{OwnedSemaphorePermit, oneshot, watch};
use tokio::time::Instant;

use crate::call::ledger::Ledger;
use crate::error::{Error, ExecutionError};
use crate::event::Event;
use crate::host::Host;
use crate::outbound::Outbound;
use crate::outcome::OutputItem;
use crate::random::random_key;
use announce::Announced;
use credit::{CallCredit, ExecutionCredit};
use delivery::Delivery;
use grant::TokenGrant;
use state::{Connectedness, ConnectionState, SessionLoss, StateChanges};
use token::Tokens;

pub(crate) use credit::ExecutionCreditGuard;
pub(crate) use delivery::Outbox;
pub(crate) use fault::SessionFault;

/// The maximum length of a relay's text in an error of the host, in bytes; the rest is cut off.
const MAX_REASON_BYTES: usize = 200;

/// The maximum time of a relay's shutdown that is counted with.
const MAX_DRAIN: Duration = Duration::from_secs(86_400);

/// The features of a session, which hello and welcome agree on.
#[derive(Debug, Default)]
struct Terms {
    /// `true`: the relay wants to know of calls that await approval.
    knows_states: bool,
    /// `true`: the relay announces its end.
    goes_away: bool,
    /// The maximum time for which the session can be resumed after its connection was lost; `None`: it cannot.
    window: Option<Duration>,
    /// The relay's credit for tool calls; `None`: its calls are not counted.
    calls: Option<CallCredit>,
    /// The credit for executions; `None`: they are not counted.
    executions: Option<ExecutionCredit>,
}

/// One session: the executions and calls that run in it, and the way to the relay.
pub(crate) struct Session {
    pub(crate) host: Arc<Host>,
    /// The random name of the session in the audit. The relay does not choose it.
    pub(crate) key: String,
    pub(crate) ledger: Ledger,
    pub(crate) outbound: Outbound,
    terms: Terms,
    delivery: Arc<Delivery>,
    /// The receiver's end of a renewal's answer; `None`: no renewal is on its way.
    renewal: Mutex<Option<oneshot::Sender<wire::Renewed>>>,
    tokens: Arc<Tokens>,
    /// The limits and tools that the token allows; a renewal replaces them.
    grant: RwLock<TokenGrant>,
    /// The last announcement of the tools to the relay.
    announced: watch::Sender<Announced>,
    connectedness: Connectedness,
    /// The time at which the relay ends the session; `None`: it goes on.
    drains_at: Mutex<Option<Instant>>,
    /// The place among a pool's connections, which is free when the session is gone.
    place: Mutex<Option<OwnedSemaphorePermit>>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("host", &self.host).finish_non_exhaustive()
    }
}

/// Returns the error of what is asked of a session that is over.
pub(crate) fn over() -> Error {
    Box::new(ExecutionError::new(ErrorCode::SessionLost, "the session is over")).into()
}

impl Session {
    /// Begins a session without a connection. `knows_states`: the relay offers `call_state`.
    #[cfg(any(test, feature = "bench", feature = "fuzzing"))]
    pub(crate) fn new(host: Arc<Host>, knows_states: bool) -> (Arc<Self>, Outbox) {
        let terms = Terms { knows_states, ..Terms::default() };
        Self::begin(host, terms, Announced::default(), Arc::new(Tokens::new("", None)))
    }

    /// Begins a session without a connection whose relay offers everything: it can be resumed within 60 s, 64 calls may be sent
    /// at a time, and executions without end.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn with_all(host: Arc<Host>) -> (Arc<Self>, Outbox) {
        let most = relay_proto::credit::MAX_CREDIT;
        let terms = Terms {
            knows_states: true,
            goes_away: true,
            window: Some(Duration::from_secs(60)),
            calls: CallCredit::new(wire::Credit { count: 64, bytes: 1 << 20 }).ok(),
            executions: ExecutionCredit::new(wire::Credit { count: most, bytes: most }).ok(),
        };
        Self::begin(host, terms, Announced::default(), Arc::new(Tokens::new("", None)))
    }

    /// Begins a session after hello, which has announced a version of the tools, and welcome.
    fn begin(host: Arc<Host>, mut terms: Terms, announced: Announced, tokens: Arc<Tokens>) -> (Arc<Self>, Outbox) {
        let (delivery, outbound, outbox) = Delivery::begin(terms.window.is_some(), terms.calls.take());
        let session = Arc::new(Self {
            host,
            key: random_key(),
            ledger: Ledger::default(),
            outbound,
            delivery,
            terms,
            renewal: Mutex::default(),
            tokens,
            grant: RwLock::default(),
            announced: watch::Sender::new(announced),
            connectedness: Connectedness::new(),
            drains_at: Mutex::default(),
            place: Mutex::default(),
        });
        (session, outbox)
    }

    /// Keeps a place among a pool's connections until the session is gone.
    pub(crate) fn hold(&self, place: Option<OwnedSemaphorePermit>) {
        if place.is_some() {
            *self.place.lock().unwrap_or_else(PoisonError::into_inner) = place;
        }
    }

    /// Returns the limits and tools that the token allows.
    pub(crate) fn grant(&self) -> TokenGrant {
        self.grant.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_grant(&self, grant: TokenGrant) {
        *self.grant.write().unwrap_or_else(PoisonError::into_inner) = grant;
    }

    /// Returns the state of the connection.
    pub(crate) fn state(&self) -> ConnectionState {
        self.connectedness.state()
    }

    /// Returns the states of the connection from now on.
    pub(crate) fn state_changes(&self) -> StateChanges {
        StateChanges(self.connectedness.subscribe())
    }

    /// Returns the time that the session was without a connection, and whether it is now.
    pub(crate) fn away(&self) -> (Duration, bool) {
        self.connectedness.away()
    }

    /// Returns the maximum time for which the session can be resumed after its connection was lost; zero: it cannot.
    pub(crate) fn window(&self) -> Duration {
        self.terms.window.unwrap_or_default()
    }

    /// Returns the time at which the relay ends the session; `None`: it has not announced that.
    pub(crate) fn drains_at(&self) -> Option<Instant> {
        *self.drains_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the session has a connection.
    ///
    /// # Errors
    /// The reason why it is over.
    pub(crate) async fn connected(&self) -> Result<(), Arc<str>> {
        let mut states = self.connectedness.subscribe();
        let settled = states.wait_for(|state| !matches!(state, ConnectionState::Reconnecting { .. })).await;
        match settled.as_deref() {
            Ok(ConnectionState::Lost { reason, .. }) => Err(Arc::clone(reason)),
            // The sender is ours: the wait cannot fail.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Waits for the credit of an execution, and takes it; `None`: executions are not counted.
    pub(crate) async fn take_credit(&self, message: &Payload) -> Option<ExecutionCreditGuard<'_>> {
        let Payload::Execute(execute) = message else { return None };
        match &self.terms.executions {
            Some(executions) => Some(executions.take(relay_proto::credit::execution_bytes(execute)).await),
            None => None,
        }
    }

    /// Notes that the connection was lost, and that the session is being resumed.
    fn disconnected(&self, since: Instant, reason: &str) {
        tracing::info!(session = self.key, reason, "the connection to the relay was lost; resuming the session");
        self.connectedness.set_reconnecting(since, reason);
        self.ledger.tell_relays(&Event::Disconnected { reason: reason.into() });
    }

    /// Notes that the session has a connection again, after this time.
    fn resumed(&self, after: Duration) {
        tracing::info!(session = self.key, after_ms = after.as_millis(), "the session was resumed");
        self.connectedness.set_connected();
        self.ledger.tell_relays(&Event::Resumed { after });
    }

    /// Ends the session, and with this reason all executions in it.
    pub(crate) fn end(&self, fault: &SessionFault) {
        let SessionFault { reason, loss } = fault;
        tracing::debug!(reason, ?loss, "the session is over");
        // First the state: whoever learns of the end of an execution finds it.
        self.connectedness.set_lost(*loss, reason);
        self.ledger.lose(reason);
        // Dropping the sender ends the wait for a renewal.
        self.take_renewal();
    }

    /// Waits until the session is over.
    async fn ended(&self) {
        let mut states = self.connectedness.subscribe();
        // The sender is ours: this cannot fail.
        let _ = states.wait_for(|state| matches!(state, ConnectionState::Lost { .. })).await;
    }

    /// Handles one message of the relay, of this length in bytes.
    ///
    /// # Errors
    /// [`SessionFault`]: the relay ended the session or broke the protocol; the session is over.
    pub(crate) fn handle(self: &Arc<Self>, message: wire::Message, bytes: usize) -> Result<(), SessionFault> {
        if let Some(Payload::Error(error)) = &message.payload
            && error.execution_id.is_empty()
        {
            // The last word of a relay that ends the session, outside its numbering.
            let drained = self.drains_at().map(|_| SessionLoss::Drained);
            let loss = SessionLoss::of(error.loss).or(drained);
            return Err(SessionFault { reason: short_reason(&error.error).to_owned(), loss });
        }
        self.delivery.acknowledge(message.acknowledged)?;
        if message.payload.is_none() && message.sequence == 0 {
            // An acknowledgement of its own, or a message that is empty altogether: it is not counted.
            return Ok(());
        }
        self.delivery.count(message.sequence, bytes)?;
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
                if error.code == ErrorCode::Draining.as_str() {
                    self.drain(MAX_DRAIN);
                }
                if let Some(id) = self.running(std::mem::take(&mut error.execution_id))? {
                    self.ledger.end(&id, Err(ExecutionError::from(error)));
                }
            }
            Payload::Output(output) => {
                if let Some(id) = self.running(output.execution_id)? {
                    let items: Vec<_> = output.items.into_iter().map(OutputItem::from).collect();
                    if let Some(run) = self.ledger.run_of(&id) {
                        run.output(&items, &output.steps, output.failures);
                    }
                    self.ledger.output(&id, items);
                }
            }
            Payload::Cancel(cancel) => {
                let call = CallId::try_from(cancel.call_id.as_str());
                let call = call.map_err(|error| SessionFault::new(error.to_string()))?;
                if let Some(execution) = self.running(cancel.execution_id)? {
                    self.ledger.cancel_call(call, &execution);
                }
            }
            Payload::Begun(begun) => {
                if let Some(run) = self.run_of(&begun.execution_id)? {
                    run.begun(begun);
                }
            }
            Payload::Waiting(waiting) => {
                if let Some(run) = self.run_of(&waiting.execution_id)? {
                    run.waits(waiting);
                }
            }
            Payload::Ping(wire::Ping { id }) => {
                // A relay that asks faster than it reads goes without an answer.
                let _ = self.outbound.try_send(Payload::Pong(wire::Pong { id }));
            }
            Payload::Pong(_) => {}
            Payload::Renewed(renewed) => {
                let unasked = || SessionFault::new("a renewal was answered that nobody asked for".into());
                // Fails only if the caller of `renew` has stopped waiting.
                let _ = self.take_renewal().ok_or_else(unasked)?.send(renewed);
            }
            Payload::Credit(credit) => match &self.terms.executions {
                Some(executions) => executions.grant(&credit)?,
                None => return Err(SessionFault::new("the relay grants credit that nobody counts".into())),
            },
            Payload::GoAway(away) if self.terms.goes_away => {
                tracing::info!(session = self.key, reason = short_reason(&away.reason), "the relay shuts down");
                self.drain(Duration::from_millis(away.deadline_ms));
            }
            other => return Err(SessionFault::new(format!("a {} message is not expected here", other.kind().1))),
        }
        Ok(())
    }

    /// Notes that the relay begins no more executions, and ends the session after this time.
    fn drain(&self, within: Duration) {
        let at = Instant::now() + within.min(MAX_DRAIN);
        let mut drains_at = self.drains_at.lock().unwrap_or_else(PoisonError::into_inner);
        *drains_at = Some(drains_at.map_or(at, |before| before.min(at)));
    }

    /// Parses the id of an execution; `None`: the relay was not sent it, or it has ended, so that the message is
    /// ignored.
    ///
    /// # Errors
    /// [`SessionFault`]: it is not a valid id.
    fn running(&self, id: String) -> Result<Option<ExecutionId>, SessionFault> {
        let id = ExecutionId::try_from(id).map_err(|error| SessionFault::new(error.to_string()))?;
        Ok(self.ledger.is_relays(&id).then_some(id))
    }
}

/// Returns the start of a relay's text, at most [`MAX_REASON_BYTES`], for an error of the host.
fn short_reason(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_REASON_BYTES)]
}
