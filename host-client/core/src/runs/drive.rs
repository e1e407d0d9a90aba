//! Drives one run: sends its code to a relay, takes it off while it waits, and sends it again when the relay is gone.

use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBuilder};
use relay_proto::time::millis;
use relay_proto::{ErrorCode, wire};
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio::time::Instant;

use super::RunOptions;
use super::calls::RunCalls;
use super::plan::RunPlan;
use super::state::Situation;
use crate::call::run::DurableRun;
use crate::client::{Check, Client, ConnectionState, DurableAttempt, ExecuteRequest, Execution, LazyClient, Outcome};
use crate::durable::entry::{Attempt, EndError, Ended, Entry, hex};
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
}

/// The reason to stop driving a run before it has an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// The application or another process cancels the run.
    Cancel,
    /// This process gives the run up for another one.
    Leave,
}

/// The end of one execution of the code.
enum After {
    /// The run has its outcome.
    Outcome(Result<Outcome, Error>),
    /// The code waits and was taken off its relay.
    Passive(Situation),
    /// The relay is gone or takes nothing more.
    Again(Error),
}

impl Drive {
    /// Drives the run to its outcome.
    ///
    /// # Errors
    /// [`Error::Execution`]: the code failed. [`Error::Run`]: the run stays in the journal without an outcome.
    pub(super) async fn run(mut self) -> Result<Outcome, Error> {
        let result = self.until_outcome().await;
        // Only the code's own end is the run's.
        if !matches!(&result, Ok(_) | Err(Error::Execution(_))) {
            self.calls.stop();
            // The reason is told already; what can be kept is kept.
            let _ = self.calls.save().await;
            return result;
        }
        self.finish(result).await
    }

    async fn until_outcome(&mut self) -> Result<Outcome, Error> {
        let (mut idle, mut waits) = (0, backoff());
        let mut tried_since = Instant::now();
        loop {
            let before = self.calls.read(|record| record.entries);
            let error = match self.attempt().await? {
                After::Outcome(outcome) => return outcome,
                After::Passive(situation) => {
                    self.wait(situation).await?;
                    (idle, waits, tried_since) = (0, backoff(), Instant::now());
                    continue;
                }
                After::Again(error) => error,
            };
            self.calls.context.tell(Event::Disconnected { reason: error.to_string().into() });
            // An attempt is an entry of its own.
            if self.calls.read(|record| record.entries) > before + 1 {
                (idle, waits, tried_since) = (0, backoff(), Instant::now());
            }
            let was_sent = self.calls.read(|record| record.entries) > before;
            idle += u32::from(was_sent);
            if idle >= MAX_IDLE_ATTEMPTS {
                return Err(RunError::Stuck { attempts: idle, reason: error.to_string() }.into());
            }
            let within = self.options.reach_within;
            if tried_since.elapsed() >= within {
                return Err(RunError::NoRelay { within_s: within.as_secs(), reason: error.to_string() }.into());
            }
            tokio::select! {
                () = tokio::time::sleep(waits.next().unwrap_or(BACKOFF.1)) => {}
                error = stopped(&mut self.stop) => return Err(error),
            }
        }
    }

    /// Sends the code to a relay once, and follows it.
    ///
    /// # Errors
    /// Those that no other attempt would mend.
    async fn attempt(&mut self) -> Result<After, Error> {
        self.check_tools()?;
        let lease = tokio::select! {
            lease = self.client.lease() => lease,
            error = stopped(&mut self.stop) => return Err(error),
        };
        let client = match lease {
            Ok(client) => client,
            Err(error) if is_passing(&error) => return Ok(After::Again(error)),
            Err(error) => return Err(error),
        };
        let (request, attempt) = self.request(&client)?;
        let leave_after = self.options.leave_after;
        let followed = async {
            match client.execute_of(request, Some(attempt)).await {
                Ok(execution) => self.follow(execution).await,
                Err(error) if is_passing(&error) => Ok(After::Again(error)),
                Err(error) => Err(error),
            }
        };
        tokio::select! {
            biased;
            after = followed => after,
            error = is_away(&client, leave_after) => {
                // What the relay still sends of the execution is ignored from now on.
                client.abandon();
                Ok(After::Again(error))
            }
        }
    }

