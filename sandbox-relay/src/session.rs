//! One host's session: what it may do, what runs for it, which calls are open. It handles messages and knows no
//! transport.
//!
//! - `state`: what its executions share with it
//! - `execute`: takes an `execute`; `request`: checks it; `sink`: its execution's events and outcome, as messages
//! - `calls`: results, states and cancels from the host
//! - `announced`: the host's tools by name; `faults`: how many faults end the session

mod announced;
mod calls;
mod execute;
mod faults;
mod request;
mod sink;
mod state;

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use relay_proto::session::feature;
use relay_proto::wire::message::Payload;
use relay_proto::{Binding, ErrorCode, PROTOCOL_VERSION, wire};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::Instant;

use crate::admission::SessionNumber;
use crate::auth::{Identity, Unauthenticated, Verifier};
use crate::config::LimitSettings;
use crate::engine::Engine;
use crate::outbound::Outbound;
use crate::subject::SubjectPermit;
use announced::AnnouncedTools;
use faults::Faults;
use state::{OpenWork, SessionGrant, SessionState};

/// Maximum number of bytes of source and input that the executions of one session hold, running or waiting.
const SESSION_SOURCE_BYTES: usize = 32 << 20;

/// Configuration of sessions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionConfig {
    /// Defaults and maxima of the limits.
    pub(crate) limits: LimitSettings,
    /// Number of executions of one session that may run at once, as `welcome` tells it.
    pub(crate) executions: usize,
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

