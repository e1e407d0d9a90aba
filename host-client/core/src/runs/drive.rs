//! Drives one run: sends its code to a relay, takes it off while it waits, and sends it again when the relay is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBuilder};
use relay_proto::time::millis;
use relay_proto::{ErrorCode, wire};
use tokio::sync::watch;
use tokio::time::Instant;

use super::RunOptions;
use super::calls::{RunAttempt, RunCalls};
use super::live::raw_json;
use super::plan::RunPlan;
use super::state::Situation;
use super::stop::{RunOutcome, Stop};
use crate::call::run::DurableRun;
use crate::client::{Check, Client, ConnectionState, DurableAttempt, ExecuteRequest, Execution, LazyClient, Outcome};
use crate::durable::entry::{Attempt, EndError, Ended, Entry};
use crate::durable::error::RunError;
use crate::durable::journal::RunStatus;
use crate::error::{Error, ExecutionError};
use crate::event::Event;
use crate::introspect;

/// The number of attempts in a row after which a run that gets no further is left in the journal.
const MAX_IDLE_ATTEMPTS: u32 = 8;
/// The shortest and the longest time between two attempts.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(5));

/// A run on its way to an outcome.
pub(super) struct Drive {
    pub(super) client: LazyClient,
    pub(super) calls: Arc<RunCalls>,
    pub(super) plan: RunPlan,
    pub(super) options: RunOptions,
    /// Check of the code in its first execution.
    pub(super) check: Check,
    /// The reason to stop; `None`: there is none.
    pub(super) stop: watch::Receiver<Option<Stop>>,
    /// The place where the outcome is told.
    pub(super) outcome: watch::Sender<Option<RunOutcome>>,
}

/// The end of one execution of the code.
enum After {
    /// The run has its outcome.
    Outcome(Result<Outcome, Error>),
    /// The code waits and was taken off its relay.
    Passive(Situation),
    /// The relay is gone or takes nothing more. `has_begun`: it had the code.
    Again { error: Error, has_begun: bool },
}

impl Drive {
    /// Drives the run to its outcome, and returns it with the place where it is told.
    pub(super) async fn run(mut self) -> (RunOutcome, watch::Sender<Option<RunOutcome>>) {
        let result = self.until_outcome().await;
        // Nothing happens from now on.
        self.calls.stop();
        // Only the code's own end is the run's.
        let result = match result {
            Ok(outcome) => self.finish(Ok(outcome)).await,
            Err(Error::Execution(error)) => self.finish(Err(error)).await,
            left => {
                // What can be kept is kept.
                let _ = self.calls.save().await;
                left
            }
        };
        (result.map(Arc::new).map_err(Arc::new), self.outcome)
    }

    /// Drives the run until it has an outcome.
    ///
    /// # Errors
    /// [`Error::Execution`]: the code failed. All others leave the run in the journal without an outcome.
    async fn until_outcome(&mut self) -> Result<Outcome, Error> {
        let (mut idle, mut waits) = (0, backoff());
        let mut tried_since = Instant::now();
        loop {
            let reason = *self.stop.borrow();
            if let Some(reason) = reason {
                return Err(stop_error(reason));
            }
            let before = self.entries();
            let after = self.attempt().await?;
            // An attempt is an entry of its own.
            if self.entries() > before + 1 {
                (idle, waits) = (0, backoff());
            }
            let (error, has_begun) = match after {
                After::Outcome(outcome) => return outcome,
                After::Passive(situation) => {
                    self.wait(situation).await?;
                    tried_since = Instant::now();
                    continue;
                }
                After::Again { error, has_begun } => (error, has_begun),
            };
            self.calls.context.tell(Event::Disconnected { reason: error.to_string().into() });
            if has_begun {
                idle += 1;
                tried_since = Instant::now();
            }
            if idle >= MAX_IDLE_ATTEMPTS {
                return Err(RunError::Stuck { attempts: idle, reason: error.to_string() }.into());
            }
            let within = self.options.reach_within;
            if tried_since.elapsed() >= within {
                return Err(RunError::NoRelay { within_s: within.as_secs(), reason: error.to_string() }.into());
            }
            tokio::select! {
                biased;
                error = stopped(&mut self.stop) => return Err(error),
                () = tokio::time::sleep(waits.next().unwrap_or(BACKOFF.1)) => {}
            }
        }
    }

    fn entries(&self) -> u64 {
        self.calls.read(|record| record.entries)
    }

