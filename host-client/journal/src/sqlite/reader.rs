//! The thread that runs queries. It sees everything that is committed; reader and writer do not block each other.

use std::sync::Arc;

use host_client_core::JournalError;
use rusqlite::Connection;
use tokio::sync::mpsc;

use super::SqliteOptions;
use super::fault::{Failure, Place};
use super::open::open_again;
use super::worker::Worker;

/// The maximum number of queries that wait for the thread; further callers wait.
const WAITING: usize = 64;

type Query = Box<dyn FnOnce(&mut Connection) + Send>;

#[derive(Debug)]
pub(super) struct Reader {
    worker: Worker<Query>,
    place: Arc<Place>,
}

impl Reader {
    /// Starts the thread, for a file that the writer has opened.
    pub(super) async fn start(place: Arc<Place>, options: SqliteOptions) -> Result<Self, JournalError> {
        let of_thread = place.clone();
        let worker = Worker::start(WAITING, move || open_again(&of_thread, &options), run_queries).await?;
        Ok(Self { worker, place })
    }

    /// Runs a query in a transaction of its own.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, JournalError> {
        let answer = self.worker.ask(|answer_tx| -> Query {
            Box::new(move |connection| {
                let answer = connection.transaction().map_err(Failure::Storage).and_then(|state| query(&state));
                // The caller may be gone.
                let _ = answer_tx.send(answer);
            })
        });
        answer.await?.map_err(|failure| self.place.error(failure))
    }

    pub(super) async fn close(self) {
        self.worker.close().await;
    }
}

fn run_queries(mut connection: Connection, mut queries: mpsc::Receiver<Query>) {
    while let Some(query) = queries.blocking_recv() {
        query(&mut connection);
    }
}