    /// Makes the request of the next execution, and notes the attempt.
    ///
    /// # Errors
    /// [`RunError::OldRelay`], [`RunError::OtherBuild`].
    fn request(&mut self, client: &Client) -> Result<(ExecuteRequest, DurableAttempt), Error> {
        let relay = client.relay().to_owned();
        let Some(found) = client.build() else { return Err(RunError::OldRelay { relay }.into()) };
        let recorded = self.calls.read(|record| record.build.clone());
        if let Some(recorded) = recorded.filter(|it| it != found && !self.options.any_build) {
            return Err(RunError::OtherBuild { recorded, found: found.to_owned(), relay }.into());
        }
        let history = self.calls.begin_attempt(Attempt { relay, build: found.to_owned() }, self.plan.sees_session());
        let mut request = self.plan.request();
        if !history.again {
            request.check = self.check;
        }
        let history = wire::Durable { waiting_after_ms: millis(self.options.passivate_after).max(1), ..history };
        let run: Arc<dyn DurableRun> = Arc::clone(&self.calls) as _;
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
                if open.asked.as_ref().is_some_and(|asked| asked.tool_sha256 != hex(&found.digest)) {
                    return Err(RunError::ToolChanged { call, tool: open.tool.clone() });
                }
            }
            Ok(())
        })
    }

    /// Follows an execution to its end, or until its code waits for people or a timer alone.
    async fn follow(&mut self, mut execution: Execution) -> Result<After, Error> {
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
                    return Ok(After::Passive(now));
                }
                calls.log.set_status(RunStatus::Running);
            }
            tokio::select! {
                biased;
                outcome = &mut execution => return Ok(after(outcome)),
                _ = changes.changed() => {}
                error = stopped(&mut self.stop) => return Err(error),
            }
        }
    }

    /// Returns whether the code waits for nothing but people, or for a timer that is far away.
    fn may_be_passive(&self, situation: &Situation) -> bool {
        let Some(wait) = situation.waits else { return false };
        let is_far = wait.until.is_none_or(|until| until > Instant::now() + self.options.passivate_after / 2);
        is_far && self.calls.waits_for_people()
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
                () = &mut timer => break,
                _ = changes.changed() => {}
                error = stopped(&mut self.stop) => return Err(error),
            }
        }
        self.calls.log.set_status(RunStatus::Running);
        Ok(())
    }

    /// Writes the outcome into the journal, and tells it.
    async fn finish(&self, result: Result<Outcome, Error>) -> Result<Outcome, Error> {
        self.calls.stop();
        let result = match result {
            Err(Error::Execution(error)) => {
                Err(Error::from(Box::new(ExecutionError { calls: self.calls.context.calls(), ..*error })))
            }
            other => other,
        };
        let ended = match &result {
            Ok(outcome) => {
                let json = String::from_utf8_lossy(&outcome.json).into_owned();
                Ended { result: RawValue::from_string(json).ok(), error: None }
            }
            Err(error) => {
                let code = error.code().map_or_else(|| "INTERNAL".to_owned(), |code| code.as_str().to_owned());
                Ended { result: None, error: Some(EndError { code, message: error.to_string() }) }
            }
        };
        let number = self.calls.add_last(Entry::Ended(ended));
        let kept = self.calls.log.commit(number).await;
        let (code, bytes, usage) = match &result {
            Ok(outcome) => (None, outcome.json.len(), outcome.usage),
            Err(error) => {
                let usage = match error {
                    Error::Execution(error) => error.usage,
                    _ => crate::outcome::Usage::default(),
                };
                (error.code().cloned(), 0, usage)
            }
        };
        if let Some(trail) = self.calls.context.trail.get() {
            trail.end(code.as_ref(), bytes, usage);
        }
        if result.is_ok() {
            self.calls.context.tell(Event::Result { bytes });
        }
        self.calls.context.tell(Event::Ended { code, usage });
        kept.map_err(RunError::Journal)?;
        result
    }
}

/// Finds out what the end of an execution means for its run.
fn after(outcome: Result<Outcome, Error>) -> After {
    match outcome {
        Err(error) if is_passing(&error) => After::Again(error),
        Err(Error::Execution(error)) if error.code == ErrorCode::ReplayDiverged => {
            After::Outcome(Err(RunError::Diverged(error.message).into()))
        }
        outcome => After::Outcome(outcome),
    }
}

/// Returns whether another attempt could go better: the relay is gone, shuts down or is busy.
fn is_passing(error: &Error) -> bool {
    let is_lost = matches!(error, Error::Execution(error) if error.code == ErrorCode::SessionLost);
    is_lost || error.is_retryable()
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
            () = tokio::time::sleep_until(since + most) => {
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
        Some(Stop::Leave) => RunError::Left.into(),
        Some(Stop::Cancel) => Box::new(ExecutionError::new(ErrorCode::Cancelled, "the run was cancelled")).into(),
        // Nobody can stop it any more.
        None => std::future::pending().await,
    }
}
