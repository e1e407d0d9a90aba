//! All errors as one type, with the same fields in every language.

use std::time::Duration;

use host_client::error::CallEnd;
use host_client::{AuditError, Error, ExecutionError, RunError};
use serde::Serialize;

use crate::shape::{OutputShape, UsageShape, WarningShape, ms};

/// The kinds of errors, each of which is a class in the other languages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorKind {
    /// The code failed, hit a limit or was stopped.
    Script,
    /// No relay can be reached, or the connection broke before there was a session.
    Connection,
    /// The relay does not accept the token.
    Authentication,
    /// An option, a file, a tool or a policy cannot be used.
    Configuration,
    /// The audit log cannot be written.
    Audit,
    /// A durable run was not begun, or does not go on.
    Run,
    /// A model gave no program.
    Model,
    /// The host is closed.
    Closed,
    /// This process cannot use the library, such as because it was forked.
    Unsupported,
    /// A fault of the library.
    Internal,
}

/// A group of tool calls that ended in the same way before code failed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CallsShape {
    /// The tool's full name.
    pub tool: String,
    /// The tool's effect; `null`: it is unknown.
    pub effect: Option<String>,
    /// How the calls ended: `finished`, `failed`, `not_run` or `unknown`.
    pub end: &'static str,
    /// The number of calls.
    pub count: u64,
}

/// An error with its fields as JSON.
#[derive(Debug, Clone, Serialize, thiserror::Error)]
#[error("{text}")]
pub struct SdkError {
    /// Its kind.
    pub kind: ErrorKind,
    /// Its code: of code that failed, the code of the contract, such as `TIMEOUT`; else a name of this library.
    pub code: String,
    /// The message alone.
    pub message: String,
    /// The whole text, for people and models: code, message, place and hint.
    pub text: String,
    /// The line of the source, from 1; `null`: it is not known.
    pub line: Option<u32>,
    /// The column of the source, from 1; `null`: it is not known.
    pub column: Option<u32>,
    /// Advice on how to mend it; `null`: there is none.
    pub hint: Option<String>,
    /// The limit that was hit; `null`: none was.
    pub limit: Option<String>,
    /// The tool that an uncaught error came from; `null`: it came from none.
    pub tool: Option<String>,
    /// The code of that error.
    pub tool_code: Option<String>,
    /// `true`: the same request may be made again, because no tool was called for it.
    pub retryable: bool,
    /// The time after which the relay wants to be asked again; `null`: it did not say.
    pub retry_after_ms: Option<f64>,
    /// What the code used; `null`: no code was run.
    pub usage: Option<UsageShape>,
    /// The warnings about the code.
    pub warnings: Vec<WarningShape>,
    /// What the code printed before it failed.
    pub output: Vec<OutputShape>,
    /// The tool calls that the code had made.
    pub calls: Vec<CallsShape>,
}

impl SdkError {
    /// Makes an error of a kind with a code and a text.
    pub fn new(kind: ErrorKind, code: impl Into<String>, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            kind,
            code: code.into(),
            text: message.clone(),
            message,
            line: None,
            column: None,
            hint: None,
            limit: None,
            tool: None,
            tool_code: None,
            retryable: false,
            retry_after_ms: None,
            usage: None,
            warnings: Vec::new(),
            output: Vec::new(),
            calls: Vec::new(),
        }
    }

    /// Makes the error of an option that cannot be used. The text says which one, and what to write.
    pub fn option(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Configuration, "INVALID_OPTIONS", message)
    }

    /// Makes the error of a host that is closed.
    pub fn closed() -> Self {
        Self::new(ErrorKind::Closed, "CLOSED", "the host is closed: start another one")
    }

    /// Makes the error of a fault of the library.
    pub fn internal(message: String) -> Self {
        Self::new(ErrorKind::Internal, "INTERNAL", message)
    }

    /// Makes the error of a process that was forked.
    pub(crate) fn forked() -> Self {
        let text = "this process was forked from one that has used sandbox-relay, and does not have its threads: start \
                    processes with \"spawn\" or \"forkserver\" in the place of \"fork\", or use sandbox-relay after the \
                    fork alone";
        Self::new(ErrorKind::Unsupported, "FORKED", text)
    }

    /// Makes the error of code that was cancelled before it began.
    pub(crate) fn cancelled() -> Self {
        let error = ExecutionError::new(host_client::ErrorCode::Cancelled, "the execution was cancelled");
        Self::from(Error::from(Box::new(error)))
    }

    fn of_code(error: &ExecutionError) -> Self {
        let groups = error.calls.groups().iter();
        Self {
            line: error.line,
            column: error.column,
            hint: error.hint.clone(),
            limit: error.limit.clone(),
            tool: error.tool.as_ref().map(|(tool, _)| tool.clone()),
            tool_code: error.tool.as_ref().map(|(_, code)| code.as_str().to_owned()),
            usage: Some(error.usage.into()),
            warnings: error.warnings.iter().map(Into::into).collect(),
            output: error.output.iter().map(Into::into).collect(),
            calls: groups
                .map(|group| CallsShape {
                    tool: group.tool.clone(),
                    effect: group.effect.map(|effect| effect.to_string()),
                    end: end(group.end),
                    count: group.count,
                })
                .collect(),
            text: error.to_string(),
            ..Self::new(ErrorKind::Script, error.code.as_str(), error.message.clone())
        }
    }
}

