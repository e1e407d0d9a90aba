//! Makes a run of its plan and its record, for this process to drive.

use std::sync::{Arc, Mutex, OnceLock};

use relay_proto::{ExecutionId, TraceContext};
use tokio::sync::{broadcast, watch};
use tracing::Span;

use super::calls::RunCalls;
use super::drive::Drive;
use super::handle::Run;
use super::holder::Holder;
use super::plan::RunPlan;
use super::state::RunData;
use crate::call::{ExecutionContext, IntrospectionState};
use crate::client::{Check, LazyClient};
use crate::conversation::Conversation;
use crate::durable::journal::RunId;
use crate::durable::log::RunLog;
use crate::durable::record::RunRecord;
use crate::error::Error;
use crate::rules::approval::Approver;
use crate::rules::policy::Spending;
use crate::watch::{Watched, limits_of};

/// The most events of a run that wait for a slow watcher. Room for them is taken at once, also by a run that waits for days.
const EVENTS_KEPT: usize = 64;

/// What a run has of the process that goes on with it, and of whoever began it there.
pub(super) struct Here {
    pub(super) client: LazyClient,
    /// The approver; `None`: the host's.
    pub(super) approver: Option<Arc<dyn Approver>>,
    /// The check of the code in its first execution.
    pub(super) check: Check,
    /// The approvals for a session.
    pub(super) conversation: Arc<Conversation>,
    pub(super) span: Span,
}

/// Makes a run that is not driven yet, and records in the audit that it begins or goes on.
///
/// # Errors
/// [`Error::Audit`]: that could not be recorded.
pub(super) fn prepare(
    holder: &Holder,
    id: &RunId,
    plan: RunPlan,
    record: RunRecord,
    here: Here,
) -> Result<(Run, Drive), Error> {
    let (client, check, host) = (here.client.clone(), here.check, Arc::clone(here.client.host()));
    let context = context(id, &plan, &record, here);
    context.record_start("durable run", id.as_str(), &plan.overrides())?;
    let (entries, chain) = (record.entries, record.chain.clone());
    let log = RunLog::new(Arc::clone(&holder.journal), id.clone(), holder.name.clone(), entries, chain);
    let named = (id.clone(), plan.owner.clone());
    let calls = Arc::new(RunCalls::new(RunData::new(host, named, context, log, record)));
    let ((stop, stopping), (outcome, ended)) = (watch::channel(None), watch::channel(None));
    let drive = Drive {
        client,
        calls: Arc::clone(&calls),
        plan,
        options: holder.options.clone(),
        check,
        stop: stopping,
        outcome,
    };
    Ok((Run::new(calls, ended, stop), drive))
}

/// Makes the context of a run's calls in this process.
fn context(
    id: &RunId,
    plan: &RunPlan,
    record: &RunRecord,
    Here { client, approver, conversation, span, .. }: Here,
) -> ExecutionContext {
    let (host, trace) = (client.host(), plan.trace.parse().unwrap_or(TraceContext::NONE));
    let (key, code) = (Arc::from(id.as_str()), Arc::from(plan.code.as_str()));
    let limits = || limits_of(&plan.overrides());
    let context = ExecutionContext {
        watched: Watched::begin(host.watch.as_ref(), &key, &code, Some(id), limits),
        // The executions of a run that the audit sees: one for each process that has it.
        id: ExecutionId::from(record.attempts + 1),
        key,
        tools: plan.patterns(),
        introspection: IntrospectionState::of(plan.bindings()),
        code,
        phase: plan.phase,
        trace,
        span,
        audit: host.audit.clone(),
        trail: OnceLock::new(),
        events: broadcast::Sender::new(EVENTS_KEPT),
        spending: Spending::new(&host.policy.budget),
        approvals: Arc::default(),
        conversation,
        approver: approver.or_else(|| host.approver.clone()),
        approval_timeout: plan.approval_within(),
        run: None,
        ended_calls: Mutex::default(),
    };
    for digest in record.granted() {
        context.approvals.grants.add(digest);
    }
    context.approvals.add_denials(record.denials());
    for (tool, bytes) in record.spent() {
        // What was allowed before counts, whatever the budget is now.
        let _ = context.spending.call(&tool).and_then(|()| context.spending.read(&tool, bytes));
    }
    context
}
