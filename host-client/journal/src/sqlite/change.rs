//! Changes and their statements.
//!
//! Each change checks its conditions before it writes anything. A refused one has no effect, and so can share a
//! transaction with others.

use host_client_core::durable::{Batch, Claim, Instruction, JournalEntry, JournalError, NewRun, RunId, RunStatus};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::fault::Failure;
use super::read::number;
use crate::integer::{signed, unsigned};

/// A change, as the methods of [`Journal`](host_client_core::Journal) describe them.
#[derive(Debug)]
pub(super) enum Change {
    Create { run: NewRun, claim: Claim },
    Append { run: RunId, holder: String, batch: Batch },
    Claim { run: RunId, claim: Claim, now_ms: i64 },
    Renew { claim: Claim },
    Release { run: RunId, holder: String },
    Instruct { run: RunId, instruction: Instruction },
    Forget { run: RunId, holder: String, now_ms: i64 },
}

/// The fields of a run that changes check.
struct Row {
    number: i64,
    entries: i64,
    /// The claim of the process that holds the run.
    claim: Option<Claim>,
}

impl Change {
    /// Returns the approximate number of bytes that it holds.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Create { run, .. } => run.plan.len(),
            // With the row's other columns, and those of its index.
            Self::Append { batch, .. } => batch.entries.iter().map(|it| it.json.len() + it.chain.len() + 64).sum(),
            Self::Instruct { instruction, .. } => instruction.json.len(),
            Self::Claim { .. } | Self::Renew { .. } | Self::Release { .. } | Self::Forget { .. } => 0,
        }
    }

    /// Makes the change. Returns whether it changed anything.
    pub(super) fn apply(&self, tables: &Connection) -> Result<bool, Failure> {
        match self {
            Self::Create { run, claim } => create(tables, run, claim),
            Self::Append { run, holder, batch } => append(tables, run, holder, batch),
            Self::Claim { run, claim, now_ms } => take(tables, run, claim, *now_ms),
            Self::Renew { claim } => renew(tables, claim),
            Self::Release { run, holder } => release(tables, run, holder),
            Self::Instruct { run, instruction } => instruct(tables, run, instruction),
            Self::Forget { run, holder, now_ms } => forget(tables, run, holder, *now_ms),
        }
    }
}

impl Row {
    fn find(tables: &Connection, id: &RunId) -> Result<Option<Self>, Failure> {
        let mut statement = tables.prepare_cached(
            "SELECT number, entries, holder, until_ms FROM runs LEFT JOIN holders ON holders.name = holder
             WHERE id = ?",
        )?;
        let read = |row: &rusqlite::Row<'_>| {
            let until_ms = row.get::<_, Option<i64>>(3)?.unwrap_or(0);
            let claim = row.get::<_, Option<String>>(2)?.map(|holder| Claim { holder, until_ms });
            Ok(Self { number: row.get(0)?, entries: row.get(1)?, claim })
        };
        Ok(statement.query_row([id.as_str()], read).optional()?)
    }

    fn get(tables: &Connection, id: &RunId) -> Result<Self, Failure> {
        Ok(Self::find(tables, id)?.ok_or_else(|| JournalError::Unknown(id.clone()))?)
    }

    /// # Errors
    /// [`JournalError::Claimed`]: another process than `holder` holds the run at `now_ms`.
    fn check_free(&self, run: &RunId, holder: &str, now_ms: i64) -> Result<(), JournalError> {
        match &self.claim {
            Some(claim) if claim.holder != holder && claim.until_ms > now_ms => Err(self.claimed(run)),
            _ => Ok(()),
        }
    }

    fn claimed(&self, run: &RunId) -> JournalError {
        JournalError::Claimed { run: run.clone(), until_ms: self.claim.as_ref().map_or(0, |claim| claim.until_ms) }
    }
}

