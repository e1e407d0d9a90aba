//! Calls that the application makes itself: no code, no relay, the same pipeline.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use relay_proto::{CallId, Code, ExecutionId, LimitName, LimitOverrides, ToolPatterns, wire};
use serde_json::Value;
use tokio::sync::broadcast;

use super::dispatch::{self, Caller};
use super::{CallPermit, CallRecord, ExecutionContext, FIRST_HOST_CALL, IntrospectionState};
use crate::error::{Error, ExecutionError};
use crate::event::{self, Event, Route};
use crate::host::Host;
use crate::outcome::Usage;
use crate::rules::policy::Spending;
use crate::text::short_name;
use crate::trace;

impl Host {
    /// Calls one tool without code and without a relay, through the same checks, policy, approvals and audit as a call
    /// of code. Returns UTF-8 JSON.
    ///
    /// # Errors
    /// - [`Error::Execution`]: there is no such tool, the arguments do not fit its schema, the call was denied, or the tool
    ///   failed; [`Error::code`] says which.
    /// - [`Error::Audit`]: the call could not be recorded, and was not made.
    /// - [`Error::Policy`]: a pattern of the policy can fit no tool.
    pub async fn call(&self, tool: &str, arguments: &Value) -> Result<Bytes, Error> {
        self.policy.check()?;
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let context = Arc::new(self.context_of_call(number, tool, arguments));
        context.record_start("host", &self.key, &LimitOverrides::default())?;
        context.tell(Event::RouteChosen(Route::Host));
        let id = CallId(FIRST_HOST_CALL + number);
        let message = wire::ToolCall {
            id: id.to_string(),
            tool: tool.to_owned(),
            arguments: arguments.to_string().into(),
            remaining_ms: LimitName::ToolCallMs.maximum(),
            ..wire::ToolCall::default()
        };
        let call = Arc::new(CallRecord::new(id, Arc::clone(&context), short_name(tool)));
        let answer = dispatch::dispatch(self, &CallPermit { call }, message, Caller::Host).await;
        let error = (!answer.success).then(|| Code::from(answer.code.clone()));
        if let Some(trail) = context.trail.get() {
            trail.end(error.as_ref(), answer.result.len(), Usage::default());
        }
        match error {
            None => Ok(answer.result),
            Some(code) => Err(Box::new(ExecutionError::new(code, answer.error)).into()),
        }
    }

    /// Creates the context of the one call of an execution without code. The audit's `code` is the call itself as JSON.
    fn context_of_call(&self, number: u64, tool: &str, arguments: &Value) -> ExecutionContext {
        let code = serde_json::json!({"tool": tool, "arguments": arguments});
        let span = tracing::info_span!("execute_code", gen_ai.operation.name = "execute_tool", tool);
        ExecutionContext {
            id: ExecutionId::from(number + 1),
            key: format!("{}-{}", self.key, number + 1).into(),
            tools: ToolPatterns::default(),
            introspection: IntrospectionState::default(),
            code: code.to_string().into(),
            phase: None,
            trace: trace::begin(&span, None),
            span,
            audit: self.audit.clone(),
            trail: OnceLock::new(),
            events: broadcast::Sender::new(event::EVENTS_KEPT),
            watched: None,
            spending: Spending::new(&self.policy.budget),
            approvals: Arc::default(),
            conversation: Arc::clone(&self.conversation),
            approver: self.approver.clone(),
            approval_timeout: Duration::from_millis(LimitName::ApprovalMs.default_value()),
            run: None,
            ended_calls: Mutex::default(),
        }
    }
}
