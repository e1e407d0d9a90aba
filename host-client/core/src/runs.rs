//! Durable runs: code that outlives its relay and this process. The host writes down what happens in its journal; when the
//! relay is gone, the code is sent to another one, where it makes the same calls and gets the same answers, and then goes on.
//!
//! - `state`: a run in this process; `calls`: its calls; `live`: one of them that has no answer yet
//! - `decision`: what another process decides
//! - `drive`: sends the code to relays until it has an outcome; `plan`: what that needs
//! - `handle`: a run as the application sees it; `admin`: runs in a journal, whoever holds them; `owner`: whose they are
//! - `registry`: begins runs and goes on with them; `prepare`: makes them; `holder`: keeps this process's hold on them; `places`: how many may be open

mod admin;
mod calls;
mod decision;
mod drive;
mod handle;
mod holder;
mod live;
mod owner;
mod places;
mod plan;
mod prepare;
mod registry;
mod state;
mod stop;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
mod turns;

use std::time::Duration;

pub use crate::durable::error::RunError;
pub use admin::{CallSummary, QuestionState, RunSummary, RunVerdict, cancel, decide, decide_on, forget, list, show};
pub use handle::{Run, RunState};
pub use registry::{Recovered, Runs};

/// The settings of durable runs.
///
/// ```
/// use std::time::Duration;
/// use host_client_core::runs::RunOptions;
///
/// let options = RunOptions { approval_within: Duration::from_secs(30 * 86_400), ..RunOptions::default() };
/// assert_eq!(options.passivate_after, Duration::from_secs(30));
/// ```
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// The time that code may wait for people or a timer before it is taken off its relay; 30 seconds by default.
    pub passivate_after: Duration,
    /// The time that a person has for an answer, over restarts; 7 days by default.
    pub approval_within: Duration,
    /// The time for which relays are tried before the run is left in the journal; 10 minutes by default.
    pub reach_within: Duration,
    /// The time for which a relay may be without a connection before the code is sent to another one, or to the same again; 5
    /// seconds by default.
    pub leave_after: Duration,
    /// `true`: a run may go on at a relay of another build than the one that it began on. The code could do something else
    /// there, which ends the run with [`RunError::Diverged`] if it makes another call. `false` by default.
    pub any_build: bool,
    /// The time for which this process holds its runs after it has died; another one may take them after that. It is renewed
    /// every third of this time; 30 seconds by default.
    pub claim: Duration,
    /// The number of runs of one owner that may be open, those in the journal that no process goes on with included; another one is
    /// refused with [`RunError::TooMany`]. All runs without an owner count as those of one. Runs that several processes begin at
    /// the same moment may exceed it; 100 by default.
    pub open_runs: usize,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            passivate_after: Duration::from_secs(30),
            approval_within: Duration::from_secs(7 * 86_400),
            reach_within: Duration::from_secs(600),
            leave_after: Duration::from_secs(5),
            any_build: false,
            claim: Duration::from_secs(30),
            open_runs: 100,
        }
    }
}
