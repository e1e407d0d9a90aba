//! Which executions and calls there are. A relay can call only within what was asked of it: a known execution, a fresh
//! id, its budget. The same id never runs twice; its first answer is given again.

mod entry;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use relay_proto::{CallId, ErrorCode, ExecutionId, ToolPatterns, wire};
use tokio::sync::{broadcast, oneshot};
use tokio::task::AbortHandle;

use super::{CallPermit, ExecutionContext, FIRST_HOST_CALL};
use crate::error::ExecutionError;
use crate::event::{self, Event};
use crate::outcome::OutputItem;
use entry::{CallState, Entry, fingerprint};

/// How many bytes of given answers are kept in case they are asked for again.
const KEPT_ANSWER_BYTES: usize = 4 << 20;
/// The most output of one execution that is kept, whatever the relay sends.
const KEPT_OUTPUT_BYTES: usize = 8 << 20;

/// All executions of one client.
#[derive(Default)]
pub(crate) struct Ledger(Mutex<State>);

#[derive(Default)]
struct State {
    executions: HashMap<ExecutionId, Entry>,
    next: u64,
    /// The highest id of a call of the relay in any execution: the relay counts them up.
    last_call: u64,
    /// How many calls the host made itself.
    #[cfg(feature = "short-path")]
    host_calls: u64,
    lost: Option<String>,
}

/// What an execution may call.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    pub(crate) tools: ToolPatterns,
    pub(crate) arguments_bytes: u64,
    pub(crate) tool_calls: u64,
    pub(crate) in_flight: usize,
    /// The most bytes of JSON that its code may return.
    pub(crate) result_bytes: u64,
}

/// How an execution ended, with what it had printed.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) result: Result<wire::Result, ExecutionError>,
    pub(crate) output: Vec<OutputItem>,
}

/// What a new execution is followed by.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) context: Arc<ExecutionContext>,
    pub(crate) events: broadcast::Receiver<Event>,
    pub(crate) outcome: oneshot::Receiver<Ended>,
}

/// Why a call does not run.
pub(crate) enum Refused {
    /// Seen before: this is its answer.
    Answered(wire::ToolResult),
    /// Seen before, and still running: its answer will come.
    Running,
    /// Not allowed, for a reason that the code may read.
    Failed(ErrorCode, String),
    /// The relay broke its word: the session is over.
    Violation(String),
}

impl Ledger {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Changed only under this lock, by code that does not panic half way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens an execution, with the context that is made of its id.
    ///
    /// # Errors
    /// The session is over; the text says why.
    pub(crate) fn open(
        &self,
        budget: Budget,
        context: impl FnOnce(ExecutionId, broadcast::Sender<Event>) -> ExecutionContext,
    ) -> Result<Opened, String> {
        let id = self.next_id()?;
        let (events, receiver) = broadcast::channel(event::EVENTS_KEPT);
        // Not under the lock: the context begins a span, and the code of whoever listens to spans runs then.
        let context = Arc::new(context(id.clone(), events));
        let (sender, outcome) = oneshot::channel();
        let entry = Entry::new(budget, Arc::clone(&context), sender);
        let mut state = self.lock();
        if let Some(reason) = &state.lost {
            return Err(reason.clone());
        }
        state.executions.insert(id, entry);
        Ok(Opened { context, events: receiver, outcome })
    }

    /// Gives out the id of the next execution.
    fn next_id(&self) -> Result<ExecutionId, String> {
        let mut state = self.lock();
        if let Some(reason) = &state.lost {
            return Err(reason.clone());
        }
        state.next += 1;
        Ok(ExecutionId::from(state.next))
    }

    /// Lets calls of an execution in from now on: its code is about to be sent, and all that has to be before that is done.
    pub(crate) fn start(&self, execution: &ExecutionId) {
        if let Some(entry) = self.lock().executions.get_mut(execution) {
            entry.is_started = true;
        }
    }

    /// Enters a call.
    pub(crate) fn enter(
        &self,
        id: CallId,
        execution: &ExecutionId,
        call: &wire::ToolCall,
    ) -> Result<CallPermit, Refused> {
        let mut state = self.lock();
        let state = &mut *state;
        let was_opened = execution.as_str().parse().is_ok_and(|number: u64| (1..=state.next).contains(&number));
        if !was_opened {
            return Err(Refused::Violation(format!("a call for the execution {execution}, which never was")));
        }
        if id.0 >= FIRST_HOST_CALL {
            return Err(Refused::Violation(format!("the call id {id} is out of the range of a relay's calls")));
        }
        let is_fresh = id.0 > state.last_call;
        state.last_call = state.last_call.max(id.0);
        let Some(entry) = state.executions.get_mut(execution) else {
            return Err(Refused::Failed(ErrorCode::Cancelled, "the execution has ended".into()));
        };
        if !entry.is_started {
            return Err(Refused::Violation(format!("a call for the execution {execution}, whose code was not sent")));
        }
        let fingerprint = fingerprint(call);
        match entry.calls.get(&id) {
            None if is_fresh => {}
            None => return Err(Refused::Violation(format!("the call {id} came in another execution before"))),
            Some((known, _)) if *known != fingerprint => {
                return Err(Refused::Violation(format!("the call {id} came before, with something else in it")));
            }
            Some((_, CallState::Running(..))) => return Err(Refused::Running),
            Some((_, CallState::Answered(answer))) => return Err(Refused::Answered(answer.clone())),
            Some((_, CallState::Forgotten)) => {
                let message = "the call ran before; its answer is not kept any more".to_owned();
                return Err(Refused::Failed(ErrorCode::OutcomeUnknown, message));
            }
        }
        entry.admit(id, fingerprint, call).map_err(|(code, message)| Refused::Failed(code, message))
    }

