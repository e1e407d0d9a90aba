//! The life of one tool call, from its arrival to its answer: its execution, its admission, and the steps that it
//! passes.

mod context;
pub(crate) mod direct;
pub(crate) mod dispatch;
pub(crate) mod ledger;
mod record;
pub(crate) mod run;

pub(crate) use context::{ExecutionContext, IntrospectionState};
pub(crate) use record::{CallPermit, CallRecord, End, Unrecorded};

/// The first id of the calls that the host makes itself; they count up from here, a relay's from 1. Numbers up to 2^53
/// are exact in every JSON reader.
pub(crate) const FIRST_HOST_CALL: u64 = 1 << 52;
