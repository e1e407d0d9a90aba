//! The connection that makes changes, and its thread, which commits all changes together that arrived during the commit
//! before.
//!
//! Where nothing else is to be done, a small batch of entries is written by its caller: a write into the write-ahead log
//! takes some 25 µs, and a thread that has to be woken up for it several times as long. What may wait for the disk or for
//! other processes (a checkpoint, a sync, a locked file) is left to the thread.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::Duration;

use host_client_core::JournalError;
use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::change::Change;
use super::fault::{Failure, Identity, Place, is_busy};
use super::open::open;
use super::worker::Worker;
use super::{Durability, SqliteOptions};

/// The maximum number of changes that wait for the thread; further callers wait.
const WAITING: usize = 1024;
/// The maximum size in KiB of the changes that wait: a few of the largest results.
const WAITING_KIB: u32 = 64 << 10;
/// The maximum number of changes that are committed together.
const TOGETHER: usize = 256;
/// The maximum size in bytes of entries that their caller writes.
const MAX_BYTES_AT_ONCE: usize = 64 << 10;
/// The number of pages in the write-ahead log after which the thread copies them into the file.
const PAGES_IN_LOG: usize = 1_000;
/// The approximate number of pages that a change writes beside those of its content.
const PAGES_OF_A_CHANGE: usize = 5;
/// The size of a page in bytes.
const PAGE_BYTES: usize = 4 << 10;

#[derive(Debug)]
pub(super) struct Writer {
    worker: Worker<Job>,
    room: Arc<Semaphore>,
    /// The number of changes that wait for the thread or are made by it.
    queued: Arc<AtomicUsize>,
    /// The connection, once the thread has opened it; `None`: every change waits for the disk, and is left to the thread.
    shared: Option<Arc<OnceLock<Mutex<Committer>>>>,
}

/// A change, and the sender of its answer.
struct Job {
    change: Change,
    answer_tx: oneshot::Sender<Result<bool, JournalError>>,
    _room: OwnedSemaphorePermit,
    _queued: Queued,
}

/// Counts a change for as long as it waits for the thread or is made by it.
struct Queued(Arc<AtomicUsize>);

