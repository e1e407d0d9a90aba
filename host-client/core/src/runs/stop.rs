//! What a run and its driver tell each other: the reason to stop, and the outcome.

use std::sync::Arc;

use crate::client::Outcome;
use crate::error::Error;

/// The outcome of a run, for all that wait for it.
pub(super) type RunOutcome = Result<Arc<Outcome>, Arc<Error>>;

/// The reason to stop driving a run before it has an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// The application or another process cancels the run.
    Cancel,
    /// This process gives the run up for another one.
    Leave,
}
