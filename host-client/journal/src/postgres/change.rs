//! Changes and their statements.
//!
//! Each change is one statement, and so atomic in one round trip. It contains all conditions; if it affects no row, a
//! second statement finds the reason. A change that is repeated after a lost connection also checks whether its first
//! attempt succeeded.

use std::sync::Arc;

use host_client_core::durable::{Batch, Claim, Instruction, JournalError, NewRun, RunId, RunStatus};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use super::fault::Failure;
use super::read;
use crate::integer::{signed, unsigned};

/// The number of attempts to take a run whose holder is changed by others meanwhile.
const ATTEMPTS: usize = 8;

/// The fields of a run that tell why a change was refused.
struct Present {
    entries: u64,
    /// The claim of the process that holds the run.
    claim: Option<Claim>,
}

impl Present {
    async fn find(client: &Client, id: &RunId) -> Result<Option<Self>, Failure> {
        let text = "SELECT entries, holder, until_ms FROM host_client_journal.runs
            LEFT JOIN host_client_journal.holders ON name = holder WHERE id = $1";
        let row = client.query_typed_opt(text, &[(&id.as_str(), Type::TEXT)]).await?;
        let read = |row: Row| -> Result<_, Failure> {
            Ok(Self { entries: unsigned(row.try_get(0)?)?, claim: read::claim(&row, 1)? })
        };
        row.map(read).transpose()
    }

    async fn get(client: &Client, id: &RunId) -> Result<Self, Failure> {
        Ok(Self::find(client, id).await?.ok_or_else(|| JournalError::Unknown(id.clone()))?)
    }

    fn holder(&self) -> Option<&str> {
        self.claim.as_ref().map(|claim| claim.holder.as_str())
    }

    fn claimed(&self, run: &RunId) -> JournalError {
        JournalError::Claimed { run: run.clone(), until_ms: self.claim.as_ref().map_or(0, |claim| claim.until_ms) }
    }

    /// # Errors
    /// [`JournalError::Claimed`]: another process than `holder` holds the run at `now_ms`.
    fn check_free(&self, run: &RunId, holder: &str, now_ms: i64) -> Result<(), JournalError> {
        match &self.claim {
            Some(claim) if claim.holder != holder && claim.until_ms > now_ms => Err(self.claimed(run)),
            _ => Ok(()),
        }
    }
}

/// Executes a statement. Returns whether it returned a row, that is, whether its conditions were met.
async fn is_made(client: &Client, text: &str, parameters: &[(&(dyn ToSql + Sync), Type)]) -> Result<bool, Failure> {
    Ok(client.query_typed_opt(text, parameters).await?.is_some())
}

pub(super) async fn create(client: Arc<Client>, is_again: bool, run: &NewRun, claim: &Claim) -> Result<(), Failure> {
    let text = "WITH run AS (
            INSERT INTO host_client_journal.runs (id, created_ms, changed_ms, status, entries, holder)
            VALUES ($1, $2, $2, $3, 0, $4) ON CONFLICT (id) DO NOTHING RETURNING number
        ), plan AS (
            INSERT INTO host_client_journal.plans (run, json) SELECT number, $6::json FROM run
        ), holder AS (
            INSERT INTO host_client_journal.holders (name, until_ms) SELECT $4, $5 FROM run
            ON CONFLICT (name) DO UPDATE SET until_ms = excluded.until_ms
        ) SELECT number FROM run";
    let status = RunStatus::Running.as_str();
    let parameters: [(&(dyn ToSql + Sync), Type); 6] = [
        (&run.id.as_str(), Type::TEXT),
        (&run.created_ms, Type::INT8),
        (&status, Type::TEXT),
        (&claim.holder, Type::TEXT),
        (&claim.until_ms, Type::INT8),
        (&run.plan, Type::TEXT),
    ];
    if is_made(&client, text, &parameters).await? || is_again && is_created(&client, run, claim).await? {
        return Ok(());
    }
    Err(JournalError::Exists(run.id.clone()).into())
}

