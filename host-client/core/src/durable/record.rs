//! The state of one run, as its journal tells it. Pure code: it decides how a call is answered when the code is replayed.

use std::collections::{BTreeMap, HashSet};

use relay_proto::ToolName;
use relay_proto::steps::{self, Source};

use super::entry::{self, Answer, Asked, Begun, Called, Decided, Ended, Entry, Steps, Verdict};
use super::journal::{JournalEntry, JournalError, RunId};
use crate::hash::Hash;

/// The state of one run.
#[derive(Debug, Default)]
pub(crate) struct RunRecord {
    calls: BTreeMap<u64, CallRecord>,
    /// The calls that have an answer, in the order of the answers.
    answers: Vec<u64>,
    /// The events that reached the code, in their order.
    pub(crate) steps: Steps,
    /// The number of pieces of output that were told.
    pub(crate) told: u64,
    /// The session as the code found it; `None`: the code sees nothing of it, or was not begun.
    pub(crate) begun: Option<Begun>,
    /// The build that the code runs on; `None`: it was not begun.
    pub(crate) build: Option<String>,
    /// The number of times that the code was sent to a relay.
    pub(crate) attempts: u64,
    pub(crate) ended: Option<Ended>,
    /// The number of entries.
    pub(crate) entries: u64,
    /// The chain of the last entry.
    pub(crate) chain: String,
}

/// One call that the code has made.
#[derive(Debug)]
pub(crate) struct CallRecord {
    pub(crate) tool: String,
    pub(crate) arguments_sha256: Hash,
    pub(crate) asked: Option<Asked>,
    pub(crate) decided: Option<Decided>,
    pub(crate) is_started: bool,
    pub(crate) answer: Option<Answer>,
}

/// The place of a call in the record.
#[derive(Debug)]
pub(crate) enum Known {
    /// The code makes it for the first time.
    New,
    /// It has an answer.
    Answered(Answer),
    /// Its tool began to run, and there is no answer; there may be a decision on it.
    Started(Option<Decided>),
    /// Its tool has not run; there may be a decision on it.
    Open(Option<Decided>),
    /// The record has another call in its place, or none where there has to be one.
    Diverged(Divergence),
}

/// A call that is not the one of the journal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("call {call} is {made} now, and was {recorded} before: the code, its input or the relay is another")]
pub(crate) struct Divergence {
    /// The number of the call in the order of the code, from 1.
    pub(crate) call: u64,
    /// The tool of the call in the journal, with the start of its arguments' SHA-256; `no call` if there is none.
    pub(crate) recorded: String,
    /// The tool of the call that the code makes now, with the start of its arguments' SHA-256.
    pub(crate) made: String,
}

impl RunRecord {
    /// Reads the entries of a run.
    ///
    /// # Errors
    /// [`JournalError::Damaged`]: they are not as they were written. [`JournalError::Unavailable`]: a newer version has
    /// written them.
    pub(crate) fn read(run: &RunId, plan: &str, entries: &[JournalEntry]) -> Result<Self, JournalError> {
        let mut record = Self { chain: entry::first_chain(run, plan), ..Self::default() };
        for stored in entries {
            let entry = Entry::from_stored(stored, &record.chain)?;
            record.chain.clone_from(&stored.chain);
            record.entries += 1;
            record.apply(entry)?;
        }
        Ok(record)
    }

    /// Adds an entry to the state.
    ///
    /// # Errors
    /// [`JournalError::Damaged`]: it is about a call that was not made.
    pub(crate) fn apply(&mut self, entry: Entry) -> Result<(), JournalError> {
        match entry {
            Entry::Attempt(attempt) => {
                self.attempts += 1;
                self.build = Some(attempt.build);
            }
            Entry::Begun(begun) => self.begun = Some(begun),
            Entry::Called(called) => self.called(called),
            Entry::Asked(asked) => {
                let call = self.call(asked.call)?;
                call.asked = Some(asked);
            }
            Entry::Decided(decided) => {
                let call = self.call(decided.call)?;
                call.decided = Some(decided);
            }
            Entry::Started(started) => self.call(started.call)?.is_started = true,
            Entry::Answered(answered) => {
                self.call(answered.call)?.answer = Some(answered.answer);
                self.answers.push(answered.call);
            }
            Entry::Told(told) => {
                self.told = told.output;
                self.steps.append(told.steps);
            }
            Entry::Ended(ended) => self.ended = Some(ended),
        }
        Ok(())
    }

    fn called(&mut self, called: Called) {
        let Called { call, tool, arguments_sha256, steps, .. } = called;
        let new = CallRecord { tool, arguments_sha256, asked: None, decided: None, is_started: false, answer: None };
        self.calls.insert(call, new);
        self.steps.append(steps);
    }

