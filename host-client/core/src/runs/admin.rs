//! The runs in a journal, whoever holds them: lists them, shows one, and leaves decisions for the process that holds it.

use std::collections::HashMap;

use relay_proto::LimitOverrides;
use relay_proto::time::now_ms;
use serde::Serialize;
use serde_json::Value;

use super::RunError;
use super::decision::{Decision, InstructionJson};
use super::plan::RunPlan;
use crate::durable::entry::{Answer, Called, Verdict};
use crate::durable::journal::{Instruction, Journal, JournalEntry, JournalError, RunFilter, RunHead, RunId, RunStatus};
use crate::durable::record::{CallRecord, RunRecord};
use crate::hash::Hash;
use crate::text::clipped;

/// The maximum length of a call's result in a summary, in bytes.
const RESULT_BYTES: usize = 16 << 10;
/// The state of a call that a person is asked about.
const WAITS: &str = "waiting_for_approval";
/// The name under which this module removes runs: it holds none.
const NOBODY: &str = "nobody";

/// A run in a journal.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RunSummary {
    /// Its id, times, status and hold.
    pub head: RunHead,
    /// Its owner; `None`: the application itself.
    pub owner: Option<String>,
    /// Its code.
    pub code: String,
    /// Its limits.
    pub limits: LimitOverrides,
    /// The number of times that it was sent to a relay.
    pub attempts: u64,
    /// Its calls, in the order of the code.
    pub calls: Vec<CallSummary>,
    /// The returned value; `None`: there is none.
    pub result: Option<Value>,
    /// The error code and the message with which it failed; `None`: it did not.
    pub error: Option<(String, String)>,
    /// The calls that a decision is in the journal for, whether the run has gone on since or not; 0: it is to be cancelled.
    pub instructed: Vec<u64>,
}

/// The state of a call's question that has no answer in the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuestionState {
    /// A person can decide.
    Open,
    /// A decision is in the journal, and the run has not gone on since.
    Decided,
    /// The time for a decision is over: the call is denied when the run goes on.
    TooLate,
    /// The run has ended or is to be cancelled: the call is not made.
    Over,
}

/// A call of a run in a journal.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct CallSummary {
    /// Its number in the order of the code, from 1.
    pub call: u64,
    /// The tool's full name, as the code wrote it.
    pub tool: String,
    /// Its state: `called`, `waiting_for_approval`, `approved`, `denied`, `running`, `answered` or `failed`.
    pub state: &'static str,
    /// The line of the code that makes the call, from 1; `None`: nobody was asked, or it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The arguments that a person is asked about, shortened if they are over 2 MiB; `None`: nobody was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Value>,
    /// `true`: the arguments are shortened.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_shortened: bool,
    /// The tool's description as the person is shown it; `None`: nobody was asked.
    #[serde(skip)]
    pub description: Option<String>,
    /// The arguments' JSON as the code gave them; `None`: they are longer than 1 KiB.
    #[serde(skip)]
    pub given: Option<String>,
    /// The beginning of the result's JSON, at most 16 KiB; `None`: there is none.
    #[serde(skip)]
    pub result: Option<String>,
    /// The error code and the message that the code got; `None`: it got none.
    #[serde(skip)]
    pub error: Option<(String, String)>,
    /// The hash of what a decision is about, for [`decide_on`]; `None`: nobody was asked.
    #[serde(skip)]
    pub question_sha256: Option<Hash>,
    /// The rule of the policy that requires an approval; `None`: nobody was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The name of the person or system that decided; `None`: nobody has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    /// The time at which it is denied if there is no answer, in ms since 1970; `None`: nobody was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<i64>,
}

/// A decision on a call that a person is asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunVerdict {
    /// The call may be made, with exactly these arguments.
    Approve,
    /// The call fails with `APPROVAL_DENIED`.
    Deny {
        /// The reason, which the code gets in the error message; `None`: no reason is given.
        reason: Option<String>,
    },
}

/// Returns runs in the order in which they began.
///
/// # Errors
/// [`RunError::Journal`]: the journal cannot be read.
pub async fn list(journal: &dyn Journal, filter: RunFilter) -> Result<Vec<RunHead>, RunError> {
    Ok(journal.runs(filter).await?)
}

