//! The state of one run in this process: its record, the entries that are on their way into the journal, and what its driver
//! has to know.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use relay_proto::steps::{self, MAX_STEP_FAILURES, MAX_STEPS};
use relay_proto::time::now_ms;
use relay_proto::wire;
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio::time::Instant;

use super::decision::Decision;
use super::turns::Turns;
use crate::call::ExecutionContext;
use crate::durable::entry::{self, Answered, Begun, Entry, Steps, Told};
use crate::durable::journal::{JournalError, RunId, RunStatus};
use crate::durable::log::RunLog;
use crate::durable::record::RunRecord;
use crate::event::Event;
use crate::host::Host;
use crate::outcome::OutputItem;
use crate::rules::approval::ApprovalRequest;

/// The maximum length of all steps of a run, in bytes. A step of an honest relay has a few bytes.
const MAX_STEPS_BYTES: usize = 20 * MAX_STEPS;

/// The state of one run in this process.
pub(super) struct RunData {
    pub(super) id: RunId,
    /// The owner; `None`: the application itself.
    pub(super) owner: Option<String>,
    pub(super) host: Arc<Host>,
    /// The context of all calls: events, audit, approvals and budget of the run.
    pub(super) context: Arc<ExecutionContext>,
    pub(super) log: RunLog,
    state: Mutex<State>,
    /// The questions that people are asked now, by the numbers of their calls.
    questions: Mutex<BTreeMap<u64, ApprovalRequest>>,
    /// The decisions of other processes, by the number of their call.
    pub(super) instructions: watch::Sender<HashMap<u64, Decision>>,
    /// Changes whenever the driver of the run has something to look at.
    pub(super) changes: watch::Sender<Situation>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) record: RunRecord,
    /// The number of pieces of output of the current execution.
    output: u64,
    /// The events that reached the code and are in no entry yet.
    steps: Steps,
    /// `true`: output was told that is in no entry yet.
    has_told: bool,
    /// The number of the current execution; messages of those before are ignored.
    attempt: u64,
    /// `false`: the run is over, given up, or not the run of the journal. Nothing happens any more.
    is_open: bool,
    /// `true`: the run is over or given up, and its last entry is added or about to be.
    is_over: bool,
    /// The order in which the current execution is sent answers to calls that were made before it.
    turns: Turns,
}

/// The situation of a run, as its driver has to know it.
#[derive(Debug, Clone, Default)]
pub(super) struct Situation {
    /// The wait of the code; `None`: it does not wait.
    pub(super) waits: Option<Wait>,
    /// `true`: the code was taken off its relay, and the journal says that the run waits.
    pub(super) is_passive: bool,
    /// The reason why the execution cannot be the run's; `None`: it can.
    pub(super) diverged: Option<String>,
    /// The number of calls that have been answered in this process.
    pub(super) answered: u64,
}

impl Situation {
    /// Counts an answer. Returns whether the run's driver has to look: the code waits, or was taken off its relay.
    pub(super) fn note_answer(&mut self) -> bool {
        self.answered += 1;
        self.is_passive || self.waits.take().is_some()
    }
}

/// A wait of the code.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wait {
    /// The time at which the next timer is due; `None`: none is set.
    pub(super) until: Option<Instant>,
}

impl std::fmt::Debug for RunData {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunData").field("id", &self.id).finish_non_exhaustive()
    }
}

