//! Asking a person about a tool call, and what they may answer.

mod terminal;

use std::collections::HashSet;
use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use relay_proto::{ExecutionId, ToolName};
use serde_json::Value;
use tokio::time::Instant;

use crate::tool::Manifest;

pub use terminal::{Suspend, TerminalApprover};

/// After so many denials in one execution nobody is asked any more: code that goes on asking wears people out.
const MAX_DENIALS: u32 = 3;

/// What a person is asked.
#[derive(Debug, Clone)]
pub struct ApprovalRequest {
    /// The execution whose code calls.
    pub execution: ExecutionId,
    /// Its code, as it was sent.
    pub code: Arc<str>,
    /// The call's id in its session.
    pub call: u64,
    /// The tool.
    pub tool: ToolName,
    /// What the tool does, in its author's words.
    pub description: String,
    /// The arguments that the tool gets if the answer is yes: exactly these.
    pub arguments: Arc<Value>,
    /// What is known of the tool.
    pub manifest: Manifest,
    /// The line of the policy that asks.
    pub rule: Arc<str>,
    /// When no answer becomes a no.
    pub deadline: Instant,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Approval {
    /// Not this call.
    Deny {
        /// Why, for the code and its author.
        reason: Option<String>,
    },
    /// This call, with these arguments.
    Once,
    /// This tool, with any arguments, until the execution ends.
    Execution,
    /// This tool, with any arguments, until the session ends.
    Session,
}

impl Approval {
    /// A plain no.
    pub fn deny() -> Self {
        Self::Deny { reason: None }
    }
}

/// The answer, later. Dropped when nobody waits for it any more.
pub type ApprovalFuture = Pin<Box<dyn Future<Output = Approval> + Send>>;

/// Who asks a person. One question at a time for each execution.
pub trait Approver: Send + Sync + 'static {
    /// Who answers, for events and the audit.
    fn name(&self) -> &str;

    /// Asks. No answer until the deadline is a no, and so is a panic.
    fn approve(&self, request: ApprovalRequest) -> ApprovalFuture;
}

impl<A: Approver + ?Sized> Approver for Arc<A> {
    fn name(&self) -> &str {
        A::name(self)
    }

    fn approve(&self, request: ApprovalRequest) -> ApprovalFuture {
        A::approve(self, request)
    }
}

/// An approver that is an async function.
pub struct CallbackApprover<F> {
    name: String,
    function: F,
}

impl<F> CallbackApprover<F> {
    /// An async function, and who it asks.
    pub fn new<Fut>(name: impl Into<String>, function: F) -> Self
    where
        F: Fn(ApprovalRequest) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Approval> + Send + 'static,
    {
        Self { name: name.into(), function }
    }
}

impl<F> fmt::Debug for CallbackApprover<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallbackApprover").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<F, Fut> Approver for CallbackApprover<F>
where
    F: Fn(ApprovalRequest) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Approval> + Send + 'static,
{
    fn name(&self) -> &str {
        &self.name
    }

    fn approve(&self, request: ApprovalRequest) -> ApprovalFuture {
        Box::pin((self.function)(request))
    }
}

/// For how long a yes holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    Once,
    Execution,
    Session,
}

impl Scope {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Execution => "execution",
            Self::Session => "session",
        }
    }
}

/// What a yes that holds for longer is about: a tool as it was when it was approved. Another under its name is asked about anew.
pub(crate) type ToolDigest = [u8; 32];

/// Tools that were approved for longer than one call.
#[derive(Debug, Default)]
pub(crate) struct Grants(Mutex<HashSet<ToolDigest>>);

impl Grants {
    pub(crate) fn contain(&self, tool: &ToolDigest) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(tool)
    }

    pub(crate) fn add(&self, tool: ToolDigest) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(tool);
    }
}

/// What was asked and answered in one execution.
#[derive(Debug, Default)]
pub(crate) struct ApprovalState {
    pub(crate) grants: Grants,
    denials: AtomicU32,
    /// Held by the question that is open.
    pub(crate) turn: tokio::sync::Mutex<()>,
    /// How long people have been waited for.
    pub(crate) clock: WaitClock,
}

impl ApprovalState {
    /// Whether code has been told no so often that nobody is asked any more.
    pub(crate) fn is_tiring(&self) -> bool {
        self.denials.load(Ordering::Relaxed) >= MAX_DENIALS
    }
}

/// What came of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    Yes(Scope),
    No {
        reason: Option<String>,
    },
    TimedOut,
    /// The approver broke.
    Failed,
}

/// Counts a question as answered with no, unless it is told otherwise: one that is withdrawn wears people out as well.
struct CountedQuestion<'a>(Option<&'a ApprovalState>);

impl Drop for CountedQuestion<'_> {
    fn drop(&mut self) {
        if let Some(asked) = self.0 {
            asked.denials.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Puts a question to a person, in an execution whose turn to ask is held.
pub(crate) async fn ask_approver(
    approver: &Arc<dyn Approver>,
    asked: &ApprovalState,
    request: ApprovalRequest,
) -> Answer {
    let mut counted = CountedQuestion(Some(asked));
    let (deadline, tool) = (request.deadline, request.tool.clone());
    // The approver's own code may panic before its future exists, too.
    let answer = AssertUnwindSafe(async { approver.approve(request).await }).catch_unwind();
    let scope = match tokio::time::timeout_at(deadline, answer).await {
        Err(_elapsed) => return Answer::TimedOut,
        Ok(Err(_panic)) => {
            tracing::error!(tool = tool.as_str(), "the approver panicked");
            return Answer::Failed;
        }
        Ok(Ok(Approval::Deny { reason })) => return Answer::No { reason },
        Ok(Ok(Approval::Once)) => Scope::Once,
        Ok(Ok(Approval::Execution)) => Scope::Execution,
        Ok(Ok(Approval::Session)) => Scope::Session,
    };
    counted.0 = None;
    Answer::Yes(scope)
}

/// How long an execution has waited for people, all its calls together.
#[derive(Debug, Default)]
pub(crate) struct WaitClock(Mutex<Waits>);

#[derive(Debug, Default)]
struct Waits {
    open: u32,
    since: Option<Instant>,
    total: Duration,
}

/// A wait that goes on until this is dropped.
pub(crate) struct WaitGuard<'a>(&'a WaitClock);

impl WaitClock {
    pub(crate) fn start(&self) -> WaitGuard<'_> {
        let mut waits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waits.open += 1;
        waits.since.get_or_insert_with(Instant::now);
        WaitGuard(self)
    }

    /// How long so far, and whether it goes on.
    pub(crate) fn waited(&self) -> (Duration, bool) {
        let waits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (waits.total + waits.since.map_or(Duration::ZERO, |since| since.elapsed()), waits.since.is_some())
    }
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        let mut waits = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        waits.open -= 1;
        if waits.open == 0
            && let Some(since) = waits.since.take()
        {
            waits.total += since.elapsed();
        }
    }
}
