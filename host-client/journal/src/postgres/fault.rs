//! The server's errors, as errors of a journal that say what to do.

use std::error::Error as _;

use host_client_core::JournalError;
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

/// The reason why a change or a question did not succeed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The tables do not allow it. Nothing was changed.
    Refused(JournalError),
    /// The server or the way to it has failed.
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

/// Tells whether the connection is gone, or is about to be. What was asked last may have been done, or not.
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

/// Tells whether the way to the server failed. What is wrong with its certificate, which is invalid data, stays so.
fn is_broken(error: &std::io::Error) -> bool {
    error.kind() != std::io::ErrorKind::InvalidData
}

/// Makes an error of the server one of the journal.
fn fault(error: &Error) -> JournalError {
    let Some(told) = error.as_db_error() else {
        // The library's own texts leave the cause to those who ask for it.
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

/// Tells whether a column holds something else than was ever written to it.
fn is_wrong_value(error: &Error) -> bool {
    error.source().is_some_and(|it| it.is::<tokio_postgres::types::WrongType>() || it.is::<std::str::Utf8Error>())
}
