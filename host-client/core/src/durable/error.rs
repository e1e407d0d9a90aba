//! The errors of durable runs.

use super::journal::{JournalError, RunId};

/// The reason why a durable run was not begun or does not go on. Unless it says otherwise, the run stays in the journal as
/// it is and can go on later.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The host has no journal.
    #[error("the host has no journal: set one with Host::journal")]
    NoJournal,
    /// The run cannot be durable, and was not begun.
    #[error("the run cannot be durable, and nothing was run: {0}")]
    NotDurable(String),
    /// The relay cannot run durable code.
    #[error("the relay {relay} cannot run durable code: update it")]
    OldRelay {
        /// The name and version of the relay's software.
        relay: String,
    },
    /// The relay is of another build than the one that the run began on, where the code could do something else.
    #[error(
        "the run began on the build {recorded}, and the relay {relay} is the build {found}: connect to one of the first, or \
         allow any build"
    )]
    OtherBuild {
        /// The build that the run began on.
        recorded: String,
        /// The build of the relay.
        found: String,
        /// The name and version of the relay's software.
        relay: String,
    },
    /// The code made another call than the journal has.
    #[error("the code does not do what it did before: {0}")]
    Diverged(String),
    /// A call without an answer is of a tool that is not there any more.
    #[error("call {call} waits for the tool {tool}, which is not there: add it again, or cancel the run")]
    ToolGone {
        /// The number of the call in the order of the code, from 1.
        call: u64,
        /// The tool's full name.
        tool: String,
    },
    /// A call that a person was asked about is of a tool that has changed since.
    #[error(
        "call {call} of {tool} was put to a person, and the tool has changed since: bring the tool back, or cancel the run"
    )]
    ToolChanged {
        /// The number of the call in the order of the code, from 1.
        call: u64,
        /// The tool's full name.
        tool: String,
    },
    /// No relay could be reached, or none went on with the run.
    #[error("no relay went on with the run within {within_s} s: {reason}")]
    NoRelay {
        /// The time for which relays were tried, in seconds.
        within_s: u64,
        /// The last error, for people.
        reason: String,
    },
    /// The run was sent to relays again and again, and did not get further.
    #[error("the run got no further in {attempts} attempts: {reason}")]
    Stuck {
        /// The number of attempts.
        attempts: u32,
        /// The end of the last one, for people.
        reason: String,
    },
    /// Nobody is asked about the call.
    #[error("nobody is asked about call {call} of the run {run}: it has an answer, was not made, or needs no approval")]
    NotAsked {
        /// The run.
        run: RunId,
        /// The number of the call in the order of the code, from 1.
        call: u64,
    },
    /// The question about the call is not the one that the decision is about.
    #[error("the question about call {call} of the run {run} is another one: look at it again")]
    OtherQuestion {
        /// The run.
        run: RunId,
        /// The number of the call in the order of the code, from 1.
        call: u64,
    },
    /// The time for a decision on the call is over: it is denied.
    #[error("the time for a decision on call {call} of the run {run} is over, and the call is denied")]
    TooLate {
        /// The run.
        run: RunId,
        /// The number of the call in the order of the code, from 1.
        call: u64,
    },
    /// The arguments of the call are not in the journal as a whole, so that nobody can have seen what would be approved.
    #[error(
        "call {call} of the run {run} cannot be approved by the journal, which has a part of its arguments: approve it at the \
         program that goes on with the run (relay-host runs resume {run}, at a terminal), or deny it"
    )]
    Shortened {
        /// The run.
        run: RunId,
        /// The number of the call in the order of the code, from 1.
        call: u64,
    },
    /// The run has ended, or is to be cancelled.
    #[error("the run {0} has ended or is to be cancelled: nothing about it can be decided")]
    Over(RunId),
    /// The owner has as many runs that have not ended as the settings allow.
    #[error(
        "{most} runs have not ended, which is the maximum of one owner: wait for the end of one, cancel one, or raise the maximum \
         (RunOptions::open_runs, relay-host --open-runs)"
    )]
    TooMany {
        /// The maximum.
        most: usize,
    },
    /// This process has given the run up for another one.
    #[error("this process has given the run up; it can go on in another one")]
    Left,
    /// It could not be recorded that the run goes on, so that it does not.
    #[error("the run does not go on: {0}")]
    NotBegun(String),
    /// The run is not known here.
    #[error("there is no run {0} that has not ended")]
    Unknown(RunId),
    /// The plan of a run cannot be read.
    #[error("the plan of the run {run} cannot be read: {reason}")]
    Plan {
        /// The run.
        run: RunId,
        /// The reason, for people.
        reason: String,
    },
    /// The journal does not take what happens, so that nothing more happens.
    #[error(transparent)]
    Journal(#[from] JournalError),
}