/// Returns a run with its calls.
///
/// # Errors
/// [`RunError::Journal`]: there is no such run, or the journal cannot be read or is damaged. [`RunError::Plan`]: the run's
/// plan cannot be read.
pub async fn show(journal: &dyn Journal, run: &RunId) -> Result<RunSummary, RunError> {
    let Found { head, plan, record, mut given } = read(journal, run).await?;
    let instructed = journal.instructions_of(run.clone()).await?.into_iter().map(|it| it.call).collect();
    let summary = |(number, call)| CallSummary { given: given.remove(&number), ..summary(run, number, call) };
    let (result, error) = match &record.ended {
        None => (None, None),
        Some(ended) => (
            ended.result.as_ref().and_then(|json| serde_json::from_str(json.get()).ok()),
            ended.error.as_ref().map(|error| (error.code.clone(), error.message.clone())),
        ),
    };
    Ok(RunSummary {
        head,
        limits: plan.overrides(),
        owner: plan.owner,
        code: plan.code,
        attempts: record.attempts,
        calls: record.calls().map(summary).collect(),
        result,
        error,
        instructed,
    })
}

/// Leaves a decision on a call for the process that goes on with the run, now or later. `by` is the name of the person who
/// decides, for the audit.
///
/// # Errors
/// - [`RunError::NotAsked`]: nobody is asked about this call.
/// - [`RunError::TooLate`]: the time for a decision is over. [`RunError::Over`]: the run has ended or is to be cancelled.
/// - [`RunError::Shortened`]: the journal has only a part of the arguments, and cannot be told to approve them.
/// - [`RunError::Journal`]: there is a decision already, there is no such run, or the journal cannot be used.
pub async fn decide(
    journal: &dyn Journal,
    run: &RunId,
    call: u64,
    verdict: RunVerdict,
    by: &str,
) -> Result<(), RunError> {
    decide_if(journal, (run, call), None, verdict, by).await
}

/// Does the same if the question is the one that the person saw: [`CallSummary::question_sha256`].
///
/// # Errors
/// Those of [`decide`]. [`RunError::OtherQuestion`]: the question is another one.
pub async fn decide_on(
    journal: &dyn Journal,
    (run, call): (&RunId, u64),
    question_sha256: Hash,
    verdict: RunVerdict,
    by: &str,
) -> Result<(), RunError> {
    decide_if(journal, (run, call), Some(question_sha256), verdict, by).await
}

async fn decide_if(
    journal: &dyn Journal,
    (run, call): (&RunId, u64),
    question_sha256: Option<Hash>,
    verdict: RunVerdict,
    by: &str,
) -> Result<(), RunError> {
    let record = read(journal, run).await?.record;
    let instructed: Vec<_> = journal.instructions_of(run.clone()).await?.into_iter().map(|it| it.call).collect();
    let asked = record.calls().find(|(number, _)| *number == call).and_then(|(_, open)| match open {
        CallRecord { asked: Some(asked), decided: None, answer: None, .. } => Some(asked),
        _ => None,
    });
    let Some(asked) = asked else {
        return Err(RunError::NotAsked { run: run.clone(), call });
    };
    if record.ended.is_some() || instructed.contains(&0) {
        return Err(RunError::Over(run.clone()));
    }
    if instructed.contains(&call) {
        return Err(JournalError::Instructed { run: run.clone(), call }.into());
    }
    if question_sha256.is_some_and(|seen| seen != asked.question_sha256(run)) {
        return Err(RunError::OtherQuestion { run: run.clone(), call });
    }
    if now_ms() >= asked.until_ms {
        return Err(RunError::TooLate { run: run.clone(), call });
    }
    if verdict == RunVerdict::Approve && asked.is_shortened {
        return Err(RunError::Shortened { run: run.clone(), call });
    }
    let (verdict, reason) = match verdict {
        RunVerdict::Approve => (Verdict::Once, None),
        RunVerdict::Deny { reason } => (Verdict::Denied, reason),
    };
    let decision = Decision { verdict, by: by.to_owned(), reason, arguments_sha256: asked.arguments_sha256 };
    let json = InstructionJson::Decide(decision).to_json();
    Ok(journal.instruct(run.clone(), Instruction { call, json }).await?)
}

