//! What can go wrong, as one public error.

use std::fmt;
use std::io;

use relay_proto::{Code, ErrorCode, LimitName};

use crate::client::Usage;
use crate::client::Warning;
use crate::event::OutputItem;

/// Why something did not work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address of the relay cannot be used.
    #[error("the relay's address {url:?} cannot be used: {reason}")]
    Address {
        /// The address.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// No relay answers there.
    #[error("no relay answers at {url}: {error}")]
    Unreachable {
        /// The address.
        url: String,
        /// Why.
        error: io::Error,
    },
    /// The relay does not accept the token.
    #[error("the relay does not accept the token: it may be missing, expired, or made for another relay")]
    Unauthenticated,
    /// What answers is no relay, or refuses.
    #[error("the relay refused the connection: {0}")]
    Refused(String),
    /// The tool cannot be registered.
    #[error("the tool {name:?} cannot be registered: {reason}")]
    Tool {
        /// Its name.
        name: String,
        /// Why not.
        reason: String,
    },
    /// The tools are too many or too large to be announced to a relay.
    #[error("the tools cannot be announced: {0}")]
    Tools(String),
    /// What was to be done could not be recorded, so that it was not done.
    #[error("nothing was run: {0}")]
    Audit(#[from] crate::audit::AuditError),
    /// What a tool is to reach of the network cannot be.
    #[cfg(any(feature = "openapi", feature = "sets"))]
    #[error(transparent)]
    Access(#[from] crate::net::InvalidAccess),
    /// The OpenAPI document cannot be used.
    #[cfg(feature = "openapi")]
    #[error("the OpenAPI document {document} cannot be used: {reason}")]
    OpenApi {
        /// Where it comes from.
        document: String,
        /// Why not.
        reason: crate::openapi::Unusable,
    },
    /// A ready set of tools cannot be used as it was set up.
    #[error("{set} cannot be used: {reason}")]
    ToolSet {
        /// Which one.
        set: String,
        /// Why not.
        reason: String,
    },
    /// The execution ended with an error.
    #[error(transparent)]
    Execution(#[from] Box<ExecutionError>),
    /// The returned value is not of the type that was asked for.
    #[error("the result is not what was expected: {0}")]
    Result(#[from] serde_json::Error),
    /// A file that names MCP servers cannot be used.
    #[cfg(feature = "mcp")]
    #[error(transparent)]
    McpConfig(#[from] crate::mcp::McpConfigError),
    /// A relay of one's own could not be started.
    #[error("a local relay could not be started: {0}")]
    Local(String),
}

/// How an execution failed.
#[derive(Debug, Clone)]
pub struct ExecutionError {
    /// The error code.
    pub code: Code,
    /// What happened, for people and models.
    pub message: String,
    /// The limit that was hit, by name as it came.
    pub limit: Option<String>,
    /// Line in the source, from 1.
    pub line: Option<u32>,
    /// Column in the source, from 1.
    pub column: Option<u32>,
    /// What to do about it.
    pub hint: Option<String>,
    /// The tool that an uncaught error came from, and that error's code.
    pub tool: Option<(String, Code)>,
    /// What was used.
    pub usage: Usage,
    /// What else was noticed.
    pub warnings: Vec<Warning>,
    /// What the code printed before it failed.
    pub output: Vec<OutputItem>,
}

impl Error {
    /// The code of an execution's error.
    pub fn code(&self) -> Option<&Code> {
        match self {
            Self::Execution(error) => Some(&error.code),
            _ => None,
        }
    }
}

impl ExecutionError {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self::with_code(code.into(), message)
    }

    pub(crate) fn with_code(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            limit: None,
            line: None,
            column: None,
            hint: None,
            tool: None,
            usage: Usage::default(),
            warnings: Vec::new(),
            output: Vec::new(),
        }
    }

    /// The limit that was hit, if this version knows it.
    pub fn limit_name(&self) -> Option<LimitName> {
        self.limit.as_deref()?.parse().ok()
    }
}

impl From<relay_proto::wire::Error> for ExecutionError {
    fn from(error: relay_proto::wire::Error) -> Self {
        let text = |text: String| (!text.is_empty()).then_some(text);
        let number = |number: u32| (number > 0).then_some(number);
        let code = if error.code.is_empty() { "INTERNAL".to_owned() } else { error.code };
        Self {
            code: Code::from(code),
            message: error.error,
            limit: text(error.limit),
            line: number(error.line),
            column: number(error.column),
            hint: text(error.hint),
            tool: text(error.tool).map(|tool| (tool, Code::from(error.tool_code))),
            usage: error.usage.unwrap_or_default().into(),
            warnings: error.warnings.into_iter().map(Into::into).collect(),
            output: Vec::new(),
        }
    }
}

impl fmt::Display for ExecutionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)?;
        if let (Some(line), Some(column)) = (self.line, self.column) {
            write!(f, " (line {line}, column {column})")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\nhint: {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ExecutionError {}
