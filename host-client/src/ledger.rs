//! Which executions and calls there are. A relay can call only within what was asked of it: a known execution, a fresh
//! id, its budget. The same id never runs twice; its first answer is given again.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use relay_proto::{CallId, ErrorCode, ExecutionId, ToolName, ToolPatterns, wire};
use tokio::sync::{broadcast, oneshot};
use tokio::task::AbortHandle;

use crate::call::CallRecord;
use crate::client::Usage;
use crate::dispatch::short;
use crate::error::ExecutionError;
use crate::event::{self, Event, OutputItem};
use crate::host::ExecutionContext;
use crate::introspect;

/// How many bytes of given answers are kept in case they are asked for again.
const KEPT_ANSWER_BYTES: usize = 4 << 20;
/// The most output of one execution that is kept, whatever the relay sends.
const KEPT_OUTPUT_BYTES: usize = 8 << 20;

/// The id of the one call of an execution that runs on this host. The relay counts its own up from 1.
pub(crate) const OWN_CALL: CallId = CallId(0);

/// All executions of one client.
#[derive(Default)]
pub(crate) struct Ledger(Mutex<State>);

#[derive(Default)]
struct State {
    executions: HashMap<ExecutionId, Entry>,
    next: u64,
    /// The highest id of a call in any execution: the relay counts them up.
    last_call: u64,
    lost: Option<String>,
}

