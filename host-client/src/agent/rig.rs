//! The tools for agents of rig.

use rig_core::tool::{PortableTool, ToolExecutionError};
use serde_json::Value;

use super::{ExecuteCode, Report};

/// A call that did not come to its end, in words for the model.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct ToolFailed(String);

/// A report as rig takes it: what was printed stands below the value.
fn result(report: Report) -> Result<String, ToolFailed> {
    let text = match report.notes {
        Some(notes) => format!("{}\n\n{notes}", report.text),
        None => report.text,
    };
    if report.is_error { Err(ToolFailed(text)) } else { Ok(text) }
}

/// Left to itself, rig tells the model no more than that it failed.
fn told(error: ToolFailed) -> ToolExecutionError {
    let feedback = error.to_string();
    ToolExecutionError::from_error(error).with_model_feedback(feedback)
}

impl PortableTool for ExecuteCode {
    const NAME: &'static str = Self::NAME;
    type Args = Value;
    type Output = String;
    type Error = ToolFailed;

    fn description(&self) -> String {
        self.definition().description
    }

    fn parameters(&self) -> Value {
        self.definition().parameters
    }

    fn map_error(&self, error: ToolFailed) -> ToolExecutionError {
        told(error)
    }

    async fn call(&self, arguments: Value) -> Result<String, ToolFailed> {
        result(Self::call(self, arguments).await)
    }
}

#[cfg(feature = "sets")]
impl PortableTool for crate::sandbox_execute::SandboxExecute {
    const NAME: &'static str = Self::NAME;
    type Args = Value;
    type Output = String;
    type Error = ToolFailed;

    fn description(&self) -> String {
        self.definition().description
    }

    fn parameters(&self) -> Value {
        self.definition().parameters
    }

    fn map_error(&self, error: ToolFailed) -> ToolExecutionError {
        told(error)
    }

    async fn call(&self, arguments: Value) -> Result<String, ToolFailed> {
        result(Self::call(self, arguments).await)
    }
}
