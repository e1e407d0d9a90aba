//! The thread that reads. It sees what the writer has committed, and neither waits for the other.

use std::sync::Arc;

use host_client_core::JournalError;
use rusqlite::Connection;
use tokio::sync::mpsc;

use super::SqliteOptions;
use super::fault::{Failure, Place};
use super::open::open_again;
use super::worker::Worker;

/// How many questions wait for the thread; who asks more waits itself.
const WAITING: usize = 64;

type Question = Box<dyn FnOnce(&mut Connection) + Send>;

#[derive(Debug)]
pub(super) struct Reader {
    worker: Worker<Question>,
    place: Arc<Place>,
}

impl Reader {
    /// Starts the thread, for a file that the writer has opened.
    pub(super) async fn start(place: Arc<Place>, options: SqliteOptions) -> Result<Self, JournalError> {
        let of_thread = place.clone();
        let worker = Worker::start(WAITING, move || open_again(&of_thread, &options), answer).await?;
        Ok(Self { worker, place })
    }

    /// Reads from the tables as they are at one moment.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, JournalError> {
        let answer = self.worker.ask(|answer_tx| -> Question {
            Box::new(move |connection| {
                let answer = connection.transaction().map_err(Failure::Storage).and_then(|moment| question(&moment));
                // Nobody may wait for it any more.
                let _ = answer_tx.send(answer);
            })
        });
        answer.await?.map_err(|failure| self.place.error(failure))
    }

    pub(super) async fn close(self) {
        self.worker.close().await;
    }
}

fn answer(mut connection: Connection, mut questions: mpsc::Receiver<Question>) {
    while let Some(question) = questions.blocking_recv() {
        question(&mut connection);
    }
}
