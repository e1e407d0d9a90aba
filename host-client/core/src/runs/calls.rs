//! The calls of a durable run. They live longer than the execution that makes them: while its code is being sent to another
//! relay, or waits for nobody, tools run on and people think on.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use relay_proto::{ErrorCode, wire};
use tokio::time::Instant;

use super::live::{AnswerSender, LiveCall, raw_json};
use super::state::{RunData, Situation, Wait};
use crate::call::dispatch::answer::{failure, success};
use crate::call::run::{DurableRun, IncomingCall};
use crate::durable::entry::{Answer, Answered, Begun, Called, Decided, Entry, Steps};
use crate::durable::record::{Divergence, Known};
use crate::hash::Hash;
use crate::outcome::OutputItem;
use crate::rules::approval::ApprovalState;
use crate::tool::Effect;

/// The maximum length of arguments that are written into the journal for people, in bytes of JSON.
const SHOWN_ARGUMENTS_BYTES: usize = 1 << 10;
/// The time for which the answer of a call that only reads waits until it is written, with all that came meanwhile.
const WRITTEN_WITHIN: Duration = Duration::from_millis(1);
/// The maximum time of a timer that is counted with, in ms: the longest that `setTimeout` takes.
const MAX_TIMER_MS: u64 = 2_147_483_647;

/// The calls of one durable run, in this process.
#[derive(Debug)]
pub(super) struct RunCalls {
    data: Arc<RunData>,
    /// The calls without an answer, by their numbers.
    live: Mutex<HashMap<u64, Arc<LiveCall>>>,
}

impl Deref for RunCalls {
    type Target = RunData;

    fn deref(&self) -> &RunData {
        &self.data
    }
}

/// A call that the code makes, found in the record.
enum Found {
    /// It has an answer.
    Answer(Answer),
    /// Its answer is to come.
    Live(Arc<LiveCall>),
    /// It is not the call of the journal.
    Diverged(Divergence),
    /// Its execution is not the run's any more.
    Ignored,
}

impl RunCalls {
    pub(super) fn new(data: RunData) -> Self {
        Self { data: Arc::new(data), live: Mutex::default() }
    }

    /// Locks the calls without an answer. Whoever locks the state as well locks that first.
    fn live(&self) -> MutexGuard<'_, HashMap<u64, Arc<LiveCall>>> {
        // Changed only under this lock, by code that does not panic half way.
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds a call that the code makes in an execution; one that is new begins.
    fn find(self: &Arc<Self>, attempt: u64, message: &wire::ToolCall) -> Found {
        let arguments_sha256 = Hash::of(&message.arguments);
        self.take_steps(attempt, &message.steps, message.failures.clone());
        let mut state = self.state();
        if !state.is_current(attempt) {
            return Found::Ignored;
        }
        // The code has gone on.
        self.changes.send_if_modified(|situation| situation.waits.take().is_some());
        let mut live = self.live();
        let decided = match state.record.find(message.index, &message.tool, arguments_sha256) {
            Known::Answered(answer) => return Found::Answer(answer),
            Known::Diverged(divergence) => return Found::Diverged(divergence),
            Known::Started(_) | Known::Open(_) if let Some(live) = live.get(&message.index) => {
                return Found::Live(Arc::clone(live));
            }
            Known::Started(_) if !self.may_run_again(&message.tool) => {
                let answered = unknown_outcome(message);
                let answer = answered.answer.clone();
                state.add(&self.log, Entry::Answered(answered));
                return Found::Answer(answer);
            }
            Known::Started(decided) | Known::Open(decided) => decided,
            Known::New => {
                let called = called(message, arguments_sha256, state.new_steps(&self.log));
                state.add(&self.log, Entry::Called(called));
                None
            }
        };
        let begun = self.begin(message.clone(), arguments_sha256, decided);
        live.insert(message.index, Arc::clone(&begun));
        Found::Live(begun)
    }