impl RunData {
    /// Creates the state of a run from its record.
    pub(super) fn new(
        host: Arc<Host>,
        (id, owner): (RunId, Option<String>),
        context: ExecutionContext,
        log: RunLog,
        record: RunRecord,
    ) -> Self {
        Self {
            id,
            owner,
            host,
            context: Arc::new(context),
            log,
            state: Mutex::new(State {
                record,
                output: 0,
                steps: Steps::default(),
                has_told: false,
                attempt: 0,
                is_open: true,
                is_over: false,
                turns: Turns::default(),
            }),
            questions: Mutex::default(),
            instructions: watch::Sender::default(),
            changes: watch::Sender::default(),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        // Changed only under this lock, by code that does not panic half way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the questions.
    pub(super) fn questions(&self) -> MutexGuard<'_, BTreeMap<u64, ApprovalRequest>> {
        // Changed only under this lock, by code that does not panic half way.
        self.questions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the record.
    pub(super) fn read<R>(&self, read: impl FnOnce(&RunRecord) -> R) -> R {
        read(&self.state().record)
    }

    /// Adds an entry of the run, and returns its number.
    pub(super) fn add(&self, entry: Entry) -> u64 {
        self.state().add(&self.log, entry)
    }

    /// Adds an entry of the run, and returns its number; `None`: nothing happens any more.
    pub(super) fn add_if_open(&self, entry: Entry) -> Option<u64> {
        let mut state = self.state();
        state.is_open.then(|| state.add(&self.log, entry))
    }

    /// Returns whether anything may happen.
    pub(super) fn is_open(&self) -> bool {
        self.state().is_open
    }

    /// Adds the answer to a call, and returns the entry's number; `None`: the run is over.
    pub(super) fn add_answer(&self, answered: Answered) -> Option<u64> {
        let mut state = self.state();
        if state.is_over {
            return None;
        }
        state.turns.add(answered.call);
        Some(state.add(&self.log, Entry::Answered(answered)))
    }

    /// Adds the last entry of the run, with which its status changes.
    pub(super) fn add_last(&self, entry: Entry) -> u64 {
        let mut state = self.state();
        state.save_told(&self.log);
        state.add_with(&self.log, entry, Some(RunStatus::Ended))
    }

    /// Begins another execution of the code, and returns its number and what its relay has to know of those before. `sees_session`:
    /// the code sees something of its session.
    pub(super) fn begin_attempt(&self, attempt: entry::Attempt, sees_session: bool) -> (u64, wire::Durable) {
        let mut state = self.state();
        state.output = 0;
        state.save_told(&self.log);
        // A relay that was gone before it told what the code sees has not begun it.
        let has_begun = !sees_session || state.record.begun.is_some();
        let again = state.record.attempts > 0 && has_begun;
        state.add(&self.log, Entry::Attempt(attempt));
        let history = history(&state.record);
        state.turns = Turns::new(history.calls, state.record.undelivered_answers(&Steps::default()));
        state.attempt += 1;
        let number = state.attempt;
        drop(state);
        self.changes.send_modify(|situation| (situation.waits, situation.is_passive) = (None, false));
        (number, wire::Durable { again, clock_ms: Some(now_ms()), ..history })
    }

    /// Returns the order in which the current execution is sent answers to calls that were made before it.
    pub(super) fn turns(&self) -> Turns {
        self.state().turns().clone()
    }

    /// Takes output of an execution, and tells that which was not told before; that of one that is not the current one is ignored.
    pub(super) fn output(&self, attempt: u64, items: &[OutputItem]) {
        let mut state = self.state();
        if !state.is_current(attempt) {
            return;
        }
        for item in items {
            state.output += 1;
            if state.output > state.record.told {
                state.record.told = state.output;
                state.has_told = true;
                self.context.tell(Event::Output(item.clone()));
            }
        }
    }

    /// Takes steps of an execution; those of one that is not the current one are ignored.
    pub(super) fn take_steps(&self, attempt: u64, bytes: &[u8], failures: Vec<wire::StepFailure>) {
        if bytes.is_empty() && failures.is_empty() {
            return;
        }
        let mut state = self.state();
        if !state.is_current(attempt) {
            return;
        }
        let (steps, all_failures) = state.lengths();
        let is_valid = steps::decode(bytes, 0).is_ok()
            && steps + bytes.len() <= MAX_STEPS_BYTES
            && all_failures + failures.len() <= MAX_STEP_FAILURES;
        if is_valid {
            state.steps.append(Steps::from_wire(bytes, failures));
        } else {
            drop(state);
            self.diverged("the relay sent steps that cannot be read, or too many of them".into());
        }
    }

    /// Takes the session as the code of an execution finds it, unless another one has begun with it before.
    pub(super) fn take_begun(&self, attempt: u64, begun: Begun) {
        let mut state = self.state();
        if state.is_current(attempt) && state.record.begun.is_none() && state.record.newest_call() == 0 {
            state.add(&self.log, Entry::Begun(begun));
        }
    }

    /// Notes that the code of an execution waits; one that is not the current one is ignored.
    pub(super) fn waits(&self, attempt: u64, wait: Wait) {
        let state = self.state();
        if state.is_current(attempt) {
            self.changes.send_modify(|situation| situation.waits = Some(wait));
        }
    }

    /// Notes that the execution cannot be the run's.
    pub(super) fn diverged(&self, reason: String) {
        self.state().is_open = false;
        self.changes.send_modify(|situation| situation.diverged = Some(reason));
    }

    /// Lets nothing more happen.
    pub(super) fn close(&self) {
        let mut state = self.state();
        (state.is_open, state.is_over) = (false, true);
    }

    /// Writes what was told into the journal.
    ///
    /// # Errors
    /// [`JournalError`]: the journal does not have it.
    pub(super) async fn save(&self) -> Result<(), JournalError> {
        self.state().save_told(&self.log);
        self.log.commit_all().await
    }
}

impl State {
    /// Adds an entry to the record and to the log, and returns its number.
    pub(super) fn add(&mut self, log: &RunLog, entry: Entry) -> u64 {
        self.add_with(log, entry, None)
    }

    fn add_with(&mut self, log: &RunLog, entry: Entry, status: Option<RunStatus>) -> u64 {
        let number = log.push(&entry, status);
        self.record.entries = number;
        if let Err(error) = self.record.apply(entry) {
            // Entries of this process are about calls that were made.
            tracing::error!(%error, "an entry does not fit its run");
        }
        number
    }

    /// Returns whether an answer has not reached the code.
    pub(super) fn has_undelivered_answers(&self) -> bool {
        !self.record.undelivered_answers(&self.steps).is_empty()
    }

    /// Returns the order in which the current execution is sent answers to calls that were made before it.
    pub(super) fn turns(&self) -> &Turns {
        &self.turns
    }

    /// Returns whether messages of this execution count.
    pub(super) fn is_current(&self, attempt: u64) -> bool {
        self.is_open && self.attempt == attempt
    }

    /// Returns the events that reached the code since the last entry that has some.
    pub(super) fn new_steps(&mut self, log: &RunLog) -> Steps {
        if self.has_told {
            self.save_told(log);
        }
        std::mem::take(&mut self.steps)
    }

    /// Writes what was told and the events before, as far as they are in no entry yet.
    fn save_told(&mut self, log: &RunLog) {
        let steps = std::mem::take(&mut self.steps);
        if std::mem::take(&mut self.has_told) || !steps.is_empty() {
            let told = Told { output: self.record.told, steps };
            self.add(log, Entry::Told(told));
        }
    }

    /// Returns the bytes of all steps, and the number of all failures.
    fn lengths(&self) -> (usize, usize) {
        let (old, new) = (&self.record.steps, &self.steps);
        (old.steps.len() + new.steps.len(), old.failures.len() + new.failures.len())
    }
}

/// Returns what a relay has to know of a run that goes on there.
fn history(record: &RunRecord) -> wire::Durable {
    let failure = |it: &entry::RelayFailure| wire::StepFailure {
        call: it.call,
        code: it.code.clone(),
        message: it.message.clone(),
    };
    let (store, tools) = match &record.begun {
        Some(begun) => {
            let bytes = |json: &RawValue| Bytes::copy_from_slice(json.get().as_bytes());
            (begun.store.iter().map(|(key, json)| (key.clone(), bytes(json))).collect(), begun.tools.clone())
        }
        None => Default::default(),
    };
    wire::Durable {
        steps: record.steps.steps.clone().into(),
        failures: record.steps.failures.iter().map(failure).collect(),
        calls: record.newest_call(),
        store,
        tools,
        ..wire::Durable::default()
    }
}