    /// Sends the code to a relay once, and follows it.
    ///
    /// # Errors
    /// Those that no other attempt would mend.
    async fn attempt(&mut self) -> Result<After, Error> {
        self.check_tools()?;
        let lease = tokio::select! {
            biased;
            error = stopped(&mut self.stop) => return Err(error),
            lease = self.client.lease() => lease,
        };
        let client = match lease {
            Ok(client) => client,
            Err(error) if is_passing(&error) => return Ok(After::Again { error, has_begun: false }),
            Err(error) => return Err(error),
        };
        let (request, attempt) = self.request(&client)?;
        let (mut stop, has_begun) = (self.stop.clone(), AtomicBool::new(false));
        let followed = async {
            match client.execute_of(request, Some(attempt)).await {
                Ok(execution) => {
                    has_begun.store(true, Ordering::Relaxed);
                    self.follow(execution).await
                }
                Err(error) if is_passing(&error) => Ok(After::Again { error, has_begun: false }),
                Err(error) => Err(error),
            }
        };
        tokio::select! {
            biased;
            error = stopped(&mut stop) => Err(error),
            after = followed => after,
            error = is_away(&client, self.options.leave_after) => {
                // What the relay still sends of the execution is ignored from now on.
                client.abandon();
                Ok(After::Again { error, has_begun: has_begun.load(Ordering::Relaxed) })
            }
        }
    }

    /// Makes the request of the next execution, and notes the attempt.
    ///
    /// # Errors
    /// [`RunError::OldRelay`], [`RunError::OtherBuild`].
    fn request(&self, client: &Client) -> Result<(ExecuteRequest, DurableAttempt), Error> {
        let relay = client.relay().to_owned();
        let Some(found) = client.build() else { return Err(RunError::OldRelay { relay }.into()) };
        let recorded = self.calls.read(|record| record.build.clone());
        if let Some(recorded) = recorded.filter(|it| it != found && !self.options.any_build) {
            return Err(RunError::OtherBuild { recorded, found: found.to_owned(), relay }.into());
        }
        let (number, history) =
            self.calls.begin_attempt(Attempt { relay, build: found.to_owned() }, self.plan.sees_session());
        let mut request = self.plan.request();
        if !history.again {
            request.check = self.check;
        }
        let history = wire::Durable { waiting_after_ms: millis(self.options.passivate_after).max(1), ..history };
        let run: Arc<dyn DurableRun> = Arc::new(RunAttempt { calls: Arc::clone(&self.calls), number });
        Ok((request, DurableAttempt { run, history }))
    }

    /// Checks that the tools of open calls are there, and as they were when a person was asked about them.
    ///
    /// # Errors
    /// [`RunError::ToolGone`], [`RunError::ToolChanged`].
    fn check_tools(&self) -> Result<(), RunError> {
        let tools = self.client.host().tools();
        self.calls.read(|record| {
            for (call, open) in
                record.unanswered().filter(|(_, open)| !open.is_started && !introspect::is_question(&open.tool))
            {
                let Some(found) = tools.get(&open.tool) else {
                    // The code was told, or is about to be, that there is no such tool.
                    if open.asked.is_none() {
                        continue;
                    }
                    return Err(RunError::ToolGone { call, tool: open.tool.clone() });
                };
                if open.asked.as_ref().is_some_and(|asked| asked.tool_sha256 != found.digest) {
                    return Err(RunError::ToolChanged { call, tool: open.tool.clone() });
                }
            }
            Ok(())
        })
    }

    /// Follows an execution to its end, or until its code waits for people or a timer alone.
    async fn follow(&self, mut execution: Execution) -> Result<After, Error> {
        let calls = Arc::clone(&self.calls);
        let mut changes = calls.changes.subscribe();
        loop {
            let situation = changes.borrow_and_update().clone();
            if let Some(divergence) = situation.diverged {
                return Err(RunError::Diverged(divergence).into());
            }
            if let Some(error) = calls.log.failed() {
                return Err(RunError::Journal(error).into());
            }
            if self.may_be_passive(&situation) {
                calls.log.set_status(RunStatus::Waiting);
                calls.save().await.map_err(RunError::Journal)?;
                let now = calls.changes.borrow().clone();
                if self.may_be_passive(&now) {
                    // Dropping it ends it at the relay.
                    drop(execution);
                    calls.changes.send_modify(|situation| situation.is_passive = true);
                    return Ok(After::Passive(now));
                }
                calls.log.set_status(RunStatus::Running);
            }
            tokio::select! {
                biased;
                outcome = &mut execution => return Ok(after(outcome)),
                _ = changes.changed() => {}
            }
        }
    }

    /// Returns whether the code waits for nothing but people, or for a timer that is far away.
    fn may_be_passive(&self, situation: &Situation) -> bool {
        let Some(wait) = situation.waits else { return false };
        let left = |until: Instant| until.saturating_duration_since(Instant::now());
        let is_far = wait.until.is_none_or(|until| left(until) > self.options.passivate_after / 2);
        is_far && self.calls.waits_for_nothing_else(wait.until.is_some())
    }

