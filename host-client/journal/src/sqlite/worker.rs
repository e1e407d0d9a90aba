//! A thread with a connection: SQLite's functions block on the disk and on other processes.

use std::fmt;

use host_client_core::JournalError;
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

/// A thread that does jobs in their order, until it is dropped and all are done.
pub(super) struct Worker<J> {
    queue: mpsc::Sender<J>,
    /// Is closed when the thread has ended.
    ended: oneshot::Receiver<()>,
}

impl<J: Send + 'static> Worker<J> {
    /// Starts a thread that opens a connection and passes it to `work` with a queue of jobs, which holds `waiting`
    /// jobs.
    ///
    /// # Errors
    /// Those of `open`; [`JournalError::Unavailable`]: no thread can be started.
    pub(super) async fn start(
        waiting: usize,
        open: impl FnOnce() -> Result<Connection, JournalError> + Send + 'static,
        work: impl FnOnce(Connection, mpsc::Receiver<J>) + Send + 'static,
    ) -> Result<Self, JournalError> {
        let (queue, jobs) = mpsc::channel(waiting);
        let (opened_tx, opened) = oneshot::channel();
        let (ended_tx, ended) = oneshot::channel();
        let thread = std::thread::Builder::new().name("journal".to_owned());
        let body = move || {
            let _ended_tx: oneshot::Sender<()> = ended_tx;
            match open() {
                // If the future of `start` was dropped, the queue is closed and `work` returns at once.
                Ok(connection) => {
                    let _ = opened_tx.send(Ok(()));
                    work(connection, jobs);
                }
                Err(error) => drop(opened_tx.send(Err(error))),
            }
        };
        thread.spawn(body).map_err(|error| JournalError::Unavailable(format!("it needs a thread: {error}")))?;
        opened.await.unwrap_or_else(|_| Err(has_panicked()))?;
        Ok(Self { queue, ended })
    }

    /// Puts a job into the queue, waiting for room if it is full, and awaits its answer. `job` makes it from the sender
    /// of the answer.
    ///
    /// # Errors
    /// [`JournalError::Unavailable`]: the thread has panicked.
    pub(super) async fn ask<T>(&self, job: impl FnOnce(oneshot::Sender<T>) -> J) -> Result<T, JournalError> {
        let (answer_tx, answer) = oneshot::channel();
        self.queue.send(job(answer_tx)).await.map_err(|_| has_panicked())?;
        answer.await.map_err(|_| has_panicked())
    }

    /// Waits until all jobs are done and the connection is closed.
    pub(super) async fn close(self) {
        drop(self.queue);
        // Its sender is never used, only dropped.
        let _ = self.ended.await;
    }
}

impl<J> fmt::Debug for Worker<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").finish_non_exhaustive()
    }
}

fn has_panicked() -> JournalError {
    JournalError::Unavailable("its thread has panicked: open it again".to_owned())
}
