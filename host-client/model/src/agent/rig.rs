//! The tools as tools of agents of rig.

use rig_core::completion::message::{ImageMediaType, MimeType as _, ToolResultContent};
use rig_core::message::ToolName;
use rig_core::tool::{DynamicTool, PortableTool, ToolExecutionError, ToolOutput};
use serde_json::Value;

use super::{Definition, ExecuteCode, Report};

/// Failure of a call, worded for the model.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct ToolFailed(String);

/// Converts a report for rig: output is appended to the value, and images that models accept become images. For other
/// binary data the text has a placeholder.
pub(crate) fn result(report: Report) -> Result<ToolOutput, ToolFailed> {
    let text = match report.notes {
        Some(notes) => format!("{}\n\n{notes}", report.text),
        None => report.text,
    };
    if report.is_error {
        return Err(ToolFailed(text));
    }
    let images =
        report.attachments.into_iter().filter(crate::report::is_image).map(|image| {
            ToolResultContent::image_base64(image.base64, ImageMediaType::from_mime_type(&image.mime), None)
        });
    let content: Vec<_> = [ToolResultContent::text(text.clone())].into_iter().chain(images).collect();
    // Only content without any block is refused.
    Ok(ToolOutput::content(content).unwrap_or_else(|_| ToolOutput::text(text)))
}

/// Converts a failure for rig with its text as feedback: by default, rig tells the model only that the call failed.
pub(crate) fn with_feedback(error: ToolFailed) -> ToolExecutionError {
    let feedback = error.to_string();
    ToolExecutionError::from_error(error).with_model_feedback(feedback)
}

impl ExecuteCode {
    /// Returns all tools for an agent of rig. `execute_code` alone is a tool of rig by itself.
    pub fn rig_tools(&self) -> Vec<DynamicTool> {
        let tool = |Definition { name, description, parameters, .. }: Definition| {
            let (called, tools) = (name.clone(), self.clone());
            let call = move |arguments: Value| -> rig_core::wasm_compat::WasmBoxedFuture<'static, _> {
                let (name, tools) = (called.clone(), tools.clone());
                Box::pin(async move { result(tools.call_tool(&name, arguments).await).map_err(with_feedback) })
            };
            // Only an empty name is refused, and none of these is empty.
            ToolName::new(name).ok().map(|name| DynamicTool::new(name, description, parameters, call))
        };
        self.definitions().into_iter().filter_map(tool).collect()
    }
}

impl PortableTool for ExecuteCode {
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
