//! How the program ends when it could not do what it was asked.

use host_client::{Error, ErrorCode};

/// The code failed, a call failed, or an audit log is not whole.
pub(crate) const FAILED: u8 = 1;
/// What was asked cannot be understood, or names what is not there.
pub(crate) const USAGE: u8 = 2;
/// No relay answers, or it does not let us in.
pub(crate) const NO_RELAY: u8 = 3;

/// An exit status, and what to print; nothing where it was printed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: u8,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn usage(text: impl ToString) -> Self {
        Self { status: USAGE, text: text.to_string() }
    }

    pub(crate) fn failed(text: impl ToString) -> Self {
        Self { status: FAILED, text: text.to_string() }
    }

    /// One that was printed.
    pub(crate) fn printed(status: u8) -> Self {
        Self { status, text: String::new() }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let status = match &error {
            Error::Unreachable { .. } | Error::Unauthenticated | Error::Refused(_) | Error::Local(_) => NO_RELAY,
            Error::Execution(error) => {
                let refused = [ErrorCode::Unauthenticated, ErrorCode::PermissionDenied];
                if refused.iter().any(|code| error.code.as_str() == code.as_str()) { NO_RELAY } else { FAILED }
            }
            Error::Result(_) | Error::Audit(_) => FAILED,
            _ => USAGE,
        };
        let text = match &error {
            Error::Execution(error) => match &error.tool {
                Some((tool, code)) => format!("{error}\ntool: {tool}, {code}"),
                None => error.to_string(),
            },
            Error::Local(_) => format!("{error}; or name a relay that runs with --relay and --token"),
            _ => error.to_string(),
        };
        Self { status, text }
    }
}
