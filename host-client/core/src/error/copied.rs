//! Copies of errors, for several that wait for the same thing.

use std::io;

use super::{Error, ExecutionError};

impl Error {
    /// Returns a copy for another that waited for the same connection. What cannot be copied, an error inside this one, is
    /// kept as its text.
    pub(crate) fn copied(&self) -> Self {
        match self {
            Self::Address { url, reason } => Self::Address { url: url.clone(), reason: reason.clone() },
            Self::Unreachable { url, error } => Self::Unreachable { url: url.clone(), error: copied(error) },
            Self::Certificate { url, fault, reason } => {
                Self::Certificate { url: url.clone(), fault: *fault, reason: reason.clone() }
            }
            Self::Cut { url, step, error } => Self::Cut { url: url.clone(), step: *step, error: copied(error) },
            Self::NoRelay { url, reason } => Self::NoRelay { url: url.clone(), reason: reason.clone() },
            Self::Token(reason) => Self::Token(reason.to_string().into()),
            Self::Unauthenticated => Self::Unauthenticated,
            Self::Status { status, retry_after } => Self::Status { status: *status, retry_after: *retry_after },
            Self::Refused(reason) => Self::Refused(reason.clone()),
            Self::Tool { name, reason } => Self::Tool { name: name.clone(), reason: reason.clone() },
            Self::Tools(reason) => Self::Tools(reason.clone()),
            Self::Pattern(error) => Self::Pattern(error.clone()),
            Self::Source { origin, reason } => Self::source(origin.clone(), reason.to_string()),
            Self::Execution(error) => Self::Execution(Box::new(ExecutionError::clone(error))),
            Self::Run(error) => Self::Run(error.clone()),
            Self::Local(reason) => Self::Local(reason.clone()),
            Self::Policy(_) | Self::Audit(_) | Self::Result(_) => Self::source("the client", self.to_string()),
        }
    }

    /// Tells whether the request was not begun, and another session may take it.
    pub(crate) fn wants_another_session(&self) -> bool {
        match self {
            Self::Execution(error) => error.is_unsent || error.code == relay_proto::ErrorCode::Draining,
            _ => false,
        }
    }
}

fn copied(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}
