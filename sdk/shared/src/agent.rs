//! `execute_code` and the tools beside it, for any agent loop.

use std::sync::{Arc, Mutex, PoisonError};

use host_client::{Definition, ExecuteCode};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::error::SdkError;
use crate::shape::ReportShape;

/// The shape of definitions, by who reads them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DefinitionStyle {
    /// `name`, `description` and `parameters`.
    #[default]
    Plain,
    /// A member of `tools` of OpenAI's chat completions.
    OpenaiChat,
    /// A member of `tools` of OpenAI's responses.
    OpenaiResponses,
    /// A member of `tools` of Anthropic's messages.
    Anthropic,
    /// A tool of MCP: `name`, `description` and `inputSchema`.
    Mcp,
}

impl DefinitionStyle {
    /// Reads the name of a style.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](crate::ErrorKind): there is no such style; the text names those that there are.
    pub fn from_name(name: &str) -> Result<Self, SdkError> {
        let read = Self::deserialize(Value::from(name));
        read.map_err(|error| SdkError::option(format!("the style cannot be used: {error}")))
    }

    fn of(self, definition: &Definition) -> Value {
        let Definition { name, description, parameters, .. } = definition;
        match self {
            Self::Plain => json!({"name": name, "description": description, "parameters": parameters}),
            Self::OpenaiChat => definition.openai_chat(),
            Self::OpenaiResponses => definition.openai_responses(),
            Self::Anthropic => definition.anthropic(),
            Self::Mcp => json!({"name": name, "description": description, "inputSchema": parameters}),
        }
    }
}

/// One conversation of a model. It has a session and approvals of its own, and keeps the results that were too long to show.
#[derive(Debug)]
pub struct Conversation {
    /// The tools; `None`: the host is closed.
    tool: Arc<Mutex<Option<ExecuteCode>>>,
    cancel: CancellationToken,
    tasks: TaskTracker,
}

impl Conversation {
    pub(crate) fn new(tool: Arc<Mutex<Option<ExecuteCode>>>, cancel: CancellationToken, tasks: TaskTracker) -> Self {
        Self { tool, cancel, tasks }
    }

    /// Returns the definitions of `execute_code`, `search_tools`, `describe_tools` and `read_output`, with the tools that
    /// there are now.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`](crate::ErrorKind): the host is closed.
    pub fn definitions(&self, style: DefinitionStyle) -> Result<Vec<Value>, SdkError> {
        Ok(self.tool()?.definitions().iter().map(|definition| style.of(definition)).collect())
    }

    /// Calls one of the four tools. What goes wrong with the call is in the report, for the model. Dropping the future cancels
    /// the code.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`](crate::ErrorKind): the host is closed.
    pub async fn call(&self, name: &str, arguments: Value) -> Result<ReportShape, SdkError> {
        let tool = self.tool()?;
        let call = self.cancel.run_until_cancelled(async move { tool.call_tool(name, arguments).await });
        let report = self.tasks.track_future(call).await;
        report.map(Into::into).ok_or_else(SdkError::closed)
    }

    fn tool(&self) -> Result<ExecuteCode, SdkError> {
        self.tool.lock().unwrap_or_else(PoisonError::into_inner).clone().ok_or_else(SdkError::closed)
    }
}
