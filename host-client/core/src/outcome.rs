//! The parts that the outcome of an execution and its error share: usage, output and warnings.

use std::time::Duration;

use relay_proto::wire;

pub use relay_proto::wire::OutputKind;

/// The time, memory and calls that an execution used, as the relay reports them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// The time that the execution waited for a worker.
    pub queue: Duration,
    /// The time from the hand-over to the worker until the end, without waiting for approvals.
    pub wall: Duration,
    /// The time that the execution waited for approvals.
    pub approval: Duration,
    /// The CPU time of the worker.
    pub cpu: Duration,
    /// The number of tool calls that were sent to the host.
    pub tool_calls: u64,
    /// The length of the output in bytes.
    pub output_bytes: u64,
    /// The peak resident memory of the worker in bytes, shared pages included.
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

/// A warning of the relay for the author of the code. It does not make the execution fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The code of the warning: one of [`relay_proto::code::warning`], or an unknown one from a newer relay.
    pub code: String,
    /// The message, as a sentence.
    pub message: String,
}

impl From<wire::Warning> for Warning {
    fn from(warning: wire::Warning) -> Self {
        Self { code: warning.code, message: warning.message }
    }
}

/// A text that the code wrote with one call of `console` or `emit`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputItem {
    /// The level of `console`, or `Emit`; `Unspecified` for a kind that this version does not know.
    pub kind: OutputKind,
    /// The text.
    pub text: String,
}

impl From<wire::OutputItem> for OutputItem {
    fn from(item: wire::OutputItem) -> Self {
        Self { kind: item.kind(), text: item.text }
    }
}
