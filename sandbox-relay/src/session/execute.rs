//! Takes an `execute`: checks it, reserves room for its source, and starts its execution or refuses it.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use relay_proto::credit::execution_bytes;
use relay_proto::wire::message::Payload;
use relay_proto::{Binding, ErrorCode, ExecutionId, LimitName, ToolPatterns, wire};
use tokio::sync::mpsc;

use super::announced::Suggestions;
use super::sink::{SessionSink, run_execution};
use super::state::{HeldSource, LiveExecution};
use super::{MAX_LIVE_EXECUTIONS, Mode, Session, Violation, request};
use crate::execution::{CallStates, Control, ExecutionError, ExecutionRequest};
use crate::metrics;
use crate::outbound::Numbering;

/// Fingerprint and length of the request of one execution.
#[derive(Debug, Clone, Copy)]
struct Charged {
    request: u64,
    /// Bytes of its texts, which the host has spent of its credit.
    bytes: usize,
}

/// Returns a fingerprint of all that tells one request from another.
fn fingerprint(execute: &wire::Execute) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&execute.code, &execute.input, &execute.local_tools, &execute.remote_tools).hash(&mut hasher);
    (&execute.limits, &execute.bindings, execute.seed, execute.now_ms, execute.large_integers).hash(&mut hasher);
    execute.durable.as_ref().map(prost::Message::encode_to_vec).hash(&mut hasher);
    hasher.finish()
}

impl Session {
    /// Starts an execution, which answers later by itself, or answers with a refusal: `INVALID_INPUT`, `OVERLOADED` or
    /// `DRAINING`.
    ///
    /// # Errors
    /// [`Violation`]: too many were refused, or the host had no credit for it.
    pub(super) fn execute(&mut self, execute: wire::Execute, mode: Mode) -> Result<(), Violation> {
        let resumes = self.state.outbound.delivery().numbering() == Numbering::Kept;
        let request = if resumes { fingerprint(&execute) } else { 0 };
        if resumes
            && let Ok(id) = ExecutionId::try_from(execute.execution_id.clone())
            && let Some(known) = self.state.lock().request(&id)
        {
            // A host that does not know whether its message arrived may send it again.
            let other = || Violation(format!("the execution id {id} was used before, with something else in it"));
            return if known == request { self.faults.count() } else { Err(other()) };
        }
        let bytes = execution_bytes(&execute);
        if let Some(credit) = self.state.credit.get() {
            credit.execution(bytes)?;
        }
        // A basic peer sends no ids: it has one execution at a time.
        let execution_id = if mode == Mode::Full { execute.execution_id.clone() } else { String::new() };
        let Err(error) = self.start(execute, mode, Charged { request, bytes }) else { return Ok(()) };
        metrics::execution_ended(Some(error.code), &wire::Usage::default());
        let error = error.into_wire(wire::Usage::default(), Vec::new());
        self.answers.push_back(Payload::Error(wire::Error { execution_id, ..error }));
        let granted = self.state.credit.get().and_then(|credit| credit.execution_ended(bytes));
        self.answers.extend(granted.map(Payload::Credit));
        self.faults.count()
    }

    fn start(&mut self, execute: wire::Execute, mode: Mode, charged: Charged) -> Result<(), ExecutionError> {
        let invalid = |message: String| ExecutionError::new(ErrorCode::InvalidInput, message);
        let overloaded = |message: String| ExecutionError::new(ErrorCode::Overloaded, message);
        let id = if mode == Mode::Full { execute.execution_id.clone() } else { "basic".into() };
        let id = ExecutionId::try_from(id).map_err(|error| invalid(error.to_string()))?;
        let grant = self.state.grant();
        // An invalid trace context is not passed on.
        let traceparent = execute.traceparent.parse().ok();
        let filter = match mode {
            Mode::Full => request::tool_filter(&execute).map_err(invalid)?,
            Mode::New | Mode::Basic => ToolPatterns::default(),
        };
        let begin_within = (execute.begin_within_ms > 0).then(|| Duration::from_millis(execute.begin_within_ms));
        let (request, warnings) = request::request(execute, mode, &grant).map_err(invalid)?;
        let held = self
            .hold_source(&request)
            .ok_or_else(|| overloaded("too many bytes of source wait to be run already".into()))?;
        let control = {
            let mut open = self.state.lock();
            let live = open.executions.len();
            if mode == Mode::Basic && live > 0 {
                return Err(overloaded("an execution runs already; without hello there is one at a time".into()));
            }
            if live >= MAX_LIVE_EXECUTIONS {
                return Err(overloaded(format!("{live} executions of this session run or wait already")));
            }
            if mode == Mode::Full && open.request(&id).is_some() {
                return Err(invalid(format!("the execution id {id} was used before")));
            }
            // Room for one answer to each open call, and for a cancel.
            let (sender, commands) = mpsc::channel(request.limits.size(LimitName::ToolCallsInFlight) + 1);
            let states = Arc::<CallStates>::default();
            let live = LiveExecution { request: charged.request, commands: sender, states: Arc::clone(&states) };
            open.executions.insert(id.clone(), live);
            Control { commands, states, place: None, stopped_for: self.state.context.config.resume_window }
        };
        let sink = SessionSink {
            tools: filter.and(&grant.tools),
            session: Arc::clone(&self.state),
            grant,
            introspects: request.bindings.has(Binding::Introspection),
            suggestions: Suggestions::default(),
            id,
            traceparent,
            basic: mode != Mode::Full,
            credit_bytes: charged.bytes,
        };
        tokio::spawn(run_execution(sink, request, control, warnings, held, begin_within));
        Ok(())
    }

    /// Reserves room for a request's texts; `None`: there is none.
    fn hold_source(&self, request: &ExecutionRequest) -> Option<HeldSource> {
        let bytes = u32::try_from(request.held_bytes()).ok()?;
        let of_session = Arc::clone(&self.state.source_bytes).try_acquire_many_owned(bytes).ok()?;
        let of_subject = Arc::clone(&self.state.of_subject.budgets.sources).try_acquire_many_owned(bytes).ok()?;
        let of_relay = self.state.context.engine.hold_source(bytes)?;
        Some([of_session, of_subject, of_relay])
    }
}
