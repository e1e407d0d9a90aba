//! Error codes and warning codes. The relay, the host library, the command line and the docs share these lists.

use std::fmt;
use std::str::FromStr;

use crate::limit::LimitName;

macro_rules! error_codes {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)*) => {
        /// An error code that this version knows.
        ///
        /// ```
        /// use relay_proto::ErrorCode;
        ///
        /// assert_eq!(ErrorCode::Timeout.as_str(), "TIMEOUT");
        /// assert_eq!("TIMEOUT".parse::<ErrorCode>().ok(), Some(ErrorCode::Timeout));
        /// ```
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $($(#[$doc])* $variant,)*
        }

        impl ErrorCode {
            /// Lists every code, in the order of the docs.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the code on the wire, in capitals.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

error_codes! {
    /// The request is malformed or asks for something that the relay does not offer.
    InvalidInput = "INVALID_INPUT",
    /// The source does not parse.
    SyntaxError = "SYNTAX_ERROR",
    /// The host checked the code before it ran, and it is certain to fail; nothing has run.
    CheckFailed = "CHECK_FAILED",
    /// The code threw an exception that it did not catch.
    EvalError = "EVAL_ERROR",
    /// `wall_ms` is used up.
    Timeout = "TIMEOUT",
    /// `cpu_ms` is used up.
    CpuLimit = "CPU_LIMIT",
    /// `heap_bytes` or `memory_bytes` is used up.
    MemoryLimit = "MEMORY_LIMIT",
    /// `output_bytes` or `output_count` is used up; the output so far was delivered.
    OutputLimit = "OUTPUT_LIMIT",
    /// The returned value is larger than `result_bytes`.
    ResultLimit = "RESULT_LIMIT",
    /// A value has no JSON form.
    NotSerializable = "NOT_SERIALIZABLE",
    /// The code waits for a promise that nothing can settle any more.
    Unsettled = "UNSETTLED",
    /// The host cancelled the execution or the call.
    Cancelled = "CANCELLED",
    /// The relay can neither run nor queue the execution.
    Overloaded = "OVERLOADED",
    /// The relay is shutting down and begins no more executions; nothing of this one has run.
    Draining = "DRAINING",
    /// The worker process ended without an answer.
    WorkerLost = "WORKER_LOST",
    /// A durable execution ran again and did something else than before: its code, its relay or its record is another.
    ReplayDiverged = "REPLAY_DIVERGED",
    /// The session ended before the execution did.
    SessionLost = "SESSION_LOST",
    /// The token is missing, expired or invalid.
    Unauthenticated = "UNAUTHENTICATED",
    /// The token does not allow the request.
    PermissionDenied = "PERMISSION_DENIED",
    /// The peer broke the protocol.
    ProtocolError = "PROTOCOL_ERROR",
    /// The relay or the host library failed.
    Internal = "INTERNAL",
    /// The server exists and has no such tool.
    UnknownTool = "UNKNOWN_TOOL",
    /// No server has this name.
    UnknownServer = "UNKNOWN_SERVER",
    /// The name is not of the form `server.tool`.
    InvalidToolName = "INVALID_TOOL_NAME",
    /// The arguments do not fit the tool's schema.
    InvalidArguments = "INVALID_ARGUMENTS",
    /// The tool's result does not fit its schema or is no JSON.
    InvalidResult = "INVALID_RESULT",
    /// The tool ran and failed.
    ToolFailed = "TOOL_FAILED",
    /// The tool did not answer within `tool_call_ms`.
    ToolTimeout = "TOOL_TIMEOUT",
    /// The host's policy forbids the call.
    ToolDenied = "TOOL_DENIED",
    /// A person refused the call.
    ApprovalDenied = "APPROVAL_DENIED",
    /// No person answered within `approval_ms`.
    ApprovalTimeout = "APPROVAL_TIMEOUT",
    /// `tool_calls` is used up.
    ToolCallLimit = "TOOL_CALL_LIMIT",
    /// The arguments are larger than `arguments_bytes`.
    ArgumentsLimit = "ARGUMENTS_LIMIT",
    /// The tool's result is larger than `tool_result_bytes`.
    ToolResultLimit = "TOOL_RESULT_LIMIT",
    /// The connection was lost during the call: the tool may or may not have run.
    OutcomeUnknown = "OUTCOME_UNKNOWN",
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An error code read from the wire. A code of a newer peer is kept as text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Code {
    /// A code of this version's list.
    Known(ErrorCode),
    /// A code that this version does not know.
    Unknown(String),
}

impl Code {
    /// Returns the code on the wire, in capitals.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Known(code) => code.as_str(),
            Self::Unknown(text) => text,
        }
    }
}

impl PartialEq<ErrorCode> for Code {
    fn eq(&self, other: &ErrorCode) -> bool {
        matches!(self, Self::Known(code) if code == other)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<ErrorCode> for Code {
    fn from(code: ErrorCode) -> Self {
        Self::Known(code)
    }
}

impl From<String> for Code {
    fn from(text: String) -> Self {
        match text.parse() {
            Ok(code) => Self::Known(code),
            Err(UnknownCode) => Self::Unknown(text),
        }
    }
}

impl ErrorCode {
    /// Returns the limit that a failed call hit and advice for the author; `None`: the code names no limit of a call.
    pub fn limit(self) -> Option<(LimitName, &'static str)> {
        Some(match self {
            Self::ToolCallLimit => (LimitName::ToolCalls, "call fewer tools, or ask one call for more at once"),
            Self::ArgumentsLimit => {
                (LimitName::ArgumentsBytes, "send less in one call: split it, or send what it is made from")
            }
            Self::ToolResultLimit => {
                (LimitName::ToolResultBytes, "ask the tool for less at once: a page, a filter, fewer fields")
            }
            Self::ToolTimeout => (LimitName::ToolCallMs, "ask the tool for less at once, or for a higher limit"),
            Self::ApprovalTimeout => {
                (LimitName::ApprovalMs, "nobody answered; do without this call, or try again later")
            }
            _ => return None,
        })
    }
}

/// Reports a text that is no error code of this version.
#[derive(Debug, thiserror::Error)]
#[error("not an error code that this version knows")]
pub struct UnknownCode;

impl FromStr for ErrorCode {
    type Err = UnknownCode;

    fn from_str(text: &str) -> Result<Self, UnknownCode> {
        Self::ALL.iter().copied().find(|code| code.as_str() == text).ok_or(UnknownCode)
    }
}

/// Codes of the warnings that accompany a result or an error.
pub mod warning {
    /// A promise was rejected and the code did not handle it.
    pub const UNHANDLED_REJECTION: &str = "UNHANDLED_REJECTION";
    /// The code ended while tool calls were open; the relay cancelled them.
    pub const TOOL_CALLS_CANCELLED: &str = "TOOL_CALLS_CANCELLED";
    /// A requested limit lies outside the allowed range; the nearest allowed value applies.
    pub const LIMIT_CLAMPED: &str = "LIMIT_CLAMPED";
    /// A value was not stored: other executions of the session had filled the store meanwhile.
    pub const STORE_FULL: &str = "STORE_FULL";
    /// A value became another on its way, such as a `Map` in a result, of which JSON holds nothing, or an integer over
    /// 2^53 from a tool; the message names its path and what to do instead.
    pub const VALUE_CHANGED: &str = "VALUE_CHANGED";
    /// The code used something that does not work here and went on; the message says what works instead.
    pub const HINT: &str = "HINT";
}