    /// Waits until code that was taken off its relay has something to do.
    async fn wait(&mut self, since: Situation) -> Result<(), Error> {
        let mut changes = self.calls.changes.subscribe();
        let timer = async {
            match since.waits.and_then(|wait| wait.until) {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(timer);
        loop {
            if let Some(error) = self.calls.log.failed() {
                return Err(RunError::Journal(error).into());
            }
            if changes.borrow_and_update().answered != since.answered {
                break;
            }
            tokio::select! {
                biased;
                error = stopped(&mut self.stop) => return Err(error),
                () = &mut timer => break,
                _ = changes.changed() => {}
            }
        }
        self.calls.log.set_status(RunStatus::Running);
        Ok(())
    }

    /// Writes the outcome into the journal, and tells it.
    ///
    /// # Errors
    /// That of the run; [`Error::Run`]: the journal does not have the outcome.
    async fn finish(&self, result: Result<Outcome, Box<ExecutionError>>) -> Result<Outcome, Error> {
        let result = result.and_then(|outcome| match raw_json(&outcome.json) {
            Some(json) => Ok((outcome, json)),
            None => {
                let text = "the relay sent a result that is not JSON in UTF-8";
                Err(Box::new(ExecutionError::new(ErrorCode::InvalidResult, text)))
            }
        });
        let result = result.map_err(|error| ExecutionError { calls: self.calls.context.calls(), ..*error });
        let (ended, code, bytes, usage) = match &result {
            Ok((outcome, json)) => {
                (Ended { result: Some(json.clone()), error: None }, None, outcome.json.len(), outcome.usage)
            }
            Err(error) => {
                let ended = EndError { code: error.code.as_str().to_owned(), message: error.to_string() };
                (Ended { result: None, error: Some(ended) }, Some(error.code.clone()), 0, error.usage)
            }
        };
        let number = self.calls.add_last(Entry::Ended(ended));
        // Without its end in the journal the run has not ended: another process may have it.
        self.calls.log.commit(number).await.map_err(RunError::Journal)?;
        if let Some(trail) = self.calls.context.trail.get() {
            trail.end(code.as_ref(), bytes, usage);
        }
        if result.is_ok() {
            self.calls.context.tell(Event::Result { bytes });
        }
        self.calls.context.tell(Event::Ended { code, usage });
        result.map(|(outcome, _)| outcome).map_err(|error| Box::new(error).into())
    }
}

/// Finds out what the end of an execution means for its run.
fn after(outcome: Result<Outcome, Error>) -> After {
    match outcome {
        Err(error) if is_passing(&error) => {
            let has_begun = !error.wants_another_session();
            After::Again { error, has_begun }
        }
        Err(Error::Execution(error)) if error.code == ErrorCode::ReplayDiverged => {
            After::Outcome(Err(RunError::Diverged(error.message).into()))
        }
        outcome => After::Outcome(outcome),
    }
}

/// Returns whether another attempt could go better: the relay or its worker is gone, or the relay shuts down or is busy.
fn is_passing(error: &Error) -> bool {
    let Error::Execution(execution) = error else { return error.is_retryable() };
    // A relay that uses its limit up names it; without one, this host has given the relay up.
    let is_given_up = execution.code == ErrorCode::Timeout && execution.limit.is_none();
    let is_lost = execution.code == ErrorCode::SessionLost || execution.code == ErrorCode::WorkerLost;
    is_given_up || is_lost || error.is_retryable()
}

/// Waits until a client has been without a connection for `most`.
async fn is_away(client: &Client, most: Duration) -> Error {
    let mut changes = client.state_changes();
    loop {
        let ConnectionState::Reconnecting { since, reason } = client.state() else {
            if changes.next().await.is_none() {
                return std::future::pending().await;
            }
            continue;
        };
        tokio::select! {
            () = tokio::time::sleep(most.saturating_sub(since.elapsed())) => {
                return Box::new(ExecutionError::new(ErrorCode::SessionLost, reason.to_string())).into();
            }
            _ = changes.next() => {}
        }
    }
}

fn backoff() -> backon::ExponentialBackoff {
    ExponentialBuilder::default()
        .with_min_delay(BACKOFF.0)
        .with_max_delay(BACKOFF.1)
        .with_jitter()
        .without_max_times()
        .build()
}

/// Waits for a reason to stop, and returns its error.
async fn stopped(stop: &mut watch::Receiver<Option<Stop>>) -> Error {
    let reason = stop.wait_for(Option::is_some).await.ok().and_then(|reason| *reason);
    match reason {
        Some(reason) => stop_error(reason),
        // Nobody can stop it any more.
        None => std::future::pending().await,
    }
}

fn stop_error(reason: Stop) -> Error {
    match reason {
        Stop::Leave => RunError::Left.into(),
        Stop::Cancel => Box::new(ExecutionError::new(ErrorCode::Cancelled, "the run was cancelled")).into(),
    }
}
