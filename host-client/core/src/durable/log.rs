//! The log of one run: entries are numbered in the order in which things happen, and written in batches.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use relay_proto::time::now_ms;
use tokio::time::Instant;

use super::entry::Entry;
use super::journal::{Batch, Journal, JournalEntry, JournalError, RunId, RunStatus};

/// The length of entries, in bytes of JSON, above which the code waits until they are written.
const MAX_BYTES_BEHIND: usize = 1 << 20;

/// The time for which a journal that is busy is tried again: others may only be writing much.
const BUSY_WITHIN: Duration = Duration::from_secs(30);
/// The pause before a busy journal is tried again.
const BUSY_PAUSE: Duration = Duration::from_millis(200);

/// The entries of one run on their way into the journal. Whoever waits for an entry writes all that come before it.
#[derive(Debug)]
pub(crate) struct RunLog {
    journal: Arc<dyn Journal>,
    run: RunId,
    /// The name of this process, which holds the run.
    holder: String,
    pending: Mutex<Pending>,
    /// The batch that is being written; one was not finished if the future that wrote it was dropped.
    writer: tokio::sync::Mutex<Option<Batch>>,
    /// The number of the last entry that the journal has.
    committed: AtomicU64,
}

#[derive(Debug)]
struct Pending {
    entries: Vec<JournalEntry>,
    status: Option<RunStatus>,
    /// The number of the last entry, written or not.
    last: u64,
    /// The chain of the last entry.
    chain: String,
    /// The length of `entries` as JSON.
    bytes: usize,
    /// The first error: nothing is written after it.
    failed: Option<JournalError>,
}

impl RunLog {
    /// Begins to write behind `entries` entries, the last of which has this chain.
    pub(crate) fn new(journal: Arc<dyn Journal>, run: RunId, holder: String, entries: u64, chain: String) -> Self {
        let pending = Pending { entries: Vec::new(), status: None, last: entries, chain, bytes: 0, failed: None };
        Self {
            journal,
            run,
            holder,
            pending: Mutex::new(pending),
            writer: tokio::sync::Mutex::default(),
            committed: AtomicU64::new(entries),
        }
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        // Changed only under this lock, by code that does not panic half way.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an entry behind the others, with which the run's status changes if one is given, and returns its number. It is
    /// written when somebody waits for it or for a later one.
    pub(crate) fn push(&self, entry: &Entry, status: Option<RunStatus>) -> u64 {
        let mut pending = self.pending();
        match entry.to_stored(&pending.chain) {
            Ok(stored) => {
                pending.chain.clone_from(&stored.chain);
                pending.bytes += stored.json.len();
                pending.entries.push(stored);
                pending.last += 1;
                pending.status = status.or(pending.status);
            }
            Err(error) => {
                pending.failed.get_or_insert(error);
            }
        }
        pending.last
    }

    /// Sets the run's status with the next entries that are written.
    pub(crate) fn set_status(&self, status: RunStatus) {
        self.pending().status = Some(status);
    }

    /// Waits until the journal has the entries up to this number. One that is busy is tried again for 30 seconds.
    ///
    /// # Errors
    /// [`JournalError`]: it does not have them, and takes no more of this run from this process.
    pub(crate) async fn commit(&self, number: u64) -> Result<(), JournalError> {
        let since = Instant::now();
        loop {
            if let Some(error) = self.failed() {
                return Err(error);
            }
            if self.committed.load(Ordering::Acquire) >= number && !self.has_status() {
                return Ok(());
            }
            let mut writer = self.writer.lock().await;
            if let Some(error) = self.failed() {
                return Err(error);
            }
            // The future that wrote it was dropped: the journal has it or not.
            let is_unfinished = writer.is_some();
            if !is_unfinished {
                *writer = self.take_batch();
            }
            let Some(batch) = writer.clone() else { return Ok(()) };
            let last = batch.first - 1 + batch.entries.len() as u64;
            match self.journal.append(self.run.clone(), self.holder.clone(), batch).await {
                Ok(()) => {}
                Err(JournalError::Conflict { found, .. }) if is_unfinished && found == last => {}
                Err(JournalError::Busy(reason)) if since.elapsed() < BUSY_WITHIN => {
                    tracing::debug!(run = self.run.as_str(), reason, "the journal is busy");
                    // The batch stays for the next try.
                    tokio::time::sleep(BUSY_PAUSE).await;
                    continue;
                }
                Err(error) => {
                    tracing::error!(run = self.run.as_str(), %error, "the journal has refused entries of a run");
                    self.pending().failed.get_or_insert(error.clone());
                    return Err(error);
                }
            }
            *writer = None;
            self.committed.store(last, Ordering::Release);
        }
    }

    /// Returns whether the entries that are not written yet are many bytes.
    pub(crate) fn is_behind(&self) -> bool {
        self.pending().bytes > MAX_BYTES_BEHIND
    }

    /// Waits until the journal has all entries.
    ///
    /// # Errors
    /// Those of [`Self::commit`].
    pub(crate) async fn commit_all(&self) -> Result<(), JournalError> {
        let last = self.pending().last;
        self.commit(last).await
    }

    /// Returns the error after which nothing was written; `None`: there was none.
    pub(crate) fn failed(&self) -> Option<JournalError> {
        self.pending().failed.clone()
    }

    fn has_status(&self) -> bool {
        self.pending().status.is_some()
    }

    fn take_batch(&self) -> Option<Batch> {
        let mut pending = self.pending();
        if pending.entries.is_empty() && pending.status.is_none() {
            return None;
        }
        let entries = std::mem::take(&mut pending.entries);
        pending.bytes = 0;
        let first = pending.last + 1 - entries.len() as u64;
        Some(Batch { first, entries, status: pending.status.take(), at_ms: now_ms() })
    }
}
