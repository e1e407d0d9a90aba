//! One call of a durable run that has no answer yet. It is a task of its own, which no relay can end by being gone.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use relay_proto::time::{millis, now_ms};
use relay_proto::{CallId, ErrorCode, wire};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::Instant;

use super::state::RunData;
use crate::call::dispatch::{self, Caller};
use crate::call::run::DurableCall;
use crate::call::{CallPermit, CallRecord};
use crate::durable::entry::{Answer, Asked, CallOnly, Decided, Entry, Verdict};
use crate::durable::journal::JournalError;
use crate::hash::Hash;
use crate::rules::approval::{self, ApprovalRequest, Approver, CountedQuestion, RunQuestion, Scope, approver_name};
use crate::text::{short_name, shortened, shortened_text};

/// The maximum length of arguments that a question shows whole, in bytes of JSON: twice the default of the limit `arguments_bytes`.
const ASKED_ARGUMENTS_BYTES: usize = 2 << 20;
/// The maximum length of a tool's description in a question, in bytes.
const ASKED_DESCRIPTION_BYTES: usize = 4 << 10;

/// A call that has no answer yet.
#[derive(Debug)]
pub(super) struct LiveCall {
    pub(super) status: watch::Receiver<wire::CallStatus>,
    answer: watch::Receiver<Option<Answer>>,
    task: AbortHandle,
}

/// The place where the answer to a call is told; `None`: there is none yet.
pub(super) type AnswerSender = watch::Sender<Option<Answer>>;

impl LiveCall {
    /// Returns whether it waits for a person, so that its tool does not run.
    pub(super) fn is_waiting(&self) -> bool {
        *self.status.borrow() != wire::CallStatus::Started
    }

    pub(super) fn abort(&self) {
        self.task.abort();
    }

    /// Waits for the answer; `None`: the call was stopped, or the journal takes no more.
    pub(super) async fn answer(&self) -> Option<Answer> {
        let mut answer = self.answer.clone();
        let answer = answer.wait_for(Option::is_some).await.ok()?;
        answer.clone()
    }
}

/// A call on its way through the steps of the host.
#[derive(Debug)]
struct RunCall {
    run: Arc<RunData>,
    number: u64,
    arguments_sha256: Hash,
    arguments_bytes: usize,
    /// The decision in the journal; `None`: there is none yet.
    decided: Option<Decided>,
    /// `true`: its tool only reads.
    only_reads: bool,
    status: watch::Sender<wire::CallStatus>,
}

impl LiveCall {
    /// Makes a call of a run, and gives `spawn` the future of its answer and the place where the answer is told. `decided` is
    /// the decision in the journal; with `only_reads`, the tool changes nothing.
    pub(super) fn begin(
        run: &Arc<RunData>,
        message: wire::ToolCall,
        arguments_sha256: Hash,
        (decided, only_reads): (Option<Decided>, bool),
        spawn: impl FnOnce(BoxFuture<'static, Answer>, AnswerSender) -> JoinHandle<()>,
    ) -> Arc<Self> {
        let (status, statuses) = watch::channel(wire::CallStatus::Started);
        let (sender, answer) = watch::channel(None);
        let number = message.index;
        let (run_of, arguments_bytes) = (Arc::clone(run), message.arguments.len());
        let call = RunCall { run: run_of, number, arguments_sha256, arguments_bytes, decided, only_reads, status };
        let task = spawn(Box::pin(call.answer(message)), sender);
        Arc::new(Self { status: statuses, answer, task: task.abort_handle() })
    }
}

/// Returns an answer as the journal can keep it: a result that is not JSON becomes `INVALID_RESULT`.
fn storable(result: wire::ToolResult) -> Answer {
    if !result.success {
        return Answer::Error { code: result.code, message: result.error };
    }
    let json: &[u8] = if result.result.is_empty() { b"null" } else { &result.result };
    raw_json(json).map_or_else(
        || Answer::Error {
            code: ErrorCode::InvalidResult.as_str().into(),
            message: "the tool's result is not JSON in UTF-8".into(),
        },
        Answer::Result,
    )
}

/// Returns JSON as a value that keeps its text; `None`: the bytes are not JSON in UTF-8.
pub(super) fn raw_json(bytes: &[u8]) -> Option<Box<RawValue>> {
    RawValue::from_string(String::from_utf8(bytes.to_vec()).ok()?).ok()
}

impl DurableCall for RunCall {
    fn tell_state(&self, status: wire::CallStatus) {
        self.status.send_replace(status);
        self.run.changes.send_modify(|_| {});
    }

    fn decided(&self) -> Option<(approval::Answer, String)> {
        let Decided { verdict, by, reason, .. } = self.decided.clone()?;
        Some((answer(verdict, reason), by))
    }

    fn ask<'a>(
        &'a self,
        approver: Option<&'a Arc<dyn Approver>>,
        request: ApprovalRequest,
        tool: Hash,
    ) -> BoxFuture<'a, Result<(approval::Answer, String), JournalError>> {
        Box::pin(self.ask_people(approver, request, tool))
    }

    fn started(&self) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(async {
            let over = || JournalError::Unavailable("the run is over in this process".into());
            let entry = Entry::Started(CallOnly { call: self.number });
            let number = self.run.add_if_open(entry).ok_or_else(over)?;
            if self.only_reads {
                // It is written with its answer: without it in the journal, the call is made again just the same.
                return self.run.log.failed().map_or(Ok(()), Err);
            }
            self.run.log.commit(number).await?;
            // A journal that answers at once gives no chance to stop the call otherwise.
            tokio::task::yield_now().await;
            if self.run.is_open() { Ok(()) } else { Err(over()) }
        })
    }
}