    /// Begins a call, as a task that no relay can end by being gone.
    fn begin(
        self: &Arc<Self>,
        message: wire::ToolCall,
        arguments_sha256: Hash,
        decided: Option<Decided>,
    ) -> Arc<LiveCall> {
        let (this, number) = (Arc::clone(self), message.index);
        let only_reads = self.only_reads(&message.tool);
        LiveCall::begin(&self.data, message, arguments_sha256, (decided, only_reads), |answering, sender| {
            tokio::spawn(async move {
                let answer = answering.await;
                this.answered(number, answer, &sender, only_reads).await;
            })
        })
    }

    /// Tells whether a call whose outcome is not known may be made again: its tool only reads, or says that a second call
    /// with the same idempotency key changes nothing.
    fn may_run_again(&self, tool: &str) -> bool {
        self.host.tools.get(tool).is_some_and(|found| found.spec.manifest.may_run_again())
    }

    /// Returns whether a tool changes nothing: the journal need not have its call before it runs.
    fn only_reads(&self, tool: &str) -> bool {
        self.host.tools.get(tool).is_some_and(|found| found.spec.manifest.effect == Some(Effect::ReadOnly))
    }

    /// Keeps the answer to a call, tells it, and writes it into the journal.
    ///
    /// The code need not wait for the journal: the entries keep their order, so whatever the code does with the answer that
    /// others can see (a tool that changes something, a question to a person, the run's end) is in the journal behind it. The
    /// code waits if the journal is far behind. With `may_wait`, the entry waits a moment for others that are written with it:
    /// without it in the journal, the call would only be made again.
    async fn answered(&self, number: u64, answer: Answer, told: &AnswerSender, may_wait: bool) {
        let entry = self.add_answer(Answered { call: number, answer: answer.clone() });
        self.live().remove(&number);
        // The run is over: its last entry is written.
        let Some(entry) = entry else { return };
        let is_behind = self.log.is_behind();
        if !is_behind {
            told.send_replace(Some(answer.clone()));
            self.changes.send_if_modified(Situation::note_answer);
            match may_wait {
                true => tokio::time::sleep(WRITTEN_WITHIN).await,
                // The answer is on its way before this thread writes.
                false => tokio::task::yield_now().await,
            }
        }
        let kept = self.log.commit(entry).await;
        if is_behind && kept.is_ok() {
            told.send_replace(Some(answer));
            self.changes.send_if_modified(Situation::note_answer);
        }
        if kept.is_err() {
            // The run's driver looks at the reason.
            self.changes.send_modify(|_| {});
        }
    }

    /// Stops all calls, and lets none begin any more: the run is over, or given up.
    pub(super) fn stop(&self) {
        self.close();
        let live = std::mem::take(&mut *self.live());
        for call in live.into_values() {
            call.abort();
        }
    }

    /// Returns whether the code waits for nothing but people, or for nothing but a timer if `has_timer`: no tool runs, and no
    /// answer is on its way to the code.
    pub(super) fn waits_for_nothing_else(&self, has_timer: bool) -> bool {
        let (asked, runs) = self.open_calls();
        !runs && (has_timer || !asked.is_empty()) && !self.state().has_undelivered_answers()
    }

    /// Returns the calls that people are asked about, and whether a tool runs.
    pub(super) fn open_calls(&self) -> (Vec<u64>, bool) {
        let live = self.live();
        let waits = live.iter().filter(|(_, call)| call.is_waiting()).map(|(number, _)| *number);
        let mut asked: Vec<_> = waits.collect();
        asked.sort_unstable();
        let runs = asked.len() < live.len();
        (asked, runs)
    }
}

/// One execution of a run's code. What it sends counts for as long as it is the current one.
#[derive(Debug)]
pub(super) struct RunAttempt {
    pub(super) calls: Arc<RunCalls>,
    pub(super) number: u64,
}

