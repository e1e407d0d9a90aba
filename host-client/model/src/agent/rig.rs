//! The tools for agents of rig.

use rig_core::completion::message::{ImageMediaType, MimeType as _, ToolResultContent};
use rig_core::message::ToolName;
use rig_core::tool::{DynamicTool, PortableTool, ToolExecutionError, ToolOutput};
use serde_json::Value;

use super::{Definition, ExecuteCode, Report};

/// A call that did not come to its end, in words for the model.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct ToolFailed(String);

/// A report as rig takes it: what was printed stands below the value, and images that models take are images. Of other binary
/// data, the text says what there was.
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
    // It refuses only what has no block at all.
    Ok(ToolOutput::content(content).unwrap_or_else(|_| ToolOutput::text(text)))
}

/// Left to itself, rig tells the model no more than that it failed.
pub(crate) fn with_feedback(error: ToolFailed) -> ToolExecutionError {
    let feedback = error.to_string();
    ToolExecutionError::from_error(error).with_model_feedback(feedback)
}

impl ExecuteCode {
    /// All four tools for an agent of rig; `execute_code` alone is a tool by itself.
    pub fn rig_tools(&self) -> Vec<DynamicTool> {
        let tool = |Definition { name, description, parameters, .. }: Definition| {
            let (called, tools) = (name.clone(), self.clone());
            let call = move |arguments: Value| -> rig_core::wasm_compat::WasmBoxedFuture<'static, _> {
                let (name, tools) = (called.clone(), tools.clone());
                Box::pin(async move { result(tools.call_tool(&name, arguments).await).map_err(with_feedback) })
            };
            // A name that is empty is refused; none of them is.
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
