//! Durable runs: executions that outlive their relay and the host's process, by a journal on the host.
//!
//! - `journal`: the interface of the journal's storage

pub mod journal;

pub use journal::{
    Batch, Claim, Instruction, InvalidRunId, Journal, JournalEntry, JournalError, JournalFuture, NewRun,
    NumberedInstruction, RunFilter, RunHead, RunId, RunStatus,
};
