//! Opening of an execution: its budget, and the context of its calls.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use relay_proto::{ExecutionId, LimitName, ToolPatterns};
use tokio::sync::broadcast;

use super::{Client, ExecuteRequest, PATIENCE};
use crate::call::ledger::{Budget, Opened};
use crate::call::run::DurableRun;
use crate::call::{ExecutionContext, IntrospectionState};
use crate::error::Error;
use crate::event::Event;
use crate::rules::policy::Spending;
use crate::session::grant::TokenGrant;
use crate::trace;
use crate::watch::{self, Watched};

impl Client {
    /// Opens an execution in the ledger, with its budget and the context of its calls.
    pub(super) fn open(
        &self,
        request: &mut ExecuteRequest,
        budget: Budget,
        grant: &TokenGrant,
        run: Option<Arc<dyn DurableRun>>,
    ) -> Opened {
        let host = &self.session.host;
        let (tools, introspection) = (budget.tools.clone(), IntrospectionState::of(&request.bindings));
        let approver = request.approver.take().or_else(|| host.approver.clone());
        let approval_ms = grant.effective_limit(&request.limits, LimitName::ApprovalMs);
        let context = |id: ExecutionId, events: broadcast::Sender<Event>| {
            let span = tracing::info_span!(
                "execute_code",
                gen_ai.operation.name = "execute_tool",
                gen_ai.tool.name = "execute_code",
                execution = id.as_str(),
                trace_id = tracing::field::Empty,
            );
            let trace = trace::begin(&span, request.trace);
            span.record("trace_id", trace.trace_id());
            let (key, code) = (Arc::from(format!("{}-{id}", self.session.key)), Arc::from(request.code.as_str()));
            // A durable run is watched itself, with its calls.
            let watch = host.watch.as_ref().filter(|_| run.is_none());
            let limits = || watch::limits(|name| grant.effective_limit(&request.limits, name));
            ExecutionContext {
                watched: Watched::begin(watch, &key, &code, None, limits),
                tools,
                introspection,
                span,
                // A durable run is in the audit itself, with its calls.
                audit: host.audit.clone().filter(|_| run.is_none()),
                trail: OnceLock::new(),
                key,
                id,
                code,
                phase: request.phase,
                trace,
                events,
                spending: Spending::new(&host.policy.budget),
                approvals: run.as_ref().map(|run| run.approvals()).unwrap_or_default(),
                conversation: Arc::clone(&self.conversation),
                approver,
                approval_timeout: Duration::from_millis(approval_ms),
                run,
                ended_calls: Mutex::default(),
            }
        };
        self.session.ledger.open(budget, context)
    }

    /// Returns the budget of an execution, and the time after which it is given up. The host counts calls itself, and
    /// takes the relay's limits only up to the maxima.
    ///
    /// # Errors
    /// [`Error::Pattern`]: a pattern of the request can fit no tool.
    pub(super) fn budget(&self, request: &ExecuteRequest, grant: &TokenGrant) -> Result<(Budget, Duration), Error> {
        let limit = |name: LimitName| grant.effective_limit(&request.limits, name);
        let budget = Budget {
            tools: request.tools.as_ref().map(ToolPatterns::checked).transpose()?.unwrap_or_default().and(&grant.tools),
            arguments_bytes: limit(LimitName::ArgumentsBytes),
            tool_calls: limit(LimitName::ToolCalls),
            result_bytes: limit(LimitName::ResultBytes)
                .min(self.session.host.policy.budget.bytes_returned.unwrap_or(u64::MAX)),
            in_flight: usize::try_from(limit(LimitName::ToolCallsInFlight)).unwrap_or(usize::MAX),
        };
        let wall = Duration::from_millis(limit(LimitName::WallMs));
        Ok((budget, self.queue_timeout.saturating_add(wall).saturating_add(PATIENCE)))
    }
}
