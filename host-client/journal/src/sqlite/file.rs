//! Creation of the file, for its owner alone: it will hold arguments and results of tools.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use host_client_core::JournalError;

use super::fault::Place;

/// Creates an empty file and its folders, where they are absent. SQLite gives the files beside it the same permissions.
///
/// # Errors
/// [`JournalError::ReadOnly`], [`JournalError::Full`] or [`JournalError::Unavailable`]: it cannot be created.
pub(super) fn create(place: &Place) -> Result<(), JournalError> {
    // Closing a file releases all POSIX locks of the process on it, also those of an open SQLite connection. So an
    // existing file is not opened here, and a new one is closed before another thread can open it.
    static CREATION: Mutex<()> = Mutex::new(());
    let _alone = CREATION.lock().unwrap_or_else(PoisonError::into_inner);
    let path = place.path();
    let folder = path.parent().unwrap_or(path);
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| place.io(folder, &error))?;
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        // The file's name has to survive a power failure, too.
        Ok(_) => File::open(folder).and_then(|it| it.sync_all()).map_err(|error| place.io(folder, &error)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            warn_of_readers(path);
            Ok(())
        }
        Err(error) => Err(place.io(path, &error)),
    }
}

/// Says so in the log if others may read a file.
fn warn_of_readers(path: &Path) {
    if std::fs::metadata(path).is_ok_and(|it| it.permissions().mode() & 0o077 != 0) {
        tracing::warn!(path = %path.display(), "other users may read the journal: `chmod 600` changes that");
    }
}
