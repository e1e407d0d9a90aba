//! The connection to the server, and its restoration.

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

/// One connection that all statements share; they are pipelined.
#[derive(Debug)]
pub(super) struct Link {
    address: Address,
    patience: Duration,
    /// `None`: not connected yet, or the connection was lost.
    client: Mutex<Option<Arc<Client>>>,
}

impl Link {
    pub(super) fn new(address: Address, patience: Duration) -> Self {
        Self { address, patience, client: Mutex::new(None) }
    }

    /// Makes a change, and repeats it if the connection was lost before its answer came. The repeated `change` gets
    /// `true`, and has to check whether the first attempt succeeded.
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

    /// Runs a query, or a change that may be made twice.
    pub(super) async fn query<T, F>(&self, query: impl Fn(Arc<Client>) -> F) -> Result<T, JournalError>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        self.change(|client, _| query(client)).await
    }

    /// Returns the connection. If there is none, one caller connects and the others wait.
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

    /// Connects, and tries again for some time if the server cannot be reached.
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

/// Spawns the task that drives a connection until its client is dropped or the connection is lost.
fn drive<S, T>((client, connection): (Client, Connection<S, T>)) -> Client
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    tokio::spawn(async move {
        // Pending statements get the error as well.
        if let Err(error) = connection.await {
            tracing::debug!(%error, "the connection to the journal's server has ended");
        }
    });
    client
}
