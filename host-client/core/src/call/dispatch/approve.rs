//! Approvals: asks a person about a call if the policy demands it.

use std::sync::Arc;
use std::time::Duration;

use relay_proto::session::TOTAL_APPROVAL_FACTOR;
use relay_proto::{ErrorCode, ToolName, wire};
use tokio::time::Instant;

use super::{ApprovedCall, Caller, CheckedCall, Denied, Dispatch, Failed, Failure, RuledCall};
use crate::audit::Verdict;
use crate::event::Event;
use crate::rules::approval::{self, Answer, ApprovalRequest, Scope, approver_name};

impl Dispatch<'_> {
    /// Returns the call as approved: the policy allows it, a person approved its tool earlier, or approves the call
    /// now.
    ///
    /// # Errors
    /// `APPROVAL_DENIED`, `APPROVAL_TIMEOUT`; `INTERNAL`: the approval could not be recorded.
    pub(super) async fn approve(&self, checked: CheckedCall) -> Result<ApprovedCall, Failed> {
        if !checked.recorded.ruled.is_asked {
            return Ok(checked.approved());
        }
        if let Some(scope) = self.granted(&checked) {
            return self.approved(checked, scope, None, Duration::ZERO);
        }
        let (context, since) = (&self.call.context, Instant::now());
        if let Caller::Run(call) = self.caller
            && let Some((answer, by)) = call.decided()
        {
            return self.judge(checked, answer, by, since).await;
        }
        if context.approver.is_none() && !matches!(self.caller, Caller::Run(_)) {
            let tool = &checked.registered().name;
            let message = format!(
                "{tool} needs an approval, and this application has nobody to ask: declare the tool's effect, allow it in the \
                 policy, or give the host an approver"
            );
            return Err(self.not_approved(&checked, ErrorCode::ApprovalDenied, message, Verdict::Failed, None, since));
        }
        // Waiting for the turn counts as waiting for a person, as waiting for the answer does.
        let _waiting = context.approvals.clock.start();
        let turn = match context.approvals.turn.try_lock() {
            Ok(turn) => Ok(turn),
            Err(_) => {
                self.tell_state(wire::CallStatus::AwaitingTurn).await;
                tokio::time::timeout(self.patience() * TOTAL_APPROVAL_FACTOR, context.approvals.turn.lock()).await
            }
        };
        let name = &checked.registered().name;
        let Ok(_turn) = turn else {
            let (code, late) = (ErrorCode::ApprovalTimeout, too_late(name));
            return Err(self.not_approved(&checked, code, late, Verdict::TimedOut, None, since));
        };
        // The answer to an earlier call may hold for this one, too.
        if let Some(scope) = self.granted(&checked) {
            self.tell_state(wire::CallStatus::Started).await;
            return self.approved(checked, scope, None, since.elapsed());
        }
        if context.approvals.is_tiring() {
            let message = format!("{name} was denied: others of this execution were, so that nobody is asked again");
            return Err(self.not_approved(&checked, ErrorCode::ApprovalDenied, message, Verdict::Failed, None, since));
        }
        // The turn is held until the answer is recorded and holds.
        let (answer, by) = self.ask(&checked).await?;
        self.judge(checked, answer, by, since).await
    }

    /// Asks a person about a call. Returns the answer, and the name of the person or system that gave it.
    ///
    /// # Errors
    /// `INTERNAL`: the journal of a durable run could not record it.
    async fn ask(&self, checked: &CheckedCall) -> Result<(Answer, String), Failed> {
        let (context, within) = (&self.call.context, self.patience());
        let (tool, rule) = (checked.registered().name.clone(), Arc::clone(&checked.recorded.ruled.rule));
        let event =
            Event::ToolCallAwaitingApproval { id: self.call.id.0, tool: tool.clone(), rule: Arc::clone(&rule), within };
        context.tell(event);
        self.tell_state(wire::CallStatus::AwaitingApproval).await;
        let request = ApprovalRequest {
            execution: context.id.clone(),
            code: Arc::clone(&context.code),
            line: usize::try_from(self.message.line).ok().filter(|line| *line > 0),
            call: self.call.id.0,
            tool,
            description: checked.registered().spec.description.clone(),
            arguments: checked.arguments.share(),
            manifest: checked.registered().spec.manifest.clone(),
            rule,
            deadline: Instant::now() + within,
            question: None,
        };
        match (self.caller, &context.approver) {
            (Caller::Run(call), approver) => {
                let asked = call.ask(approver.as_ref(), request, checked.registered().digest).await;
                asked.map_err(|error| self.unrecorded(&error.into()).into())
            }
            (_, Some(approver)) => {
                let by = approver_name(approver);
                Ok((approval::ask_approver(approver, &context.approvals, request).await, by))
            }
            (_, None) => Ok((Answer::Failed, "nobody".into())),
        }
    }

    /// Returns the call as approved if that is the answer.
    ///
    /// # Errors
    /// `APPROVAL_DENIED`, `APPROVAL_TIMEOUT`; `INTERNAL`: the answer could not be recorded.
    async fn judge(
        &self,
        checked: CheckedCall,
        answer: Answer,
        by: String,
        since: Instant,
    ) -> Result<ApprovedCall, Failed> {
        let name = &checked.registered().name;
        let (code, message, verdict) = match answer {
            Answer::Yes(scope) => {
                let approved = self.approved(checked, scope, Some(by), since.elapsed())?;
                self.tell_state(wire::CallStatus::Started).await;
                return Ok(approved);
            }
            Answer::No { reason } => {
                let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
                (ErrorCode::ApprovalDenied, format!("{name} was denied{reason}"), Verdict::Denied)
            }
            Answer::Failed => (ErrorCode::ApprovalDenied, format!("{name} could not be asked about"), Verdict::Failed),
            Answer::TimedOut => (ErrorCode::ApprovalTimeout, too_late(name), Verdict::TimedOut),
        };
        Err(self.not_approved(&checked, code, message, verdict, Some(&by), since))
    }

    /// Returns the time limit of one approval: that of the execution, or the time left of the call if that is less and
    /// the relay does not know call states, so that its clocks go on.
    fn patience(&self) -> Duration {
        let patience = self.call.context.approval_timeout;
        if matches!(self.caller, Caller::RelayWithoutCallState) { patience.min(self.left()) } else { patience }
    }

    /// Returns the scope of an earlier approval that holds for this tool; `None`: there is none.
    fn granted(&self, checked: &CheckedCall) -> Option<Scope> {
        let tool = &checked.registered().digest;
        if self.call.context.approvals.grants.contain(tool) {
            Some(Scope::Execution)
        } else {
            self.call.context.conversation.grants.contain(tool).then_some(Scope::Session)
        }
    }

    /// Records an approval, keeps it for its scope, and returns the call as approved. It is recorded before it holds,
    /// and holds before anything runs.
    ///
    /// # Errors
    /// `INTERNAL`: it could not be recorded.
    fn approved(
        &self,
        checked: CheckedCall,
        scope: Scope,
        by: Option<String>,
        waited: Duration,
    ) -> Result<ApprovedCall, Failed> {
        let verdict = match scope {
            Scope::Once => Verdict::Once,
            Scope::Execution => Verdict::Execution,
            Scope::Session => Verdict::Session,
        };
        let recorded = self.call.approve(verdict, by.as_deref(), waited);
        recorded.map_err(|error| self.unrecorded(&error))?;
        let (id, tool) = (self.call.id.0, checked.registered().name.clone());
        if by.is_some() {
            let digest = checked.registered().digest;
            match scope {
                Scope::Once => {}
                Scope::Execution => self.call.context.approvals.grants.add(digest),
                Scope::Session => self.call.context.conversation.grants.add(digest),
            }
        }
        self.call.context.tell(Event::ToolCallApproved { id, tool, by, scope: scope.as_str() });
        Ok(checked.approved())
    }

    fn not_approved(
        &self,
        checked: &CheckedCall,
        code: ErrorCode,
        message: String,
        verdict: Verdict,
        by: Option<&str>,
        since: Instant,
    ) -> Failed {
        if let Err(error) = self.call.approve(verdict, by, since.elapsed()) {
            return self.unrecorded(&error).into();
        }
        let RuledCall { registered, rule, .. } = &checked.recorded.ruled;
        let denied = Denied::new(registered, Arc::clone(rule));
        Failed { failure: Failure(code, message), denied: Some(denied) }
    }
}

/// Returns the message about a call that nobody approved in time.
fn too_late(tool: &ToolName) -> String {
    format!("nobody approved the call of {tool} in time")
}
