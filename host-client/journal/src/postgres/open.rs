//! The schema.

use std::sync::Arc;

use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::fault::Failure;
use crate::migration;

/// The changes of the schema, from version 1 on. A released one is never edited.
const CHANGES: [&str; 1] = [include_str!("schema/1.sql")];
/// Excludes other processes that update the schema. The number is arbitrary: `RJnl`.
const LOCK: &str = "SELECT pg_advisory_xact_lock(1380609644)";
/// Removes processes whose time was over a day ago and that hold no run.
const CLEANING: &str = "DELETE FROM host_client_journal.holders
    WHERE until_ms < (extract(epoch FROM now()) - 86400) * 1000
    AND NOT EXISTS (SELECT FROM host_client_journal.runs WHERE holder = name)";

/// Updates the schema to the newest version.
///
/// # Errors
/// The journal is newer than this program, or the server fails.
pub(super) async fn open(client: Arc<Client>) -> Result<(), Failure> {
    // An up-to-date schema needs no right to create tables.
    if pending(&client).await?.is_empty() {
        return Ok(client.batch_execute(CLEANING).await?);
    }
    // If the connection is lost, the server rolls back.
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

/// Returns the changes that the schema still needs.
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
