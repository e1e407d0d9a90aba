//! Durable runs: code that outlives the process.

use std::sync::Arc;

use host_client::durable::journal::{RunFilter, RunHead, RunId};
use host_client::runs::{self, RunState, RunVerdict};
use host_client::{LimitOverrides, Run, Runs};
use serde::Serialize;
use serde_json::{Value, json};

use crate::error::{ErrorKind, SdkError};
use crate::execution::{Ended, Events};
use crate::foreign::{ForeignApprover, asked};
use crate::request::RequestOptions;

/// The durable runs of a host. Clones are of the same.
#[derive(Debug, Clone)]
pub struct DurableRuns {
    runs: Runs,
    limits: LimitOverrides,
}

/// A durable run of this process. Dropping it ends nothing.
#[derive(Debug, Clone)]
pub struct DurableRun {
    run: Run,
    events: Events,
}

/// The runs that a process takes over.
#[derive(Debug)]
pub struct TakenOver {
    /// The runs that go on here.
    pub runs: Vec<DurableRun>,
    /// The ids of the runs that another process holds.
    pub held: Vec<String>,
    /// The ids of the runs that cannot go on, with the errors.
    pub failed: Vec<(String, SdkError)>,
}

/// A run as the journal lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunShape {
    /// Its id.
    pub id: String,
    /// The time at which it began, in ms since 1970.
    pub created_ms: i64,
    /// The time of its last entry, in ms since 1970.
    pub changed_ms: i64,
    /// `running`, `waiting` or `ended`.
    pub status: &'static str,
}

impl From<&RunHead> for RunShape {
    fn from(head: &RunHead) -> Self {
        Self {
            id: head.id.to_string(),
            created_ms: head.created_ms,
            changed_ms: head.changed_ms,
            status: head.status.as_str(),
        }
    }
}

impl DurableRuns {
    pub(crate) fn new(runs: Runs, limits: LimitOverrides) -> Self {
        Self { runs, limits }
    }

    /// Begins a run. It is in the journal when this returns.
    ///
    /// # Errors
    /// [`ErrorKind::Run`]: it cannot be durable, or the journal does not take it. No relay can be reached, or an option
    /// cannot be used.
    pub async fn start(
        &self,
        options: RequestOptions,
        approver: Option<Arc<dyn ForeignApprover>>,
    ) -> Result<DurableRun, SdkError> {
        Ok(DurableRun::new(self.runs.start(options.request(&self.limits, asked(approver, None))?).await?))
    }

    /// Goes on with the runs that no process goes on with.
    ///
    /// # Errors
    /// [`ErrorKind::Run`]: the journal cannot be read.
    pub async fn recover(&self) -> Result<TakenOver, SdkError> {
        let recovered = self.runs.recover().await?;
        Ok(TakenOver {
            runs: recovered.runs.into_iter().map(DurableRun::new).collect(),
            held: recovered.held.iter().map(ToString::to_string).collect(),
            failed: recovered.failed.into_iter().map(|(id, error)| (id.to_string(), error.into())).collect(),
        })
    }

    /// Goes on with one run.
    ///
    /// # Errors
    /// [`ErrorKind::Run`]: another process holds it, it has ended, or there is none.
    pub async fn resume(&self, id: &str) -> Result<DurableRun, SdkError> {
        Ok(DurableRun::new(self.runs.resume(&parsed(id)?).await?))
    }

    /// Returns a run that goes on in this process; `None`: it does not.
    pub fn get(&self, id: &str) -> Option<DurableRun> {
        Some(DurableRun::new(self.runs.get(&id.parse().ok()?)?))
    }

    /// Lists runs of the journal, at most `most`, in the order in which they began. `unfinished`: without those that have ended.
    ///
    /// # Errors
    /// [`ErrorKind::Run`]: the journal cannot be read.
    pub async fn list(&self, unfinished: bool, most: usize) -> Result<Vec<RunShape>, SdkError> {
        let filter = RunFilter { unfinished, limit: most, after: None, newest_first: false };
        Ok(runs::list(self.runs.journal(), filter).await?.iter().map(Into::into).collect())
    }

