//! Events, outcomes and reports as JSON: the same fields with the same names in every language.

mod event;
mod report;

use std::time::Duration;

use host_client::{OutputItem, OutputKind, ToolSpec, Usage, Warning, declare};
use serde::Serialize;
use serde_json::Value;

pub use event::event;
pub use report::{AttachmentShape, ReportShape};

/// Returns a time in milliseconds.
pub(crate) fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

/// What an execution used.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct UsageShape {
    /// The time that it waited for a worker.
    pub queue_ms: f64,
    /// The time from the hand-over to the worker until the end, without waiting for approvals.
    pub wall_ms: f64,
    /// The time that it waited for approvals.
    pub approval_ms: f64,
    /// The CPU time of the worker.
    pub cpu_ms: f64,
    /// The number of tool calls.
    pub tool_calls: u64,
    /// The length of the output.
    pub output_bytes: u64,
    /// The peak memory of the worker.
    pub memory_bytes: u64,
}

impl From<Usage> for UsageShape {
    fn from(usage: Usage) -> Self {
        Self {
            queue_ms: ms(usage.queue),
            wall_ms: ms(usage.wall),
            approval_ms: ms(usage.approval),
            cpu_ms: ms(usage.cpu),
            tool_calls: usage.tool_calls,
            output_bytes: usage.output_bytes,
            memory_bytes: usage.memory_bytes,
        }
    }
}

/// A warning about code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WarningShape {
    /// Its code.
    pub code: String,
    /// Its text.
    pub message: String,
}

impl From<&Warning> for WarningShape {
    fn from(warning: &Warning) -> Self {
        Self { code: warning.code.clone(), message: warning.message.clone() }
    }
}

/// A text that code wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OutputShape {
    /// `log`, `info`, `warn`, `error`, `debug` or `emit`.
    pub kind: &'static str,
    /// The text.
    pub text: String,
}

impl From<&OutputItem> for OutputShape {
    fn from(item: &OutputItem) -> Self {
        let kind = match item.kind {
            OutputKind::Info => "info",
            OutputKind::Warn => "warn",
            OutputKind::Error => "error",
            OutputKind::Debug => "debug",
            OutputKind::Emit => "emit",
            // One of a newer relay is read as this one.
            _ => "log",
        };
        Self { kind, text: item.text.clone() }
    }
}

/// A tool that code can call.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolShape {
    /// Its full name, `server.tool`.
    pub name: String,
    /// Its description.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub input_schema: Value,
    /// The JSON Schema of its result; `null`: it has none.
    pub output_schema: Option<Value>,
    /// Its effect: `read_only`, `mutating` or `privileged`; `null`: it is unknown.
    pub effect: Option<String>,
    /// The time limit of a call.
    pub timeout_ms: f64,
    /// Whether a durable run may call it again when the outcome of the first time is not known.
    pub idempotent: bool,
    /// Its declaration in TypeScript, as models see it.
    pub declaration: String,
}

impl From<&ToolSpec> for ToolShape {
    fn from(spec: &ToolSpec) -> Self {
        Self {
            name: spec.name.clone(),
            description: spec.description.clone(),
            input_schema: spec.input_schema.clone(),
            output_schema: spec.output_schema.clone(),
            effect: spec.manifest.effect.map(|effect| effect.to_string()),
            timeout_ms: ms(spec.manifest.timeout),
            idempotent: spec.manifest.idempotent,
            declaration: declare::declaration(spec),
        }
    }
}
