//! The record of one call from its arrival to its end. Whatever ends it, it ends once for the audit, the events and the
//! spans.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use relay_proto::{CallId, Code, ErrorCode, ToolName, wire};
use tokio::time::Instant;

use super::ExecutionContext;
use crate::audit::{Arguments, AuditError, CallTrail, Decision, Verdict};
use crate::durable::JournalError;
use crate::error::CallEnd;
use crate::event::Event;
use crate::tool::Effect;
use crate::tool::context::CallLife;

/// The record of a call that was admitted.
pub(crate) struct CallRecord {
    pub(crate) id: CallId,
    pub(crate) context: Arc<ExecutionContext>,
    /// The number of the call in the order of its code; 0: it has none.
    pub(crate) index: u64,
    /// The tool's name, as it came.
    pub(crate) tool: String,
    span: OnceLock<tracing::Span>,
    arrived: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The audit record of the decision; `None`: it is not recorded yet, or there is no audit.
    trail: Option<CallTrail>,
    /// The effect of the tool; `None`: there is no decision yet, no such tool, or none is declared.
    effect: Option<Effect>,
    is_recorded: bool,
    /// The life of the call from when its tool runs, or waits for its turn; `None`: it does neither.
    life: Option<Arc<CallLife>>,
    is_closed: bool,
}