    /// Returns a run of the journal with its calls, as JSON.
    ///
    /// # Errors
    /// [`ErrorKind::Run`]: there is none, or the journal cannot be read.
    pub async fn show(&self, id: &str) -> Result<Value, SdkError> {
        let summary = runs::show(self.runs.journal(), &parsed(id)?).await?;
        let mut shown = serde_json::to_value(RunShape::from(&summary.head)).unwrap_or_default();
        let error = summary.error.as_ref().map(|(code, message)| json!({"code": code, "message": message}));
        for (name, value) in [
            ("code", json!(summary.code)),
            ("attempts", json!(summary.attempts)),
            ("waiting", json!(summary.waiting())),
            ("calls", json!(summary.calls)),
            ("result", json!(summary.result)),
            ("error", json!(error)),
        ] {
            shown[name] = value;
        }
        Ok(shown)
    }

    /// Leaves a decision on a call for the process that goes on with the run. `by` is the name of who decides.
    ///
    /// # Errors
    /// [`ErrorKind::Run`]: nobody is asked about the call, or there is a decision already.
    pub async fn decide(
        &self,
        id: &str,
        call: u64,
        (approved, reason): (bool, Option<String>),
        by: &str,
    ) -> Result<(), SdkError> {
        let verdict = if approved { RunVerdict::Approve } else { RunVerdict::Deny { reason } };
        Ok(runs::decide(self.runs.journal(), &parsed(id)?, call, verdict, by).await?)
    }

    /// Cancels a run, whoever holds it.
    ///
    /// # Errors
    /// [`ErrorKind::Run`]: there is none, or it is being cancelled already.
    pub async fn cancel(&self, id: &str) -> Result<(), SdkError> {
        Ok(runs::cancel(self.runs.journal(), &parsed(id)?).await?)
    }

    /// Removes a run from the journal. Returns whether there was one.
    ///
    /// # Errors
    /// [`ErrorKind::Run`]: a process holds it.
    pub async fn forget(&self, id: &str) -> Result<bool, SdkError> {
        Ok(runs::forget(self.runs.journal(), &parsed(id)?).await?)
    }
}

impl DurableRun {
    fn new(run: Run) -> Self {
        let events = Events::of(run.events());
        Self { run, events }
    }

    /// Returns its id.
    pub fn id(&self) -> String {
        self.run.id().to_string()
    }

    /// Returns its state as JSON: `{"state": …}` with `running`, `waiting_for_approval` (with `calls`), `waiting_for_timer` or
    /// `ended`.
    pub fn state(&self) -> Value {
        state(&self.run.state())
    }

    /// Waits until it has ended or waits for people or a timer, and returns its state.
    pub async fn settled(&self) -> Value {
        state(&self.run.settled().await)
    }

    /// Waits for the outcome.
    ///
    /// # Errors
    /// The code failed; or [`ErrorKind::Run`]: the run is left in the journal and can go on later.
    pub async fn outcome(&self) -> Ended {
        Ok(Arc::new(self.run.outcome().await?.into()))
    }

    /// Returns the events since this handle was made.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// Cancels the run: it ends with `CANCELLED`, in the journal as well.
    pub fn cancel(&self) {
        self.run.cancel();
    }
}

fn state(state: &RunState) -> Value {
    match state {
        RunState::Running => json!({"state": "running"}),
        RunState::WaitingForApproval(calls) => json!({"state": "waiting_for_approval", "calls": calls}),
        RunState::WaitingForTimer => json!({"state": "waiting_for_timer"}),
        _ => json!({"state": "ended"}),
    }
}

fn parsed(id: &str) -> Result<RunId, SdkError> {
    let invalid = |error: host_client::durable::journal::InvalidRunId| {
        SdkError::new(ErrorKind::Run, "RUN_UNKNOWN", error.to_string())
    };
    id.parse().map_err(invalid)
}
