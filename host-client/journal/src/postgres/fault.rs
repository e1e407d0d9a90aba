//! Translation of the server's errors into [`JournalError`].

use std::error::Error as _;

use host_client_core::JournalError;
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

/// The reason why a change or a query failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// A condition is not met. Nothing was changed.
    Refused(JournalError),
    /// The server or the connection failed.
    Server(Error),
}

impl From<JournalError> for Failure {
    fn from(error: JournalError) -> Self {
        Self::Refused(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Server(error)
    }
}

impl From<Failure> for JournalError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(error) => error,
            Failure::Server(error) => fault(&error),
        }
    }
}

/// Tells whether the connection is lost. The last statement may have been executed or not.
pub(super) fn is_lost(error: &Error) -> bool {
    match error.code() {
        Some(code) => {
            let ends = [&SqlState::ADMIN_SHUTDOWN, &SqlState::CRASH_SHUTDOWN, &SqlState::CANNOT_CONNECT_NOW];
            // Class 08: exceptions of the connection.
            ends.contains(&code) || code.code().starts_with("08")
        }
        None => error.is_closed() || error.source().and_then(|it| it.downcast_ref()).is_some_and(is_broken),
    }
}

/// Tells whether the connection broke. An invalid certificate is no such case: it stays invalid.
fn is_broken(error: &std::io::Error) -> bool {
    error.kind() != std::io::ErrorKind::InvalidData
}

/// Translates an error of the server.
fn fault(error: &Error) -> JournalError {
    let Some(told) = error.as_db_error() else {
        // The library's messages do not contain their cause.
        let text = error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"));
        return if is_wrong_value(error) { JournalError::Damaged(text) } else { JournalError::Unavailable(text) };
    };
    let text = told.message().to_owned();
    match *told.code() {
        SqlState::DISK_FULL => JournalError::Full(text),
        SqlState::READ_ONLY_SQL_TRANSACTION | SqlState::INSUFFICIENT_PRIVILEGE => JournalError::ReadOnly(text),
        SqlState::DATA_CORRUPTED | SqlState::INDEX_CORRUPTED => JournalError::Damaged(text),
        SqlState::TOO_MANY_CONNECTIONS
        | SqlState::OUT_OF_MEMORY
        | SqlState::LOCK_NOT_AVAILABLE
        | SqlState::QUERY_CANCELED
        | SqlState::T_R_DEADLOCK_DETECTED
        | SqlState::T_R_SERIALIZATION_FAILURE => JournalError::Busy(text),
        _ => JournalError::Unavailable(text),
    }
}

/// Tells whether a column holds a value of a type that is never written to it.
fn is_wrong_value(error: &Error) -> bool {
    error.source().is_some_and(|it| it.is::<tokio_postgres::types::WrongType>() || it.is::<std::str::Utf8Error>())
}