/// Session of one connection. Dropping it cancels its executions.
pub(crate) struct Session {
    state: Arc<SessionState>,
    mode: Mode,
    /// Sequence number of the last message that came.
    received: u64,
    faults: Faults,
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

/// Answer to a message.
pub(crate) enum Reply {
    /// Goes to the host now.
    Now(Box<Payload>),
    /// Needs this token to be verified first; pass the result to [`Session::renew`].
    Renewal(String),
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
        };
        Self { state: Arc::new(state), mode: Mode::New, received: 0, faults: Faults::new() }
    }

    /// Takes one message. Returns its answer, or `None`: there is none, or it comes later, as that of an execution
    /// does.
    ///
    /// # Errors
    /// [`Violation`]: the message is not allowed now, or too many were refused.
    pub(crate) fn handle(&mut self, message: wire::Message) -> Result<Option<Reply>, Violation> {
        if self.mode == Mode::New
            && let Some(payload) = &message.payload
        {
            self.mode = if matches!(payload, Payload::Hello(_)) { Mode::Full } else { Mode::Basic };
            self.state.outbound.number_messages(self.mode == Mode::Full);
        }
        // A message of an unknown kind is counted and ignored; an empty one without a number is not even counted.
        if self.mode == Mode::Full && (message.payload.is_some() || message.sequence > 0) {
            self.received += 1;
            if message.sequence != self.received {
                return Err(Violation(format!("message {} came in the place of {}", message.sequence, self.received)));
            }
            self.state.outbound.acknowledge(self.received);
        }
        let Some(payload) = message.payload else {
            self.faults.count()?;
            return Ok(None);
        };
        let name = payload.kind().1;
        match (payload, self.mode) {
            (Payload::Hello(hello), Mode::Full) if self.received == 1 => self.welcome(hello).map(now),
            (Payload::Execute(execute), mode) => match self.execute(execute, mode) {
                Ok(()) => Ok(None),
                Err(refusal) => self.faults.count().map(|()| Some(Reply::Now(refusal))),
            },
            (Payload::Renew(renew), Mode::Full) => {
                // A host renews now and then; one that does nothing else is at fault.
                self.faults.count().map(|()| Some(Reply::Renewal(renew.token)))
            }
            (Payload::ToolsChanged(changed), Mode::Full) => {
                // It costs as much as a hello; a host that sends nothing else is at fault.
                self.faults.count()?;
                self.state.announce(AnnouncedTools::new(changed.tools)?);
                Ok(None)
            }
            (Payload::CallState(state), Mode::Full) => self.call_state(&state).map(|()| None),
            (Payload::ToolResult(result), mode) => self.tool_result(result, mode).map(|()| None),
            (Payload::Error(error), Mode::Basic) => self.failed_call(error).map(|()| None),
            (Payload::Cancel(cancel), Mode::Full) => {
                self.cancel(&cancel);
                Ok(None)
            }
            (Payload::Ping(wire::Ping { id }), _) => Ok(now(Payload::Pong(wire::Pong { id }))),
            (Payload::Pong(_), _) => Ok(None),
            _ => Err(Violation(format!("a {name} message is not expected here"))),
        }
    }

    /// Waits until no execution runs or waits.
    pub(crate) fn idle(&self) -> impl Future<Output = ()> + Send + use<> {
        let session = Arc::clone(&self.state);
        async move {
            loop {
                let ended = session.ended.notified();
                if session.lock().executions.is_empty() {
                    return;
                }
                ended.await;
            }
        }
    }

    /// Waits until the newest token has expired.
    pub(crate) fn expired(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut expires = self.state.expires.subscribe();
        async move {
            loop {
                let at = *expires.borrow_and_update();
                tokio::select! {
                    () = tokio::time::sleep_until(at) => return,
                    changed = expires.changed() => if changed.is_err() { return std::future::pending().await },
                }
            }
        }
    }

    /// Returns a handle that tells whether an execution runs or waits.
    pub(crate) fn activity(&self) -> Activity {
        Activity(Arc::clone(&self.state))
    }

    /// Takes the result of verifying a newer token and returns the answer. A token that is refused changes nothing.
    pub(crate) fn renew(&mut self, verified: Result<Identity, Unauthenticated>) -> Payload {
        let refuse = |code: ErrorCode, error: &str| {
            Payload::Renewed(wire::Renewed { error: error.into(), code: code.as_str().into(), ..Default::default() })
        };
        let session = &self.state;
        let identity = match verified {
            Ok(identity) => identity,
            Err(reason) => {
                tracing::info!(
                    session = session.number.0,
                    reason = excerpt(&reason.to_string()),
                    "a renewal was refused"
                );
                return refuse(ErrorCode::Unauthenticated, "the token is not accepted");
            }
        };
        if identity.subject != session.subject {
            return refuse(ErrorCode::PermissionDenied, "the token is of another subject");
        }
        if let Err(reason) = session.context.verifier.use_up(&identity) {
            tracing::info!(session = session.number.0, %reason, "a renewal was refused");
            return refuse(ErrorCode::Unauthenticated, "the token is not accepted");
        }
        let grant = SessionGrant::new(&session.context, identity.grant);
        let (limits, tools, warnings) = (grant.limits.to_wire(), grant.tools.to_wire(), grant.warnings());
        *session.grant.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(grant);
        session.expires.send_replace(Instant::now() + identity.expires_in);
        let expires_in_ms = u64::try_from(identity.expires_in.as_millis()).unwrap_or(u64::MAX);
        Payload::Renewed(wire::Renewed { expires_in_ms, limits, tools, warnings, ..Default::default() })
    }

    /// Answers hello.
    fn welcome(&self, hello: wire::Hello) -> Result<Payload, Violation> {
        if hello.protocol_version == 0 {
            return Err(Violation("hello names no protocol version".into()));
        }
        let session = &self.state;
        session.announce(AnnouncedTools::new(hello.tools)?);
        let (grant, expires_in) = (session.grant(), session.expires.borrow().saturating_duration_since(Instant::now()));
        tracing::info!(
            session = session.number.0,
            subject = &*session.subject,
            client = excerpt(&hello.client),
            "hello"
        );
        Ok(Payload::Welcome(wire::Welcome {
            protocol_version: PROTOCOL_VERSION.min(hello.protocol_version),
            features: feature::ALL.map(Into::into).into(),
            session_id: session.number.0.to_string(),
            relay: concat!("sandbox-relay/", env!("CARGO_PKG_VERSION")).into(),
            limits: grant.limits.to_wire(),
            executions: u32::try_from(session.context.config.executions).unwrap_or(u32::MAX),
            expires_in_ms: u64::try_from(expires_in.as_millis()).unwrap_or(u64::MAX),
            warnings: grant.warnings(),
            bindings: Binding::ALL.iter().map(|binding| binding.as_str().into()).collect(),
            tools: grant.tools.to_wire(),
            ..wire::Welcome::default()
        }))
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

fn now(payload: Payload) -> Option<Reply> {
    Some(Reply::Now(payload.into()))
}

/// Cuts a text from a peer to 64 bytes, for logs and errors.
fn excerpt(text: &str) -> &str {
    &text[..text.floor_char_boundary(64)]
}
