//! One host's session: what it may do, what runs for it, which calls are open. It handles messages and knows no
//! transport.
//!
//! - `state`: what its executions share with it
//! - `execute`: takes an `execute`; `request`: checks it; `durable`: checks what it carries of a record; `sink`: its execution's events and outcome, as messages
//! - `calls`: results, states and cancels from the host
//! - `rights`: what its token allows, and how another token takes its place
//! - `epochs`: the secrets with which it is resumed on another connection
//! - `credit`: how much both peers may send
//! - `drain`: its end on a relay that shuts down
//! - `announced`: the host's tools by name; `faults`: how many faults end the session

mod announced;
mod calls;
mod credit;
mod drain;
mod durable;
mod epochs;
mod execute;
mod faults;
mod request;
mod rights;
mod sink;
mod state;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, RwLock};
use std::time::Duration;

use bytes::Bytes;
use relay_proto::delivery::MAX_UNACKNOWLEDGED_BYTES;
use relay_proto::session::feature;
use relay_proto::time::millis;
use relay_proto::wire::message::Payload;
use relay_proto::{Binding, PROTOCOL_VERSION, wire};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::Instant;

use crate::admission::SessionNumber;
use crate::auth::{Identity, Verifier};
use crate::build;
use crate::config::LimitSettings;
use crate::engine::Engine;
use crate::outbound::{Numbering, Outbound};
use crate::subject::SubjectPermit;
use announced::AnnouncedTools;
use credit::SessionCredit;
pub(crate) use epochs::{Epoch, Epochs};
use faults::Faults;
pub(crate) use rights::TokenRights;
use state::{Announcement, OpenWork, SessionGrant, SessionState};

/// Maximum number of answers that wait for room while the relay reads on.
const MAX_WAITING_ANSWERS: usize = 64;
/// Maximum number of executions of one session that run or wait.
const MAX_LIVE_EXECUTIONS: usize = 512;
/// Maximum number of bytes of source and input that the executions of one session hold, running or waiting.
const SESSION_SOURCE_BYTES: usize = 32 << 20;

/// Configuration of sessions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionConfig {
    /// Defaults and maxima of the limits.
    pub(crate) limits: LimitSettings,
    /// Number of executions of one session that may run at once, as `welcome` tells it.
    pub(crate) executions: usize,
    /// Time for which a session is kept after its connection was lost; zero: not at all.
    pub(crate) resume_window: Duration,
}

/// Configuration and handles that all sessions of a server use.
#[derive(Debug, Clone)]
pub(crate) struct SessionContext {
    pub(crate) config: SessionConfig,
    pub(crate) engine: Arc<Engine>,
    pub(crate) verifier: Arc<Verifier>,
}

/// A message that the session's state does not allow: the session is over.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Violation(pub(crate) String);

/// Session of one host. Dropping it cancels its executions.
pub(crate) struct Session {
    state: Arc<SessionState>,
    mode: Mode,
    faults: Faults,
    /// Token of a renewal, which is verified before the next message is taken; `None`: there is none.
    renewal: Option<String>,
    /// Answers that are still to be sent.
    answers: VecDeque<Payload>,
    /// Secrets of a session that has just become one that can be resumed.
    epochs: Option<Epochs>,
}

/// Way in which the peer opened the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Not yet.
    New,
    /// With `execute` or `ping`: one execution at a time, short tool names.
    Basic,
    /// With `hello`.
    Full,
}

/// Outcome of taking a message.
#[derive(Debug)]
pub(crate) enum Taken {
    /// It is handed over. What it left to do is [`Session::renewal`] or [`Session::take_answer`].
    Done,
    /// The host wants to go on with another session on this connection.
    Resume(wire::Resume),
}

impl Session {
    /// Opens a session for the identity of a verified token.
    pub(crate) fn new(
        context: SessionContext,
        number: SessionNumber,
        identity: Identity,
        of_subject: SubjectPermit,
        outbound: Outbound,
    ) -> Self {
        let state = SessionState {
            grant: RwLock::new(Arc::new(SessionGrant::new(&context, identity.grant))),
            context,
            number,
            subject: identity.subject,
            of_subject,
            expires: watch::Sender::new(Instant::now() + identity.expires_in),
            outbound,
            source_bytes: Arc::new(Semaphore::new(SESSION_SOURCE_BYTES)),
            tools: RwLock::default(),
            store: Mutex::default(),
            open: Mutex::<OpenWork>::default(),
            ended: Notify::new(),
            credit: OnceLock::new(),
            announcement: Announcement::default(),
        };
        Self {
            state: Arc::new(state),
            mode: Mode::New,
            faults: Faults::new(),
            renewal: None,
            answers: VecDeque::new(),
            epochs: None,
        }
    }

