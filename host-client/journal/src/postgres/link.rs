//! The connection to the server, which is made again when it is lost.

use std::sync::Arc;
use std::time::{Duration, Instant};

use backon::{BackoffBuilder as _, ExponentialBuilder};
use host_client_core::JournalError;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Mutex;
use tokio_postgres::{Client, Connection, NoTls};

use super::address::Address;
use super::fault::{Failure, is_lost};

/// The first and the longest pause between attempts to connect.
const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(2)];

/// One connection, which all statements share: they are sent without waiting for one another.
#[derive(Debug)]
pub(super) struct Link {
    address: Address,
    patience: Duration,
    /// `None`: there was none yet, or it was lost.
    client: Mutex<Option<Arc<Client>>>,
}

impl Link {
    pub(super) fn new(address: Address, patience: Duration) -> Self {
        Self { address, patience, client: Mutex::new(None) }
    }

    /// Makes a change; again when the connection was lost before the answer came. Then `change` gets `true`, and has to
    /// find out whether it was made the first time.
    pub(super) async fn change<T, F>(&self, change: impl Fn(Arc<Client>, bool) -> F) -> Result<T, JournalError>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let deadline = Instant::now() + self.patience;
        let mut is_again = false;
        loop {
            let client = self.client().await?;
            match change(client.clone(), is_again).await {
                Err(Failure::Server(error)) if is_lost(&error) && Instant::now() < deadline => {
                    tracing::debug!(%error, "the connection to the journal's server was lost");
                    self.forget(&client).await;
                    is_again = true;
                }
                result => return Ok(result?),
            }
        }
    }

    /// Asks a question, or makes a change that may as well be made twice.
    pub(super) async fn ask<T, F>(&self, question: impl Fn(Arc<Client>) -> F) -> Result<T, JournalError>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        self.change(|client, _| question(client)).await
    }

    /// Returns the connection. Where there is none, one caller makes it, and the others wait for it.
    async fn client(&self) -> Result<Arc<Client>, JournalError> {
        let mut slot = self.client.lock().await;
        if let Some(client) = slot.as_ref().filter(|client| !client.is_closed()) {
            return Ok(client.clone());
        }
        let client = Arc::new(self.connect_in_time().await?);
        *slot = Some(client.clone());
        Ok(client)
    }

    async fn forget(&self, lost: &Arc<Client>) {
        self.client.lock().await.take_if(|client| Arc::ptr_eq(client, lost));
    }

    /// Connects; tries again, while there is time, where the server cannot be reached just now.
    async fn connect_in_time(&self) -> Result<Client, JournalError> {
        let [first, longest] = PAUSES;
        let pauses = ExponentialBuilder::new().with_min_delay(first).with_max_delay(longest).without_max_times();
        let mut pauses = pauses.with_jitter().with_total_delay(Some(self.patience)).build();
        loop {
            match (self.connect().await, pauses.next()) {
                (Err(error), Some(pause)) if is_lost(&error) => tokio::time::sleep(pause).await,
                (result, _) => return result.map_err(|error| Failure::from(error).into()),
            }
        }
    }

    async fn connect(&self) -> Result<Client, tokio_postgres::Error> {
        let config = &self.address.config;
        match &self.address.tls {
            Some(tls) => config.connect(tls.clone()).await.map(drive),
            None => config.connect(NoTls).await.map(drive),
        }
    }
}

/// Starts the task that reads and writes for a client, until the client is dropped or the connection is lost.
fn drive<S, T>((client, connection): (Client, Connection<S, T>)) -> Client
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    tokio::spawn(async move {
        // Whoever waits for an answer gets an error, too.
        if let Err(error) = connection.await {
            tracing::debug!(%error, "the connection to the journal's server has ended");
        }
    });
    client
}
