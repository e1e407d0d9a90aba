//! Journals that people name by a text: the path of an SQLite file, or the address of a Postgres database.

use std::sync::Arc;

use host_client_core::{Journal, JournalError};

use crate::postgres::{PostgresJournal, is_address};
use crate::sqlite::SqliteJournal;

/// Tells whether a journal's name is the address of a database. `false`: it is the path of a file.
pub fn is_database(name: &str) -> bool {
    is_address(name)
}

/// Opens the journal of a name, and creates it if it is absent. An address that begins with `postgres://` or `postgresql://` is
/// that of a Postgres database; every other name is the path of an SQLite file.
///
/// # Errors
/// Those of [`SqliteJournal::open`] and [`PostgresJournal::connect`].
pub async fn open_journal(name: &str) -> Result<Arc<dyn Journal>, JournalError> {
    if is_database(name) {
        return Ok(Arc::new(PostgresJournal::connect(name).await?));
    }
    Ok(Arc::new(SqliteJournal::open(name).await?))
}
