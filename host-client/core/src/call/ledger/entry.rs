//! One execution in the ledger: its budget, its calls and their answers, what it printed.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use relay_proto::{CallId, ErrorCode, ToolName, wire};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use super::{Budget, Ended};
use crate::call::{CallPermit, CallRecord, ExecutionContext};
use crate::error::ExecutionError;
use crate::event::Event;
use crate::introspect;
use crate::outcome::{OutputItem, Usage};
use crate::text::short_name;

/// One execution that has not ended.
pub(super) struct Entry {
    pub(super) budget: Budget,
    /// `true`: the code was sent. Before that, a call for this execution breaks the protocol.
    pub(super) is_started: bool,
    pub(super) calls: HashMap<CallId, (Fingerprint, CallState)>,
    /// The calls that hold a place, each with the handle that aborts it; `None`: there is no handle yet.
    pub(super) in_flight: HashMap<CallId, Option<AbortHandle>>,
    pub(super) answers: VecDeque<(CallId, usize)>,
    pub(super) answer_bytes: usize,
    pub(super) output: Vec<OutputItem>,
    pub(super) output_bytes: usize,
    pub(super) context: Arc<ExecutionContext>,
    pub(super) outcome: oneshot::Sender<Ended>,
}

/// A hash of a call's tool and arguments, by which the same id with another content is noticed.
pub(super) type Fingerprint = u64;

pub(super) fn fingerprint(call: &wire::ToolCall) -> Fingerprint {
    let mut hasher = DefaultHasher::new();
    (&call.tool, &call.arguments).hash(&mut hasher);
    hasher.finish()
}

/// The state of a call that was admitted.
pub(super) enum CallState {
    Running(Arc<CallRecord>),
    Answered(wire::ToolResult),
    /// Its answer is not kept: it was too large, later answers took its room, or the call was cancelled.
    Forgotten,
}

impl Entry {
    pub(super) fn new(budget: Budget, context: Arc<ExecutionContext>, outcome: oneshot::Sender<Ended>) -> Self {
        Self {
            budget,
            is_started: false,
            calls: HashMap::new(),
            in_flight: HashMap::new(),
            answers: VecDeque::new(),
            answer_bytes: 0,
            output: Vec::new(),
            output_bytes: 0,
            context,
            outcome,
        }
    }

    /// Admits a call with a new id, within the budget.
    ///
    /// # Errors
    /// `ARGUMENTS_LIMIT`, `UNKNOWN_TOOL`, `TOOL_CALL_LIMIT`: it is not within the budget.
    pub(super) fn admit(
        &mut self,
        id: CallId,
        fingerprint: Fingerprint,
        call: &wire::ToolCall,
    ) -> Result<CallPermit, (ErrorCode, String)> {
        let bytes = call.arguments.len() as u64;
        if bytes > self.budget.arguments_bytes {
            let most = self.budget.arguments_bytes;
            let message = format!("the arguments have {bytes} bytes; this execution was given {most}");
            return Err((ErrorCode::ArgumentsLimit, message));
        }
        // Questions about tools pass: they are answered for the tools that the patterns allow. So do calls that the journal
        // has the answers to: a token that allows less than the one before does not change what the code has seen.
        if let Ok(name) = ToolName::try_from(call.tool.clone())
            && !introspect::is_question(&call.tool)
            && !self.budget.tools.allow(&name)
            && !self.context.run.as_ref().is_some_and(|run| run.has_answer(call.index))
        {
            return Err((ErrorCode::UnknownTool, format!("there is no tool {name} for this execution")));
        }
        if self.calls.len() as u64 >= self.budget.tool_calls || self.in_flight.len() >= self.budget.in_flight {
            let message = "the execution has used up the tool calls that it was given".to_owned();
            return Err((ErrorCode::ToolCallLimit, message));
        }
        let record = CallRecord::at(call.index, id, Arc::clone(&self.context), short_name(&call.tool));
        let record = Arc::new(record);
        self.calls.insert(id, (fingerprint, CallState::Running(Arc::clone(&record))));
        self.in_flight.insert(id, None);
        Ok(CallPermit { call: record })
    }

    /// Stops the calls that run, records the end, and sends the outcome to whoever waits for it. A result over the
    /// budget becomes `RESULT_LIMIT`.
    ///
    /// The error of an execution that failed gets what it had called, since a relay that is gone does not tell.
    pub(super) fn end(self, result: Result<wire::Result, ExecutionError>) {
        let admitted = self.calls.len() as u64;
        // First the records, then the tasks. A call that ends its own execution is one of these tasks: it goes on to
        // its next await, and there is none below.
        for (_, call) in self.calls.into_values() {
            if let CallState::Running(record) = call {
                record.stop();
            }
        }
        for abort in self.in_flight.into_values().flatten() {
            abort.abort();
        }
        let most = self.budget.result_bytes;
        let result = result.and_then(|result| match result.data.len() as u64 > most {
            false => Ok(result),
            true => {
                let text = format!("the result has {} bytes; this execution was given {most}", result.data.len());
                let usage = result.usage.map(Usage::from).unwrap_or_default();
                Err(ExecutionError { usage, ..ExecutionError::new(ErrorCode::ResultLimit, text) })
            }
        });
        let result = result.map_err(|error| ExecutionError {
            usage: Usage { tool_calls: error.usage.tool_calls.max(admitted), ..error.usage },
            calls: self.context.calls(),
            ..error
        });
        if let Some(watched) = &self.context.watched {
            watched.outcome(result.as_ref().map(|result| &result.data[..]));
        }
        let (code, bytes, usage) = match &result {
            Ok(result) => {
                let bytes = result.data.len();
                self.context.tell(Event::Result { bytes });
                (None, bytes, result.usage.map(Usage::from).unwrap_or_default())
            }
            Err(error) => (Some(error.code.clone()), 0, error.usage),
        };
        if let Some(trail) = self.context.trail.get() {
            trail.end(code.as_ref(), bytes, usage);
        }
        self.context.tell(Event::Ended { code, usage });
        // Fails only if nobody waits for the outcome.
        let _ = self.outcome.send(Ended { result, output: self.output });
    }
}