    fn call(&mut self, number: u64) -> Result<&mut CallRecord, JournalError> {
        let unknown = || JournalError::Damaged(format!("an entry is about call {number}, which was not made"));
        self.calls.get_mut(&number).ok_or_else(unknown)
    }

    /// Returns the number of the newest call; 0: there is none.
    pub(crate) fn newest_call(&self) -> u64 {
        self.calls.last_key_value().map_or(0, |(number, _)| *number)
    }

    /// Returns the calls without an answer, with their numbers.
    pub(crate) fn unanswered(&self) -> impl Iterator<Item = (u64, &CallRecord)> {
        self.calls.iter().filter(|(_, call)| call.answer.is_none()).map(|(number, call)| (*number, call))
    }

    /// Returns the calls whose answers have not reached the code, in the order of the answers. `more` are steps that are in no
    /// entry yet.
    pub(crate) fn undelivered_answers(&self, more: &Steps) -> Vec<u64> {
        let mut reached = HashSet::new();
        for steps in [&self.steps, more] {
            let sources = steps::decode(&steps.steps, 0).unwrap_or_default().into_iter().map(|step| step.source);
            reached.extend(sources);
            // These are not sent to the host again.
            reached.extend(steps.failures.iter().map(|failure| Source::Call(failure.call)));
        }
        self.answers.iter().copied().filter(|call| !reached.contains(&Source::Call(*call))).collect()
    }

    /// Returns all calls with their numbers, in the order of the code.
    pub(crate) fn calls(&self) -> impl Iterator<Item = (u64, &CallRecord)> {
        self.calls.iter().map(|(number, call)| (*number, call))
    }

    /// Returns whether a call has an answer.
    pub(crate) fn has_answer(&self, call: u64) -> bool {
        self.calls.get(&call).is_some_and(|call| call.answer.is_some())
    }

    /// Returns the time at which a call is denied if there is no answer, in ms since 1970; `None`: nobody was asked.
    pub(crate) fn asked_until(&self, call: u64) -> Option<i64> {
        self.calls.get(&call)?.asked.as_ref().map(|asked| asked.until_ms)
    }

    /// Returns the calls that ran, as a budget counts them: their tools, and the bytes of their results.
    pub(crate) fn spent(&self) -> impl Iterator<Item = (ToolName, u64)> {
        self.calls.values().filter(|call| call.is_started).filter_map(|call| {
            let bytes = match &call.answer {
                Some(Answer::Result(json)) => json.get().len() as u64,
                Some(Answer::Error { .. }) | None => 0,
            };
            Some((ToolName::try_from(call.tool.clone()).ok()?, bytes))
        })
    }

    /// Returns the SHA-256 of the arguments that people are asked about; `None`: nobody is asked about this call.
    pub(crate) fn asked_arguments(&self, call: u64) -> Option<Hash> {
        Some(self.calls.get(&call)?.asked.as_ref()?.arguments_sha256)
    }

    /// Returns the number of calls that a person has denied.
    pub(crate) fn denials(&self) -> usize {
        let denied = |call: &&CallRecord| call.decided.as_ref().is_some_and(|it| it.verdict == Verdict::Denied);
        self.calls.values().filter(denied).count()
    }

    /// Returns the digests of the tools that a person has approved for the whole run.
    pub(crate) fn granted(&self) -> impl Iterator<Item = Hash> {
        self.calls.values().filter_map(|call| {
            let holds = |decided: &Decided| matches!(decided.verdict, Verdict::Execution | Verdict::Session);
            call.decided.as_ref().filter(|decided| holds(decided))?;
            Some(call.asked.as_ref()?.tool_sha256)
        })
    }

    /// Finds a call that the code makes.
    pub(crate) fn find(&self, number: u64, tool: &str, arguments_sha256: Hash) -> Known {
        let made = || short(tool, arguments_sha256);
        match self.calls.get(&number) {
            None if number > self.newest_call() => Known::New,
            None => Known::Diverged(Divergence { call: number, recorded: "no call".into(), made: made() }),
            Some(call) if call.tool != tool || call.arguments_sha256 != arguments_sha256 => {
                let recorded = short(&call.tool, call.arguments_sha256);
                Known::Diverged(Divergence { call: number, recorded, made: made() })
            }
            Some(CallRecord { answer: Some(answer), .. }) => Known::Answered(answer.clone()),
            Some(CallRecord { is_started: true, decided, .. }) => Known::Started(decided.clone()),
            Some(CallRecord { decided, .. }) => Known::Open(decided.clone()),
        }
    }
}

/// Returns a call for people: its tool, and the start of its arguments' hash.
fn short(tool: &str, arguments_sha256: Hash) -> String {
    format!("{} with arguments {:.8}…", crate::text::short_name(tool), arguments_sha256.to_string())
}
