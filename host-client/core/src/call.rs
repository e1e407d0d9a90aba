//! One tool call, from its arrival to its answer: which execution it belongs to, whether it may come in, what it passes.

mod context;
pub(crate) mod direct;
pub(crate) mod dispatch;
pub(crate) mod ledger;
mod record;

pub(crate) use context::{ExecutionContext, IntrospectionState};
pub(crate) use record::{CallPermit, CallRecord, End, Unrecorded};

/// The ids of the calls that the host makes itself are this number and those above it; a relay counts its own up from 1.
/// Numbers up to 2^53 are exact in every JSON reader.
pub(crate) const FIRST_HOST_CALL: u64 = 1 << 52;
