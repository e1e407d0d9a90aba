//! SQLite's errors, as errors of a journal that say what to do.

use std::path::{Path, PathBuf};

use host_client_core::JournalError;
use rusqlite::ErrorCode;

/// The free bytes of a file system below which a failed write is taken for one that found no room: SQLite tells that of
/// the journal's own file, but not of the files beside it.
const NO_ROOM_BYTES: u64 = 64 << 10;

/// The place of a journal's file, which its errors name.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
}

/// The reason why a change or a question did not succeed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The tables do not allow it. Nothing was changed.
    Refused(JournalError),
    /// SQLite could not do it. Some of it may be done, in the transaction.
    Storage(rusqlite::Error),
}

impl From<JournalError> for Failure {
    fn from(error: JournalError) -> Self {
        Self::Refused(error)
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Storage(error)
    }
}

impl Place {
    /// Takes a path, which may be relative to the present folder.
    ///
    /// # Errors
    /// [`JournalError::Unavailable`]: it is empty, or there is no present folder.
    pub(super) fn new(path: &Path) -> Result<Self, JournalError> {
        // SQLite gives a meaning of its own to names such as `:memory:`; a path from the root on is a path.
        let absolute = std::path::absolute(path);
        let path = absolute.map_err(|error| JournalError::Unavailable(format!("{}: {error}", path.display())))?;
        Ok(Self { path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Names the file in an error.
    pub(super) fn says(&self, what: &str) -> String {
        format!("{}: {what}", self.path.display())
    }

    /// Makes an error of the file system, met at `path`, one of the journal.
    pub(super) fn io(&self, path: &Path, error: &std::io::Error) -> JournalError {
        let text = format!("{}: {error}", path.display());
        match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => JournalError::Full(text),
            std::io::ErrorKind::ReadOnlyFilesystem | std::io::ErrorKind::PermissionDenied => {
                JournalError::ReadOnly(text)
            }
            _ => JournalError::Unavailable(text),
        }
    }

    /// Makes a failure one error.
    pub(super) fn error(&self, failure: Failure) -> JournalError {
        match failure {
            Failure::Refused(error) => error,
            Failure::Storage(error) => self.fault(&error),
        }
    }

    /// Makes an error of SQLite one of the journal.
    pub(super) fn fault(&self, error: &rusqlite::Error) -> JournalError {
        use rusqlite::Error as E;
        let text = self.says(&error.to_string());
        match error {
            E::SqliteFailure(failure, _) => self.failure(failure.code, text),
            // A column holds something else than was ever written to it.
            E::FromSqlConversionFailure(..)
            | E::IntegralValueOutOfRange(..)
            | E::InvalidColumnType(..)
            | E::Utf8Error(..) => JournalError::Damaged(text),
            _ => JournalError::Unavailable(text),
        }
    }

    fn failure(&self, code: ErrorCode, text: String) -> JournalError {
        match code {
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed => {
                JournalError::Busy(text)
            }
            ErrorCode::DiskFull => JournalError::Full(text),
            ErrorCode::SystemIoFailure | ErrorCode::CannotOpen if self.has_no_room() => JournalError::Full(text),
            ErrorCode::ReadOnly | ErrorCode::PermissionDenied => JournalError::ReadOnly(text),
            ErrorCode::DatabaseCorrupt => JournalError::Damaged(text),
            ErrorCode::NotADatabase => JournalError::Unavailable(self.says(
                "it is no SQLite database: name another file, or restore it from a backup if it was a journal once",
            )),
            _ => JournalError::Unavailable(text),
        }
    }

    fn has_no_room(&self) -> bool {
        let folder = self.path.parent().unwrap_or(&self.path);
        rustix::fs::statvfs(folder).is_ok_and(|it| it.f_bavail.saturating_mul(it.f_frsize) < NO_ROOM_BYTES)
    }
}
