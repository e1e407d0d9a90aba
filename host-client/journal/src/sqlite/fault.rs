//! Translation of SQLite's errors into [`JournalError`].

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use host_client_core::JournalError;
use rusqlite::ErrorCode;

/// The free space of a file system, in bytes, below which an I/O error counts as a full disk: SQLite reports a full
/// disk for the journal's own file, but not for the files beside it.
const NO_ROOM_BYTES: u64 = 64 << 10;

/// The path of a journal's file, which its errors name.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
}

/// The device and the inode of a file: two files never have the same at once.
pub(super) type Identity = (u64, u64);

/// The reason why a change or a query failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// A condition is not met. Nothing was changed.
    Refused(JournalError),
    /// SQLite failed. The transaction may contain a part of the change.
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
    /// Makes a path absolute.
    ///
    /// # Errors
    /// [`JournalError::Unavailable`]: it is empty, or the current folder is unknown.
    pub(super) fn new(path: &Path) -> Result<Self, JournalError> {
        // SQLite treats names such as `:memory:` specially, but never an absolute path.
        let absolute = std::path::absolute(path);
        let path = absolute.map_err(|error| JournalError::Unavailable(format!("{}: {error}", path.display())))?;
        Ok(Self { path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the identity of the file that has the path now; `None`: there is none, or it cannot be looked up.
    pub(super) fn identity(&self) -> Option<Identity> {
        std::fs::metadata(&self.path).ok().map(|file| (file.dev(), file.ino()))
    }

    /// Puts the path before a text.
    pub(super) fn says(&self, what: &str) -> String {
        format!("{}: {what}", self.path.display())
    }

    /// Translates an error of the file system at `path`.
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

    /// Translates a failure.
    pub(super) fn error(&self, failure: Failure) -> JournalError {
        match failure {
            Failure::Refused(error) => error,
            Failure::Storage(error) => self.fault(&error),
        }
    }

    /// Translates an error of SQLite.
    pub(super) fn fault(&self, error: &rusqlite::Error) -> JournalError {
        use rusqlite::Error as E;
        let text = self.says(&error.to_string());
        match error {
            E::SqliteFailure(failure, _) => self.failure(failure.code, text),
            // A column holds a value of a type that is never written to it.
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

/// Tells whether other processes kept the file locked.
pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}