    /// Enters a call that the host makes itself for an execution, within its budget as any other. The relay never sees it.
    #[cfg(feature = "short-path")]
    pub(crate) fn enter_own(
        &self,
        execution: &ExecutionId,
        call: &wire::ToolCall,
    ) -> Result<CallPermit, (ErrorCode, String)> {
        let mut state = self.lock();
        let id = CallId(FIRST_HOST_CALL + state.host_calls);
        state.host_calls += 1;
        let ended = || (ErrorCode::Cancelled, "the execution has ended".to_owned());
        let entry = state.executions.get_mut(execution).ok_or_else(ended)?;
        entry.admit(id, fingerprint(call), call)
    }

    /// Whether an execution was given to the relay and has not ended: what the relay says of any other means nothing.
    pub(crate) fn is_relays(&self, execution: &ExecutionId) -> bool {
        self.lock().executions.get(execution).is_some_and(|entry| entry.is_started)
    }

    /// Notes how a running call can be stopped.
    pub(crate) fn set_abort(&self, id: CallId, execution: &ExecutionId, abort: AbortHandle) {
        let mut state = self.lock();
        match state.executions.get_mut(execution).and_then(|entry| entry.in_flight.get_mut(&id)) {
            Some(slot) => *slot = Some(abort),
            // It is done, or it was cancelled before it began in earnest.
            None => abort.abort(),
        }
    }

    /// Notes a call's answer, which holds the call's place until it is [`Self::sent`]. Gives `false` when nobody waits for
    /// it any more.
    #[must_use]
    pub(crate) fn answer(&self, permit: &CallPermit, answer: &wire::ToolResult) -> bool {
        let mut state = self.lock();
        let Some(entry) = state.executions.get_mut(&permit.call.context.id) else { return false };
        let bytes = answer.result.len() + answer.error.len();
        let kept = if bytes <= KEPT_ANSWER_BYTES { CallState::Answered(answer.clone()) } else { CallState::Forgotten };
        let Some((_, call @ CallState::Running(..))) = entry.calls.get_mut(&permit.call.id) else { return false };
        let keeps = matches!(kept, CallState::Answered(_));
        *call = kept;
        if keeps {
            entry.answers.push_back((permit.call.id, bytes));
            entry.answer_bytes += bytes;
        }
        while entry.answer_bytes > KEPT_ANSWER_BYTES
            && let Some((oldest, bytes)) = entry.answers.pop_front()
        {
            entry.answer_bytes -= bytes;
            if let Some((_, call)) = entry.calls.get_mut(&oldest) {
                *call = CallState::Forgotten;
            }
        }
        true
    }

    /// Gives the place of an answered call back, right before its answer goes into the queue: a relay that has the answer may
    /// call again at once.
    pub(crate) fn sent(&self, id: CallId, execution: &ExecutionId) {
        if let Some(entry) = self.lock().executions.get_mut(execution) {
            entry.in_flight.remove(&id);
        }
    }

    /// Stops a call that the relay gave up. Its answer is not wanted any more.
    pub(crate) fn cancel_call(&self, id: CallId, execution: &ExecutionId) {
        let (record, abort) = {
            let mut state = self.lock();
            let Some(entry) = state.executions.get_mut(execution) else { return };
            let running = match entry.calls.get_mut(&id) {
                Some((_, call @ CallState::Running(_))) => Some(std::mem::replace(call, CallState::Forgotten)),
                _ => None,
            };
            (running, entry.in_flight.remove(&id).flatten())
        };
        // Not under the lock: its end goes into the audit, which may wait for the disk.
        if let Some(CallState::Running(record)) = record {
            record.stop();
        }
        // An answer that waits for room in the queue goes with its task.
        if let Some(abort) = abort {
            abort.abort();
        }
    }

    /// Takes output. What is more than any limit allows is dropped.
    pub(crate) fn output(&self, execution: &ExecutionId, items: Vec<wire::OutputItem>) {
        let mut state = self.lock();
        let Some(entry) = state.executions.get_mut(execution) else { return };
        for item in items.into_iter().map(OutputItem::from) {
            // Empty pieces take room as well.
            entry.output_bytes += item.text.len() + size_of::<OutputItem>();
            if entry.output_bytes > KEPT_OUTPUT_BYTES {
                return;
            }
            entry.context.tell(Event::Output(item.clone()));
            entry.output.push(item);
        }
    }

    /// Ends an execution: whoever waits for it gets the outcome, and its calls are stopped.
    pub(crate) fn end(&self, execution: &ExecutionId, result: Result<wire::Result, ExecutionError>) {
        let entry = self.lock().executions.remove(execution);
        if let Some(entry) = entry {
            entry.end(result);
        }
    }

    /// Ends everything: the session is over.
    pub(crate) fn lose(&self, reason: &str) {
        let entries: Vec<_> = {
            let mut state = self.lock();
            state.lost.get_or_insert_with(|| reason.to_owned());
            state.executions.drain().map(|(_, entry)| entry).collect()
        };
        for entry in entries {
            entry.end(Err(ExecutionError::new(ErrorCode::SessionLost, reason)));
        }
    }

    /// Whether the session is over.
    pub(crate) fn is_lost(&self) -> bool {
        self.lock().lost.is_some()
    }

    /// Whether an execution runs.
    pub(crate) fn is_open(&self, execution: &ExecutionId) -> bool {
        self.lock().executions.contains_key(execution)
    }
}
