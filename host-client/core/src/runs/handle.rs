//! A run as the application sees it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::calls::RunCalls;
use super::decision::Decision;
use super::drive::Stop;
use crate::client::Outcome;
use crate::durable::journal::RunId;
use crate::error::Error;
use crate::event::EventStream;

/// A durable run that this process goes on with. Clones are of the same run; dropping them ends nothing.
#[derive(Clone)]
pub struct Run {
    calls: Arc<RunCalls>,
    outcome: Shared<BoxFuture<'static, Result<Arc<Outcome>, Arc<Error>>>>,
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
    /// It has ended.
    Ended,
}

impl Run {
    /// Makes the handle of a run that a task drives.
    pub(super) fn new(
        calls: Arc<RunCalls>,
        task: JoinHandle<Result<Outcome, Error>>,
        stop: watch::Sender<Option<Stop>>,
    ) -> Self {
        let outcome = task.map(|ended| match ended {
            Ok(Ok(outcome)) => Ok(Arc::new(outcome)),
            Ok(Err(error)) => Err(Arc::new(error)),
            // The task panicked, or its runtime is gone: the journal has the run.
            Err(error) => Err(Arc::new(Error::Local(format!("the run is not driven any more: {error}")))),
        });
        Self { calls, outcome: outcome.boxed().shared(), stop: Arc::new(stop) }
    }

    /// Returns the id, which names the run in the journal.
    pub fn id(&self) -> &RunId {
        &self.calls.id
    }

    /// Returns the state as it is now.
    pub fn state(&self) -> RunState {
        if self.outcome.peek().is_some() {
            return RunState::Ended;
        }
        let situation = self.calls.changes.borrow().clone();
        let (asked, runs) = self.calls.open_calls();
        match (asked.is_empty(), runs) {
            (false, false) if situation.waits.is_some() => RunState::WaitingForApproval(asked),
            (true, false) if situation.waits.is_some() => RunState::WaitingForTimer,
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
        match self.outcome.clone().await {
            Ok(outcome) => Ok(Outcome::clone(&outcome)),
            Err(error) => Err(error.copied()),
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
        let mut changes = self.calls.changes.subscribe();
        loop {
            changes.borrow_and_update();
            let state = self.state();
            if state == RunState::Ended || fits(&state) {
                return state;
            }
            tokio::select! {
                _ = self.outcome.clone() => {}
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

    pub(super) fn is_over(&self) -> bool {
        self.outcome.peek().is_some()
    }

    /// Takes the decision of another process on a call.
    pub(super) fn decide(&self, call: u64, decision: Decision) {
        self.calls.instructions.send_modify(|all| {
            all.entry(call).or_insert(decision);
        });
    }
}
