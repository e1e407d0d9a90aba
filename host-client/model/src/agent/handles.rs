//! Durable runs of `execute_code`: the handle of a run that waits, and the tools that go on with it.

use std::time::Duration;

use relay_proto::ErrorCode;
use serde_json::{Map, Value, json};
use tracing::Instrument as _;

use super::ExecuteCode;
use crate::arguments::{CancelArguments, WaitArguments};
use crate::report::{Report, listed, refused};
use host_client_core::client::{ExecuteRequest, Outcome};
use host_client_core::durable::JournalError;
use host_client_core::error::{Error, ExecutionError};
use host_client_core::runs::{self, RunState, RunSummary};
use host_client_core::{Run, RunError, RunId, RunStatus, Runs};

/// Default of the time that `wait_for_run` waits.
const WAITS: Duration = Duration::from_secs(30);
/// Maximum time that `wait_for_run` waits.
const MAX_WAIT: Duration = Duration::from_secs(300);
/// Maximum time that `cancel_run` waits for the end.
const ENDS_WITHIN: Duration = Duration::from_secs(10);
/// Interval between two looks at a run that another process goes on with.
const LOOKS_EVERY: Duration = Duration::from_millis(200);
/// Maximum number of runs in a list.
const MAX_LISTED: usize = 50;
/// Maximum number of tools that a handle names.
const MAX_NAMED: usize = 5;

/// A run whose handle nobody has: dropping it cancels the run, and removes it from the journal.
#[derive(Debug)]
pub(crate) struct Begun {
    run: Run,
    runs: Runs,
    /// `true`: its handle was given away, or it has ended.
    is_released: bool,
}

impl Begun {
    /// Takes back a run that was released: its client has come back. `is_released`: its handle was given away.
    #[cfg(feature = "serve-mcp")]
    pub(crate) fn again(run: Run, runs: &Runs, is_released: bool) -> Self {
        Self { run, runs: runs.clone(), is_released }
    }

    pub(crate) fn run(&self) -> &Run {
        &self.run
    }

    /// Lets the run go on: its handle is given away.
    pub(crate) fn release(mut self) -> Run {
        self.is_released = true;
        self.run.clone()
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if self.is_released {
            return;
        }
        self.run.cancel();
        // Without a runtime, the journal keeps it as a run that was cancelled.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (run, runs) = (self.run.clone(), self.runs.clone());
            runtime.spawn(async move {
                let _ = match is_end(&run.outcome().await) || runs.are_in_memory() {
                    true => runs::forget(runs.journal(), run.id()).await.map(drop),
                    // It is not to go on when the journal has room again.
                    false => runs.cancel(run.id()).await,
                };
            });
        }
    }
}

/// A run that a model names.
pub(crate) enum Found {
    /// It goes on in this process.
    Here(Run),
    /// It has ended.
    Ended(Box<RunSummary>),
    /// Another process goes on with it.
    Elsewhere(Box<RunSummary>),
}

/// The reason why a run that a model names is not there.
#[derive(Debug)]
pub(crate) enum NotFound {
    /// There is none, or it is somebody else's.
    Unknown,
    /// It has ended, and was to be cancelled.
    Ended,
    /// It cannot be read, or does not go on.
    Failed(String),
}

impl NotFound {
    /// Makes the report for the model, which named the run so.
    pub(crate) fn report(self, name: &str) -> Report {
        let name = host_client_core::text::short_name(name);
        refused(match self {
            Self::Unknown => format!("INVALID_INPUT: there is no run {name:?}"),
            Self::Ended => format!("INVALID_INPUT: the run {name} has ended; {} gives its result", super::WAIT_TOOL),
            Self::Failed(reason) => reason,
        })
    }
}

impl From<RunError> for NotFound {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Unknown(_) => Self::Unknown,
            RunError::Over(_) => Self::Ended,
            error => Self::Failed(format!("{}: {error}", ErrorCode::Internal)),
        }
    }
}

impl ExecuteCode {
    /// Begins a run.
    ///
    /// # Errors
    /// The report for the model.
    pub(crate) async fn begin(&self, runs: &Runs, request: ExecuteRequest) -> Result<Begun, Report> {
        let runs = runs.clone();
        let begin = async move {
            let run = runs.start(request).await?;
            Ok(Begun { run, runs, is_released: false })
        };
        let begun = tokio::spawn(begin.in_current_span());
        // A caller that stops waiting drops what has begun meanwhile, which cancels it.
        match begun.await.unwrap_or_else(|_panic| Err(RunError::Left.into())) {
            Ok(begun) => Ok(begun),
            Err(error) => Err(self.report(Err(error), None).await),
        }
    }

    /// Waits until a run has ended or waits for people or a timer, and returns its result or its handle.
    pub(super) async fn settled(&self, begun: Begun, intent: Option<String>) -> Report {
        begun.run().settled().await;
        self.ended_or_handle(begun, intent).await
    }

