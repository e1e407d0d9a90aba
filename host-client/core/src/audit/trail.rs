//! The records of one execution, as the pipeline writes them: each call that is begun has its end, whatever happens.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use relay_proto::{CallId, Code, ErrorCode, ExecutionId};

use super::{
    Arguments, Audit, AuditError, CallApproval, CallCompletion, CallDecision, Decision, ExecutionEnd, Hash, Origin,
    Verdict,
};
use crate::outcome::Usage;
use crate::tool::Effect;

/// One execution's part of the log. Where it is dropped before it was ended, its end says that nobody knows it.
pub(crate) struct Trail {
    audit: Audit,
    subject: String,
    session: String,
    execution: ExecutionId,
    code_sha256: Hash,
    began: Instant,
    is_ended: AtomicBool,
}

impl Trail {
    /// # Errors
    /// The start could not be recorded: the code must not run.
    pub(crate) fn begin(
        audit: Audit,
        subject: &str,
        session: &str,
        execution: &ExecutionId,
        code: &str,
        start: impl FnOnce(&Audit, Origin<'_>) -> Result<(), AuditError>,
    ) -> Result<Self, AuditError> {
        let trail = Self {
            audit,
            subject: subject.to_owned(),
            session: session.to_owned(),
            execution: execution.clone(),
            code_sha256: Hash::of(code.as_bytes()),
            began: Instant::now(),
            // Without a start there is no end.
            is_ended: AtomicBool::new(true),
        };
        start(&trail.audit, trail.origin())?;
        trail.is_ended.store(false, Ordering::Relaxed);
        Ok(trail)
    }

    fn origin(&self) -> Origin<'_> {
        Origin {
            subject: &self.subject,
            session: &self.session,
            execution: &self.execution,
            code_sha256: self.code_sha256,
        }
    }

    /// Records what the policy says to a call. What is given back has to be finished.
    ///
    /// # Errors
    /// It could not be recorded: the tool must not run.
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

    /// Records what a person said to a call.
    ///
    /// # Errors
    /// It could not be recorded: what was said must not hold.
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

    /// Records how a call ended.
    pub(crate) fn completion(&self, call: &CallTrail, error: Option<&Code>, result_bytes: usize) {
        report(self.audit.completion(&CallCompletion {
            origin: self.origin(),
            call: call.call,
            tool: &call.tool,
            error,
            duration: call.began.elapsed(),
            arguments_bytes: call.arguments_bytes,
            result_bytes,
        }));
    }

    /// Records how the execution ended, once.
    pub(crate) fn end(&self, error: Option<&Code>, result_bytes: usize, usage: Usage) {
        if self.is_ended.swap(true, Ordering::Relaxed) {
            return;
        }
        let end = ExecutionEnd { origin: self.origin(), error, duration: self.began.elapsed(), result_bytes, usage };
        report(self.audit.end(&end));
    }
}

impl Drop for Trail {
    fn drop(&mut self) {
        self.end(Some(&ErrorCode::SessionLost.into()), 0, Usage::default());
    }
}

/// One call that is in the log, and not finished there.
pub(crate) struct CallTrail {
    call: CallId,
    tool: String,
    arguments_bytes: usize,
    began: Instant,
}

/// What has happened has happened; that its record is missing shows when the log is verified.
fn report(recorded: Result<(), AuditError>) {
    if let Err(error) = recorded {
        tracing::error!(%error, "an end could not be recorded");
    }
}
