//! A run as the application sees it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::calls::RunCalls;
use super::decision::Decision;
use super::stop::{RunOutcome, Stop};
use crate::client::Outcome;
use crate::durable::entry::Verdict;
use crate::durable::error::RunError;
use crate::durable::journal::RunId;
use crate::error::Error;
use crate::event::EventStream;
use crate::rules::approval::{Approval, ApprovalRequest};

/// A durable run that this process goes on with. Clones are of the same run; dropping them ends nothing.
#[derive(Clone)]
pub struct Run {
    calls: Arc<RunCalls>,
    outcome: watch::Receiver<Option<RunOutcome>>,
    stop: Arc<watch::Sender<Option<Stop>>>,
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run").field("id", self.id()).finish_non_exhaustive()
    }
}

/// The state of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunState {
    /// Its code or a tool runs.
    Running,
    /// People are asked about calls, with these numbers in the order of the code, and nothing else goes on.
    WaitingForApproval(Vec<u64>),
    /// Its code waits for a timer, off its relay.
    WaitingForTimer,
    /// It has ended, or this process goes on with it no more: [`Run::outcome`] tells which.
    Ended,
}

impl Run {
    /// Makes the handle of a run, whose driver tells its outcome.
    pub(super) fn new(
        calls: Arc<RunCalls>,
        outcome: watch::Receiver<Option<RunOutcome>>,
        stop: watch::Sender<Option<Stop>>,
    ) -> Self {
        Self { calls, outcome, stop: Arc::new(stop) }
    }

    /// Returns the id, which names the run in the journal.
    pub fn id(&self) -> &RunId {
        &self.calls.id
    }

    /// Returns the owner; `None`: the application itself.
    pub fn owner(&self) -> Option<&str> {
        self.calls.owner.as_deref()
    }

    /// Returns the questions that people are asked now, in the order of the code: [`ApprovalRequest::call`] is the number of
    /// the call. They are there until they are answered, by this process or by another one.
    pub fn questions(&self) -> Vec<ApprovalRequest> {
        self.calls.questions().values().cloned().collect()
    }

    /// Answers a question, as the approver of the host does. The first answer counts. `by` is the name of the person or
    /// system that answers, for the audit.
    ///
    /// # Errors
    /// [`RunError::NotAsked`]: nobody is asked about this call now.
    pub fn answer(&self, call: u64, approval: Approval, by: &str) -> Result<(), RunError> {
        let arguments_sha256 = self.calls.read(|record| record.asked_arguments(call));
        // From now on nobody is asked any more, although the decision is still on its way.
        let question = self.calls.questions().remove(&call);
        let (Some(arguments_sha256), Some(_)) = (arguments_sha256, question) else {
            return Err(RunError::NotAsked { run: self.id().clone(), call });
        };
        let (verdict, reason) = match approval {
            Approval::Deny { reason } => (Verdict::Denied, reason),
            Approval::Once => (Verdict::Once, None),
            Approval::Execution => (Verdict::Execution, None),
            Approval::Session => (Verdict::Session, None),
        };
        self.decide(call, Decision { verdict, by: by.to_owned(), reason, arguments_sha256 });
        Ok(())
    }

    /// Returns the state as it is now.
    pub fn state(&self) -> RunState {
        // A driver that panicked tells nothing any more.
        if self.outcome.borrow().is_some() || self.outcome.has_changed().is_err() {
            return RunState::Ended;
        }
        let situation = self.calls.changes.borrow().clone();
        let (mut asked, mut runs) = self.calls.open_calls();
        let open = asked.len();
        // A decision that is on its way is about to be acted on.
        asked.retain(|call| !self.calls.instructions.borrow().contains_key(call));
        runs |= asked.len() < open;
        match (asked.is_empty(), runs) {
            (false, false) if situation.is_passive => RunState::WaitingForApproval(asked),
            (true, false) if situation.is_passive => RunState::WaitingForTimer,
            _ => RunState::Running,
        }
    }

    /// Returns the events from now on. Those of a run have the numbers of its calls in the order of the code in the place of
    /// call ids, and [`Event::Disconnected`](crate::Event::Disconnected) where its relay is gone and another one is tried.
    pub fn events(&self) -> EventStream {
        EventStream::new(self.calls.context.events.subscribe())
    }

    /// Waits for the outcome.
    ///
    /// # Errors
    /// - [`Error::Execution`]: the code failed; the run has ended.
    /// - [`Error::Run`]: the run is left in the journal without an outcome, and can go on later; the error tells why.
    /// - Those of connecting that waiting does not mend, such as [`Error::Unauthenticated`]: the run is left, too.
    pub async fn outcome(&self) -> Result<Outcome, Error> {
        let mut outcome = self.outcome.clone();
        let ended = outcome.wait_for(Option::is_some).await.ok().and_then(|ended| ended.clone());
        match ended {
            Some(Ok(outcome)) => Ok(Outcome::clone(&outcome)),
            Some(Err(error)) => Err(error.copied()),
            // The driver panicked, or its runtime is gone: the journal has the run.
            None => Err(RunError::Left.into()),
        }
    }

    /// Waits for the outcome for up to `within`; `None`: there is none yet.
    ///
    /// # Errors
    /// Those of [`Run::outcome`].
    pub async fn outcome_within(&self, within: Duration) -> Option<Result<Outcome, Error>> {
        tokio::time::timeout(within, self.outcome()).await.ok()
    }

    /// Waits until the run has ended or waits for people or a timer, and returns its state.
    pub async fn settled(&self) -> RunState {
        self.until(|state| *state != RunState::Running).await
    }

    /// Waits until the state is one that `fits`, or the run has ended, and returns the state.
    pub async fn until(&self, fits: impl Fn(&RunState) -> bool) -> RunState {
        let (mut changes, mut outcome) = (self.calls.changes.subscribe(), self.outcome.clone());
        loop {
            changes.borrow_and_update();
            let state = self.state();
            if state == RunState::Ended || fits(&state) {
                return state;
            }
            tokio::select! {
                ended = outcome.wait_for(Option::is_some) => if ended.is_err() { return RunState::Ended },
                _ = changes.changed() => {}
            }
        }
    }

    /// Cancels the run: it ends with `CANCELLED`, in the journal as well.
    pub fn cancel(&self) {
        self.stop(Stop::Cancel);
    }

    /// Stops driving the run. The first reason counts.
    pub(super) fn stop(&self, reason: Stop) {
        self.stop.send_if_modified(|stop| stop.is_none() && stop.replace(reason).is_none());
    }

    /// Takes the decision of another process on a call.
    pub(super) fn decide(&self, call: u64, decision: Decision) {
        self.calls.instructions.send_modify(|all| {
            all.entry(call).or_insert(decision);
        });
    }
}
