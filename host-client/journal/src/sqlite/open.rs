//! Connections and their settings, and the schema.

use std::time::{Duration, Instant};

use host_client_core::JournalError;
use rusqlite::{Connection, MAIN_DB, OpenFlags, Transaction, TransactionBehavior};

use super::fault::{Failure, Place, is_busy};
use super::{Durability, SqliteOptions, file};
use crate::migration;

/// The application id in the header of the file, which identifies a journal: "RJnl".
const APPLICATION_ID: i32 = 0x524A_6E6C;
/// The changes of the schema, from version 1 on. A released one is never edited.
const CHANGES: [&str; 1] = [include_str!("schema/1.sql")];
/// Removes processes whose time was over a day ago and that hold no run.
const CLEANING: &str = "DELETE FROM holders WHERE until_ms < (unixepoch() - 86400) * 1000
    AND NOT EXISTS (SELECT * FROM runs WHERE holder = name)";
/// The number of prepared statements that a connection keeps: more than there are.
const STATEMENTS: usize = 64;
/// The pause between attempts to set up a file that another process is setting up.
const PAUSE: Duration = Duration::from_millis(5);

/// Opens a journal, and creates it if it is absent.
pub(super) fn open(place: &Place, options: &SqliteOptions) -> Result<Connection, JournalError> {
    file::create(place)?;
    let deadline = Instant::now() + options.busy_timeout;
    loop {
        match set_up(place, options) {
            // The busy timeout does not apply to the switch of a new file to its write-ahead log.
            Err(Failure::Storage(error)) if is_busy(&error) && Instant::now() < deadline => std::thread::sleep(PAUSE),
            result => return result.map_err(|failure| place.error(failure)),
        }
    }
}

/// Opens another connection to a journal that this process has open.
pub(super) fn open_again(place: &Place, options: &SqliteOptions) -> Result<Connection, JournalError> {
    connect(place, options).map_err(|error| place.fault(&error))
}

fn connect(place: &Place, options: &SqliteOptions) -> rusqlite::Result<Connection> {
    // Without `SQLITE_OPEN_URI`, paths are not parsed as URIs. Each connection is used by one thread.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(place.path(), flags)?;
    connection.busy_timeout(options.busy_timeout)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(connection)
}

/// Connects for changes: checks the file, sets the modes of file and connection, and updates the schema.
fn set_up(place: &Place, options: &SqliteOptions) -> Result<Connection, Failure> {
    let mut connection = connect(place, options)?;
    // SQLite silently opens a file for reading that it may not write to.
    if connection.is_readonly(MAIN_DB)? {
        return Err(JournalError::ReadOnly(place.says("this user may not write to the file")).into());
    }
    let is_new = check_owner(place, &connection)?;
    let mode: String = connection.query_row("PRAGMA journal_mode = wal", [], |row| row.get(0))?;
    if mode != "wal" {
        let what = "its file system cannot share memory between processes: put it on a disk of this machine";
        return Err(JournalError::Unavailable(place.says(what)).into());
    }
    let synchronous = match options.durability {
        Durability::Process => "NORMAL",
        Durability::Power => "FULL",
    };
    connection.pragma_update(None, "synchronous", synchronous)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // The thread of the writer makes checkpoints: they wait for the disk.
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    // Overwrites deleted content, so that nothing of a forgotten run is left in the file.
    connection.pragma_update(None, "secure_delete", true)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    migrate(&transaction)?;
    transaction.execute(CLEANING, [])?;
    if is_new {
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    }
    transaction.commit()?;
    Ok(connection)
}

/// Returns whether the file is empty.
///
/// # Errors
/// It is a database of another application.
fn check_owner(place: &Place, connection: &Connection) -> Result<bool, Failure> {
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let owner: i32 = connection.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    if tables > 0 && owner != APPLICATION_ID {
        let what = "it is a database of something else: name another file";
        return Err(JournalError::Unavailable(place.says(what)).into());
    }
    Ok(tables == 0)
}

/// Updates the schema to the newest version. The transaction excludes other processes.
fn migrate(transaction: &Transaction<'_>) -> Result<(), Failure> {
    let has_version: bool = transaction.query_row(
        "SELECT EXISTS (SELECT * FROM sqlite_schema WHERE name = 'schema_version')",
        [],
        |row| row.get(0),
    )?;
    let version = |row: &rusqlite::Row<'_>| row.get(0);
    let found =
        if has_version { transaction.query_row("SELECT max(version) FROM schema_version", [], version)? } else { 0 };
    for (version, change) in migration::pending(&CHANGES, found)? {
        transaction.execute_batch(change)?;
        transaction.execute("DELETE FROM schema_version", [])?;
        transaction.execute("INSERT INTO schema_version VALUES (?)", [version])?;
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_commit_waits_for_the_disk_where_it_is_to_survive_a_power_failure() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::new(&folder.path().join("journal.db")).unwrap();
        for (durability, expected) in [(Durability::Process, 1), (Durability::Power, 2)] {
            let connection = open(&place, &SqliteOptions::default().durability(durability)).unwrap();
            let synchronous: i64 = connection.query_row("PRAGMA synchronous", [], |row| row.get(0)).unwrap();
            assert_eq!(synchronous, expected, "{durability:?}");
        }
    }
}