    /// Takes one message, whose frame has `bytes` bytes.
    ///
    /// # Errors
    /// [`Violation`]: the message is not allowed now, or too many were refused.
    pub(crate) fn take(&mut self, message: wire::Message, bytes: usize) -> Result<Taken, Violation> {
        if self.mode == Mode::New
            && let Some(payload) = &message.payload
        {
            self.mode = if matches!(payload, Payload::Hello(_)) { Mode::Full } else { Mode::Basic };
            if let Some(Payload::Resume(resume)) = message.payload {
                return Ok(Taken::Resume(resume));
            }
            if self.state.of_subject.resumes_only {
                return Err(Violation(
                    "the subject has too many connections; this one may only resume a session".into(),
                ));
            }
            self.state.outbound.delivery().number(if self.mode == Mode::Full { Numbering::On } else { Numbering::Off });
        }
        if self.mode == Mode::Full {
            let delivery = self.state.outbound.delivery();
            let progress = delivery.acknowledge(message.acknowledged).map_err(|gap| Violation(gap.to_string()))?;
            // A message of an unknown kind is counted and ignored; an empty one without a number is not even counted.
            if message.payload.is_some() || message.sequence > 0 {
                delivery.count(message.sequence, bytes).map_err(|error| Violation(error.to_string()))?;
            } else if progress {
                return Ok(Taken::Done);
            }
        }
        let Some(payload) = message.payload else {
            return self.faults.count().map(|()| Taken::Done);
        };
        self.hand_over(payload)?;
        Ok(Taken::Done)
    }

    /// Hands a payload to what it is for.
    fn hand_over(&mut self, payload: Payload) -> Result<(), Violation> {
        let name = payload.kind().1;
        match (payload, self.mode) {
            (Payload::Hello(hello), Mode::Full) if self.state.outbound.delivery().received() == 1 => {
                let welcome = self.welcome(hello)?;
                self.answers.push_back(welcome);
                Ok(())
            }
            (Payload::Execute(execute), mode) => self.execute(execute, mode),
            (Payload::Renew(renew), Mode::Full) => {
                self.renewal = Some(renew.token);
                // A host renews now and then; one that does nothing else is at fault.
                self.faults.count()
            }
            (Payload::ToolsChanged(changed), Mode::Full) => {
                // It costs as much as a hello; a host that sends nothing else is at fault.
                self.faults.count()?;
                self.state.announce(AnnouncedTools::new(changed.tools)?);
                Ok(())
            }
            (Payload::Credit(granted), Mode::Full) => match self.state.credit.get() {
                Some(credit) => {
                    if granted == wire::Credit::default() {
                        self.faults.count()?;
                    }
                    credit.add(&granted)
                }
                None => Err(Violation(format!("a {name} message is not expected here"))),
            },
            (Payload::CallState(state), Mode::Full) => self.call_state(&state),
            (Payload::ToolResult(result), mode) => self.tool_result(result, mode),
            (Payload::Error(error), Mode::Basic) => self.failed_call(error),
            (Payload::Cancel(cancel), Mode::Full) => {
                self.cancel(&cancel);
                Ok(())
            }
            (Payload::Ping(wire::Ping { id }), _) => {
                self.answers.push_back(Payload::Pong(wire::Pong { id }));
                Ok(())
            }
            (Payload::Pong(pong), _) => {
                self.state.announcement.answer(&pong);
                Ok(())
            }
            _ => Err(Violation(format!("a {name} message is not expected here"))),
        }
    }

    /// Returns the token that is to be verified for [`Session::renew`]; `None`: there is none.
    pub(crate) fn renewal(&self) -> Option<&str> {
        self.renewal.as_deref()
    }

    /// Returns whether an answer is to be sent.
    pub(crate) fn has_answer(&self) -> bool {
        !self.answers.is_empty()
    }

    /// Returns whether another message may be taken: few answers wait.
    pub(crate) fn has_room_for_answers(&self) -> bool {
        self.answers.len() < MAX_WAITING_ANSWERS
    }