/// The outcome of a call.
pub(crate) enum End<'a> {
    Finished { tool: &'a ToolName, result_bytes: usize },
    Failed { code: Code, message: &'a str },
    Denied { tool: &'a ToolName, code: Code, reason: &'a str, rule: &'a Arc<str> },
}

impl End<'_> {
    /// Tells how the call ended for its tool. `was_running`: the tool began to run.
    fn of_tool(&self, was_running: bool) -> CallEnd {
        match self {
            End::Finished { .. } => CallEnd::Finished,
            _ if !was_running => CallEnd::NotRun,
            End::Failed { code: Code::Known(ErrorCode::OutcomeUnknown | ErrorCode::ToolTimeout), .. } => {
                CallEnd::Unknown
            }
            End::Failed { .. } | End::Denied { .. } => CallEnd::Failed,
        }
    }
}

impl CallRecord {
    /// Creates the record of a call that was admitted. It is cheap enough to be called under a lock.
    pub(crate) fn new(id: CallId, context: Arc<ExecutionContext>, tool: &str) -> Self {
        Self::at(0, id, context, tool)
    }

    /// Creates the record of a call with this number in the order of its code; 0: it has none.
    pub(crate) fn at(index: u64, id: CallId, context: Arc<ExecutionContext>, tool: &str) -> Self {
        Self {
            id,
            context,
            index,
            tool: tool.to_owned(),
            span: OnceLock::new(),
            arrived: Instant::now(),
            state: Mutex::default(),
        }
    }

    /// Returns the call's span, with the names of OpenTelemetry's conventions for generative AI. It begins with the
    /// first call of this method.
    pub(crate) fn span(&self) -> &tracing::Span {
        self.span.get_or_init(|| {
            let tool = self.tool.as_str();
            tracing::info_span!(
                parent: &self.context.span,
                "execute_tool",
                otel.name = format_args!("execute_tool {tool}"),
                gen_ai.operation.name = "execute_tool",
                gen_ai.tool.name = tool,
                gen_ai.tool.call.id = self.id.0,
                error.r#type = tracing::field::Empty,
            )
        })
    }

    /// Makes the message that tells the relay the state of the call.
    pub(crate) fn state_message(&self, status: wire::CallStatus) -> wire::CallState {
        wire::CallState {
            execution_id: self.context.id.as_str().to_owned(),
            call_id: self.id.to_string(),
            status: status.into(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Changed only under this lock, by code that does not panic half way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the policy's decision in the audit; without an audit, only notes that there is a decision.
    ///
    /// # Errors
    /// [`Unrecorded`]: it could not be recorded, or the call was stopped; the tool must not run.
    pub(crate) fn decide(
        &self,
        effect: Option<Effect>,
        arguments: Arguments<'_>,
        ruling: (Decision, &str),
    ) -> Result<(), Unrecorded> {
        let mut state = self.state();
        if state.is_closed {
            // It was stopped meanwhile, and nothing may follow its end.
            return Err(Unrecorded::Stopped);
        }
        state.trail = match self.context.trail.get() {
            Some(trail) => Some(trail.decision(self.id, &self.tool, effect, arguments, ruling)?),
            None if self.context.audit.is_some() => return Err(Unrecorded::NoTrail),
            None => None,
        };
        (state.is_recorded, state.effect) = (true, effect);
        Ok(())
    }

    /// Records a person's verdict in the audit; does nothing if there is no audit.
    ///
    /// # Errors
    /// [`Unrecorded`]: it could not be recorded, or the call was stopped; the verdict does not hold.
    pub(crate) fn approve(
        &self,
        verdict: Verdict,
        approver: Option<&str>,
        waited: std::time::Duration,
    ) -> Result<(), Unrecorded> {
        let state = self.state();
        if state.is_closed {
            return Err(Unrecorded::Stopped);
        }
        match (self.context.trail.get(), &state.trail) {
            (Some(trail), Some(call)) => Ok(trail.approval(call, verdict, approver, waited)?),
            _ => Ok(()),
        }
    }

    /// Notes that the tool runs from now on. Returns `false` if the call was stopped or its decision is not recorded:
    /// the tool must not run.
    #[must_use]
    pub(crate) fn run(&self, tool: &ToolName, life: &Arc<CallLife>) -> bool {
        let mut state = self.state();
        if state.is_closed || !state.is_recorded {
            return false;
        }
        state.life = Some(Arc::clone(life));
        self.context.tell(Event::ToolCallStarted { id: self.id.0, tool: tool.clone() });
        true
    }

    /// Notes that the tool did not run after all: the call waited its turn in vain.
    pub(crate) fn did_not_run(&self) {
        self.state().life = None;
    }

    /// Ends the call for the audit, the events and the span; only the first end counts.
    pub(crate) fn close(&self, end: &End<'_>) {
        self.close_in(&mut self.state(), end);
    }

    fn close_in(&self, state: &mut State, end: &End<'_>) {
        if std::mem::replace(&mut state.is_closed, true) {
            return;
        }
        self.context.note_end(&self.tool, state.effect, end.of_tool(state.life.is_some()));
        let id = self.id.0;
        let (error, result_bytes, event) = match end {
            End::Finished { tool, result_bytes } => {
                let (tool, elapsed) = ((*tool).clone(), self.arrived.elapsed());
                (None, *result_bytes, Event::ToolCallFinished { id, tool, elapsed, result_bytes: *result_bytes })
            }
            End::Failed { code, message } => {
                let (tool, message) = (self.tool.clone(), (*message).to_owned());
                (Some(code.clone()), 0, Event::ToolCallFailed { id, tool, code: code.clone(), message })
            }
            End::Denied { tool, code, reason, rule } => {
                let (tool, reason, rule) = ((*tool).clone(), (*reason).to_owned(), Arc::clone(rule));
                (Some(code.clone()), 0, Event::ToolCallDenied { id, tool, code: code.clone(), reason, rule })
            }
        };
        if let Some(error) = &error {
            self.span().record("error.type", error.as_str());
        }
        if let (Some(trail), Some(call)) = (self.context.trail.get(), state.trail.take()) {
            trail.completion(&call, error.as_ref(), result_bytes);
        }
        self.context.tell(event);
    }

    /// Ends this record of the call without an event: the record that the call's durable run has tells its end.
    pub(crate) fn leave(&self) {
        self.state().is_closed = true;
    }

    /// Ends the call because nobody waits for its answer any more: with `OUTCOME_UNKNOWN` if its tool runs, else with
    /// `CANCELLED`.
    pub(crate) fn stop(&self) {
        if self.context.run.is_some() {
            return self.leave();
        }
        // Under one lock, so that the tool does not begin in between.
        let mut state = self.state();
        state.life.take_if(|life| life.give_up_turn());
        let (code, message) = if state.life.is_some() {
            (ErrorCode::OutcomeUnknown, "the call was stopped while its tool ran: what it asked for may have been done")
        } else {
            (ErrorCode::Cancelled, "the call was stopped before its tool ran")
        };
        self.close_in(&mut state, &End::Failed { code: code.into(), message });
    }
}

impl Drop for CallRecord {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The reason why a step of a call has no record and must not be taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unrecorded {
    #[error(transparent)]
    Audit(#[from] AuditError),
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error("the execution is not in the audit")]
    NoTrail,
    #[error("the call was stopped")]
    Stopped,
}

/// Proof that a call may come in: the ledger admitted it, or the application makes it itself.
pub(crate) struct CallPermit {
    pub(crate) call: Arc<CallRecord>,
}
