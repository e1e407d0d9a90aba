//! The register of all executions and calls. A relay can call only within what was asked of it: a known execution, a
//! fresh id, its budget. The same id never runs twice; its first answer is given again.

mod entry;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use relay_proto::{CallId, ErrorCode, ExecutionId, ToolPatterns, wire};
use tokio::sync::{broadcast, oneshot};
use tokio::task::AbortHandle;

use super::run::DurableRun;
use super::{CallPermit, ExecutionContext, FIRST_HOST_CALL};
use crate::error::ExecutionError;
use crate::event::{self, Event};
use crate::outcome::OutputItem;
use entry::{CallState, Entry, fingerprint};

/// The maximum size of the answers that are kept of one execution in case they are asked for again, in bytes.
const KEPT_ANSWER_BYTES: usize = 4 << 20;
/// The maximum size of the output that is kept of one execution, in bytes, whatever the relay sends.
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
    /// The number of calls that the host made itself.
    #[cfg(feature = "short-path")]
    host_calls: u64,
    lost: Option<String>,
}

/// The limits of one execution that the host enforces itself.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    pub(crate) tools: ToolPatterns,
    pub(crate) arguments_bytes: u64,
    pub(crate) tool_calls: u64,
    pub(crate) in_flight: usize,
    /// The most bytes of JSON that its code may return.
    pub(crate) result_bytes: u64,
}

/// The outcome of an execution, with the output that it printed.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) result: Result<wire::Result, ExecutionError>,
    pub(crate) output: Vec<OutputItem>,
}

/// A new execution: its context, its events, and the outcome that is to come.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) context: Arc<ExecutionContext>,
    pub(crate) events: broadcast::Receiver<Event>,
    pub(crate) outcome: oneshot::Receiver<Ended>,
}

/// The reason why a call is not admitted.
pub(crate) enum Refused {
    /// The same call was answered before: this is its answer.
    Answered(wire::ToolResult),
    /// The same call still runs: its answer will come.
    Running,
    /// The call is not allowed, for a reason that the code may read.
    Failed(ErrorCode, String),
    /// The relay broke the protocol: the session is over.
    Violation(String),
}

impl Ledger {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Changed only under this lock, by code that does not panic half way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens an execution; `context` makes its context from its id. It can make calls of its own after the session is
    /// over, too.
    pub(crate) fn open(
        &self,
        budget: Budget,
        context: impl FnOnce(ExecutionId, broadcast::Sender<Event>) -> ExecutionContext,
    ) -> Opened {
        let id = self.next_id();
        let (events, receiver) = broadcast::channel(event::EVENTS_KEPT);
        // Not under the lock: the context begins a span, which runs the code of every subscriber to spans.
        let context = Arc::new(context(id.clone(), events));
        let (sender, outcome) = oneshot::channel();
        let entry = Entry::new(budget, Arc::clone(&context), sender);
        self.lock().executions.insert(id, entry);
        Opened { context, events: receiver, outcome }
    }

    /// Returns the id of the next execution.
    fn next_id(&self) -> ExecutionId {
        let mut state = self.lock();
        state.next += 1;
        ExecutionId::from(state.next)
    }

    /// Admits calls of an execution from now on. This is called when everything is done that comes before sending its
    /// code.
    ///
    /// # Errors
    /// A text that says why the session is over; the execution has ended with `SESSION_LOST`.
    pub(crate) fn start(&self, execution: &ExecutionId) -> Result<(), String> {
        let (lost, entry) = {
            let mut state = self.lock();
            let Some(reason) = state.lost.clone() else {
                if let Some(entry) = state.executions.get_mut(execution) {
                    entry.is_started = true;
                }
                return Ok(());
            };
            (reason, state.executions.remove(execution))
        };
        if let Some(entry) = entry {
            entry.end(Err(ExecutionError::new(ErrorCode::SessionLost, lost.as_str())));
        }
        Err(lost)
    }

    /// Admits a call of the relay.
    ///
    /// # Errors
    /// [`Refused`]: it does not run; the variant says what is answered.
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

