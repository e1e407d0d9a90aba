//! The errors of this crate, as one public type.

mod calls;
mod connect;
mod copied;

use std::fmt;
use std::io;
use std::time::Duration;

use http::StatusCode;
use relay_proto::{Code, ErrorCode, InvalidToolPattern, LimitName};

use crate::audit::AuditError;
use crate::durable::RunError;
use crate::outcome::{OutputItem, Usage, Warning};
use crate::rules::policy::PolicyError;
use crate::tool::InvalidTool;

pub use calls::{CallEnd, CallGroup, Calls};
pub use connect::{CertificateFault, ConnectStep};

/// An error of this crate: of a connection, a tool, the policy, the audit or an execution.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address of the relay cannot be used.
    #[error("the relay's address {url:?} cannot be used: {reason}")]
    Address {
        /// The address.
        url: String,
        /// The reason, for people.
        reason: String,
    },
    /// No relay answers at the address.
    #[error("no relay answers at {url}: {error}")]
    Unreachable {
        /// The address.
        url: String,
        /// The system's error.
        error: io::Error,
    },
    /// The relay's certificate is not accepted, so that it was not shown the token.
    #[error("the certificate of {url} is not accepted: {reason}; {}", fault.advice())]
    Certificate {
        /// The address.
        url: String,
        /// The fault of the certificate.
        fault: CertificateFault,
        /// The fault with its details, for people.
        reason: String,
    },
    /// Something answers at the address, and the connection ended before there was a session.
    #[error("the connection to {url} was cut {step}: {error}")]
    Cut {
        /// The address.
        url: String,
        /// The step in which it ended.
        step: ConnectStep,
        /// The error of the system or of the connection.
        error: io::Error,
    },
    /// The server at the address does not answer as a relay does.
    #[error("{url} is not a relay: {reason}")]
    NoRelay {
        /// The address.
        url: String,
        /// The reason, for people.
        reason: String,
    },
    /// The source of tokens gave none.
    #[error("no token could be had: {0}")]
    Token(Box<dyn std::error::Error + Send + Sync>),
    /// The relay does not accept the token.
    #[error("the relay does not accept the token: it may be missing, expired, or made for another relay")]
    Unauthenticated,
    /// The server answers the connection with an HTTP status other than 401: it is busy, or it is no relay.
    #[error("the relay refused the connection: HTTP status {status}{}", advice(*status))]
    Status {
        /// The status, such as 429 where the relay has no place for another connection.
        status: StatusCode,
        /// The time after which the server wants to be asked again; `None`: it does not say.
        retry_after: Option<Duration>,
    },
    /// The relay refuses the connection or the request; the text is its reason.
    #[error("the relay refused the connection: {0}")]
    Refused(String),
    /// The tool cannot be registered.
    #[error("the tool {name:?} cannot be registered: {reason}")]
    Tool {
        /// The name of the tool, or of its server.
        name: String,
        /// The reason, for people.
        reason: String,
    },
    /// The tools are too many or too large to be announced to a relay.
    #[error("the tools cannot be announced: {0}")]
    Tools(String),
    /// A pattern of tool names can fit no tool.
    #[error(transparent)]
    Pattern(#[from] InvalidToolPattern),
    /// The host's policy cannot be used.
    #[error("the policy cannot be used: {0}")]
    Policy(#[from] PolicyError),
    /// The request could not be recorded in the audit, and was not carried out.
    #[error("nothing was run: {0}")]
    Audit(#[from] AuditError),
    /// A source of tools, such as a file of MCP servers, an OpenAPI document or a ready set, cannot be used.
    #[error("{origin} cannot be used: {reason}")]
    Source {
        /// The kind and the name of the source, such as `the OpenAPI document api.yaml`.
        origin: String,
        /// The source's own error.
        reason: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The execution ended with an error.
    #[error(transparent)]
    Execution(#[from] Box<ExecutionError>),
    /// The returned value is not of the type that was asked for.
    #[error("the result is not what was expected: {0}")]
    Result(#[from] serde_json::Error),
    /// A durable run was not begun, or does not go on.
    #[error(transparent)]
    Run(Box<RunError>),
    /// A local relay could not be started, or does not answer.
    #[error("a local relay could not be started: {0}")]
    Local(String),
}

impl From<RunError> for Error {
    fn from(error: RunError) -> Self {
        Self::Run(Box::new(error))
    }
}

impl Error {
    /// Makes the error of a source of tools. `origin` names it, such as `the OpenAPI document api.yaml`.
    pub fn source(origin: impl Into<String>, reason: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Source { origin: origin.into(), reason: reason.into() }
    }

    /// Returns the code of an execution's error, also one that only a newer relay knows; `None` for all other errors.
    pub fn code(&self) -> Option<&Code> {
        match self {
            Self::Execution(error) => Some(&error.code),
            _ => None,
        }
    }

    /// Returns the code of an execution's error, to be matched; `None`: it is another error, or this version does not know the
    /// code.
    ///
    /// ```
    /// use host_client_core::{Error, ErrorCode, ExecutionError};
    ///
    /// let error = Error::from(Box::new(ExecutionError::new(ErrorCode::CpuLimit, "the code computed for too long")));
    /// let advice = match error.error_code() {
    ///     Some(ErrorCode::CpuLimit | ErrorCode::Timeout) => "ask for less at once",
    ///     Some(ErrorCode::EvalError) => "mend the code",
    ///     _ => "look at the message",
    /// };
    /// assert_eq!(advice, "ask for less at once");
    /// ```
    pub fn error_code(&self) -> Option<ErrorCode> {
        match self.code()? {
            Code::Known(code) => Some(*code),
            Code::Unknown(_) => None,
        }
    }

    /// Tells whether the same request may be made again later: no tool was called for it. That is so where no relay was reached or
    /// it was busy ([`Error::Unreachable`], [`Error::Cut`], [`Error::Status`] with 429, 502, 503 or 504, `OVERLOADED`), or it is shutting
    /// down (`DRAINING`; another relay can take the request at once). An execution that was lost (`SESSION_LOST`) is among them
    /// only if it had called nothing: [`ExecutionError::calls`] is empty, as it is where the code was not sent at all
    /// ([`ExecutionError::is_unsent`]).
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Cut { .. } => true,
            Self::Status { status, .. } => matches!(status.as_u16(), 429 | 502..=504),
            Self::Execution(error) => match error.code {
                Code::Known(ErrorCode::Overloaded | ErrorCode::Draining) => true,
                // Tools run on this host alone, and none of them was called.
                Code::Known(ErrorCode::SessionLost) => error.calls.is_empty(),
                _ => false,
            },
            _ => false,
        }
    }

    /// Tells whether no session with a relay came about.
    pub fn is_connect(&self) -> bool {
        matches!(
            self,
            Self::Address { .. }
                | Self::Unreachable { .. }
                | Self::Certificate { .. }
                | Self::Cut { .. }
                | Self::NoRelay { .. }
                | Self::Token(_)
                | Self::Unauthenticated
                | Self::Status { .. }
                | Self::Refused(_)
                | Self::Local(_)
        )
    }

    /// Tells whether the token is the reason: it is not accepted, or does not allow this.
    pub fn is_auth(&self) -> bool {
        matches!(self, Self::Unauthenticated | Self::Token(_))
            || matches!(self.error_code(), Some(ErrorCode::Unauthenticated | ErrorCode::PermissionDenied))
    }

    /// Tells whether time ran out: of connecting, of the execution, or of its CPU.
    pub fn is_timeout(&self) -> bool {
        match self {
            Self::Unreachable { error, .. } => error.kind() == io::ErrorKind::TimedOut,
            _ => matches!(self.error_code(), Some(ErrorCode::Timeout | ErrorCode::CpuLimit)),
        }
    }

    /// Returns the time after which the relay wants to be asked again; `None`: it did not say.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

impl From<InvalidTool> for Error {
    fn from(InvalidTool { name, reason }: InvalidTool) -> Self {
        Self::Tool { name, reason }
    }
}

/// The error that an execution ended with.
#[derive(Debug, Clone)]
pub struct ExecutionError {
    /// The error code.
    pub code: Code,
    /// The message, for people and models.
    pub message: String,
    /// The name of the limit that was hit, as the relay sent it; `None`: no limit was hit.
    pub limit: Option<String>,
    /// The line in the source, from 1; `None`: it is not known.
    pub line: Option<u32>,
    /// The column in the source, from 1; `None`: it is not known.
    pub column: Option<u32>,
    /// Advice on how to mend it; `None`: there is none.
    pub hint: Option<String>,
    /// The tool that an uncaught error came from, and that error's code; `None`: it came from no tool.
    pub tool: Option<(String, Code)>,
    /// The resources that the execution used.
    pub usage: Usage,
    /// The warnings of the relay.
    pub warnings: Vec<Warning>,
    /// The output that the code printed before it failed.
    pub output: Vec<OutputItem>,
    /// The tool calls of the execution that came to this host, and how they ended.
    pub calls: Calls,
    /// `true`: the code was not sent to a relay, and nothing was run.
    pub is_unsent: bool,
}

impl ExecutionError {
    /// Makes an error with a code and a message, and nothing else.
    pub fn new(code: impl Into<Code>, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
            limit: None,
            line: None,
            column: None,
            hint: None,
            tool: None,
            usage: Usage::default(),
            warnings: Vec::new(),
            output: Vec::new(),
            calls: Calls::default(),
            is_unsent: false,
        }
    }

    /// Tells whether the text of the error has to say what was called: the code was stopped from outside, in the middle
    /// of its calls, or a call may have changed something that nobody knows of.
    fn tells_calls(&self) -> bool {
        let is_stopped = matches!(
            self.code,
            Code::Known(
                ErrorCode::SessionLost
                    | ErrorCode::WorkerLost
                    | ErrorCode::Timeout
                    | ErrorCode::CpuLimit
                    | ErrorCode::MemoryLimit
            )
        );
        (is_stopped && !self.calls.is_empty()) || self.calls.unknown().next().is_some()
    }

    /// Returns the error as one of code that was not sent to a relay.
    pub(crate) fn unsent(self) -> Self {
        Self { is_unsent: true, ..self }
    }

    /// Returns the limit that was hit; `None`: no limit was, or this version does not know it.
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
            calls: Calls::default(),
            is_unsent: false,
        }
    }
}

impl fmt::Display for ExecutionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)?;
        if let (Some(line), Some(column)) = (self.line, self.column) {
            write!(f, " (line {line}, column {column})")?;
        }
        if self.tells_calls() {
            write!(f, "\nbefore that: {}", self.calls)?;
        }
        if self.calls.unknown().next().is_some() {
            write!(f, "; find out what was done before you do it again")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\nhint: {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ExecutionError {}

/// Returns advice for a status with which a relay refuses a connection; empty if there is none.
fn advice(status: StatusCode) -> &'static str {
    match status {
        StatusCode::TOO_MANY_REQUESTS => {
            " (too many connections of this token's subject or of this address: end other clients, or raise the relay's \
             --subject-connections or --address-connections)"
        }
        StatusCode::NOT_FOUND => " (the address of a relay ends with /ws)",
        _ => "",
    }
}