impl RunCall {
    /// Takes the call through the steps of the host.
    async fn answer(self, message: wire::ToolCall) -> Answer {
        let id = CallId(self.number);
        let record = CallRecord::new(id, Arc::clone(&self.run.context), short_name(&message.tool));
        let permit = CallPermit { call: Arc::new(record) };
        let message = wire::ToolCall { id: id.to_string(), ..message };
        storable(dispatch::dispatch(&self.run.host, &permit, message, Caller::Run(&self)).await)
    }

    /// Asks the approver of this process, if there is one, and people at other processes by the journal. The time for an
    /// answer goes on while no process has the run.
    async fn ask_people(
        &self,
        approver: Option<&Arc<dyn Approver>>,
        mut request: ApprovalRequest,
        tool: Hash,
    ) -> Result<(approval::Answer, String), JournalError> {
        let now = now_ms();
        let patience = request.deadline.saturating_duration_since(Instant::now());
        let until_ms = self.run.read(|record| record.asked_until(self.number));
        let until_ms = until_ms.unwrap_or_else(|| now.saturating_add_unsigned(millis(patience)));
        let within = Duration::from_millis(u64::try_from(until_ms.saturating_sub(now)).unwrap_or(0));
        request.deadline = Instant::now() + within;
        let is_shortened = self.arguments_bytes > ASKED_ARGUMENTS_BYTES;
        let asked = Asked {
            call: self.number,
            tool: request.tool.to_string(),
            rule: request.rule.to_string(),
            tool_sha256: tool,
            arguments_sha256: self.arguments_sha256,
            arguments: if is_shortened {
                shortened(&request.arguments, ASKED_ARGUMENTS_BYTES)
            } else {
                Value::clone(&request.arguments)
            },
            is_shortened,
            line: request.line,
            description: shortened_text(&request.description, ASKED_DESCRIPTION_BYTES),
            until_ms,
        };
        request.question = Some(RunQuestion { run: self.run.id.clone(), sha256: asked.question_sha256(&self.run.id) });
        let number = self.run.add(Entry::Asked(asked));
        self.run.log.commit(number).await?;
        let _question = OpenQuestion::new(&self.run, self.number, request.clone());
        let counted = CountedQuestion::new(&self.run.context.approvals);
        let (answer, by) = tokio::select! {
            biased;
            instructed = self.instructed() => instructed,
            answered = ask_approver(approver, request) => answered,
        };
        counted.answered(&answer);
        if let Some((verdict, reason)) = verdict(&answer) {
            let decided = Decided { call: self.number, verdict, by: by.clone(), reason };
            let number = self.run.add(Entry::Decided(decided));
            self.run.log.commit(number).await?;
        }
        Ok((answer, by))
    }

    /// Waits for the decision of another process on exactly these arguments.
    async fn instructed(&self) -> (approval::Answer, String) {
        let mut instructions = self.run.instructions.subscribe();
        loop {
            let found = instructions.borrow_and_update().get(&self.number).cloned();
            match found {
                Some(decision) if decision.arguments_sha256 == self.arguments_sha256 => {
                    return (answer(decision.verdict, decision.reason), decision.by);
                }
                Some(_) => tracing::warn!(
                    run = self.run.id.as_str(),
                    call = self.number,
                    "a decision is about other arguments"
                ),
                None => {}
            }
            if instructions.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }
}

/// A question that people are asked, for as long as this exists.
struct OpenQuestion<'a> {
    run: &'a RunData,
    call: u64,
}

impl<'a> OpenQuestion<'a> {
    fn new(run: &'a RunData, call: u64, request: ApprovalRequest) -> Self {
        run.questions().insert(call, request);
        run.changes.send_modify(|_| {});
        Self { run, call }
    }
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        self.run.questions().remove(&self.call);
        self.run.changes.send_modify(|_| {});
    }
}

/// Asks the approver of this process; without one, waits until the time for an answer is over.
async fn ask_approver(approver: Option<&Arc<dyn Approver>>, request: ApprovalRequest) -> (approval::Answer, String) {
    match approver {
        Some(approver) => {
            let by = approver_name(approver);
            (approval::answer_of(approver, request).await, by)
        }
        None => {
            tokio::time::sleep_until(request.deadline).await;
            (approval::Answer::TimedOut, "nobody".into())
        }
    }
}

/// Returns a decision as the answer of an approver.
fn answer(verdict: Verdict, reason: Option<String>) -> approval::Answer {
    match verdict {
        Verdict::Denied => approval::Answer::No { reason },
        Verdict::Once => approval::Answer::Yes(Scope::Once),
        Verdict::Execution => approval::Answer::Yes(Scope::Execution),
        Verdict::Session => approval::Answer::Yes(Scope::Session),
    }
}

/// Returns what the journal keeps of an answer; `None`: nobody has decided.
fn verdict(answer: &approval::Answer) -> Option<(Verdict, Option<String>)> {
    Some(match answer {
        approval::Answer::No { reason } => (Verdict::Denied, reason.clone()),
        approval::Answer::Yes(Scope::Once) => (Verdict::Once, None),
        approval::Answer::Yes(Scope::Execution) => (Verdict::Execution, None),
        approval::Answer::Yes(Scope::Session) => (Verdict::Session, None),
        approval::Answer::TimedOut | approval::Answer::Failed => return None,
    })
}