impl Queued {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(count))
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Writer {
    pub(super) async fn start(place: Arc<Place>, options: SqliteOptions) -> Result<Self, JournalError> {
        let shared = Arc::new(OnceLock::new());
        let (of_thread, of_committer, busy_timeout) = (place.clone(), Arc::clone(&shared), options.busy_timeout);
        let is_quick = options.durability == Durability::Process;
        let work = move |connection, jobs| {
            let identity = place.identity();
            let committer = Committer {
                connection,
                place,
                identity,
                busy_timeout,
                // Processes before may have left a log: the first change copies it.
                pages: PAGES_IN_LOG,
                begins_log: false,
            };
            run(of_committer.get_or_init(|| Mutex::new(committer)), jobs);
        };
        let worker = Worker::start(WAITING, move || open(&of_thread, &options), work).await?;
        let room = Arc::new(Semaphore::new(WAITING_KIB as usize));
        Ok(Self { worker, room, queued: Arc::default(), shared: is_quick.then_some(shared) })
    }

    /// Makes and commits a change. Returns whether it changed anything.
    pub(super) async fn write(&self, change: Change) -> Result<bool, JournalError> {
        if let Some(answer) = self.write_at_once(&change) {
            return answer;
        }
        let kib = u32::try_from(change.bytes() >> 10).unwrap_or(u32::MAX).clamp(1, WAITING_KIB);
        let room = self.room.clone().acquire_many_owned(kib).await;
        let room = room.map_err(|error| JournalError::Unavailable(error.to_string()))?;
        let job = |answer_tx| Job { change, answer_tx, _room: room, _queued: Queued::new(&self.queued) };
        self.worker.ask(job).await?
    }

    /// Makes a change on this thread; `None`: it is to be left to the journal's thread.
    fn write_at_once(&self, change: &Change) -> Option<Result<bool, JournalError>> {
        let is_small = matches!(change, Change::Append { .. }) && change.bytes() <= MAX_BYTES_AT_ONCE;
        // Behind a change in the queue this one would overtake it.
        if !is_small || self.queued.load(Ordering::Acquire) > 0 {
            return None;
        }
        let mut committer = match self.shared.as_ref()?.get()?.try_lock() {
            Ok(committer) => committer,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        committer.commit_at_once(change)
    }

    pub(super) async fn close(self) {
        // The thread is then the last to have the connection, and closes it.
        drop(self.shared);
        self.worker.close().await;
    }
}

/// The connection, and what belongs to it.
#[derive(Debug)]
struct Committer {
    connection: Connection,
    place: Arc<Place>,
    /// The file that was opened.
    identity: Option<Identity>,
    busy_timeout: Duration,
    /// The approximate number of pages that were written since the last checkpoint.
    pages: usize,
    /// `true`: the next change begins the write-ahead log again, and waits for the disk to have its head.
    begins_log: bool,
}

/// Makes the changes of a queue until it is closed.
fn run(committer: &Mutex<Committer>, mut jobs: mpsc::Receiver<Job>) {
    while let Some(job) = jobs.blocking_recv() {
        let mut group = vec![job];
        while group.len() < TOGETHER
            && let Ok(job) = jobs.try_recv()
        {
            group.push(job);
        }
        lock(committer).commit(group);
    }
}

fn lock(committer: &Mutex<Committer>) -> MutexGuard<'_, Committer> {
    // A transaction that a panic left open was rolled back.
    committer.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Committer {
    /// Commits a change without waiting for other processes; `None`: it has to wait for them or for the disk.
    fn commit_at_once(&mut self, change: &Change) -> Option<Result<bool, JournalError>> {
        if self.begins_log || self.pages >= PAGES_IN_LOG {
            return None;
        }
        if let Err(error) = self.check_identity() {
            return Some(Err(error));
        }
        match self.try_commit(&[change], Duration::ZERO) {
            Ok(mut answers) => answers.pop(),
            Err(error) if is_busy(&error) => None,
            Err(error) => Some(Err(self.place.fault(&error))),
        }
    }

    /// Commits a group of changes and answers each of them.
    fn commit(&mut self, group: Vec<Job>) {
        if let Err(error) = self.check_identity() {
            return fail(group, &error);
        }
        let changes: Vec<_> = group.iter().map(|job| &job.change).collect();
        match self.try_commit(&changes, self.busy_timeout) {
            Ok(answers) => {
                self.begins_log = false;
                let has_forgotten = changes
                    .iter()
                    .zip(&answers)
                    .any(|(change, answer)| matches!((change, answer), (Change::Forget { .. }, Ok(true))));
                self.checkpoint(has_forgotten);
                group.into_iter().zip(answers).for_each(|(job, answer)| job.answer(answer));
            }
            // The change that caused it, such as one that is too large for the disk, must not fail the others.
            Err(error) if group.len() > 1 && !is_busy(&error) => {
                group.into_iter().for_each(|job| self.commit(vec![job]));
            }
            Err(error) => fail(group, &self.place.fault(&error)),
        }
    }

    fn check_identity(&self) -> Result<(), JournalError> {
        if self.place.identity() == self.identity {
            return Ok(());
        }
        let what = "the file was moved, removed or replaced while it was open: open the journal again";
        Err(JournalError::Unavailable(self.place.says(what)))
    }

    /// Makes all changes in one transaction and returns the answer to each. A refused change has no effect, and the
    /// others are committed all the same. Waits at most `busy_timeout` for other processes.
    fn try_commit(
        &mut self,
        changes: &[&Change],
        busy_timeout: Duration,
    ) -> rusqlite::Result<Vec<Result<bool, JournalError>>> {
        self.connection.busy_timeout(busy_timeout)?;
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut answers = Vec::with_capacity(changes.len());
        for change in changes {
            self.pages += PAGES_OF_A_CHANGE + change.bytes() / PAGE_BYTES;
            answers.push(match change.apply(&transaction) {
                Ok(has_changed) => Ok(has_changed),
                Err(Failure::Refused(error)) => Err(error),
                Err(Failure::Storage(error)) => return Err(error),
            });
        }
        transaction.commit()?;
        Ok(answers)
    }

    /// Copies the pages of the write-ahead log into the file once they are many. After a run was forgotten, it does so at
    /// once and empties the log, so that no content of the run is left there. If other processes use the log just then, it
    /// stays, and is overwritten later.
    fn checkpoint(&mut self, has_forgotten: bool) {
        let statement = match has_forgotten {
            true => "PRAGMA wal_checkpoint(TRUNCATE)",
            false if self.pages >= PAGES_IN_LOG => "PRAGMA wal_checkpoint(PASSIVE)",
            false => return,
        };
        (self.pages, self.begins_log) = (0, true);
        let checkpoint = || -> rusqlite::Result<()> {
            self.connection.busy_timeout(Duration::ZERO)?;
            self.connection.query_row(statement, [], |_| Ok(()))
        };
        if let Err(error) = checkpoint() {
            tracing::debug!(%error, "the journal's write-ahead log was not copied into its file");
        }
    }
}

/// Answers each of a group of changes with an error.
fn fail(group: Vec<Job>, error: &JournalError) {
    group.into_iter().for_each(|job| job.answer(Err(error.clone())));
}

impl Job {
    fn answer(self, answer: Result<bool, JournalError>) {
        // The caller may be gone.
        let _ = self.answer_tx.send(answer);
    }
}
