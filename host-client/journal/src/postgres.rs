//! The journal in a Postgres database.
//!
//! - `change`: the statement of each change; `read`: the statement of each query
//! - `link`: the connection, and its restoration; `address`: the server and TLS
//! - `open`: the schema
//! - `fault`: translation of errors

mod address;
mod change;
mod fault;
mod link;
mod open;
mod read;

use std::time::Duration;

use host_client_core::durable::{
    Batch, Claim, Instruction, Journal, JournalEntry, JournalError, JournalFuture, NewRun, NumberedInstruction,
    RunFilter, RunHead, RunId,
};

use address::Address;
#[cfg(feature = "sqlite")]
pub(crate) use address::is_address;
use link::Link;

/// Options of a [`PostgresJournal`].
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    authorities: Option<Vec<u8>>,
    patience: Duration,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self { authorities: None, patience: Duration::from_secs(10) }
    }
}

impl PostgresOptions {
    /// Sets the certificate authorities, in PEM, that may issue the server's certificate; by default those that Mozilla
    /// trusts. The address can name their file as well: `sslrootcert=FILE`.
    #[must_use]
    pub fn authorities(self, pem: impl Into<Vec<u8>>) -> Self {
        Self { authorities: Some(pem.into()), ..self }
    }

    /// Sets the time for which reconnecting is tried before [`JournalError::Unavailable`]; by default 10 s.
    #[must_use]
    pub fn patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Opens a journal, as [`PostgresJournal::connect`] does, with these options.
    ///
    /// # Errors
    /// Those of [`PostgresJournal::connect`].
    pub async fn connect(self, address: &str) -> Result<PostgresJournal, JournalError> {
        let address = Address::parse(address, self.authorities.as_deref())?;
        let link = Link::new(address, self.patience);
        link.query(open::open).await?;
        Ok(PostgresJournal { link })
    }
}

/// A journal in the schema `host_client_journal` of a Postgres database, which several machines may share. It is tested
/// with Postgres 15.
///
/// Acknowledged entries are as safe as the server makes them: with its `synchronous_commit` at `on`, the default, they
/// survive a power failure. After the connection was lost, it reconnects and repeats what had no answer, without doing
/// anything twice.
#[derive(Debug)]
pub struct PostgresJournal {
    link: Link,
}

impl PostgresJournal {
    /// Returns the default options.
    pub fn options() -> PostgresOptions {
        PostgresOptions::default()
    }

    /// Opens the journal in a database, and creates its schema if it is absent.
    ///
    /// The address has one of the forms that `psql` takes:
    /// `postgres://user:password@host:5432/database?sslmode=require`, or `host=… user=… dbname=…`. TLS with a verified
    /// certificate is used for servers on other machines, unless the address says `sslmode=disable`, and for servers on
    /// this machine if the address says `sslmode=require`.
    ///
    /// # Errors
    /// [`JournalError::Unavailable`]: the address is invalid, the server cannot be reached, or it refuses this user;
    /// [`JournalError::ReadOnly`]: the user may not write; [`JournalError::Version`]: newer software has written the
    /// journal; [`JournalError::Full`], [`JournalError::Busy`], [`JournalError::Damaged`].
    pub async fn connect(address: &str) -> Result<Self, JournalError> {
        Self::options().connect(address).await
    }
}

impl Journal for PostgresJournal {
    fn create(&self, run: NewRun, claim: Claim) -> JournalFuture<'_, ()> {
        Box::pin(
            async move { self.link.change(|client, is_again| change::create(client, is_again, &run, &claim)).await },
        )
    }

    fn append(&self, run: RunId, holder: String, batch: Batch) -> JournalFuture<'_, ()> {
        Box::pin(async move {
            self.link.change(|client, is_again| change::append(client, is_again, &run, &holder, &batch)).await
        })
    }

    fn run(&self, id: RunId) -> JournalFuture<'_, Option<RunHead>> {
        Box::pin(async move { self.link.query(|client| read::run(client, &id)).await })
    }

    fn plan(&self, id: RunId) -> JournalFuture<'_, Option<String>> {
        Box::pin(async move { self.link.query(|client| read::plan(client, &id)).await })
    }

    fn entries(&self, run: RunId, after: u64) -> JournalFuture<'_, Vec<JournalEntry>> {
        Box::pin(async move { self.link.query(|client| read::entries(client, &run, after)).await })
    }

    fn runs(&self, filter: RunFilter) -> JournalFuture<'_, Vec<RunHead>> {
        Box::pin(async move { self.link.query(|client| read::runs(client, &filter)).await })
    }

    fn claim(&self, run: RunId, claim: Claim, now_ms: i64) -> JournalFuture<'_, ()> {
        Box::pin(async move { self.link.query(|client| change::take(client, &run, &claim, now_ms)).await })
    }

    fn renew(&self, claim: Claim) -> JournalFuture<'_, ()> {
        Box::pin(async move { self.link.query(|client| change::renew(client, &claim)).await })
    }

    fn release(&self, run: RunId, holder: String) -> JournalFuture<'_, ()> {
        Box::pin(async move { self.link.query(|client| change::release(client, &run, &holder)).await })
    }

    fn instruct(&self, run: RunId, instruction: Instruction) -> JournalFuture<'_, ()> {
        Box::pin(async move {
            self.link.change(|client, is_again| change::instruct(client, is_again, &run, &instruction)).await
        })
    }

    fn instructions(&self, after: u64) -> JournalFuture<'_, Vec<NumberedInstruction>> {
        Box::pin(async move { self.link.query(|client| read::instructions(client, after)).await })
    }

    fn instructions_of(&self, run: RunId) -> JournalFuture<'_, Vec<Instruction>> {
        Box::pin(async move { self.link.query(|client| read::instructions_of(client, &run)).await })
    }

    fn forget(&self, run: RunId, holder: String, now_ms: i64) -> JournalFuture<'_, bool> {
        Box::pin(async move {
            self.link.change(|client, is_again| change::forget(client, is_again, &run, &holder, now_ms)).await
        })
    }
}