impl RunAttempt {
    fn is_current(&self) -> bool {
        self.calls.state().is_current(self.number)
    }
}

impl DurableRun for RunAttempt {
    fn approvals(&self) -> Arc<ApprovalState> {
        Arc::clone(&self.calls.context.approvals)
    }

    fn has_answer(&self, call: u64) -> bool {
        self.calls.read(|record| record.has_answer(call))
    }

    fn called(self: Arc<Self>, message: &wire::ToolCall) -> IncomingCall {
        let calls = Arc::clone(&self.calls);
        let turn = calls.turns().take(message.index);
        let (status, found): (_, BoxFuture<'static, Option<Answer>>) = match calls.find(self.number, message) {
            Found::Live(live) => (Some(live.status.clone()), Box::pin(async move { live.answer().await })),
            Found::Answer(answer) => (None, Box::pin(std::future::ready(Some(answer)))),
            Found::Diverged(divergence) => {
                calls.diverged(divergence.to_string());
                (None, Box::pin(std::future::ready(None)))
            }
            Found::Ignored => (None, Box::pin(std::future::ready(None))),
        };
        let answer = Box::pin(async move {
            let answer = found.await?;
            turn.comes().await;
            Some((answer_message(answer), Box::new(turn) as Box<dyn Send>))
        });
        IncomingCall { status, answer }
    }

    fn output(&self, items: &[OutputItem], steps: &[u8], failures: Vec<wire::StepFailure>) {
        self.calls.take_steps(self.number, steps, failures);
        self.calls.output(self.number, items);
    }

    fn begun(&self, begun: wire::Begun) {
        let store = begun.store.into_iter().map(|(key, value)| Some((key, raw_json(&value)?))).collect();
        match store {
            Some(store) => self.calls.take_begun(self.number, Begun { store, tools: begun.tools }),
            None if !self.is_current() => {}
            None => self.calls.diverged("the relay sent a value of the store that is not JSON".into()),
        }
    }

    fn waits(&self, waiting: wire::Waiting) {
        self.calls.take_steps(self.number, &waiting.steps, waiting.failures);
        let until = waiting.timer_in_ms.map(|within| Instant::now() + Duration::from_millis(within.min(MAX_TIMER_MS)));
        self.calls.waits(self.number, Wait { until });
    }

    fn give_up_waiting(&self, call: u64) {
        let state = self.calls.state();
        if !state.is_current(self.number) {
            return;
        }
        state.turns().leave_out(call);
        let mut live = self.calls.live();
        if live.get(&call).is_some_and(|call| call.is_waiting())
            && let Some(call) = live.remove(&call)
        {
            call.abort();
        }
    }
}

/// Makes the entry of a new call.
fn called(message: &wire::ToolCall, arguments_sha256: Hash, steps: Steps) -> Called {
    let is_short = message.arguments.len() <= SHOWN_ARGUMENTS_BYTES;
    let arguments = is_short.then(|| raw_json(&message.arguments)).flatten();
    Called { call: message.index, tool: message.tool.clone(), arguments_sha256, arguments, steps }
}

/// Makes the entry of a call whose tool began to run in a process that has died.
fn unknown_outcome(message: &wire::ToolCall) -> Answered {
    let text = "its tool was running when the host's process ended: what it asked for may have been done";
    let answer = Answer::Error {
        code: ErrorCode::OutcomeUnknown.as_str().into(),
        message: format!("the outcome of {} is not known: {text}", message.tool),
    };
    Answered { call: message.index, answer }
}

/// Makes the message that answers a call; its id is left out.
fn answer_message(answer: Answer) -> wire::ToolResult {
    match answer {
        Answer::Result(result) => {
            let json: Box<str> = result.into();
            success(String::new(), String::from(json).into())
        }
        Answer::Error { code, message } => {
            wire::ToolResult { code, ..failure(String::new(), ErrorCode::ToolFailed, message) }
        }
    }
}
