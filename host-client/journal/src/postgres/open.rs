//! The tables of a new journal.

use std::sync::Arc;

use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::fault::Failure;
use crate::migration;

/// The changes that make the tables, from version 1 on. What was released is never changed.
const CHANGES: [&str; 1] = [include_str!("schema/1.sql")];
/// Keeps other processes from making the tables at the same time: a number of our own, `RJnl`.
const LOCK: &str = "SELECT pg_advisory_xact_lock(1380609644)";
/// Removes the names of processes that held something until a day ago, and hold no run.
const CLEANING: &str = "DELETE FROM host_client_journal.holders
    WHERE until_ms < (extract(epoch FROM now()) - 86400) * 1000
    AND NOT EXISTS (SELECT FROM host_client_journal.runs WHERE holder = name)";

/// Brings the tables to the newest version.
///
/// # Errors
/// The journal is newer than this program, or the server fails.
pub(super) async fn open(client: Arc<Client>) -> Result<(), Failure> {
    // Mostly they are there, and this user need not be allowed to create any.
    if pending(&client).await?.is_empty() {
        return Ok(client.batch_execute(CLEANING).await?);
    }
    // One text is one transaction, which ends as a whole when the connection is lost.
    client.batch_execute("BEGIN").await?;
    let result = migrate(&client).await;
    client.batch_execute(if result.is_ok() { "COMMIT" } else { "ROLLBACK" }).await?;
    result
}

async fn migrate(client: &Client) -> Result<(), Failure> {
    client.batch_execute(LOCK).await?;
    client.batch_execute("CREATE SCHEMA IF NOT EXISTS host_client_journal").await?;
    for (version, change) in pending(client).await? {
        client.batch_execute(change).await?;
        client.batch_execute("DELETE FROM host_client_journal.schema_version").await?;
        let text = "INSERT INTO host_client_journal.schema_version VALUES ($1)";
        client.execute_typed(text, &[(&version, Type::INT8)]).await?;
    }
    Ok(())
}

/// Returns the changes that the tables still need.
async fn pending(client: &Client) -> Result<Vec<(i64, &'static str)>, Failure> {
    let text = "SELECT to_regclass('host_client_journal.schema_version') IS NOT NULL";
    let has_version: bool = client.query_typed_one(text, &[]).await?.try_get(0)?;
    let found = if has_version {
        let text = "SELECT max(version) FROM host_client_journal.schema_version";
        client.query_typed_one(text, &[]).await?.try_get(0)?
    } else {
        0
    };
    Ok(migration::pending(&CHANGES, found)?.collect())
}
