//! The thread that writes: whatever has queued up while it wrote is committed together.

use std::sync::Arc;
use std::time::Duration;

use host_client_core::JournalError;
use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::SqliteOptions;
use super::change::Change;
use super::fault::{Failure, Place};
use super::open::open;
use super::worker::Worker;

/// How many changes wait for the thread; who has more waits itself.
const WAITING: usize = 1024;
/// How many KiB of changes wait, at most: room for a few of the largest results.
const WAITING_KIB: u32 = 64 << 10;
/// How many changes are committed together, at most.
const TOGETHER: usize = 256;

#[derive(Debug)]
pub(super) struct Writer {
    worker: Worker<Job>,
    room: Arc<Semaphore>,
}

/// A change, and who waits for it.
struct Job {
    change: Change,
    answer_tx: oneshot::Sender<Result<bool, JournalError>>,
    _room: OwnedSemaphorePermit,
}

impl Writer {
    pub(super) async fn start(place: Arc<Place>, options: SqliteOptions) -> Result<Self, JournalError> {
        let (of_thread, busy_timeout) = (place.clone(), options.busy_timeout);
        let work = move |connection, jobs| Committer { connection, place, busy_timeout }.run(jobs);
        let worker = Worker::start(WAITING, move || open(&of_thread, &options), work).await?;
        Ok(Self { worker, room: Arc::new(Semaphore::new(WAITING_KIB as usize)) })
    }

    /// Makes a change, and returns when it is committed. The value says whether it changed anything.
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

/// The thread's own side.
struct Committer {
    connection: Connection,
    place: Arc<Place>,
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

    /// Commits a group of changes and answers for each.
    fn commit(&mut self, group: Vec<Job>) {
        match self.try_commit(&group) {
            Ok(answers) => {
                self.clean_up_after(&group, &answers);
                group.into_iter().zip(answers).for_each(|(job, answer)| job.answer(answer));
            }
            // One of them may be too large for the room that there is: that concerns no other.
            Err(_) if group.len() > 1 => group.into_iter().for_each(|job| self.commit(vec![job])),
            Err(error) => {
                let error = self.place.fault(&error);
                group.into_iter().for_each(|job| job.answer(Err(error.clone())));
            }
        }
    }

    /// Makes all changes in one transaction. The answers are those of the single changes: one that is refused has changed
    /// nothing, and so does not keep the others back.
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

    /// Empties the write-ahead log after a run was forgotten, so that nothing of it is left there. This does not wait for
    /// other processes: if they hold the log, it is written over in time.
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

impl Job {
    fn answer(self, answer: Result<bool, JournalError>) {
        // Nobody may wait for it any more.
        let _ = self.answer_tx.send(answer);
    }
}
