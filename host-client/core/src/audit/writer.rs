//! The writer of a log: one `write` for each record, one writer at a time; an incomplete record is cut off.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::chain::{Link, seal};
use super::files::{Tail, folder, full_file, full_files, with_suffix};
use super::record::{Line, Opened, Reason, Record};
use super::{AuditConfig, AuditError, SyncMode};

/// The most bytes of buffer that are kept from one record to the next; more is freed.
const MAX_KEPT_BUFFER_BYTES: usize = 256 << 10;

/// The writer of one log.
pub(super) struct Writer {
    path: PathBuf,
    file: File,
    /// The locked lock file. Two writers would write two chains into one file.
    _lock: File,
    /// The length of the file's complete records, in bytes.
    len: u64,
    /// `true` if an incomplete record may stand after the complete ones.
    is_torn: bool,
    /// The last record.
    link: Link,
    /// The memory for the line that is being written.
    buffer: Vec<u8>,
    rotate_bytes: u64,
    keep: Option<usize>,
    sync: SyncMode,
}

impl Writer {
    /// Creates or continues the log, and writes an `opened` record.
    ///
    /// # Errors
    /// - [`AuditError::InUse`]: another writer has the lock.
    /// - [`AuditError::NotALog`]: the file does not end with a record.
    /// - [`AuditError::Read`], [`AuditError::Write`]: a file cannot be read or written.
    pub(super) fn open(config: AuditConfig) -> Result<Self, AuditError> {
        let AuditConfig { path, rotate_bytes, keep, sync, .. } = config;
        let failed = |error| AuditError::Write { path: path.clone(), error };
        let lock = lock(&path)?;
        let file = options().create(true).open(&path).map_err(failed)?;
        let tail = Tail::read(&file, &path)?;
        let link = match tail.link {
            Some(link) => link,
            None => last_link(&path)?,
        };
        let (len, is_torn, buffer) = (tail.end, tail.torn.is_some(), Vec::new());
        let mut writer = Self { path, file, _lock: lock, len, is_torn, link, buffer, rotate_bytes, keep, sync };
        let opened = Opened::new(Reason::Start, tail.torn);
        writer.write(&opened).map_err(|error| writer.failed(error))?;
        Ok(writer)
    }

    /// Returns the number and the hash of the last record.
    pub(super) fn link(&self) -> Link {
        self.link
    }

    /// Writes a record. After an error, the file is as before, or will be before the next record is written.
    ///
    /// # Errors
    /// [`AuditError::Write`]: the record could not be written, or the full file could not be rotated.
    pub(super) fn append<R: Record>(&mut self, record: &R) -> Result<(), AuditError> {
        self.rotate_if_full().and_then(|()| self.write(record)).map_err(|error| self.failed(error))
    }

    /// Makes an error of writing this log.
    pub(super) fn failed(&self, error: io::Error) -> AuditError {
        AuditError::Write { path: self.path.clone(), error }
    }

    /// Writes a record to the current file.
    fn write<R: Record>(&mut self, record: &R) -> io::Result<()> {
        self.cut_torn()?;
        let seq = self.link.seq.saturating_add(1);
        let line = Line { seq, time: SystemTime::now(), kind: R::KIND, record, prev: self.link.hash };
        self.buffer.clear();
        serde_json::to_writer(&mut self.buffer, &line)?;
        let hash = seal(&mut self.buffer);
        if let Err(error) = self.write_buffer() {
            self.is_torn = true;
            // If this fails, too, the next record tries again before it is written.
            let _ = self.cut_torn();
            return Err(error);
        }
        self.len = self.len.saturating_add(u64::try_from(self.buffer.len()).unwrap_or(u64::MAX));
        self.link = Link { seq, hash };
        self.buffer.shrink_to(MAX_KEPT_BUFFER_BYTES);
        Ok(())
    }

    /// Writes the buffer to the file, and synchronises the file if the configuration asks for it.
    fn write_buffer(&mut self) -> io::Result<()> {
        self.file.write_all(&self.buffer)?;
        match self.sync {
            SyncMode::Never => Ok(()),
            SyncMode::EveryRecord => self.file.sync_data(),
        }
    }

    /// Cuts off an incomplete record.
    fn cut_torn(&mut self) -> io::Result<()> {
        if self.is_torn {
            self.file.set_len(self.len)?;
            self.is_torn = false;
        }
        Ok(())
    }

    /// Renames a full file and begins a new one. After an error, the next record repeats the steps that are left.
    fn rotate_if_full(&mut self) -> io::Result<()> {
        if self.len >= self.rotate_bytes {
            self.cut_torn()?;
            let last = full_files(&self.path).map_err(io::Error::other)?.pop().map_or(0, |(number, _)| number);
            let number =
                last.checked_add(1).ok_or_else(|| io::Error::other("there is no number left for a full file"))?;
            match fs::rename(&self.path, full_file(&self.path, number)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            self.file = options().create_new(true).open(&self.path)?;
            self.len = 0;
            if self.sync == SyncMode::EveryRecord {
                File::open(folder(&self.path))?.sync_all()?;
            }
            self.remove_old_files();
        }
        if self.len == 0 {
            self.write(&Opened::new(Reason::Rotation, None))?;
        }
        Ok(())
    }

    /// Removes the oldest full files over the number to keep.
    fn remove_old_files(&self) {
        let Some(keep) = self.keep else { return };
        // A file that cannot be removed now is tried again after the next rotation.
        let files = full_files(&self.path).unwrap_or_default();
        for (_, file) in &files[..files.len().saturating_sub(keep)] {
            if let Err(error) = fs::remove_file(file) {
                tracing::warn!(file = %file.display(), %error, "an old audit file could not be removed");
            }
        }
    }
}

/// Returns the options of all files: readable, append only, mode 0600.
fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).append(true).mode(0o600);
    options
}

/// Locks the log. The lock is on a file of its own, because the log's file is renamed when it is full.
///
/// # Errors
/// - [`AuditError::InUse`]: another writer has the lock.
/// - [`AuditError::Write`]: the lock file cannot be created.
fn lock(path: &Path) -> Result<File, AuditError> {
    let lock_path = with_suffix(path, ".lock");
    let failed = |error| AuditError::Write { path: lock_path.clone(), error };
    let lock = options().create(true).open(&lock_path).map_err(failed)?;
    lock.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => AuditError::InUse { path: path.to_owned() },
        TryLockError::Error(error) => failed(error),
    })?;
    Ok(lock)
}

/// Returns the last record of the newest full file, for a log whose own file has no record; the default if there is
/// none.
///
/// # Errors
/// - [`AuditError::NotALog`]: the full file does not end with a record.
/// - [`AuditError::Read`]: a file cannot be read.
fn last_link(path: &Path) -> Result<Link, AuditError> {
    let Some((_, last)) = full_files(path)?.pop() else { return Ok(Link::default()) };
    let file = File::open(&last).map_err(|error| AuditError::Read { path: last.clone(), error })?;
    Tail::read(&file, &last)?.link.ok_or(AuditError::NotALog { path: last })
}