struct Entry {
    budget: Budget,
    /// Whether the code was sent: before that, nobody can have called anything for it.
    is_started: bool,
    calls: HashMap<CallId, (Fingerprint, CallState)>,
    /// The calls that hold a place, and how each is stopped.
    in_flight: HashMap<CallId, Option<AbortHandle>>,
    answers: VecDeque<(CallId, usize)>,
    answer_bytes: usize,
    output: Vec<OutputItem>,
    output_bytes: usize,
    context: Arc<ExecutionContext>,
    outcome: oneshot::Sender<Ended>,
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

/// What a call asks for, so that the same id with something else is noticed.
type Fingerprint = u64;

fn fingerprint(call: &wire::ToolCall) -> Fingerprint {
    let mut hasher = DefaultHasher::new();
    (&call.tool, &call.arguments).hash(&mut hasher);
    hasher.finish()
}

enum CallState {
    Running(Arc<CallRecord>),
    Answered(wire::ToolResult),
    /// It was answered, and the answer was too large to keep.
    Forgotten,
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

/// Proof that a call belongs to a running execution, is within its budget, and was not seen before.
pub(crate) struct LedgerPermit {
    pub(crate) call: Arc<CallRecord>,
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
    /// One whose first execution has the number after this.
    pub(crate) fn starting_at(number: u64) -> Self {
        Self(Mutex::new(State { next: number, ..State::default() }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Changed only under this lock, by code that does not panic half way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens an execution, with what is made of its id.
    ///
    /// # Errors
    /// The session is over; the text says why.
    pub(crate) fn open(
        &self,
        budget: Budget,
        context: impl FnOnce(ExecutionId, broadcast::Sender<Event>) -> ExecutionContext,
    ) -> Result<Opened, String> {
        let mut state = self.lock();
        if let Some(reason) = &state.lost {
            return Err(reason.clone());
        }
        state.next += 1;
        let id = ExecutionId::from(state.next);
        let (events, receiver) = broadcast::channel(event::KEPT);
        let context = Arc::new(context(id.clone(), events));
        let (sender, outcome) = oneshot::channel();
        let entry = Entry {
            budget,
            is_started: false,
            calls: HashMap::new(),
            in_flight: HashMap::new(),
            answers: VecDeque::new(),
            answer_bytes: 0,
            output: Vec::new(),
            output_bytes: 0,
            context: Arc::clone(&context),
            outcome: sender,
        };
        state.executions.insert(id, entry);
        Ok(Opened { context, events: receiver, outcome })
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
    ) -> Result<LedgerPermit, Refused> {
        let mut state = self.lock();
        let state = &mut *state;
        let was_opened = execution.as_str().parse().is_ok_and(|number: u64| (1..=state.next).contains(&number));
        if !was_opened {
            return Err(Refused::Violation(format!("a call for the execution {execution}, which never was")));
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

    /// Enters the one call of an execution that runs on this host, within its budget as any other. The relay never sees it and
    /// can call nothing for it: it is not started.
    pub(crate) fn enter_own(
        &self,
        execution: &ExecutionId,
        call: &wire::ToolCall,
    ) -> Result<LedgerPermit, (ErrorCode, String)> {
        let mut state = self.lock();
        let ended = || (ErrorCode::Cancelled, "the execution has ended".to_owned());
        let entry = state.executions.get_mut(execution).ok_or_else(ended)?;
        entry.admit(OWN_CALL, fingerprint(call), call)
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
    pub(crate) fn answer(&self, permit: &LedgerPermit, answer: &wire::ToolResult) -> bool {
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
        let mut state = self.lock();
        let Some(entry) = state.executions.get_mut(execution) else { return };
        if let Some((_, call)) = entry.calls.get_mut(&id)
            && let CallState::Running(record) = call
        {
            record.stop();
            *call = CallState::Forgotten;
        }
        // An answer that waits for room in the queue goes with its task.
        if let Some(Some(abort)) = entry.in_flight.remove(&id) {
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

impl Entry {
    /// Takes a call that was not seen before, within the budget.
    fn admit(
        &mut self,
        id: CallId,
        fingerprint: Fingerprint,
        call: &wire::ToolCall,
    ) -> Result<LedgerPermit, (ErrorCode, String)> {
        let bytes = call.arguments.len() as u64;
        if bytes > self.budget.arguments_bytes {
            let most = self.budget.arguments_bytes;
            let message = format!("the arguments have {bytes} bytes; this execution was given {most}");
            return Err((ErrorCode::ArgumentsLimit, message));
        }
        // Questions about tools are answered of those that the patterns allow.
        if let Ok(name) = ToolName::try_from(call.tool.clone())
            && !introspect::is_question(&call.tool)
            && !self.budget.tools.allow(&name)
        {
            return Err((ErrorCode::UnknownTool, format!("there is no tool {name} for this execution")));
        }
        if self.calls.len() as u64 >= self.budget.tool_calls || self.in_flight.len() >= self.budget.in_flight {
            let message = "the execution has used up the tool calls that it was given".to_owned();
            return Err((ErrorCode::ToolCallLimit, message));
        }
        let record = Arc::new(CallRecord::new(id, Arc::clone(&self.context), short(&call.tool)));
        self.calls.insert(id, (fingerprint, CallState::Running(Arc::clone(&record))));
        self.in_flight.insert(id, None);
        Ok(LedgerPermit { call: record })
    }

    fn end(self, result: Result<wire::Result, ExecutionError>) {
        // First for everybody who watches, then in fact. A call that ends its own execution waits for nothing after that.
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
                Err(ExecutionError::new(ErrorCode::ResultLimit, text))
            }
        });
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
        // Nobody has to wait for it.
        let _ = self.outcome.send(Ended { result, output: self.output });
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    /// What a relay and a host may do, in any order.
    #[derive(Debug, Clone)]
    enum Step {
        Call { id: u64, execution: u64, tool: &'static str },
        Answer { index: usize, bytes: usize },
        Sent { index: usize },
        CancelCall { id: u64, execution: u64 },
        End { execution: u64 },
    }

    fn step() -> impl Strategy<Value = Step> {
        let (id, execution) = (1..12_u64, 1..4_u64);
        prop_oneof![
            4 => (id.clone(), execution.clone(), prop_oneof![Just("a.b"), Just("a.c")])
                .prop_map(|(id, execution, tool)| Step::Call { id, execution, tool }),
            3 => (0..8_usize, prop_oneof![Just(1), Just(KEPT_ANSWER_BYTES / 2), Just(KEPT_ANSWER_BYTES + 1)])
                .prop_map(|(index, bytes)| Step::Answer { index, bytes }),
            2 => (0..8_usize).prop_map(|index| Step::Sent { index }),
            1 => (id, execution.clone()).prop_map(|(id, execution)| Step::CancelCall { id, execution }),
            1 => execution.prop_map(|execution| Step::End { execution }),
        ]
    }

    proptest! {
        /// Whatever happens in whatever order: an id runs once, no execution runs more than it was granted, none after its
        /// end, and only what ran is answered. Nor less: a call is refused for its place only while two others hold theirs.
        #[test]
        fn no_order_of_events_gets_more_than_was_granted(steps in prop::collection::vec(step(), 1..80)) {
            let ledger = Ledger::default();
            let opened: Vec<_> = (0..3).map(|_| open(&ledger)).collect();
            let mut ended = HashMap::new();
            let mut ran: HashMap<u64, (u64, &str)> = HashMap::new();
            let mut permits: Vec<LedgerPermit> = Vec::new();
            let mut answered: Vec<(u64, u64)> = Vec::new();
            let mut holding: HashSet<(u64, u64)> = HashSet::new();
            for step in steps {
                match step {
                    Step::Call { id, execution, tool } => {
                        let name = ExecutionId::from(execution);
                        match ledger.enter(CallId(id), &name, &call(tool)) {
                            Ok(permit) => {
                                prop_assert!(!ended.contains_key(&execution), "it has ended");
                                prop_assert!(ran.insert(id, (execution, tool)).is_none(), "it runs twice");
                                let of_this = ran.values().filter(|(of, _)| *of == execution).count();
                                prop_assert!(of_this <= 3, "more than were granted");
                                holding.insert((id, execution));
                                permits.push(permit);
                            }
                            Err(Refused::Answered(answer)) => prop_assert_eq!(answer.id, id.to_string()),
                            Err(Refused::Running) => prop_assert_eq!(ran.get(&id), Some(&(execution, tool))),
                            Err(Refused::Violation(_)) => prop_assert!(ran.get(&id) != Some(&(execution, tool))),
                            Err(Refused::Failed(code, _)) => {
                                prop_assert_eq!(code == ErrorCode::Cancelled, ended.contains_key(&execution));
                                let ran = ran.values().filter(|(of, _)| *of == execution).count();
                                let held = holding.iter().filter(|(_, of)| *of == execution).count();
                                prop_assert!(code != ErrorCode::ToolCallLimit || ran == 3 || held == 2, "less than was granted");
                            }
                        }
                        let state = ledger.lock();
                        for entry in state.executions.values() {
                            prop_assert!(entry.in_flight.len() <= 2 && entry.calls.len() <= 3);
                            prop_assert!(entry.answer_bytes <= KEPT_ANSWER_BYTES);
                        }
                    }
                    Step::Answer { index, bytes } if !permits.is_empty() => {
                        let permit = permits.swap_remove(index % permits.len());
                        let (id, execution) = (permit.call.id.0, permit.call.context.id.as_str().parse::<u64>().unwrap());
                        let wanted = ledger.answer(&permit, &answer(id, vec![b'1'; bytes]));
                        prop_assert!(!wanted || !ended.contains_key(&execution));
                        answered.push((id, execution));
                        prop_assert!(!ledger.answer(&permit, &answer(id, Vec::new())), "answered once");
                    }
                    Step::Answer { .. } => {}
                    Step::Sent { index } if !answered.is_empty() => {
                        let (id, execution) = answered.swap_remove(index % answered.len());
                        ledger.sent(CallId(id), &ExecutionId::from(execution));
                        holding.remove(&(id, execution));
                    }
                    Step::Sent { .. } => {}
                    Step::CancelCall { id, execution } => {
                        ledger.cancel_call(CallId(id), &ExecutionId::from(execution));
                        holding.remove(&(id, execution));
                    }
                    Step::End { execution } => {
                        ledger.end(&ExecutionId::from(execution), Ok(wire::Result::default()));
                        ended.insert(execution, ());
                    }
                }
            }
            ledger.lose("over");
            prop_assert!(ledger.lock().executions.is_empty());
            drop(opened);
        }
    }

    fn budget(tool_calls: u64, in_flight: usize) -> Budget {
        Budget { tools: ToolPatterns::default(), arguments_bytes: 100, tool_calls, in_flight, result_bytes: 100 }
    }

    fn open(ledger: &Ledger) -> Opened {
        let opened = ledger.open(budget(3, 2), ExecutionContext::for_tests).unwrap();
        ledger.start(&opened.context.id);
        opened
    }

    fn answer(id: u64, result: Vec<u8>) -> wire::ToolResult {
        wire::ToolResult { id: id.to_string(), success: true, result: result.into(), ..wire::ToolResult::default() }
    }

    fn call(tool: &str) -> wire::ToolCall {
        wire::ToolCall { tool: tool.into(), ..wire::ToolCall::default() }
    }

    fn enter(ledger: &Ledger, id: u64, execution: &ExecutionId) -> Result<LedgerPermit, Refused> {
        ledger.enter(CallId(id), execution, &call("a.b"))
    }

    fn refused(ledger: &Ledger, id: u64, execution: &ExecutionId) -> Refused {
        enter(ledger, id, execution).err().unwrap()
    }

    #[test]
    fn a_relay_that_breaks_its_word_ends_the_session() {
        let ledger = Ledger::default();
        let (one, other) = (open(&ledger), open(&ledger));
        let _permit = enter(&ledger, 7, &one.context.id).ok().unwrap();
        assert!(matches!(ledger.enter(CallId(7), &one.context.id, &call("a.c")), Err(Refused::Violation(_))));
        assert!(
            matches!(refused(&ledger, 7, &other.context.id), Refused::Violation(_)),
            "the same id in another execution"
        );
        assert!(matches!(refused(&ledger, 8, &ExecutionId::from(99)), Refused::Violation(_)), "no such execution");
    }

    #[test]
    fn nothing_is_called_for_code_that_was_not_sent() {
        let ledger = Ledger::default();
        let opened = ledger.open(budget(3, 2), ExecutionContext::for_tests).unwrap();
        assert!(matches!(refused(&ledger, 1, &opened.context.id), Refused::Violation(_)));
    }

    #[test]
    fn a_result_over_the_budget_is_an_error() {
        let ledger = Ledger::default();
        for (bytes, code) in [(100, None), (101, Some(ErrorCode::ResultLimit))] {
            let mut opened = open(&ledger);
            let result = wire::Result { data: vec![b'1'; bytes].into(), ..wire::Result::default() };
            ledger.end(&opened.context.id, Ok(result));
            let ended = opened.outcome.try_recv().unwrap();
            assert_eq!(ended.result.err().map(|error| error.code), code.map(Into::into));
        }
    }

    #[test]
    fn the_same_id_runs_once_and_gets_the_first_answer_again() {
        let ledger = Ledger::default();
        let opened = open(&ledger);
        let permit = enter(&ledger, 1, &opened.context.id).ok().unwrap();
        assert!(matches!(refused(&ledger, 1, &opened.context.id), Refused::Running));
        assert!(ledger.answer(&permit, &answer(1, b"7".to_vec())));
        let Refused::Answered(again) = refused(&ledger, 1, &opened.context.id) else { panic!("it would run again") };
        assert_eq!(again, answer(1, b"7".to_vec()));
        assert!(!ledger.answer(&permit, &answer(1, b"8".to_vec())), "the first answer stands");
    }

    #[test]
    fn an_answer_too_large_to_keep_is_not_made_up() {
        let ledger = Ledger::default();
        let opened = open(&ledger);
        let permit = enter(&ledger, 1, &opened.context.id).ok().unwrap();
        assert!(ledger.answer(&permit, &answer(1, vec![b'1'; KEPT_ANSWER_BYTES + 1])));
        assert!(matches!(refused(&ledger, 1, &opened.context.id), Refused::Failed(ErrorCode::OutcomeUnknown, _)));
    }

    #[test]
    fn calls_belong_to_a_running_execution_and_its_budget() {
        let ledger = Ledger::default();
        let opened = open(&ledger);
        let first = enter(&ledger, 1, &opened.context.id).ok().unwrap();
        let _second = enter(&ledger, 2, &opened.context.id).ok().unwrap();
        assert!(
            matches!(refused(&ledger, 3, &opened.context.id), Refused::Failed(ErrorCode::ToolCallLimit, _)),
            "two at once"
        );
        assert!(ledger.answer(&first, &answer(1, b"1".to_vec())));
        assert!(matches!(refused(&ledger, 4, &opened.context.id), Refused::Failed(..)), "until its answer is sent");
        ledger.sent(CallId(1), &opened.context.id);
        let third = enter(&ledger, 5, &opened.context.id).ok().unwrap();
        ledger.cancel_call(CallId(5), &opened.context.id);
        assert!(!ledger.answer(&third, &answer(5, b"1".to_vec())), "it was cancelled");
        assert!(
            matches!(refused(&ledger, 6, &opened.context.id), Refused::Failed(ErrorCode::ToolCallLimit, _)),
            "three in all"
        );
        ledger.end(&opened.context.id, Ok(wire::Result::default()));
        assert!(matches!(refused(&ledger, 7, &opened.context.id), Refused::Failed(ErrorCode::Cancelled, _)));
        assert!(!ledger.answer(&first, &answer(1, b"1".to_vec())), "nobody waits any more");
    }

    #[test]
    fn the_end_of_the_session_ends_every_execution() {
        let ledger = Ledger::default();
        let mut opened = open(&ledger);
        ledger.lose("gone");
        let ended = opened.outcome.try_recv().unwrap();
        assert!(ended.result.is_err_and(|error| error.code == ErrorCode::SessionLost && error.message == "gone"));
        assert_eq!(ledger.open(budget(1, 1), ExecutionContext::for_tests).err(), Some("gone".to_owned()));
    }
}
