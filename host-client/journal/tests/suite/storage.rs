//! The storages that tests run over, and runs to put into them.

use std::path::PathBuf;
use std::sync::Arc;

use host_client_core::durable::{
    Batch, Claim, Journal, JournalEntry, JournalError, MemoryJournal, NewRun, RunFilter, RunId, RunStatus,
};
use host_client_journal::{PostgresJournal, SqliteJournal};
use relay_test_support::postgres::Postgres;
use serde_json::json;
use tempfile::TempDir;

/// The present of the tests, in ms since 1970.
pub(crate) const NOW: i64 = 1_800_000_000_000;
/// A plan of a run.
pub(crate) const PLAN: &str = r#"{"code":"return 1 // größer","seed":7}"#;

/// Makes a test of each function, for each storage.
macro_rules! for_each_storage {
    ($($name:ident)*) => {
        mod sqlite {
            $(#[tokio::test]
            async fn $name() {
                relay_test_support::within(super::$name(crate::storage::Storage::sqlite())).await;
            })*
        }

        mod postgres {
            $(#[tokio::test]
            async fn $name() {
                relay_test_support::within(super::$name(crate::storage::Storage::postgres())).await;
            })*
        }
    };
}

pub(crate) use for_each_storage;

/// Makes a test of each function, for each storage and for the journal in memory.
macro_rules! for_each_journal {
    ($($name:ident)*) => {
        $crate::storage::for_each_storage! { $($name)* }

        mod memory {
            $(#[tokio::test]
            async fn $name() {
                relay_test_support::within(super::$name($crate::storage::Storage::memory())).await;
            })*
        }
    };
}
pub(crate) use for_each_journal;

/// A place for one journal, which is empty at first.
pub(crate) enum Storage {
    Sqlite(TempDir),
    Postgres { server: Arc<Postgres>, address: String },
    Memory(MemoryJournal),
}

impl Storage {
    pub(crate) fn sqlite() -> Self {
        Self::Sqlite(tempfile::tempdir().unwrap())
    }

    pub(crate) fn postgres() -> Self {
        let server = Postgres::shared();
        let address = server.database();
        Self::Postgres { server, address }
    }

    pub(crate) fn memory() -> Self {
        Self::Memory(MemoryJournal::default())
    }

    /// The path of the file, or the address of the database.
    pub(crate) fn address(&self) -> String {
        match self {
            Self::Memory(_) => panic!("the journal in memory has no address"),
            Self::Sqlite(folder) => folder.path().join("journal.db").to_str().unwrap().to_owned(),
            Self::Postgres { address, .. } => address.clone(),
        }
    }

    pub(crate) async fn open(&self) -> Arc<dyn Journal> {
        match self {
            Self::Memory(journal) => Arc::new(journal.clone()),
            Self::Sqlite(_) | Self::Postgres { .. } => open(&self.address()).await.unwrap(),
        }
    }

    /// Runs SQL that both storages understand, where `{}` stands before the name of a table.
    pub(crate) fn execute(&self, sql: &str) {
        match self {
            Self::Memory(_) => panic!("the journal in memory has no tables"),
            Self::Sqlite(_) => {
                let tables = rusqlite::Connection::open(self.address()).unwrap();
                tables.execute_batch(&sql.replace("{}", "")).unwrap();
            }
            Self::Postgres { server, address } => {
                server.query(address, &sql.replace("{}", "host_client_journal."));
            }
        }
    }
}

/// Opens the journal at a path or an address.
pub(crate) async fn open(address: &str) -> Result<Arc<dyn Journal>, JournalError> {
    if address.starts_with("postgres:") {
        return Ok(Arc::new(PostgresJournal::connect(address).await?));
    }
    Ok(Arc::new(SqliteJournal::open(PathBuf::from(address)).await?))
}

pub(crate) fn id(text: &str) -> RunId {
    text.parse().unwrap()
}

/// A claim that ends a minute after [`NOW`].
pub(crate) fn claim(holder: &str) -> Claim {
    Claim { holder: holder.to_owned(), until_ms: NOW + 60_000 }
}

pub(crate) fn new_run(name: &str, created_ms: i64) -> NewRun {
    NewRun { id: id(name), created_ms, plan: PLAN.to_owned() }
}

/// Adds a run that `host` holds.
pub(crate) async fn create(journal: &dyn Journal, name: &str) -> RunId {
    journal.create(new_run(name, NOW), claim("host")).await.unwrap();
    id(name)
}

/// The entries from `first` to `last` of a run, which a test can tell from those of others.
pub(crate) fn entries(first: u64, last: u64) -> Vec<JournalEntry> {
    (first..=last).map(|number| entry(number, json!({"number": number, "text": "ein Wert \u{1F512}\n\0"}))).collect()
}

/// One entry with some content.
pub(crate) fn entry(number: u64, content: serde_json::Value) -> JournalEntry {
    let call = number.is_multiple_of(2).then_some(number / 2);
    JournalEntry { kind: "called".to_owned(), call, json: content.to_string(), chain: format!("{number:064x}") }
}

pub(crate) fn batch(first: u64, last: u64) -> Batch {
    Batch { first, entries: entries(first, last), status: None, at_ms: NOW + i64::try_from(last).unwrap() }
}

pub(crate) fn status_only(first: u64, status: RunStatus) -> Batch {
    Batch { first, entries: Vec::new(), status: Some(status), at_ms: NOW + 500 }
}

/// All runs.
pub(crate) fn everything() -> RunFilter {
    RunFilter { unfinished: false, limit: 1_000, after: None, newest_first: false }
}
