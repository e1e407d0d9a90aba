//! The failures of tools, as their authors make them.

use std::fmt;

use relay_proto::ErrorCode;

/// The failure of a tool, as the code will read it: an error code and a message.
///
/// Every type that converts into a `Box<dyn Error + Send + Sync>` converts into it with `?`: the errors of the standard
/// library and of most crates, `anyhow::Error`, `String` and `&str`. The message has the whole chain of sources.
///
/// ```
/// use host_client_core::{ErrorCode, ToolError};
///
/// fn parse(text: &str) -> Result<u8, ToolError> {
///     if text.is_empty() {
///         return Err(ToolError::denied("nothing is parsed from nothing"));
///     }
///     let number: u8 = text.parse()?;
///     if number == 0 {
///         Err("zero is not taken")?;
///     }
///     Ok(number)
/// }
///
/// assert_eq!(parse("").unwrap_err().code(), ErrorCode::ToolDenied);
/// let error = parse("x").unwrap_err();
/// assert_eq!((error.code(), error.to_string().as_str()), (ErrorCode::ToolFailed, "invalid digit found in string"));
/// assert_eq!(parse("0").unwrap_err().to_string(), "zero is not taken");
/// ```
pub struct ToolError {
    code: ErrorCode,
    message: String,
}

impl ToolError {
    /// Makes a failure in words that the code's author can use; its code is `TOOL_FAILED`.
    pub fn new(message: impl Into<String>) -> Self {
        Self { code: ErrorCode::ToolFailed, message: message.into() }
    }

    /// Refuses a call that the tool carries out for nobody. Its code is `TOOL_DENIED`.
    pub fn denied(message: impl Into<String>) -> Self {
        Self { code: ErrorCode::ToolDenied, message: message.into() }
    }

    /// Refuses arguments that fit the tool's schema and make no sense to it; nothing was done. Its code is `INVALID_ARGUMENTS`.
    pub fn invalid_arguments(message: impl Into<String>) -> Self {
        Self { code: ErrorCode::InvalidArguments, message: message.into() }
    }

    /// Refuses a result that is larger than the tool's limit. Its code is `TOOL_RESULT_LIMIT`.
    pub fn too_large(message: impl Into<String>) -> Self {
        Self { code: ErrorCode::ToolResultLimit, message: message.into() }
    }

    /// Reports that a service which the tool uses did not answer in time. Its code is `TOOL_TIMEOUT`.
    pub fn timed_out(message: impl Into<String>) -> Self {
        Self { code: ErrorCode::ToolTimeout, message: message.into() }
    }

    /// Reports that the outcome is unknown: the effect of the call may have happened. Its code is `OUTCOME_UNKNOWN`.
    pub fn outcome_unknown(message: impl Into<String>) -> Self {
        Self { code: ErrorCode::OutcomeUnknown, message: message.into() }
    }

    /// Returns the error code.
    pub fn code(&self) -> ErrorCode {
        self.code
    }

    /// Returns the code and the message.
    pub fn into_parts(self) -> (ErrorCode, String) {
        (self.code, self.message)
    }
}

// It is no `std::error::Error` itself: then it would convert into itself in two ways.
impl<'a, E: Into<Box<dyn std::error::Error + Send + Sync + 'a>>> From<E> for ToolError {
    fn from(error: E) -> Self {
        let error = error.into();
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let text = cause.to_string();
            // Many errors end with the text of their source.
            if !message.ends_with(&text) {
                message.push_str(": ");
                message.push_str(&text);
            }
            source = cause.source();
        }
        Self::new(message)
    }
}

impl fmt::Debug for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the file {name} cannot be read")]
    struct Unread<'a> {
        name: &'a str,
        source: io::Error,
    }

    #[derive(Debug, thiserror::Error)]
    #[error("the notes are gone: {0}")]
    struct Gone(#[source] io::Error);

    fn io_error() -> io::Error {
        io::Error::other("the disk is full")
    }

    #[test]
    fn any_error_converts_with_its_sources() {
        let name = String::from("a.txt");
        let convert = || -> Result<(), ToolError> { Err(Unread { name: &name, source: io_error() })? };
        let expected = "the file a.txt cannot be read: the disk is full";
        assert_eq!(convert().map_err(|error| error.into_parts()), Err((ErrorCode::ToolFailed, expected.into())));
        assert_eq!(ToolError::from(Gone(io_error())).to_string(), "the notes are gone: the disk is full");
        let boxed: Box<dyn std::error::Error + Send + Sync> = Box::new(io_error());
        assert_eq!(ToolError::from(boxed).to_string(), "the disk is full");
        assert_eq!(ToolError::from("a text").to_string(), "a text");
        assert_eq!(ToolError::from(format!("{} texts", 2)).to_string(), "2 texts");
        assert_eq!(
            ToolError::from(anyhow::Error::new(io_error()).context("saving")).to_string(),
            "saving: the disk is full"
        );
    }

    #[test]
    fn what_is_one_already_keeps_its_code() {
        let convert = || -> Result<(), ToolError> { Err(ToolError::timed_out("late"))? };
        assert_eq!(convert().map_err(|error| error.code()), Err(ErrorCode::ToolTimeout));
    }
}
