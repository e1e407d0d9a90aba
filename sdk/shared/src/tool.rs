//! Tools that are functions of another language.

use std::sync::Arc;
use std::time::Duration;

use host_client::tool::spec::CallFuture;
use host_client::{CallContext, Effect, Overflow, Tool, ToolSpec};
use serde::Deserialize;
use serde_json::Value;

use crate::foreign::{ForeignCall, ForeignContext};

/// The description of a tool.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolDescription {
    /// Its full name, `server.tool`.
    pub name: String,
    /// The text that tells the model what it does.
    #[serde(default)]
    pub description: String,
    /// The JSON Schema of its arguments.
    pub input_schema: Value,
    /// The JSON Schema of its result; `null`, the default: results are not checked.
    #[serde(default)]
    pub output_schema: Option<Value>,
    /// Its effect; `null`, the default: unknown, so that the default policy asks a person.
    #[serde(default)]
    pub effect: Option<Effect>,
    /// The time limit of a call; 30,000 by default.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    /// The most bytes of JSON that a call may return; 10 MiB by default.
    #[serde(default)]
    pub result_bytes: Option<usize>,
    /// What happens to a larger result: `fail`, the default, or `cut`.
    #[serde(default)]
    pub overflow: Option<Overflow>,
    /// The most calls at once; `null`, the default: any number.
    #[serde(default)]
    pub concurrency: Option<usize>,
    /// Whether a durable run may call it again when the outcome of the first time is not known; `false` by default.
    #[serde(default)]
    pub idempotent: bool,
    /// Whether code may call it; `true` by default.
    #[serde(default)]
    pub callable_from_code: Option<bool>,
}

impl From<ToolDescription> for ToolSpec {
    fn from(it: ToolDescription) -> Self {
        let mut spec = Self::new(it.name, it.description, it.input_schema).idempotent(it.idempotent);
        spec.output_schema = it.output_schema;
        spec.manifest.effect = it.effect;
        if let Some(timeout) = it.timeout_ms {
            spec = spec.timeout(Duration::from_millis(timeout));
        }
        if let Some(bytes) = it.result_bytes {
            spec = spec.result_bytes(bytes);
        }
        if let Some(overflow) = it.overflow {
            spec = spec.overflow(overflow);
        }
        if let Some(calls) = it.concurrency {
            spec = spec.concurrency(calls);
        }
        spec.callable_from_code(it.callable_from_code.unwrap_or(true))
    }
}

/// A tool that calls a function.
pub(crate) struct ForeignTool {
    pub(crate) description: ToolDescription,
    pub(crate) function: Arc<dyn ForeignCall>,
}

impl Tool for ForeignTool {
    fn spec(&self) -> ToolSpec {
        self.description.clone().into()
    }

    fn call(&self, arguments: Value, context: CallContext) -> CallFuture {
        let function = Arc::clone(&self.function);
        Box::pin(async move { Ok(function.call(arguments.to_string(), ForeignContext::new(context)).await?) })
    }
}
