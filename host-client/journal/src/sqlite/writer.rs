//! The thread that makes changes. It commits all changes together that arrived during the commit before.

use std::sync::Arc;
use std::time::Duration;

use host_client_core::JournalError;
use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::SqliteOptions;
use super::change::Change;
use super::fault::{Failure, Identity, Place, is_busy};
use super::open::open;
use super::worker::Worker;

/// The maximum number of changes that wait for the thread; further callers wait.
const WAITING: usize = 1024;
/// The maximum size in KiB of the changes that wait: a few of the largest results.
const WAITING_KIB: u32 = 64 << 10;
/// The maximum number of changes that are committed together.
const TOGETHER: usize = 256;

#[derive(Debug)]
pub(super) struct Writer {
    worker: Worker<Job>,
    room: Arc<Semaphore>,
}

/// A change, and the sender of its answer.
struct Job {
    change: Change,
    answer_tx: oneshot::Sender<Result<bool, JournalError>>,
    _room: OwnedSemaphorePermit,
}

impl Writer {
    pub(super) async fn start(place: Arc<Place>, options: SqliteOptions) -> Result<Self, JournalError> {
        let (of_thread, busy_timeout) = (place.clone(), options.busy_timeout);
        let work = move |connection, jobs| {
            let identity = place.identity();
            Committer { connection, place, identity, busy_timeout }.run(jobs);
        };
        let worker = Worker::start(WAITING, move || open(&of_thread, &options), work).await?;
        Ok(Self { worker, room: Arc::new(Semaphore::new(WAITING_KIB as usize)) })
    }

    /// Makes and commits a change. Returns whether it changed anything.
    pub(super) async fn write(&self, change: Change) -> Result<bool, JournalError> {
        let kib = u32::try_from(change.bytes() >> 10).unwrap_or(u32::MAX).clamp(1, WAITING_KIB);
        let room = self.room.clone().acquire_many_owned(kib).await;
        let room = room.map_err(|error| JournalError::Unavailable(error.to_string()))?;
        self.worker.ask(|answer_tx| Job { change, answer_tx, _room: room }).await?
    }

    pub(super) async fn close(self) {
        self.worker.close().await;
    }
}

/// The state of the thread.
struct Committer {
    connection: Connection,
    place: Arc<Place>,
    /// The file that was opened.
    identity: Option<Identity>,
    busy_timeout: Duration,
}

impl Committer {
    fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        while let Some(job) = jobs.blocking_recv() {
            let mut group = vec![job];
            while group.len() < TOGETHER
                && let Ok(job) = jobs.try_recv()
            {
                group.push(job);
            }
            self.commit(group);
        }
    }

    /// Commits a group of changes and answers each of them.
    fn commit(&mut self, group: Vec<Job>) {
        if self.place.identity() != self.identity {
            let what = "the file was moved, removed or replaced while it was open: open the journal again";
            return fail(group, &JournalError::Unavailable(self.place.says(what)));
        }
        match self.try_commit(&group) {
            Ok(answers) => {
                self.clean_up_after(&group, &answers);
                group.into_iter().zip(answers).for_each(|(job, answer)| job.answer(answer));
            }
            // The change that caused it, such as one that is too large for the disk, must not fail the others.
            Err(error) if group.len() > 1 && !is_busy(&error) => {
                group.into_iter().for_each(|job| self.commit(vec![job]));
            }
            Err(error) => fail(group, &self.place.fault(&error)),
        }
    }

    /// Makes all changes in one transaction and returns the answer to each. A refused change has no effect, and the
    /// others are committed all the same.
    fn try_commit(&mut self, group: &[Job]) -> rusqlite::Result<Vec<Result<bool, JournalError>>> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut answers = Vec::with_capacity(group.len());
        for job in group {
            answers.push(match job.change.apply(&transaction) {
                Ok(has_changed) => Ok(has_changed),
                Err(Failure::Refused(error)) => Err(error),
                Err(Failure::Storage(error)) => return Err(error),
            });
        }
        transaction.commit()?;
        Ok(answers)
    }

    /// Truncates the write-ahead log after a run was forgotten, so that no content of it is left there. If other
    /// processes use the log just then, it stays, and is overwritten later.
    fn clean_up_after(&self, group: &[Job], answers: &[Result<bool, JournalError>]) {
        let has_forgotten = |(job, answer): (&Job, &Result<bool, JournalError>)| {
            matches!((&job.change, answer), (Change::Forget { .. }, Ok(true)))
        };
        if !group.iter().zip(answers).any(has_forgotten) {
            return;
        }
        let checkpoint = |wait: Duration| -> rusqlite::Result<()> {
            self.connection.busy_timeout(Duration::ZERO)?;
            let result = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
            self.connection.busy_timeout(wait)?;
            result
        };
        if let Err(error) = checkpoint(self.busy_timeout) {
            tracing::debug!(%error, "the journal's write-ahead log was not emptied");
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
