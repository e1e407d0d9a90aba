//! The records of one execution, as the pipeline writes them: each call that is begun has its end, whatever happens.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use relay_proto::{CallId, Code, ErrorCode, ExecutionId};

use super::{
    Arguments, Audit, AuditError, CallApproval, CallCompletion, CallDecision, Decision, ExecutionEnd, Hash, Origin,
    Verdict,
};
use crate::client::Usage;
use crate::manifest::Effect;

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

    /// Records what the policy says to a call. Its end is recorded when what is given back is finished or dropped.
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
    ) -> Result<CallTrail<'_>, AuditError> {
        let origin = self.origin();
        let arguments_bytes = match arguments {
            Arguments::Value { bytes, .. } | Arguments::Unread { bytes } => bytes,
        };
        self.audit.decision(&CallDecision { origin, call, tool, effect, arguments, decision, rule, reason: None })?;
        let (tool, began) = (tool.to_owned(), Instant::now());
        Ok(CallTrail { trail: self, call, tool, arguments_bytes, began, is_finished: false })
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

/// One call's part of the log.
pub(crate) struct CallTrail<'a> {
    trail: &'a Trail,
    call: CallId,
    tool: String,
    arguments_bytes: usize,
    began: Instant,
    is_finished: bool,
}

impl CallTrail<'_> {
    /// Records what a person said.
    ///
    /// # Errors
    /// It could not be recorded: the tool must not run.
    pub(crate) fn approval(
        &self,
        verdict: Verdict,
        approver: Option<&str>,
        waited: Duration,
    ) -> Result<(), AuditError> {
        let (origin, call, tool) = (self.trail.origin(), self.call, &*self.tool);
        self.trail.audit.approval(&CallApproval { origin, call, tool, verdict, approver, waited })
    }

    /// Records how the call ended.
    pub(crate) fn finish(mut self, error: Option<&Code>, result_bytes: usize) {
        self.complete(error, result_bytes);
    }

    fn complete(&mut self, error: Option<&Code>, result_bytes: usize) {
        self.is_finished = true;
        report(self.trail.audit.completion(&CallCompletion {
            origin: self.trail.origin(),
            call: self.call,
            tool: &self.tool,
            error,
            duration: self.began.elapsed(),
            arguments_bytes: self.arguments_bytes,
            result_bytes,
        }));
    }
}

impl Drop for CallTrail<'_> {
    fn drop(&mut self) {
        if !self.is_finished {
            self.complete(Some(&ErrorCode::Cancelled.into()), 0);
        }
    }
}

/// What has happened has happened; that its record is missing shows when the log is verified.
fn report(recorded: Result<(), AuditError>) {
    if let Err(error) = recorded {
        tracing::error!(%error, "an end could not be recorded");
    }
}
