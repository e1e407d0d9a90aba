//! The durable run that an execution or a call belongs to, as the rest of the host sees it.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use relay_proto::wire;
use tokio::sync::watch;

use crate::durable::JournalError;
use crate::hash::Hash;
use crate::outcome::OutputItem;
use crate::rules::approval::{Answer, ApprovalRequest, ApprovalState, Approver};

/// A durable run whose code is being executed. Its calls outlive the execution.
pub(crate) trait DurableRun: fmt::Debug + Send + Sync {
    /// Returns the approvals of the run, for all its executions.
    fn approvals(&self) -> Arc<ApprovalState>;

    /// Returns whether the journal has the answer to a call, so that it needs no permission any more.
    fn has_answer(&self, call: u64) -> bool;

    /// Takes a call of the code. Calls come in the order of their messages.
    fn called(self: Arc<Self>, message: &wire::ToolCall) -> IncomingCall;

    /// Takes output of the code, with the steps that came before it.
    fn output(&self, items: &[OutputItem], steps: &[u8], failures: Vec<wire::StepFailure>);

    /// Takes what the code sees of its session.
    fn begun(&self, begun: wire::Begun);

    /// Notes that the code waits.
    fn waits(&self, waiting: wire::Waiting);

    /// Notes that the code has the answer to a call from its relay: a call that still waits for a person is stopped.
    fn give_up_waiting(&self, call: u64);
}

/// A call of a durable run, and its answer that is to come.
pub(crate) struct IncomingCall {
    /// The call's state; `None`: it does not change.
    pub(crate) status: Option<watch::Receiver<wire::CallStatus>>,
    /// The answer, and its turn; `None`: there will be none.
    pub(crate) answer: BoxFuture<'static, Option<(wire::ToolResult, AnswerTurn)>>,
}

/// The turn of an answer, to be dropped when the answer was sent: others may have to come after it.
pub(crate) type AnswerTurn = Box<dyn Send>;

/// A call of a durable run on its way through the steps of the host.
pub(crate) trait DurableCall: fmt::Debug + Send + Sync {
    /// Tells the state of the call.
    fn tell_state(&self, status: wire::CallStatus);

    /// Returns the decision that the journal has, and the name of the person or system that made it; `None`: it has none.
    fn decided(&self) -> Option<(Answer, String)>;

    /// Asks about the call, and returns the answer with the name of the person or system that gave it.
    ///
    /// # Errors
    /// [`JournalError`]: the question or the answer could not be recorded.
    fn ask<'a>(
        &'a self,
        approver: Option<&'a Arc<dyn Approver>>,
        request: ApprovalRequest,
        tool: Hash,
    ) -> BoxFuture<'a, Result<(Answer, String), JournalError>>;

    /// Records that the tool begins to run. A tool that may change something waits until the journal has it.
    ///
    /// # Errors
    /// [`JournalError`]: it is not recorded; the tool must not run.
    fn started(&self) -> BoxFuture<'_, Result<(), JournalError>>;
}
