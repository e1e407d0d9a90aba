//! What a tool is, for whoever writes one. The registry is in [`crate::tools`].

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use relay_proto::{ErrorCode, ExecutionId, ToolName, TraceContext};
use serde_json::Value;
use tokio::time::Instant;

use crate::tool::{Effect, Manifest, Mode};

/// What is known of a tool before it is called.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// `server.tool`.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema of its arguments.
    pub input_schema: Value,
    /// JSON Schema of its result, if known. A result that does not fit never reaches the code.
    pub output_schema: Option<Value>,
    /// What it may do, and how its calls are treated.
    pub manifest: Manifest,
}

impl ToolSpec {
    /// A tool with default limits, an unknown effect, and no schema for its result.
    pub fn new(name: impl Into<String>, description: impl Into<String>, input_schema: Value) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            input_schema,
            output_schema: None,
            manifest: Manifest::default(),
        }
    }

    /// Says what calling it does.
    #[must_use]
    pub fn effect(mut self, effect: Effect) -> Self {
        self.manifest.effect = Some(effect);
        self
    }

    /// Says what it can reach.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.manifest.mode = mode;
        self
    }

    /// Says how long a call may take.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.manifest.timeout = timeout;
        self
    }

    /// Gives the JSON Schema of its result.
    #[must_use]
    pub fn output_schema(mut self, schema: Value) -> Self {
        self.output_schema = Some(schema);
        self
    }
}

/// Where a call comes from, and how long there is.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CallContext {
    /// The execution whose code calls.
    pub execution: ExecutionId,
    /// The call's id, unique in its session. A relay counts its calls up from 1; those that the host makes itself are numbered
    /// from 2^52.
    pub call: u64,
    /// The tool's full name.
    pub tool: ToolName,
    /// When the call is given up.
    pub deadline: Instant,
    /// The span of this call, for what it asks of others.
    pub trace: TraceContext,
}

impl CallContext {
    /// Makes the context of a call that no execution makes, such as a test of a tool: id 1, no trace, given up after `time`.
    pub fn by_hand(tool: ToolName, time: Duration) -> Self {
        Self { execution: 1.into(), call: 1, tool, deadline: Instant::now() + time, trace: TraceContext::NONE }
    }
}

/// What a call gives: UTF-8 JSON, or why it failed. The future is dropped when the call is cancelled or takes too long.
pub type CallFuture = Pin<Box<dyn Future<Output = Result<Bytes, ToolError>> + Send>>;

/// Something that code can call. Arguments have passed the tool's schema when `call` gets them.
pub trait Tool: Send + Sync + 'static {
    /// Name, schemas and limits. ApprovalState once, when the tool is registered.
    fn spec(&self) -> ToolSpec;

    /// Runs the tool. The answer is UTF-8 JSON.
    fn call(&self, arguments: Value, context: CallContext) -> CallFuture;

    /// Whether its results fit its output schema by their very type, so that looking again would find nothing.
    fn result_fits_by_type(&self) -> bool {
        false
    }
}

/// Why a tool failed, as the code will read it. Any error converts into it with `?`.
pub struct ToolError {
    code: ErrorCode,
    message: String,
}

impl ToolError {
    /// A failure in words that the code's author can use; its code is `TOOL_FAILED`.
    pub fn new(message: impl Into<String>) -> Self {
        Self { code: ErrorCode::ToolFailed, message: message.into() }
    }

    /// A refusal: the tool does not do such a thing, whoever asks. Its code is `TOOL_DENIED`.
    pub fn denied(message: impl Into<String>) -> Self {
        Self { code: ErrorCode::ToolDenied, message: message.into() }
    }

    /// A result that is larger than the tool's limit. Its code is `TOOL_RESULT_LIMIT`.
    pub fn too_large(message: impl Into<String>) -> Self {
        Self { code: ErrorCode::ToolResultLimit, message: message.into() }
    }

    /// What the tool asked did not answer in the time that there was. Its code is `TOOL_TIMEOUT`.
    pub fn timed_out(message: impl Into<String>) -> Self {
        Self { code: ErrorCode::ToolTimeout, message: message.into() }
    }

    /// Nobody knows whether it was done: what was asked may have happened. Its code is `OUTCOME_UNKNOWN`.
    pub fn outcome_unknown(message: impl Into<String>) -> Self {
        Self { code: ErrorCode::OutcomeUnknown, message: message.into() }
    }

    /// The error code.
    pub fn code(&self) -> ErrorCode {
        self.code
    }

    /// Returns the code and the message.
    pub fn into_parts(self) -> (ErrorCode, String) {
        (self.code, self.message)
    }
}

impl<E: std::error::Error> From<E> for ToolError {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            message.push_str(": ");
            message.push_str(&cause.to_string());
            source = cause.source();
        }
        Self::new(message)
    }
}

impl fmt::Debug for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
