//! The journal in an SQLite file.
//!
//! - `writer`: the connection that makes changes, and the thread that makes them in groups; `change`: the statements of each
//!   change
//! - `reader`: the thread that runs queries; `read`: the statements of each query
//! - `worker`: a thread with a connection, which both of them are
//! - `open`: connections and the schema; `file`: creation of the file
//! - `fault`: translation of errors

mod change;
mod fault;
mod file;
mod open;
mod read;
mod reader;
mod worker;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use host_client_core::durable::{
    Batch, Claim, Instruction, Journal, JournalEntry, JournalError, JournalFuture, NewRun, NumberedInstruction,
    RunFilter, RunHead, RunId,
};

use change::Change;
use fault::Place;
use reader::Reader;
use writer::Writer;

/// The failures that acknowledged entries survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// The end of the process, also by `kill -9` (`synchronous=NORMAL`). After a power failure or a crash of the
    /// kernel, the last entries may be missing; the journal is consistent without them.
    #[default]
    Process,
    /// A power failure as well (`synchronous=FULL`): every commit waits for the disk.
    Power,
}

/// Options of a [`SqliteJournal`].
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    durability: Durability,
    busy_timeout: Duration,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self { durability: Durability::default(), busy_timeout: Duration::from_secs(5) }
    }
}

impl SqliteOptions {
    /// Sets the failures that acknowledged entries survive; by default [`Durability::Process`].
    #[must_use]
    pub fn durability(self, durability: Durability) -> Self {
        Self { durability, ..self }
    }

    /// Sets the time to wait for other processes that write to the file, before [`JournalError::Busy`]; by default 5 s.
    #[must_use]
    pub fn busy_timeout(self, busy_timeout: Duration) -> Self {
        Self { busy_timeout, ..self }
    }

    /// Opens a journal, as [`SqliteJournal::open`] does, with these options.
    ///
    /// # Errors
    /// Those of [`SqliteJournal::open`].
    pub async fn open(self, path: impl AsRef<Path>) -> Result<SqliteJournal, JournalError> {
        let place = Arc::new(Place::new(path.as_ref())?);
        let writer = Writer::start(place.clone(), self.clone()).await?;
        let reader = Reader::start(place.clone(), self).await?;
        Ok(SqliteJournal { place, writer, reader })
    }
}

/// A journal in one SQLite file, which several processes of one machine may have open.
///
/// While it is open, two more files lie beside it, with `-wal` and `-shm` at the end of their names: they belong to it.
/// To copy it, use `sqlite3 FILE '.backup COPY'`. The file must be on a local disk, since locks of network file systems
/// are not reliable.
///
/// Acknowledged entries survive the end of the process, and more where [`Durability`] says so.
#[derive(Debug)]
pub struct SqliteJournal {
    place: Arc<Place>,
    writer: Writer,
    reader: Reader,
}

impl SqliteJournal {
    /// Returns the default options.
    pub fn options() -> SqliteOptions {
        SqliteOptions::default()
    }

    /// Opens the journal in a file. An absent file and its absent folders are created with permissions for their owner
    /// alone.
    ///
    /// # Errors
    /// [`JournalError::Unavailable`]: the file cannot be opened, or is not a journal;
    /// [`JournalError::ReadOnly`], [`JournalError::Full`], [`JournalError::Busy`], [`JournalError::Damaged`];
    /// [`JournalError::Version`]: newer software has written it.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, JournalError> {
        Self::options().open(path).await
    }

    /// Returns the absolute path of the file.
    pub fn path(&self) -> &Path {
        self.place.path()
    }

    /// Finishes all pending changes and closes the file. It is then complete without its `-wal`, unless another process
    /// has it open. Dropping the journal does the same in the background.
    pub async fn close(self) {
        self.reader.close().await;
        self.writer.close().await;
    }

    fn change(&self, change: Change) -> JournalFuture<'_, ()> {
        Box::pin(async move { self.writer.write(change).await.map(drop) })
    }
}

impl Journal for SqliteJournal {
    fn create(&self, run: NewRun, claim: Claim) -> JournalFuture<'_, ()> {
        self.change(Change::Create { run, claim })
    }

    fn append(&self, run: RunId, holder: String, batch: Batch) -> JournalFuture<'_, ()> {
        self.change(Change::Append { run, holder, batch })
    }

    fn run(&self, id: RunId) -> JournalFuture<'_, Option<RunHead>> {
        Box::pin(self.reader.read(move |tables| read::run(tables, &id)))
    }

    fn plan(&self, id: RunId) -> JournalFuture<'_, Option<String>> {
        Box::pin(self.reader.read(move |tables| read::plan(tables, &id)))
    }

    fn entries(&self, run: RunId, after: u64) -> JournalFuture<'_, Vec<JournalEntry>> {
        Box::pin(self.reader.read(move |tables| read::entries(tables, &run, after)))
    }

    fn runs(&self, filter: RunFilter) -> JournalFuture<'_, Vec<RunHead>> {
        Box::pin(self.reader.read(move |tables| read::runs(tables, &filter)))
    }

    fn claim(&self, run: RunId, claim: Claim, now_ms: i64) -> JournalFuture<'_, ()> {
        self.change(Change::Claim { run, claim, now_ms })
    }

    fn renew(&self, claim: Claim) -> JournalFuture<'_, ()> {
        self.change(Change::Renew { claim })
    }

    fn release(&self, run: RunId, holder: String) -> JournalFuture<'_, ()> {
        self.change(Change::Release { run, holder })
    }

    fn instruct(&self, run: RunId, instruction: Instruction) -> JournalFuture<'_, ()> {
        self.change(Change::Instruct { run, instruction })
    }

    fn instructions(&self, after: u64) -> JournalFuture<'_, Vec<NumberedInstruction>> {
        Box::pin(self.reader.read(move |tables| read::instructions(tables, after)))
    }

    fn instructions_of(&self, run: RunId) -> JournalFuture<'_, Vec<Instruction>> {
        Box::pin(self.reader.read(move |tables| read::instructions_of(tables, &run)))
    }

    fn forget(&self, run: RunId, holder: String, now_ms: i64) -> JournalFuture<'_, bool> {
        Box::pin(self.writer.write(Change::Forget { run, holder, now_ms }))
    }
}
