//! The file that is written: one `write` for each record, one process at a time, and never half a record that stays.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::chain::{Link, seal};
use super::files::{Tail, folder, full_file, full_files, with_suffix};
use super::record::{Line, Opened, Reason, Record};
use super::{AuditConfig, AuditError, SyncMode};

/// A buffer that grew beyond this for a large record is given back, in bytes.
const KEPT_BUFFER_BYTES: usize = 256 << 10;

pub(super) struct Writer {
    path: PathBuf,
    file: File,
    /// Held as long as this is: two processes would write two chains into one file.
    _lock: File,
    /// Bytes of whole records.
    len: u64,
    /// There is a piece of a record behind them.
    is_torn: bool,
    link: Link,
    buffer: Vec<u8>,
    rotate_bytes: u64,
    keep: Option<usize>,
    sync: SyncMode,
}

impl Writer {
    /// Opens the log, new or where it ended, and writes that it was opened.
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

    /// The last record.
    pub(super) fn link(&self) -> Link {
        self.link
    }

    /// Writes a record. After an error the file is as if nothing had been tried.
    pub(super) fn append<R: Record>(&mut self, record: &R) -> Result<(), AuditError> {
        self.rotate_if_full().and_then(|()| self.write(record)).map_err(|error| self.failed(error))
    }

    pub(super) fn failed(&self, error: io::Error) -> AuditError {
        AuditError::Write { path: self.path.clone(), error }
    }

    fn write<R: Record>(&mut self, record: &R) -> io::Result<()> {
        self.cut_torn()?;
        let seq = self.link.seq.saturating_add(1);
        let line = Line { seq, time: SystemTime::now(), kind: R::KIND, record, prev: self.link.hash };
        self.buffer.clear();
        serde_json::to_writer(&mut self.buffer, &line)?;
        let hash = seal(&mut self.buffer);
        if let Err(error) = self.put() {
            self.is_torn = true;
            // Where this fails, too, the next record tries again before it is written.
            let _ = self.cut_torn();
            return Err(error);
        }
        self.len = self.len.saturating_add(u64::try_from(self.buffer.len()).unwrap_or(u64::MAX));
        self.link = Link { seq, hash };
        self.buffer.shrink_to(KEPT_BUFFER_BYTES);
        Ok(())
    }

    fn put(&mut self) -> io::Result<()> {
        self.file.write_all(&self.buffer)?;
        match self.sync {
            SyncMode::Never => Ok(()),
            SyncMode::EveryRecord => self.file.sync_data(),
        }
    }

    fn cut_torn(&mut self) -> io::Result<()> {
        if self.is_torn {
            self.file.set_len(self.len)?;
            self.is_torn = false;
        }
        Ok(())
    }

    /// Each step can be taken again: after an error, the next record goes on where this one stopped.
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

    fn remove_old_files(&self) {
        let Some(keep) = self.keep else { return };
        // What cannot be removed now is found again after the next rotation.
        let files = full_files(&self.path).unwrap_or_default();
        for (_, file) in &files[..files.len().saturating_sub(keep)] {
            if let Err(error) = fs::remove_file(file) {
                tracing::warn!(file = %file.display(), %error, "an old audit file could not be removed");
            }
        }
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).append(true).mode(0o600);
    options
}

/// The lock is on a file of its own: the log's file gets another name when it is full.
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

/// The end of the last full file, where the log's own file holds no record.
fn last_link(path: &Path) -> Result<Link, AuditError> {
    let Some((_, last)) = full_files(path)?.pop() else { return Ok(Link::default()) };
    let file = File::open(&last).map_err(|error| AuditError::Read { path: last.clone(), error })?;
    Tail::read(&file, &last)?.link.ok_or(AuditError::NotALog { path: last })
}