    /// Returns the result of a run that has ended, and removes it from the journal; else the run's handle.
    pub(crate) async fn ended_or_handle(&self, begun: Begun, intent: Option<String>) -> Report {
        let runs = begun.runs.clone();
        let run = begun.release();
        if run.state() != RunState::Ended {
            return handle(&run);
        }
        let outcome = run.outcome().await;
        if is_end(&outcome) || runs.are_in_memory() {
            // Nobody can name it. What cannot be removed now is left to `relay-host runs forget`.
            let _ = runs::forget(runs.journal(), run.id()).await;
        }
        match runs.are_in_memory() {
            true => self.report(outcome, intent).await,
            false => self.outcome(&run, outcome, intent).await,
        }
    }

    /// Returns the report of a run's outcome. A run that is left in the journal keeps its handle.
    async fn outcome(&self, run: &Run, outcome: Result<Outcome, Error>, intent: Option<String>) -> Report {
        match outcome {
            Ok(_) | Err(Error::Execution(_)) => self.report(outcome, intent).await,
            Err(error) => {
                refused(format!("{error}; the run {} has not ended: {} goes on with it", run.id(), super::WAIT_TOOL))
            }
        }
    }

    /// Runs `wait_for_run`.
    pub(super) async fn wait(&self, runs: &Runs, arguments: WaitArguments) -> Report {
        let Some(name) = &arguments.run else { return list(runs) };
        let within = wait_time(&arguments);
        match self.find(runs, name).await {
            Ok(Found::Here(run)) => {
                let _ = run.outcome_within(within).await;
                self.shown(&run).await
            }
            Ok(found) => self.shown_found(found).await,
            Err(reason) => reason.report(name),
        }
    }

    /// Returns the result of a run that has ended, or its state.
    pub(crate) async fn shown(&self, run: &Run) -> Report {
        match run.state() {
            RunState::Ended => self.outcome(run, run.outcome().await, None).await,
            _ => handle(run),
        }
    }

    /// Returns the result or the state of a run that a model named.
    pub(crate) async fn shown_found(&self, found: Found) -> Report {
        match found {
            Found::Here(run) => self.shown(&run).await,
            Found::Ended(summary) => self.recorded(*summary).await,
            Found::Elsewhere(summary) => {
                let waits = summary.head.status == RunStatus::Waiting;
                let asked = summary.calls.iter().filter(|call| call.state == "waiting_for_approval");
                let tools: Vec<_> = asked.map(|call| call.tool.clone()).collect();
                listed(status(summary.head.id.as_str(), waits, &tools))
            }
        }
    }

    /// Runs `cancel_run`.
    pub(super) async fn cancel(&self, runs: &Runs, arguments: CancelArguments) -> Report {
        let name = &arguments.run;
        match self.begin_cancel(runs, name).await {
            Ok(Found::Here(run)) => match run.outcome_within(ENDS_WITHIN).await {
                None => cancelling(name, "cancelling"),
                Some(Err(Error::Execution(error))) if error.code == ErrorCode::Cancelled => {
                    cancelling(name, "cancelled")
                }
                Some(Ok(_) | Err(Error::Execution(_))) => ended_before(name),
                Some(Err(error)) => {
                    refused(format!("{error}; the run {name} has not ended: it is cancelled as soon as it goes on"))
                }
            },
            Ok(Found::Ended(summary)) => cancelled_or_ended(name, &summary),
            Ok(Found::Elsewhere(summary)) => {
                let id = summary.head.id.clone();
                match tokio::time::timeout(ENDS_WITHIN, until_ended(runs, &id)).await {
                    Ok(Ok(summary)) => cancelled_or_ended(name, &summary),
                    Ok(Err(error)) => NotFound::from(error).report(name),
                    // The other process is to see it, or will not hold the run for long.
                    Err(_elapsed) => cancelling(name, "cancelling"),
                }
            }
            Err(reason) => reason.report(name),
        }
    }

    /// Leaves in the journal that a run is to be cancelled, and stops it if it goes on here, or nowhere.
    ///
    /// # Errors
    /// [`NotFound::Unknown`], [`NotFound::Ended`]. [`NotFound::Failed`]: the journal does not take it.
    pub(crate) async fn begin_cancel(&self, runs: &Runs, name: &str) -> Result<Found, NotFound> {
        let id: RunId = name.parse().map_err(|_| NotFound::Unknown)?;
        let is_active = runs.get(&id);
        runs.cancel(&id).await?;
        match is_active {
            Some(run) => Ok(Found::Here(run)),
            None => self.find(runs, name).await,
        }
    }

