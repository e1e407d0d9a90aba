//! The state that all calls of one execution share.

use std::fmt;
use std::sync::{Arc, Mutex as StdMutex, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use relay_proto::{Binding, ExecutionId, LimitOverrides, ToolPatterns, TraceContext};
use tokio::sync::{Mutex, broadcast};

use super::run::DurableRun;
use crate::audit::{Audit, AuditError, Trail};
use crate::conversation::Conversation;
use crate::error::{CallEnd, Calls};
use crate::event::Event;
use crate::rules::approval::{ApprovalState, Approver};
use crate::rules::policy::{Phase, Spending};
use crate::tool::Effect;
use crate::watch::Watched;

/// The state that all calls of one execution share, for as long as any of them runs.
pub(crate) struct ExecutionContext {
    pub(crate) id: ExecutionId,
    /// The start of the idempotency keys of its calls, which tells the execution from all others. A durable run keeps it.
    pub(crate) key: Arc<str>,
    /// The patterns of the tools that the execution may call and be told of.
    pub(crate) tools: ToolPatterns,
    pub(crate) introspection: IntrospectionState,
    /// The code of the request; for a call that the application makes itself, that call as JSON.
    pub(crate) code: Arc<str>,
    pub(crate) phase: Option<Phase>,
    pub(crate) trace: TraceContext,
    pub(crate) span: tracing::Span,
    /// The audit that has to record every call; `None`: there is no audit.
    pub(crate) audit: Option<Audit>,
    /// The audit records of this execution; empty until its start is recorded.
    pub(crate) trail: OnceLock<Trail>,
    pub(crate) events: broadcast::Sender<Event>,
    /// The watch over the host's executions, with this one; `None`: nobody watches.
    pub(crate) watched: Option<Watched>,
    pub(crate) spending: Spending,
    pub(crate) approvals: Arc<ApprovalState>,
    /// The conversation that the execution belongs to, with the approvals for its whole session.
    pub(crate) conversation: Arc<Conversation>,
    /// The approver that is asked about calls; `None`: calls that need an approval are denied.
    pub(crate) approver: Option<Arc<dyn Approver>>,
    /// The time limit of one approval.
    pub(crate) approval_timeout: Duration,
    /// The durable run that the execution belongs to; `None`: it ends with its relay.
    pub(crate) run: Option<Arc<dyn DurableRun>>,
    /// The calls that have ended.
    pub(crate) ended_calls: StdMutex<Calls>,
}

impl fmt::Debug for ExecutionContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecutionContext").field("id", &self.id).finish_non_exhaustive()
    }
}

impl ExecutionContext {
    /// Creates a context without rules and without an approver, for tests of other parts.
    #[cfg(any(test, feature = "bench", feature = "fuzzing"))]
    pub(crate) fn for_tests(id: ExecutionId, events: broadcast::Sender<Event>) -> Self {
        Self {
            id,
            key: "".into(),
            tools: ToolPatterns::default(),
            introspection: IntrospectionState::default(),
            code: "".into(),
            phase: None,
            trace: TraceContext::NONE,
            span: tracing::Span::none(),
            audit: None,
            trail: OnceLock::new(),
            events,
            watched: None,
            spending: Spending::new(&crate::rules::policy::Budget::default()),
            approvals: Arc::default(),
            conversation: Arc::default(),
            approver: None,
            approval_timeout: Duration::ZERO,
            run: None,
            ended_calls: StdMutex::default(),
        }
    }

    /// Sends an event to the watchers of the execution. Nobody has to watch, and a slow watcher does not hold the call
    /// up.
    pub(crate) fn tell(&self, event: Event) {
        if let Some(watched) = &self.watched {
            watched.event(&event);
        }
        let _ = self.events.send(event);
    }

    /// Notes how a call ended.
    pub(super) fn note_end(&self, tool: &str, effect: Option<Effect>, end: CallEnd) {
        self.ended_calls.lock().unwrap_or_else(PoisonError::into_inner).add(tool, effect, end);
    }

    /// Returns the calls that have ended.
    pub(crate) fn calls(&self) -> Calls {
        self.ended_calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records in the audit that the code is about to run; does nothing if there is no audit.
    ///
    /// # Errors
    /// [`AuditError`]: the start could not be recorded; the code must not run.
    pub(crate) fn record_start(&self, subject: &str, session: &str, limits: &LimitOverrides) -> Result<(), AuditError> {
        let Some(audit) = &self.audit else { return Ok(()) };
        let (code, caller) = (&*self.code, self.conversation.caller.get().map(String::as_str));
        let trail = Trail::begin(audit.clone(), (subject, caller), session, &self.id, code, limits, self.trace);
        // It is recorded once: the execution is new.
        drop(self.trail.set(trail?));
        Ok(())
    }
}

/// The state of one execution's questions about its tools.
#[derive(Debug, Default)]
pub(crate) struct IntrospectionState {
    /// `true`: the execution has the binding `introspection`.
    pub(crate) is_allowed: bool,
    /// Held while a question is answered: answers take memory and time, so there is one at a time.
    pub(crate) turn: Mutex<()>,
    /// The answer of `mcp.interfaces`, kept from when it was first asked for.
    pub(crate) interfaces: OnceLock<Bytes>,
}

impl IntrospectionState {
    /// Creates the state of an execution with these bindings.
    pub(crate) fn of(bindings: &[String]) -> Self {
        Self { is_allowed: bindings.iter().any(|name| name == Binding::Introspection.as_str()), ..Self::default() }
    }
}