    /// Takes the next answer that is to be sent; `None`: there is none.
    pub(crate) fn take_answer(&mut self) -> Option<Payload> {
        self.answers.pop_front()
    }

    /// Takes the secrets of a session that can be resumed, once; `None`: it cannot be, or not yet.
    pub(crate) fn take_epochs(&mut self) -> Option<Epochs> {
        self.epochs.take()
    }

    /// Returns the number of the session.
    pub(crate) fn number(&self) -> SessionNumber {
        self.state.number
    }

    /// Returns the subject of its token.
    pub(crate) fn subject(&self) -> Arc<str> {
        Arc::clone(&self.state.subject)
    }

    /// Returns the time for which it is kept without a connection; zero: not at all.
    pub(crate) fn resume_window(&self) -> Duration {
        self.state.context.config.resume_window
    }

    /// Stops the clocks of its executions while it has no connection, or lets them go on.
    pub(crate) fn stop_clocks(&self, stop: bool) {
        for live in self.state.lock().executions.values() {
            live.states.stop_clocks(stop);
        }
    }

    /// Returns a handle that tells whether an execution runs or waits.
    pub(crate) fn activity(&self) -> Activity {
        Activity(Arc::clone(&self.state))
    }

    /// Answers hello.
    fn welcome(&mut self, mut hello: wire::Hello) -> Result<Payload, Violation> {
        if hello.protocol_version == 0 {
            return Err(Violation("hello names no protocol version".into()));
        }
        let session = &self.state;
        session.announce(AnnouncedTools::new(std::mem::take(&mut hello.tools))?);
        let (grant, expires_in) = (session.grant(), session.expires.borrow().saturating_duration_since(Instant::now()));
        tracing::info!(
            session = session.number.0,
            subject = &*session.subject,
            client = excerpt(&hello.client),
            "hello"
        );
        let wants = |feature: &str| hello.features.iter().any(|name| name == feature);
        let window = session.context.config.resume_window;
        let first = if wants(feature::RESUME) && !window.is_zero() { Epochs::new() } else { None };
        let epoch = first.as_ref().map(Epochs::current);
        let offered = |feature: &&str| *feature != feature::RESUME || !window.is_zero();
        let mut welcome = wire::Welcome {
            protocol_version: PROTOCOL_VERSION.min(hello.protocol_version),
            features: feature::ALL.into_iter().filter(offered).map(Into::into).collect(),
            session_id: session.number.0.to_string(),
            relay: concat!("sandbox-relay/", env!("CARGO_PKG_VERSION")).into(),
            limits: grant.limits.to_wire(),
            executions: u32::try_from(session.context.config.executions).unwrap_or(u32::MAX),
            expires_in_ms: millis(expires_in),
            warnings: grant.warnings(),
            bindings: Binding::ALL.iter().map(|binding| binding.as_str().into()).collect(),
            tools: grant.tools.to_wire(),
            build: build::name(),
            ..wire::Welcome::default()
        };
        if wants(feature::CREDIT) {
            let granted = hello.credit.as_ref().ok_or_else(|| Violation("hello grants no credit".into()))?;
            let (credit, executions) = SessionCredit::new(granted).map_err(|error| Violation(error.to_string()))?;
            welcome.credit = session.credit.set(credit).is_ok().then_some(executions);
        }
        session.announcement.want(wants(feature::GO_AWAY));
        if let Some(epoch) = epoch {
            session.outbound.delivery().number(Numbering::Kept);
            welcome.resume_secret = Bytes::copy_from_slice(&epoch.secret);
            welcome.epoch = epoch.number;
            welcome.resume_window_ms = millis(window);
            welcome.unacknowledged_bytes = MAX_UNACKNOWLEDGED_BYTES as u64;
        }
        self.epochs = first;
        Ok(Payload::Welcome(welcome))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Their commands' senders go with them.
        self.state.lock().executions.clear();
    }
}

/// Tells whether an execution of a session runs or waits.
pub(crate) struct Activity(Arc<SessionState>);

impl Activity {
    /// Returns whether no execution runs or waits.
    pub(crate) fn is_idle(&self) -> bool {
        self.0.lock().executions.is_empty()
    }
}

/// Cuts a text from a peer to 64 bytes, for logs and errors.
fn excerpt(text: &str) -> &str {
    &text[..text.floor_char_boundary(64)]
}