/// Tells whether a run exists exactly as it is to be created.
async fn is_created(client: &Client, run: &NewRun, claim: &Claim) -> Result<bool, Failure> {
    let text = "SELECT FROM host_client_journal.runs JOIN host_client_journal.plans ON run = number
        WHERE id = $1 AND created_ms = $2 AND holder = $3 AND entries = 0 AND json::text = $4";
    let parameters: [(&(dyn ToSql + Sync), Type); 4] = [
        (&run.id.as_str(), Type::TEXT),
        (&run.created_ms, Type::INT8),
        (&claim.holder, Type::TEXT),
        (&run.plan, Type::TEXT),
    ];
    is_made(client, text, &parameters).await
}

pub(super) async fn append(
    client: Arc<Client>,
    is_again: bool,
    run: &RunId,
    holder: &str,
    batch: &Batch,
) -> Result<(), Failure> {
    let text = "WITH run AS (
            UPDATE host_client_journal.runs
            SET entries = entries + cardinality($6), changed_ms = $4, status = coalesce($5, status)
            WHERE id = $1 AND holder = $2 AND entries = $3 - 1 RETURNING number
        ), added AS (
            INSERT INTO host_client_journal.entries (run, number, at_ms, kind, call, json, chain)
            SELECT run.number, $3 + place - 1, $4, kind, call, json::json, chain
            FROM run, unnest($6, $7, $8, $9) WITH ORDINALITY AS entry (kind, call, json, chain, place)
        ) SELECT number FROM run";
    let entries = &batch.entries;
    let kinds: Vec<_> = entries.iter().map(|entry| entry.kind.as_str()).collect();
    let calls: Vec<_> = entries.iter().map(|entry| entry.call.map(signed)).collect();
    let texts: Vec<_> = entries.iter().map(|entry| entry.json.as_str()).collect();
    let chains: Vec<_> = entries.iter().map(|entry| entry.chain.as_str()).collect();
    let parameters: [(&(dyn ToSql + Sync), Type); 9] = [
        (&run.as_str(), Type::TEXT),
        (&holder, Type::TEXT),
        (&signed(batch.first), Type::INT8),
        (&batch.at_ms, Type::INT8),
        (&batch.status.map(RunStatus::as_str), Type::TEXT),
        (&kinds, Type::TEXT_ARRAY),
        (&calls, Type::INT8_ARRAY),
        (&texts, Type::TEXT_ARRAY),
        (&chains, Type::TEXT_ARRAY),
    ];
    if is_made(&client, text, &parameters).await? || is_again && is_appended(&client, run, batch).await? {
        return Ok(());
    }
    let present = Present::get(&client, run).await?;
    Err(match present.holder() {
        None => JournalError::Unclaimed(run.clone()),
        Some(it) if it != holder => present.claimed(run),
        Some(_) => {
            let (expected, found) = (batch.first.saturating_sub(1), present.entries);
            JournalError::Conflict { run: run.clone(), expected, found }
        }
    }
    .into())
}

/// Tells whether the last entry of a batch exists. Its chain distinguishes it from other entries with its number.
async fn is_appended(client: &Client, run: &RunId, batch: &Batch) -> Result<bool, Failure> {
    let Some(last) = batch.entries.last() else {
        return Ok(false);
    };
    let text = "SELECT FROM host_client_journal.entries JOIN host_client_journal.runs ON runs.number = run
        WHERE id = $1 AND entries.number = $2 AND chain = $3";
    let number = signed(batch.first.saturating_add(batch.entries.len() as u64 - 1));
    is_made(client, text, &[(&run.as_str(), Type::TEXT), (&number, Type::INT8), (&last.chain, Type::TEXT)]).await
}

