//! Exit status and message of a failure.

use host_client::{Error, ErrorCode, JournalError, RunError};

/// Exit status: the code or a call failed, or an audit log is not complete.
pub(crate) const FAILED: u8 = 1;
/// Exit status: the command line or a file is wrong.
pub(crate) const USAGE: u8 = 2;
/// Exit status: the relay cannot be reached, or refuses the token.
pub(crate) const NO_RELAY: u8 = 3;
/// Exit status: a durable run has not ended, and can go on later.
pub(crate) const UNFINISHED: u8 = 4;

/// Exit status and message. An empty message was already printed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: u8,
    pub(crate) text: String,
}

impl Failure {
    /// Makes a failure with the status 2.
    pub(crate) fn usage(text: impl ToString) -> Self {
        Self { status: USAGE, text: text.to_string() }
    }

    /// Makes a failure with the status 1.
    pub(crate) fn failed(text: impl ToString) -> Self {
        Self { status: FAILED, text: text.to_string() }
    }

    /// Makes a failure whose message was already printed.
    pub(crate) fn printed(status: u8) -> Self {
        Self { status, text: String::new() }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let status = match &error {
            Error::Unreachable { .. }
            | Error::Certificate { .. }
            | Error::Cut { .. }
            | Error::NoRelay { .. }
            | Error::Unauthenticated
            | Error::Status { .. }
            | Error::Refused(_)
            | Error::Local(_) => NO_RELAY,
            Error::Execution(error) => {
                let refused = [ErrorCode::Unauthenticated, ErrorCode::PermissionDenied];
                if refused.iter().any(|code| error.code.as_str() == code.as_str()) { NO_RELAY } else { FAILED }
            }
            Error::Result(_) | Error::Audit(_) => FAILED,
            Error::Run(error) => of_run(error),
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

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        Self { status: of_run(&error), text: error.to_string() }
    }
}

impl From<JournalError> for Failure {
    fn from(error: JournalError) -> Self {
        RunError::from(error).into()
    }
}

/// Returns the exit status of an error of a durable run.
fn of_run(error: &RunError) -> u8 {
    match error {
        RunError::OldRelay { .. } => NO_RELAY,
        RunError::OtherBuild { .. }
        | RunError::Diverged(_)
        | RunError::ToolGone { .. }
        | RunError::ToolChanged { .. }
        | RunError::NoRelay { .. }
        | RunError::Stuck { .. }
        | RunError::Left => UNFINISHED,
        RunError::Journal(JournalError::Full(_) | JournalError::Damaged(_) | JournalError::Busy(_)) => FAILED,
        _ => USAGE,
    }
}