    /// Finds a run that a model names; one that no process goes on with goes on here.
    ///
    /// # Errors
    /// [`NotFound::Unknown`], [`NotFound::Failed`]. A run of somebody else is as one that is not there.
    pub(crate) async fn find(&self, runs: &Runs, name: &str) -> Result<Found, NotFound> {
        let id: RunId = name.parse().map_err(|_| NotFound::Unknown)?;
        match runs.resume(&id).await {
            Ok(run) => return Ok(Found::Here(run)),
            Err(Error::Run(error)) => match *error {
                RunError::Unknown(_) | RunError::Journal(JournalError::Unknown(_) | JournalError::Claimed { .. }) => {}
                error => return Err(NotFound::Failed(error.to_string())),
            },
            Err(error) => return Err(NotFound::Failed(error.to_string())),
        }
        let summary = runs.show(&id).await?;
        Ok(match summary.head.status {
            RunStatus::Ended => Found::Ended(Box::new(summary)),
            _ => Found::Elsewhere(Box::new(summary)),
        })
    }

    /// Makes the report of an outcome in the journal, which has neither output nor usage.
    async fn recorded(&self, summary: RunSummary) -> Report {
        let outcome = match (summary.result, summary.error) {
            (_, Some((code, message))) => {
                let message = message.strip_prefix(&format!("{code}: ")).unwrap_or(&message).to_owned();
                Err(Error::from(Box::new(ExecutionError::new(code, message))))
            }
            (result, None) => {
                let json = result.unwrap_or(Value::Null).to_string().into();
                Ok(Outcome { json, output: Vec::new(), warnings: Vec::new(), usage: Default::default() })
            }
        };
        let mut report = self.report(outcome, None).await;
        if let Some(members) = report.structured.as_mut().and_then(Value::as_object_mut) {
            members.remove("usage");
        }
        report
    }
}

/// Returns how long `wait_for_run` waits.
pub(crate) fn wait_time(arguments: &WaitArguments) -> Duration {
    arguments.seconds.map_or(WAITS, Duration::from_secs).min(MAX_WAIT)
}

/// Returns whether an outcome is the run's end; otherwise the run is left in the journal.
fn is_end(outcome: &Result<Outcome, Error>) -> bool {
    matches!(outcome, Ok(_) | Err(Error::Execution(_)))
}

/// Returns the handle of a run.
pub(crate) fn handle(run: &Run) -> Report {
    listed(state(run))
}

/// Describes the state of a run.
fn state(run: &Run) -> Value {
    let tools: Vec<_> = run.questions().into_iter().map(|question| question.tool.to_string()).collect();
    status(run.id().as_str(), run.state() != RunState::Running || !tools.is_empty(), &tools)
}

/// Describes the state of a run. `tools`: those that a person is asked about.
fn status(run: &str, waits: bool, tools: &[String]) -> Value {
    let mut state = Map::from_iter([("run".to_owned(), run.into())]);
    state.insert("status".into(), if waits { "waiting" } else { "running" }.into());
    if waits {
        let named = tools.iter().take(MAX_NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
        let reason = if tools.is_empty() { "a timer".to_owned() } else { format!("a person's approval of {named}") };
        state.insert("for".into(), reason.into());
    }
    Value::Object(state)
}

/// Waits until a run that another process goes on with has ended.
///
/// # Errors
/// Those of [`Runs::show`].
async fn until_ended(runs: &Runs, id: &RunId) -> Result<RunSummary, RunError> {
    loop {
        let head = runs.journal().run(id.clone()).await?;
        if head.is_none_or(|head| head.status == RunStatus::Ended) {
            return runs.show(id).await;
        }
        tokio::time::sleep(LOOKS_EVERY).await;
    }
}

/// Returns what became of a run that was to be cancelled: `cancelled`, or `cancelling` if it has not ended yet.
fn cancelling(run: &str, status: &str) -> Report {
    listed(json!({"run": run, "status": status}))
}

/// Returns what became of a run that was to be cancelled, and has ended.
fn cancelled_or_ended(run: &str, summary: &RunSummary) -> Report {
    match &summary.error {
        Some((code, _)) if code == ErrorCode::Cancelled.as_str() => cancelling(run, "cancelled"),
        _ => ended_before(run),
    }
}

fn ended_before(run: &str) -> Report {
    refused(format!(
        "INVALID_INPUT: the run {run} has ended before it could be cancelled; {} gives its result",
        super::WAIT_TOOL
    ))
}

/// Lists the runs that go on in this process.
fn list(runs: &Runs) -> Report {
    let mut active = runs.active();
    let more = active.len().saturating_sub(MAX_LISTED);
    active.sort_unstable_by_key(|run| run.id().clone());
    active.truncate(MAX_LISTED);
    let mut answer = json!({"runs": active.iter().map(state).collect::<Vec<_>>()});
    if more > 0 {
        answer["more"] = more.into();
    }
    listed(answer)
}
