//! Approvals: asking a person about a tool call, the answers, and the approvals that hold for later calls.

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

use crate::durable::RunId;
use crate::hash::Hash;
use crate::tool::Manifest;

pub use terminal::{Suspend, TerminalApprover};

/// The number of denials in one execution after which nobody is asked again, and calls that need an approval fail. It
/// keeps code from asking until a tired person agrees.
const MAX_DENIALS: u32 = 3;

/// A tool call that needs an approval, as an [`Approver`] gets it.
#[derive(Debug, Clone)]
pub struct ApprovalRequest {
    /// The execution whose code calls.
    pub execution: ExecutionId,
    /// The code of the execution, as the application sent it.
    pub code: Arc<str>,
    /// The line of the code that makes the call, from 1, as the relay says; `None`: it is not known. It helps a person to
    /// find the call: nothing else may depend on it.
    pub line: Option<usize>,
    /// The call's id in its session.
    pub call: u64,
    /// The tool's full name.
    pub tool: ToolName,
    /// The tool's description, as its author wrote it.
    pub description: String,
    /// The arguments. If the call is approved, the tool gets exactly these.
    pub arguments: Arc<Value>,
    /// The tool's manifest: its effect, mode and limits.
    pub manifest: Manifest,
    /// The rule of the policy that requires the approval.
    pub rule: Arc<str>,
    /// The time at which the call is denied if there is no answer.
    pub deadline: Instant,
    /// The question in the journal, by which another process can decide, too; `None`: the run is not durable.
    pub question: Option<RunQuestion>,
}

/// A question about a call of a durable run, as the journal has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunQuestion {
    /// The run.
    pub run: RunId,
    /// The hash of what the decision is about: the run, the call's number, the tool and the arguments.
    pub sha256: Hash,
}

/// The answer to an [`ApprovalRequest`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Approval {
    /// Denies this call.
    Deny {
        /// The reason, which the code gets in the error message; `None`: no reason is given.
        reason: Option<String>,
    },
    /// Allows this call with these arguments.
    Once,
    /// Allows all calls of this tool, with any arguments, until the execution ends.
    Execution,
    /// Allows all calls of this tool, with any arguments, until the session ends.
    Session,
}

impl Approval {
    /// Returns a denial without a reason.
    pub fn deny() -> Self {
        Self::Deny { reason: None }
    }
}

/// The future of an answer. It is dropped when the call is cancelled or its deadline is over.
pub type ApprovalFuture = Pin<Box<dyn Future<Output = Approval> + Send>>;

/// A way to ask a person about tool calls, such as a terminal, a chat message or a web page. For each execution, one
/// question is open at a time; those of different executions may overlap.
///
/// [`CallbackApprover`] makes one of an async function, [`TerminalApprover`] asks on the terminal. To write another:
///
/// ```
/// use host_client_core::rules::approval::ApprovalFuture;
/// use host_client_core::{Approval, ApprovalRequest, Approver};
/// use tokio::sync::{mpsc, oneshot};
///
/// /// Sends questions to a user interface, with a channel for each answer.
/// struct AskWindow(mpsc::Sender<(ApprovalRequest, oneshot::Sender<Approval>)>);
///
/// impl Approver for AskWindow {
///     fn name(&self) -> &str {
///         "window"
///     }
///
///     fn approve(&self, request: ApprovalRequest) -> ApprovalFuture {
///         let window = self.0.clone();
///         Box::pin(async move {
///             let (answer, answered) = oneshot::channel();
///             let unanswered = || Approval::Deny { reason: Some("the window was closed".into()) };
///             if window.send((request, answer)).await.is_err() {
///                 return unanswered();
///             }
///             answered.await.unwrap_or_else(|_closed| unanswered())
///         })
///     }
/// }
/// ```
pub trait Approver: Send + Sync + 'static {
    /// Returns the name of the person or system that answers, for events and the audit.
    fn name(&self) -> &str;

    /// Asks about a call. The call is denied if there is no answer before [`ApprovalRequest::deadline`], or if this
    /// panics.
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

/// An approver that calls an async function.
///
/// ```
/// use host_client_core::{Approval, ApprovalRequest, CallbackApprover, Host, Tools};
///
/// let approver = CallbackApprover::new("staging only", |request: ApprovalRequest| async move {
///     match request.arguments["environment"].as_str() {
///         Some("staging") => Approval::Once,
///         _ => Approval::Deny { reason: Some("only staging may be changed".into()) },
///     }
/// });
/// let host = Host::new(Tools::new()).approver(approver);
/// ```
pub struct CallbackApprover<F> {
    name: String,
    function: F,
}

