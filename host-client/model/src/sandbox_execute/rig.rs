//! `sandbox_execute` as a tool for agents of rig.

use rig_core::tool::{PortableTool, ToolExecutionError, ToolOutput};
use serde_json::Value;

use super::SandboxExecute;
use crate::agent::ToolFailed;
use crate::agent::rig::{result, with_feedback};

impl PortableTool for SandboxExecute {
    const NAME: &'static str = Self::NAME;
    type Args = Value;
    type Output = ToolOutput;
    type Error = ToolFailed;

    fn description(&self) -> String {
        self.definition().description
    }

    fn parameters(&self) -> Value {
        self.definition().parameters
    }

    fn map_error(&self, error: ToolFailed) -> ToolExecutionError {
        with_feedback(error)
    }

    async fn call(&self, arguments: Value) -> Result<ToolOutput, ToolFailed> {
        result(Self::call(self, arguments).await)
    }
}
