//! Outcome of an execution, and the ends of a run that lead to it.

use bytes::Bytes;
use relay_proto::{ErrorCode, LimitName, wire};
use rustix::process::Signal;

use crate::sandbox::channel::{ChannelError, message};

/// Maximum length in bytes of one text of a worker's that is passed on.
const MAX_TEXT_BYTES: usize = 8 << 10;

/// Result of an execution, and what it used.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Returned value as JSON, or the error.
    pub(crate) result: Result<Bytes, ExecutionError>,
    pub(crate) usage: wire::Usage,
    pub(crate) warnings: Vec<wire::Warning>,
}

impl Outcome {
    /// Makes the outcome of an execution that never ran.
    pub(crate) fn not_run(error: ExecutionError) -> Self {
        Self { result: Err(error), usage: wire::Usage::default(), warnings: Vec::new() }
    }
}

/// Error that an execution ended with. Empty texts and zeros stand for what is unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExecutionError {
    pub(crate) code: ErrorCode,
    pub(crate) message: String,
    /// Limit that was hit.
    pub(crate) limit: Option<LimitName>,
    /// Line in the author's source, counted from 1.
    pub(crate) line: u32,
    /// Column in the author's source, counted from 1 in UTF-16 code units.
    pub(crate) column: u32,
    pub(crate) hint: String,
    /// Tool whose failed call the script did not catch.
    pub(crate) tool: String,
    /// Error code of that call.
    pub(crate) tool_code: String,
}

impl ExecutionError {
    /// Makes an error with a code and a message alone.
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            limit: None,
            line: 0,
            column: 0,
            hint: String::new(),
            tool: String::new(),
            tool_code: String::new(),
        }
    }

    /// Makes the error that tells of a cancel.
    pub(crate) fn cancelled() -> Self {
        Self::new(ErrorCode::Cancelled, "the execution was cancelled")
    }

    /// Returns the message on the wire.
    pub(crate) fn into_wire(self, usage: wire::Usage, warnings: Vec<wire::Warning>) -> wire::Error {
        wire::Error {
            error: self.message,
            code: self.code.as_str().into(),
            limit: self.limit.map(|limit| limit.as_str().into()).unwrap_or_default(),
            line: self.line,
            column: self.column,
            hint: self.hint,
            tool: self.tool,
            tool_code: self.tool_code,
            usage: Some(usage),
            warnings,
            ..wire::Error::default()
        }
    }
}

/// End of a run.
pub(super) enum Ended {
    /// The worker reported a value.
    Done(message::Done),
    /// The worker reported an error.
    Failed(message::Failed),
    /// The relay ended the run.
    Stopped(ExecutionError),
}

impl Ended {
    /// Ends a run that nobody wants the outcome of.
    pub(super) fn cancelled() -> Self {
        Self::Stopped(ExecutionError::cancelled())
    }

    /// Ends the run of a worker that broke the rules of its channel.
    pub(super) fn broken(what: impl std::fmt::Display) -> Self {
        Self::Stopped(ExecutionError::new(ErrorCode::WorkerLost, format!("the worker was stopped: {what}")))
    }

    /// Ends the run of a worker whose process is gone, by this signal if by any.
    pub(super) fn died(signal: Option<Signal>) -> Self {
        let text = match signal {
            Some(Signal::SYS) => "the worker process was ended: the code tried what the sandbox forbids",
            Some(Signal::KILL) => "the worker process was killed, most likely because the machine ran out of memory",
            Some(_) => "the worker process crashed",
            None => "the worker process ended without an answer",
        };
        Self::Stopped(ExecutionError::new(ErrorCode::WorkerLost, text))
    }
}

impl From<ChannelError> for Ended {
    fn from(error: ChannelError) -> Self {
        match error {
            ChannelError::Socket(_) => Self::died(None),
            ChannelError::TooLong(_) | ChannelError::Undecodable(_) => Self::broken(error),
        }
    }
}

/// Checks a worker's report of an error and returns it, with every text cut to its maximum. `standing` tells how near
/// the limits are.
pub(super) fn reported_error(failed: message::Failed, standing: impl FnOnce() -> String) -> ExecutionError {
    let code = match failed.code.parse() {
        Ok(
            code @ (ErrorCode::SyntaxError
            | ErrorCode::EvalError
            | ErrorCode::MemoryLimit
            | ErrorCode::OutputLimit
            | ErrorCode::ResultLimit
            | ErrorCode::NotSerializable
            | ErrorCode::Unsettled
            | ErrorCode::ReplayDiverged
            | ErrorCode::Internal),
        ) => code,
        // The rest is for the relay to say.
        _ => return ExecutionError::new(ErrorCode::WorkerLost, "the worker ended with an answer of no meaning"),
    };
    let limit: Option<LimitName> = failed.limit.parse().ok();
    let message = cut(failed.message);
    ExecutionError {
        code,
        message: if limit.is_some() { format!("{message} ({})", standing()) } else { message },
        limit,
        line: failed.line,
        column: failed.column,
        hint: cut(failed.hint),
        tool: cut(failed.tool),
        tool_code: cut(failed.tool_code),
    }
}

/// Cuts a text from a worker to [`MAX_TEXT_BYTES`].
pub(super) fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
    text
}
