//! Takes results, failures, states and cancels of open calls and executions from the host.

use bytes::Bytes;
use relay_proto::session::MAX_FAILURE_BYTES;
use relay_proto::{CallId, Code, ErrorCode, ExecutionId, wire};

use super::{Mode, Session, Violation, excerpt};
use crate::execution::{CallFailure, Command, Wait};
use crate::metrics::{self, CallEnd};

impl Session {
    /// Settles the call that a result names.
    pub(super) fn tool_result(&mut self, result: wire::ToolResult, mode: Mode) -> Result<(), Violation> {
        let outcome = if result.success {
            Ok(result.result)
        } else {
            let code = if mode == Mode::Full && !result.code.is_empty() { result.code } else { "TOOL_FAILED".into() };
            Err(CallFailure { code: Code::from(excerpt(&code).to_owned()), message: bounded(result.error) })
        };
        self.settle(&result.id, outcome)
    }

    /// Fails the call that a basic peer's error names; one that names none is logged.
    pub(super) fn failed_call(&mut self, error: wire::Error) -> Result<(), Violation> {
        if error.id.is_empty() {
            tracing::info!(session = self.state.number.0, error = excerpt(&error.error), "the host reports an error");
            return Ok(());
        }
        let failure = CallFailure { code: ErrorCode::ToolFailed.into(), message: bounded(error.error) };
        self.settle(&error.id, Err(failure))
    }

    fn settle(&mut self, id: &str, outcome: Result<Bytes, CallFailure>) -> Result<(), Violation> {
        let call = CallId::try_from(id).map_err(|error| Violation(error.to_string()))?;
        let mut open = self.state.lock();
        let Some((execution, worker_call)) = open.calls.remove(&call) else {
            // An answer may cross with the end of its call.
            return if open.was_sent(call) { Ok(()) } else { Err(Violation(format!("there is no tool call {call}"))) };
        };
        metrics::call_ended(if outcome.is_ok() { CallEnd::Ok } else { CallEnd::Failed });
        if let Some(live) = open.executions.get(&execution) {
            live.states.forget(worker_call);
            // The queue has room for one answer to each open call: this fails only if the execution has just ended.
            let _ = live.commands.try_send(Command::Settle { call: worker_call, outcome });
        }
        Ok(())
    }

    /// Notes the state of an open call. A report that changes nothing counts as a fault.
    pub(super) fn call_state(&mut self, of: &wire::CallState) -> Result<(), Violation> {
        let call = CallId::try_from(of.call_id.as_str()).map_err(|error| Violation(error.to_string()))?;
        let wait = match of.status() {
            wire::CallStatus::AwaitingApproval => Some(Wait::Answer),
            wire::CallStatus::AwaitingTurn => Some(Wait::Turn),
            wire::CallStatus::Started | wire::CallStatus::Unspecified => None,
        };
        let changes = {
            let open = self.state.lock();
            if !open.was_sent(call) {
                return Err(Violation(format!("there is no tool call {call}")));
            }
            match open.calls.get(&call) {
                Some((execution, worker_call)) => {
                    open.executions.get(execution).is_some_and(|live| live.states.set(*worker_call, wait))
                }
                // It crossed with the end of its call.
                None => false,
            }
        };
        if changes { Ok(()) } else { self.faults.count() }
    }

    /// Cancels an execution, if it has not ended yet.
    pub(super) fn cancel(&self, cancel: &wire::Cancel) {
        if let Ok(id) = ExecutionId::try_from(cancel.execution_id.clone())
            && let Some(live) = self.state.lock().executions.get(&id)
        {
            // The queue keeps a place for it. If a second cancel finds none, the first is on its way.
            let _ = live.commands.try_send(Command::Cancel);
        }
    }
}

/// Cuts the message of a failed call to [`MAX_FAILURE_BYTES`].
fn bounded(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MAX_FAILURE_BYTES));
    text.shrink_to_fit();
    text
}