fn create(tables: &Connection, run: &NewRun, claim: &Claim) -> Result<bool, Failure> {
    let mut statement = tables.prepare_cached(
        "INSERT INTO runs (id, created_ms, changed_ms, status, entries, holder) VALUES (?1, ?2, ?2, ?3, 0, ?4)
         ON CONFLICT (id) DO NOTHING",
    )?;
    let status = RunStatus::Running.as_str();
    if statement.execute(params![run.id.as_str(), run.created_ms, status, claim.holder])? == 0 {
        return Err(JournalError::Exists(run.id.clone()).into());
    }
    let number = tables.last_insert_rowid();
    tables.prepare_cached("INSERT INTO plans (run, json) VALUES (?, ?)")?.execute(params![number, run.plan])?;
    renew(tables, claim)
}

fn append(tables: &Connection, run: &RunId, holder: &str, batch: &Batch) -> Result<bool, Failure> {
    let row = Row::get(tables, run)?;
    match &row.claim {
        None => return Err(JournalError::Unclaimed(run.clone()).into()),
        Some(claim) if claim.holder != holder => return Err(row.claimed(run).into()),
        Some(_) => {}
    }
    if signed(batch.first) != row.entries + 1 {
        let (expected, found) = (batch.first.saturating_sub(1), unsigned(row.entries)?);
        return Err(JournalError::Conflict { run: run.clone(), expected, found }.into());
    }
    let mut insert = tables.prepare_cached(
        "INSERT INTO entries (run, number, at_ms, kind, call, json, chain) VALUES (?, ?, ?, ?, ?, ?, ?)",
    )?;
    let mut last = row.entries;
    for JournalEntry { kind, call, json, chain } in &batch.entries {
        last += 1;
        insert.execute(params![row.number, last, batch.at_ms, kind, call.map(signed), json, chain])?;
    }
    let mut update = tables.prepare_cached(
        "UPDATE runs SET entries = ?2, changed_ms = ?3, status = coalesce(?4, status) WHERE number = ?1",
    )?;
    update.execute(params![row.number, last, batch.at_ms, batch.status.map(RunStatus::as_str)])?;
    Ok(true)
}

fn take(tables: &Connection, run: &RunId, claim: &Claim, now_ms: i64) -> Result<bool, Failure> {
    let row = Row::get(tables, run)?;
    row.check_free(run, &claim.holder, now_ms)?;
    let mut update = tables.prepare_cached("UPDATE runs SET holder = ?2 WHERE number = ?1 AND holder IS NOT ?2")?;
    update.execute(params![row.number, claim.holder])?;
    renew(tables, claim)
}

fn renew(tables: &Connection, claim: &Claim) -> Result<bool, Failure> {
    let mut upsert = tables.prepare_cached(
        "INSERT INTO holders (name, until_ms) VALUES (?, ?)
         ON CONFLICT (name) DO UPDATE SET until_ms = excluded.until_ms",
    )?;
    Ok(upsert.execute(params![claim.holder, claim.until_ms])? > 0)
}

fn release(tables: &Connection, run: &RunId, holder: &str) -> Result<bool, Failure> {
    let number = number(tables, run)?;
    let mut update = tables.prepare_cached("UPDATE runs SET holder = NULL WHERE number = ? AND holder = ?")?;
    Ok(update.execute(params![number, holder])? > 0)
}

fn instruct(tables: &Connection, run: &RunId, instruction: &Instruction) -> Result<bool, Failure> {
    let number = number(tables, run)?;
    let mut insert = tables.prepare_cached(
        "INSERT INTO instructions (run, call, json) VALUES (?, ?, ?) ON CONFLICT (run, call) DO NOTHING",
    )?;
    if insert.execute(params![number, signed(instruction.call), instruction.json])? == 0 {
        return Err(JournalError::Instructed { run: run.clone(), call: instruction.call }.into());
    }
    Ok(true)
}

fn forget(tables: &Connection, run: &RunId, holder: &str, now_ms: i64) -> Result<bool, Failure> {
    let Some(row) = Row::find(tables, run)? else {
        return Ok(false);
    };
    row.check_free(run, holder, now_ms)?;
    // Foreign keys remove the rows of the other tables.
    Ok(tables.prepare_cached("DELETE FROM runs WHERE number = ?")?.execute([row.number])? > 0)
}