/// Cancels a run: leaves that for the process that goes on with it, now or later. One that is to be cancelled already stays so.
///
/// # Errors
/// [`RunError::Over`]: it has ended. [`RunError::Journal`]: there is no such run, or the journal cannot be used.
pub async fn cancel(journal: &dyn Journal, run: &RunId) -> Result<(), RunError> {
    let head = journal.run(run.clone()).await?.ok_or_else(|| JournalError::Unknown(run.clone()))?;
    if head.status == RunStatus::Ended {
        return Err(RunError::Over(run.clone()));
    }
    let json = InstructionJson::Cancel { cancel: true }.to_json();
    match journal.instruct(run.clone(), Instruction { call: 0, json }).await {
        Ok(()) | Err(JournalError::Instructed { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Removes a run from a journal, whatever its status. Returns whether there was one.
///
/// # Errors
/// [`RunError::Journal`]: a process holds it, or the journal cannot be used.
pub async fn forget(journal: &dyn Journal, run: &RunId) -> Result<bool, RunError> {
    Ok(journal.forget(run.clone(), NOBODY.into(), now_ms()).await?)
}

/// A run as the journal has it.
struct Found {
    head: RunHead,
    plan: RunPlan,
    record: RunRecord,
    /// The JSON of short arguments, by the number of their call.
    given: HashMap<u64, String>,
}

async fn read(journal: &dyn Journal, run: &RunId) -> Result<Found, RunError> {
    let unknown = || JournalError::Unknown(run.clone());
    let head = journal.run(run.clone()).await?.ok_or_else(unknown)?;
    let json = journal.plan(run.clone()).await?.ok_or_else(unknown)?;
    let entries = journal.entries(run.clone(), 0).await?;
    let given = |entry: &JournalEntry| {
        let called: Called = serde_json::from_str(&entry.json).ok()?;
        Some((called.call, called.arguments?.get().to_owned()))
    };
    let given = entries.iter().filter(|entry| entry.kind == "called").filter_map(given).collect();
    Ok(Found { head, plan: RunPlan::parse(run, &json)?, record: RunRecord::read(run, &json, &entries)?, given })
}

fn summary(run: &RunId, number: u64, call: &CallRecord) -> CallSummary {
    let state = match call {
        CallRecord { answer: Some(Answer::Result(_)), .. } => "answered",
        CallRecord { answer: Some(Answer::Error { .. }), .. } => "failed",
        CallRecord { is_started: true, .. } => "running",
        CallRecord { decided: Some(decided), .. } if decided.verdict == Verdict::Denied => "denied",
        CallRecord { decided: Some(_), .. } => "approved",
        CallRecord { asked: Some(_), .. } => WAITS,
        CallRecord { .. } => "called",
    };
    CallSummary {
        call: number,
        tool: call.tool.clone(),
        state,
        given: None,
        result: match &call.answer {
            Some(Answer::Result(json)) => Some(clipped(json.get(), RESULT_BYTES)),
            _ => None,
        },
        error: match &call.answer {
            Some(Answer::Error { code, message }) => Some((code.clone(), message.clone())),
            _ => None,
        },
        line: call.asked.as_ref().and_then(|asked| asked.line),
        arguments: call.asked.as_ref().map(|asked| asked.arguments.clone()),
        is_shortened: call.asked.as_ref().is_some_and(|asked| asked.is_shortened),
        description: call.asked.as_ref().map(|asked| asked.description.clone()),
        question_sha256: call.asked.as_ref().map(|asked| asked.question_sha256(run)),
        rule: call.asked.as_ref().map(|asked| asked.rule.clone()),
        decided_by: call.decided.as_ref().map(|decided| decided.by.clone()),
        until_ms: call.asked.as_ref().map(|asked| asked.until_ms),
    }
}

impl RunSummary {
    /// Returns the numbers of the calls that a person can decide on now.
    pub fn waiting(&self) -> Vec<u64> {
        let open = |call: &&CallSummary| self.question(call) == Some(QuestionState::Open);
        self.calls.iter().filter(open).map(|call| call.call).collect()
    }

    /// Returns the state of a call's question; `None`: nobody was asked, or the run has gone on with an answer.
    pub fn question(&self, call: &CallSummary) -> Option<QuestionState> {
        if call.state != WAITS {
            return None;
        }
        Some(if self.head.status == RunStatus::Ended || self.instructed.contains(&0) {
            QuestionState::Over
        } else if self.instructed.contains(&call.call) {
            QuestionState::Decided
        } else if call.until_ms.is_some_and(|until_ms| now_ms() >= until_ms) {
            QuestionState::TooLate
        } else {
            QuestionState::Open
        })
    }
}

impl QuestionState {
    /// Returns the state as people read it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "waiting for approval",
            Self::Decided => "decided, not gone on yet",
            Self::TooLate => "not decided in time",
            Self::Over => "not decided: the run is over",
        }
    }
}