impl<F> CallbackApprover<F> {
    /// Creates an approver that calls `function`. `name` is that of the person or system that answers, for events and
    /// the audit.
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

/// The calls that an approval covers: [`Approval`] without denials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    Once,
    Execution,
    Session,
}

impl Scope {
    /// Returns the scope as events name it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Execution => "execution",
            Self::Session => "session",
        }
    }
}

/// The tools that were approved for a whole execution or session. They are kept by digest: an approval does not cover
/// another tool that takes the same name later.
#[derive(Debug, Default)]
pub(crate) struct Grants(Mutex<HashSet<Hash>>);

impl Grants {
    /// Returns `true` if the tool was approved.
    pub(crate) fn contain(&self, tool: &Hash) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(tool)
    }

    /// Adds an approved tool.
    pub(crate) fn add(&self, tool: Hash) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(tool);
    }
}

/// The approvals of one execution: those given, the number of denials, and the time spent waiting.
#[derive(Debug, Default)]
pub(crate) struct ApprovalState {
    /// The tools that were approved for the execution.
    pub(crate) grants: Grants,
    denials: AtomicU32,
    /// The lock that the open question holds, so that one is asked at a time.
    pub(crate) turn: tokio::sync::Mutex<()>,
    /// The time that the execution has waited for approvals.
    pub(crate) clock: WaitClock,
}

impl ApprovalState {
    /// Counts denials of the execution's calls in a process before this one.
    pub(crate) fn add_denials(&self, denials: usize) {
        self.denials.fetch_add(u32::try_from(denials).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    /// Returns `true` after [`MAX_DENIALS`] denials: nobody is asked again in this execution.
    pub(crate) fn is_tiring(&self) -> bool {
        self.denials.load(Ordering::Relaxed) >= MAX_DENIALS
    }
}

/// The result of asking an approver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The call is approved.
    Yes(Scope),
    /// The call is denied, with the reason that the code gets.
    No { reason: Option<String> },
    /// There was no answer before the deadline.
    TimedOut,
    /// The approver panicked.
    Failed,
}

/// Returns the approver's name; `unknown` if its code panics, which must not end the call.
pub(crate) fn approver_name(approver: &Arc<dyn Approver>) -> String {
    std::panic::catch_unwind(AssertUnwindSafe(|| approver.name().to_owned())).unwrap_or_else(|_| "unknown".into())
}

/// A guard that counts a question as denied when it is dropped, unless its answer was yes. Withdrawn questions count, too:
/// they also tire people.
pub(crate) struct CountedQuestion<'a>(Option<&'a ApprovalState>);

impl<'a> CountedQuestion<'a> {
    /// Begins to count a question.
    pub(crate) fn new(asked: &'a ApprovalState) -> Self {
        Self(Some(asked))
    }

    /// Ends the question with an answer.
    pub(crate) fn answered(mut self, answer: &Answer) {
        if matches!(answer, Answer::Yes(_)) {
            self.0 = None;
        }
    }
}

impl Drop for CountedQuestion<'_> {
    fn drop(&mut self) {
        if let Some(asked) = self.0 {
            asked.denials.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Asks the approver about a call, until the request's deadline. The caller must hold [`ApprovalState::turn`]. Denials,
/// and questions without an answer, are counted in `asked`.
pub(crate) async fn ask_approver(
    approver: &Arc<dyn Approver>,
    asked: &ApprovalState,
    request: ApprovalRequest,
) -> Answer {
    let counted = CountedQuestion::new(asked);
    let answer = answer_of(approver, request).await;
    counted.answered(&answer);
    answer
}

/// Asks the approver about a call, until the request's deadline, and counts nothing.
pub(crate) async fn answer_of(approver: &Arc<dyn Approver>, request: ApprovalRequest) -> Answer {
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
    Answer::Yes(scope)
}

/// A clock of the time in which at least one call of an execution waits for an approval.
#[derive(Debug, Default)]
pub(crate) struct WaitClock(Mutex<Waits>);

#[derive(Debug, Default)]
struct Waits {
    /// The number of calls that wait now.
    open: u32,
    /// The time since which at least one call waits; `None`: no call waits.
    since: Option<Instant>,
    /// The time of all waits that are over.
    total: Duration,
}

/// A guard of one call's wait, which ends when this is dropped.
pub(crate) struct WaitGuard<'a>(&'a WaitClock);

impl WaitClock {
    /// Starts the wait of one call.
    pub(crate) fn start(&self) -> WaitGuard<'_> {
        let mut waits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waits.open += 1;
        waits.since.get_or_insert_with(Instant::now);
        WaitGuard(self)
    }

    /// Returns the time waited so far, and `true` if a call waits now.
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
