//! Parts of what came of an execution, whether it succeeded or failed: what it used, what it printed, what was noticed.

use std::time::Duration;

use relay_proto::wire;

pub use relay_proto::wire::OutputKind;

/// What an execution used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Waiting for a worker.
    pub queue: Duration,
    /// From the hand-over to the worker until the end, without waiting for approvals.
    pub wall: Duration,
    /// Waiting for approvals.
    pub approval: Duration,
    /// CPU time of the worker.
    pub cpu: Duration,
    /// Tool calls that were sent.
    pub tool_calls: u64,
    /// Bytes of output.
    pub output_bytes: u64,
    /// The most memory that was resident in the worker at once, in bytes, shared pages included.
    pub memory_bytes: u64,
}

impl From<wire::Usage> for Usage {
    fn from(usage: wire::Usage) -> Self {
        Self {
            queue: Duration::from_micros(usage.queue_us),
            wall: Duration::from_micros(usage.wall_us),
            approval: Duration::from_micros(usage.approval_us),
            cpu: Duration::from_micros(usage.cpu_us),
            tool_calls: usage.tool_calls,
            output_bytes: usage.output_bytes,
            memory_bytes: usage.memory_bytes,
        }
    }
}

/// Something that an author should know, although the code ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// One of [`relay_proto::code::warning`], or what a newer relay sends.
    pub code: String,
    /// What was noticed.
    pub message: String,
}

impl From<wire::Warning> for Warning {
    fn from(warning: wire::Warning) -> Self {
        Self { code: warning.code, message: warning.message }
    }
}

/// A piece of output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputItem {
    /// Where it was written.
    pub kind: OutputKind,
    /// What was written.
    pub text: String,
}

impl From<wire::OutputItem> for OutputItem {
    fn from(item: wire::OutputItem) -> Self {
        Self { kind: item.kind(), text: item.text }
    }
}