fn end(end: CallEnd) -> &'static str {
    match end {
        CallEnd::Finished => "finished",
        CallEnd::Failed => "failed",
        CallEnd::NotRun => "not_run",
        _ => "unknown",
    }
}

impl From<Error> for SdkError {
    fn from(error: Error) -> Self {
        let (retryable, retry_after) = (error.is_retryable(), error.retry_after());
        let (kind, code) = match &error {
            Error::Execution(error) => return Self { retryable, ..Self::of_code(error) },
            Error::Address { .. } => (ErrorKind::Configuration, "INVALID_ADDRESS"),
            Error::Unreachable { .. } => (ErrorKind::Connection, "UNREACHABLE"),
            Error::Certificate { .. } => (ErrorKind::Connection, "CERTIFICATE"),
            Error::Cut { .. } => (ErrorKind::Connection, "CONNECTION_CUT"),
            Error::NoRelay { .. } => (ErrorKind::Connection, "NO_RELAY"),
            Error::Token(_) => (ErrorKind::Authentication, "NO_TOKEN"),
            Error::Unauthenticated => (ErrorKind::Authentication, "UNAUTHENTICATED"),
            Error::Status { .. } => (ErrorKind::Connection, "HTTP_STATUS"),
            Error::Refused(_) => (ErrorKind::Connection, "REFUSED"),
            Error::Tool { .. } => (ErrorKind::Configuration, "INVALID_TOOL"),
            Error::Tools(_) => (ErrorKind::Configuration, "TOO_MANY_TOOLS"),
            Error::Pattern(_) => (ErrorKind::Configuration, "INVALID_PATTERN"),
            Error::Policy(_) => (ErrorKind::Configuration, "INVALID_POLICY"),
            Error::Audit(AuditError::Write { .. }) => (ErrorKind::Audit, "AUDIT"),
            Error::Audit(_) => (ErrorKind::Configuration, "INVALID_AUDIT"),
            Error::Source { .. } => (ErrorKind::Configuration, "INVALID_SOURCE"),
            Error::Run(error) => (ErrorKind::Run, run_code(error)),
            Error::Local(_) => (ErrorKind::Connection, "LOCAL_RELAY"),
            _ => (ErrorKind::Internal, "INTERNAL"),
        };
        let retry_after_ms = retry_after.map(|after: Duration| ms(after));
        Self { retryable, retry_after_ms, ..Self::new(kind, code, error.to_string()) }
    }
}

impl From<RunError> for SdkError {
    fn from(error: RunError) -> Self {
        Error::from(error).into()
    }
}

/// Returns the code of an error of durable runs.
fn run_code(error: &RunError) -> &'static str {
    match error {
        RunError::NoJournal => "RUN_NO_JOURNAL",
        RunError::NotDurable(_) => "RUN_NOT_DURABLE",
        RunError::OldRelay { .. } => "RUN_OLD_RELAY",
        RunError::OtherBuild { .. } => "RUN_OTHER_BUILD",
        RunError::Diverged(_) => "RUN_DIVERGED",
        RunError::ToolGone { .. } => "RUN_TOOL_GONE",
        RunError::ToolChanged { .. } => "RUN_TOOL_CHANGED",
        RunError::NoRelay { .. } => "RUN_NO_RELAY",
        RunError::Stuck { .. } => "RUN_STUCK",
        RunError::NotAsked { .. } => "RUN_NOT_ASKED",
        RunError::TooLate { .. } => "RUN_TOO_LATE",
        RunError::Shortened { .. } => "RUN_SHORTENED",
        RunError::Over(_) => "RUN_OVER",
        RunError::TooMany { .. } => "RUN_TOO_MANY",
        RunError::Left => "RUN_LEFT",
        RunError::NotBegun(_) => "RUN_NOT_BEGUN",
        RunError::Unknown(_) => "RUN_UNKNOWN",
        RunError::Plan { .. } => "RUN_PLAN",
        RunError::Journal(_) => "RUN_JOURNAL",
        _ => "RUN",
    }
}