    /// Admits a call that the host makes itself for an execution, within the execution's budget. The relay never sees
    /// it.
    ///
    /// # Errors
    /// `CANCELLED`: the execution has ended. `ARGUMENTS_LIMIT`, `UNKNOWN_TOOL`, `TOOL_CALL_LIMIT`: it is not within the
    /// budget.
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

    /// Returns whether an execution was sent to the relay and has not ended. Messages of the relay about any other are
    /// ignored.
    pub(crate) fn is_relays(&self, execution: &ExecutionId) -> bool {
        self.lock().executions.get(execution).is_some_and(|entry| entry.is_started)
    }

    /// Stores the handle that aborts a running call; aborts it at once if the call has ended.
    pub(crate) fn set_abort(&self, id: CallId, execution: &ExecutionId, abort: AbortHandle) {
        let mut state = self.lock();
        match state.executions.get_mut(execution).and_then(|entry| entry.in_flight.get_mut(&id)) {
            Some(slot) => *slot = Some(abort),
            // It is done, or it was cancelled before it began in earnest.
            None => abort.abort(),
        }
    }

    /// Stores a call's answer; the call keeps its place until it is [`Self::sent`]. Returns `false` if nobody waits for
    /// the answer any more.
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

    /// Frees the place of an answered call, right before its answer goes into the queue: a relay that has the answer
    /// may call again at once.
    pub(crate) fn sent(&self, id: CallId, execution: &ExecutionId) {
        if let Some(entry) = self.lock().executions.get_mut(execution) {
            entry.in_flight.remove(&id);
        }
    }

    /// Stops a call that the relay cancelled. Its answer is not sent any more.
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
            if let Some(run) = &record.context.run {
                run.give_up_waiting(record.index);
            }
            record.stop();
        }
        // An answer that waits for room in the queue goes with its task.
        if let Some(abort) = abort {
            abort.abort();
        }
    }

    /// Returns the durable run that an execution belongs to; `None`: it belongs to none, or has ended.
    pub(crate) fn run_of(&self, execution: &ExecutionId) -> Option<Arc<dyn DurableRun>> {
        self.lock().executions.get(execution)?.context.run.clone()
    }

    /// Keeps output of an execution and tells its watchers; drops output beyond 8 MiB.
    pub(crate) fn output(&self, execution: &ExecutionId, items: Vec<OutputItem>) {
        let mut state = self.lock();
        let Some(entry) = state.executions.get_mut(execution) else { return };
        for item in items {
            // Empty pieces take room as well.
            entry.output_bytes += item.text.len() + size_of::<OutputItem>();
            if entry.output_bytes > KEPT_OUTPUT_BYTES {
                return;
            }
            entry.context.tell(Event::Output(item.clone()));
            entry.output.push(item);
        }
    }

    /// Tells the watchers of all executions that were sent to the relay of an event.
    pub(crate) fn tell_relays(&self, event: &Event) {
        for entry in self.lock().executions.values().filter(|entry| entry.is_started) {
            entry.context.tell(event.clone());
        }
    }

    /// Ends an execution: stops its calls and sends the outcome to whoever waits for it.
    pub(crate) fn end(&self, execution: &ExecutionId, result: Result<wire::Result, ExecutionError>) {
        let entry = self.lock().executions.remove(execution);
        if let Some(entry) = entry {
            entry.end(result);
        }
    }

    /// Ends the executions that were sent to the relay with `SESSION_LOST`: the session is over. Those that make a call of
    /// their own go on.
    pub(crate) fn lose(&self, reason: &str) {
        let entries: Vec<_> = {
            let mut state = self.lock();
            state.lost.get_or_insert_with(|| reason.to_owned());
            state.executions.extract_if(|_, entry| entry.is_started).map(|(_, entry)| entry).collect()
        };
        for entry in entries {
            entry.end(Err(ExecutionError::new(ErrorCode::SessionLost, reason)));
        }
    }

    /// Returns whether the session is over.
    pub(crate) fn is_lost(&self) -> bool {
        self.lock().lost.is_some()
    }

    /// Returns whether an execution was opened and has not ended.
    pub(crate) fn is_open(&self, execution: &ExecutionId) -> bool {
        self.lock().executions.contains_key(execution)
    }
}
