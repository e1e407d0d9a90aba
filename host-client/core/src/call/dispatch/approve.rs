//! Approvals: asks a person about a call if the policy demands it.

use std::sync::Arc;
use std::time::Duration;

use relay_proto::session::TOTAL_APPROVAL_FACTOR;
use relay_proto::{ErrorCode, wire};
use tokio::time::Instant;

use super::{ApprovedCall, Caller, CheckedCall, Denied, Dispatch, Failed, Failure, RuledCall};
use crate::audit::Verdict;
use crate::event::Event;
use crate::rules::approval::{self, Answer, ApprovalRequest, Scope};

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
        let Some(approver) = &context.approver else {
            let tool = &checked.registered().name;
            let message = format!(
                "{tool} needs an approval, and this application has nobody to ask: declare the tool's effect, allow it in the \
                 policy, or give the host an approver"
            );
            return Err(self.not_approved(&checked, ErrorCode::ApprovalDenied, message, Verdict::Failed, None, since));
        };
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
        let late = || format!("nobody approved the call of {name} in time");
        let Ok(_turn) = turn else {
            return Err(self.not_approved(
                &checked,
                ErrorCode::ApprovalTimeout,
                late(),
                Verdict::TimedOut,
                None,
                since,
            ));
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
        let (within, by) = (self.patience(), self.name_of(approver));
        let rule = Arc::clone(&checked.recorded.ruled.rule);
        let event =
            Event::ToolCallAwaitingApproval { id: self.call.id.0, tool: name.clone(), rule: Arc::clone(&rule), within };
        context.tell(event);
        self.tell_state(wire::CallStatus::AwaitingApproval).await;
        let request = ApprovalRequest {
            execution: context.id.clone(),
            code: Arc::clone(&context.code),
            line: usize::try_from(self.message.line).ok().filter(|line| *line > 0),
            call: self.call.id.0,
            tool: name.clone(),
            description: checked.registered().spec.description.clone(),
            arguments: checked.arguments.share(),
            manifest: checked.registered().spec.manifest.clone(),
            rule,
            deadline: Instant::now() + within,
        };
        let denied = |message, verdict| {
            Err(self.not_approved(&checked, ErrorCode::ApprovalDenied, message, verdict, Some(&by), since))
        };
        match approval::ask_approver(approver, &context.approvals, request).await {
            Answer::Yes(scope) => {
                // The turn is held until the answer is recorded and holds.
                let approved = self.approved(checked, scope, Some(by), since.elapsed())?;
                self.tell_state(wire::CallStatus::Started).await;
                Ok(approved)
            }
            Answer::No { reason } => {
                let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
                denied(format!("{name} was denied{reason}"), Verdict::Denied)
            }
            Answer::Failed => denied(format!("{name} could not be asked about"), Verdict::Failed),
            Answer::TimedOut => {
                let (code, verdict) = (ErrorCode::ApprovalTimeout, Verdict::TimedOut);
                Err(self.not_approved(&checked, code, late(), verdict, Some(&by), since))
            }
        }
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
