//! Durable runs: executions that outlive their relay and the host's process, by a journal on the host.
//!
//! - `journal`: the interface of the journal's storage
//! - `entry`: the entries of a run; `record`: the state that they tell; `log`: their way into the journal

pub(crate) mod entry;
pub mod error;
pub mod journal;
pub(crate) mod log;
mod memory;
pub(crate) mod record;
mod shared;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;

pub use entry::{check_entries, first_chain};
pub use error::RunError;
pub use journal::{
    Batch, Claim, Instruction, InvalidRunId, Journal, JournalEntry, JournalError, JournalFuture, NewRun,
    NumberedInstruction, RunFilter, RunHead, RunId, RunStatus,
};
pub use memory::MemoryJournal;