pub(super) async fn take(client: Arc<Client>, run: &RunId, claim: &Claim, now_ms: i64) -> Result<(), Failure> {
    let text = "WITH run AS (
            UPDATE host_client_journal.runs SET holder = $2
            WHERE id = $1 AND holder IS NOT DISTINCT FROM $4 RETURNING number
        ), holder AS (
            INSERT INTO host_client_journal.holders (name, until_ms) SELECT $2, $3 FROM run
            ON CONFLICT (name) DO UPDATE SET until_ms = excluded.until_ms
        ) SELECT number FROM run";
    for _ in 0..ATTEMPTS {
        let present = Present::get(&client, run).await?;
        present.check_free(run, &claim.holder, now_ms)?;
        let parameters: [(&(dyn ToSql + Sync), Type); 4] = [
            (&run.as_str(), Type::TEXT),
            (&claim.holder, Type::TEXT),
            (&claim.until_ms, Type::INT8),
            (&present.holder(), Type::TEXT),
        ];
        if is_made(&client, text, &parameters).await? {
            return Ok(());
        }
    }
    Err(JournalError::Busy(format!("others keep taking the run {run}")).into())
}

pub(super) async fn renew(client: Arc<Client>, claim: &Claim) -> Result<(), Failure> {
    let text = "INSERT INTO host_client_journal.holders (name, until_ms) VALUES ($1, $2)
        ON CONFLICT (name) DO UPDATE SET until_ms = excluded.until_ms";
    client.execute_typed(text, &[(&claim.holder, Type::TEXT), (&claim.until_ms, Type::INT8)]).await?;
    Ok(())
}

pub(super) async fn release(client: Arc<Client>, run: &RunId, holder: &str) -> Result<(), Failure> {
    let text = "UPDATE host_client_journal.runs SET holder = NULL WHERE id = $1 AND holder = $2 RETURNING number";
    if is_made(&client, text, &[(&run.as_str(), Type::TEXT), (&holder, Type::TEXT)]).await? {
        return Ok(());
    }
    Present::get(&client, run).await.map(drop)
}

pub(super) async fn instruct(
    client: Arc<Client>,
    is_again: bool,
    run: &RunId,
    instruction: &Instruction,
) -> Result<(), Failure> {
    // The lock on the last number lasts until the commit, so numbers become visible in their order.
    let text = "WITH run AS (
            SELECT number FROM host_client_journal.runs WHERE id = $1 FOR KEY SHARE
        ), next AS (
            UPDATE host_client_journal.last_instruction SET number = number + 1
            WHERE EXISTS (SELECT FROM run) RETURNING number
        ) INSERT INTO host_client_journal.instructions (number, run, call, json)
            SELECT next.number, run.number, $2, $3::json FROM run, next
            ON CONFLICT (run, call) DO NOTHING RETURNING number";
    let parameters: [(&(dyn ToSql + Sync), Type); 3] =
        [(&run.as_str(), Type::TEXT), (&signed(instruction.call), Type::INT8), (&instruction.json, Type::TEXT)];
    if is_made(&client, text, &parameters).await? {
        return Ok(());
    }
    let present = read::instructions_of(client, run).await?;
    if is_again && present.contains(instruction) {
        return Ok(());
    }
    Err(JournalError::Instructed { run: run.clone(), call: instruction.call }.into())
}

pub(super) async fn forget(
    client: Arc<Client>,
    is_again: bool,
    run: &RunId,
    holder: &str,
    now_ms: i64,
) -> Result<bool, Failure> {
    // Foreign keys remove the rows of the other tables.
    let text = "DELETE FROM host_client_journal.runs
        WHERE id = $1 AND holder IS NOT DISTINCT FROM $2 RETURNING number";
    for _ in 0..ATTEMPTS {
        let Some(present) = Present::find(&client, run).await? else {
            return Ok(is_again);
        };
        present.check_free(run, holder, now_ms)?;
        if is_made(&client, text, &[(&run.as_str(), Type::TEXT), (&present.holder(), Type::TEXT)]).await? {
            return Ok(true);
        }
    }
    Err(JournalError::Busy(format!("others keep taking the run {run}")).into())
}
