//! The one list of error codes: the relay, the host library, the command line and the docs use these.

use std::fmt;
use std::str::FromStr;

use crate::limit::LimitName;

macro_rules! error_codes {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)*) => {
        /// An error code that this version knows.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $($(#[$doc])* $variant,)*
        }

        impl ErrorCode {
            /// Every code, in the order of the docs.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The code as it stands on the wire, in capitals.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

error_codes! {
    /// The request cannot be understood or asks for what is not offered.
    InvalidInput = "INVALID_INPUT",
    /// The source does not parse.
    SyntaxError = "SYNTAX_ERROR",
    /// The code threw.
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
    /// The code waits for something that can never happen.
    Unsettled = "UNSETTLED",
    /// The host abandoned it.
    Cancelled = "CANCELLED",
    /// No place to run it, and none in the queue.
    Overloaded = "OVERLOADED",
    /// The worker process ended without an answer.
    WorkerLost = "WORKER_LOST",
    /// The session ended meanwhile.
    SessionLost = "SESSION_LOST",
    /// The token is missing or not accepted.
    Unauthenticated = "UNAUTHENTICATED",
    /// The token does not allow it.
    PermissionDenied = "PERMISSION_DENIED",
    /// The peer broke the protocol.
    ProtocolError = "PROTOCOL_ERROR",
    /// A fault of the relay or the host library.
    Internal = "INTERNAL",
    /// No such tool on a server that exists.
    UnknownTool = "UNKNOWN_TOOL",
    /// No such server.
    UnknownServer = "UNKNOWN_SERVER",
    /// Not of the form `server.tool`.
    InvalidToolName = "INVALID_TOOL_NAME",
    /// The arguments do not fit the tool's schema.
    InvalidArguments = "INVALID_ARGUMENTS",
    /// The tool's result is not what it promised.
    InvalidResult = "INVALID_RESULT",
    /// The tool ran and failed.
    ToolFailed = "TOOL_FAILED",
    /// The tool did not answer in time.
    ToolTimeout = "TOOL_TIMEOUT",
    /// The host's policy forbids the call.
    ToolDenied = "TOOL_DENIED",
    /// A human refused the call.
    ApprovalDenied = "APPROVAL_DENIED",
    /// No human answered in time.
    ApprovalTimeout = "APPROVAL_TIMEOUT",
    /// `tool_calls` is used up.
    ToolCallLimit = "TOOL_CALL_LIMIT",
    /// The arguments are larger than `arguments_bytes`.
    ArgumentsLimit = "ARGUMENTS_LIMIT",
    /// The tool's result is larger than `tool_result_bytes`.
    ToolResultLimit = "TOOL_RESULT_LIMIT",
    /// Whether the tool ran is not known.
    OutcomeUnknown = "OUTCOME_UNKNOWN",
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An error code as it came over the wire: one of the list, or one that a newer peer sent, kept as it came.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Code {
    /// A code of this version's list.
    Known(ErrorCode),
    /// A code that this version does not know.
    Unknown(String),
}

impl Code {
    /// The code in capitals.
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
    /// The limit that a failed call hit, where it hit one, and what to do about it.
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

/// The text is no error code of this version.
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
    /// A promise was rejected and nobody looked at it.
    pub const UNHANDLED_REJECTION: &str = "UNHANDLED_REJECTION";
    /// The code ended while tool calls were open; they were cancelled.
    pub const TOOL_CALLS_CANCELLED: &str = "TOOL_CALLS_CANCELLED";
    /// A limit was asked for that lies outside what is allowed.
    pub const LIMIT_CLAMPED: &str = "LIMIT_CLAMPED";
    /// What the code put into the store did not fit beside what others of its session had put there meanwhile.
    pub const STORE_FULL: &str = "STORE_FULL";
    /// The code did something that does not work here, and went on; the message says what works instead.
    pub const HINT: &str = "HINT";
}
