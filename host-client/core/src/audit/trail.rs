//! The records of one execution. The end of an execution is recorded even if its `Trail` is dropped early.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use relay_proto::{CallId, Code, ErrorCode, ExecutionId, LimitOverrides, TraceContext};

use super::{
    Arguments, Audit, AuditError, CallApproval, CallCompletion, CallDecision, Decision, ExecutionEnd, ExecutionStart,
    Hash, Origin, Verdict,
};
use crate::outcome::Usage;
use crate::tool::Effect;

/// The writer of one execution's records. If it is dropped before [`Trail::end`], it records the end with the code
/// `SESSION_LOST`.
pub(crate) struct Trail {
    audit: Audit,
    subject: String,
    caller: Option<String>,
    session: String,
    execution: ExecutionId,
    code_sha256: Hash,
    began: Instant,
    is_ended: AtomicBool,
}

impl Trail {
    /// Records the start of an execution. `subject` is that of the token, and `caller` the program on whose behalf the
    /// code runs.
    ///
    /// # Errors
    /// [`AuditError::Write`]: the start could not be recorded, and the code must not run.
    pub(crate) fn begin(
        audit: Audit,
        (subject, caller): (&str, Option<&str>),
        session: &str,
        execution: &ExecutionId,
        code: &str,
        limits: &LimitOverrides,
        trace: TraceContext,
    ) -> Result<Self, AuditError> {
        let log = audit.clone();
        // Redactions and hash are computed once, for the start and for the origin of all records.
        let recorded = log.recorded_code(code);
        let trail = Self {
            audit,
            subject: subject.to_owned(),
            caller: caller.map(str::to_owned),
            session: session.to_owned(),
            execution: execution.clone(),
            code_sha256: recorded.hash(),
            began: Instant::now(),
            // If the start cannot be recorded, dropping this must not record an end.
            is_ended: AtomicBool::new(true),
        };
        let (origin, client) = (trail.origin(), concat!("host-client/", env!("CARGO_PKG_VERSION")));
        log.start(&ExecutionStart { origin, client, code, limits, trace: Some(trace) }, recorded)?;
        trail.is_ended.store(false, Ordering::Relaxed);
        Ok(trail)
    }

    fn origin(&self) -> Origin<'_> {
        Origin {
            subject: &self.subject,
            caller: self.caller.as_deref(),
            session: &self.session,
            execution: &self.execution,
            code_sha256: self.code_sha256,
        }
    }

    /// Records the policy's decision on a call. The returned trail must be passed to [`Trail::completion`].
    ///
    /// # Errors
    /// [`AuditError::Write`]: the decision could not be recorded, and the tool must not run.
    pub(crate) fn decision(
        &self,
        call: CallId,
        tool: &str,
        effect: Option<Effect>,
        arguments: Arguments<'_>,
        (decision, rule): (Decision, &str),
    ) -> Result<CallTrail, AuditError> {
        let origin = self.origin();
        let arguments_bytes = match arguments {
            Arguments::Value { bytes, .. } | Arguments::Unread { bytes } => bytes,
        };
        self.audit.decision(&CallDecision { origin, call, tool, effect, arguments, decision, rule, reason: None })?;
        Ok(CallTrail { call, tool: tool.to_owned(), arguments_bytes, began: Instant::now() })
    }

    /// Records the verdict of an approval.
    ///
    /// # Errors
    /// [`AuditError::Write`]: the verdict could not be recorded, and must not take effect.
    pub(crate) fn approval(
        &self,
        call: &CallTrail,
        verdict: Verdict,
        approver: Option<&str>,
        waited: Duration,
    ) -> Result<(), AuditError> {
        let (origin, tool) = (self.origin(), &*call.tool);
        self.audit.approval(&CallApproval { origin, call: call.call, tool, verdict, approver, waited })
    }

    /// Records the end of a call; `error` is `None` if the tool returned a result.
    pub(crate) fn completion(&self, call: &CallTrail, error: Option<&Code>, result_bytes: usize) {
        log_failure(self.audit.completion(&CallCompletion {
            origin: self.origin(),
            call: call.call,
            tool: &call.tool,
            error,
            duration: call.began.elapsed(),
            arguments_bytes: call.arguments_bytes,
            result_bytes,
        }));
    }

    /// Records the end of the execution; `error` is `None` if it succeeded. Later calls do nothing.
    pub(crate) fn end(&self, error: Option<&Code>, result_bytes: usize, usage: Usage) {
        if self.is_ended.swap(true, Ordering::Relaxed) {
            return;
        }
        let end = ExecutionEnd { origin: self.origin(), error, duration: self.began.elapsed(), result_bytes, usage };
        log_failure(self.audit.end(&end));
    }
}

impl Drop for Trail {
    fn drop(&mut self) {
        self.end(Some(&ErrorCode::SessionLost.into()), 0, Usage::default());
    }
}

/// A call whose decision is recorded and whose end is not.
pub(crate) struct CallTrail {
    call: CallId,
    tool: String,
    arguments_bytes: usize,
    began: Instant,
}

/// Logs that an end could not be recorded. The call or execution has happened already: `verify` lists it as unfinished.
fn log_failure(recorded: Result<(), AuditError>) {
    if let Err(error) = recorded {
        tracing::error!(%error, "an end could not be recorded");
    }
}
