//! Queries and their statements. Each query is one statement, and so sees one state.

use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;

use host_client_core::durable::{
    Claim, Instruction, JournalEntry, JournalError, NumberedInstruction, RunFilter, RunHead, RunId,
};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};

use super::fault::Failure;
use crate::integer::{signed, unsigned};

/// The maximum number of instructions that are returned at once.
const INSTRUCTIONS: i64 = 1_000;

/// The statement for heads of runs, without its condition.
const HEADS: &str = "SELECT id, created_ms, changed_ms, status, entries, holder, until_ms
    FROM host_client_journal.runs LEFT JOIN host_client_journal.holders ON name = holder";

pub(super) async fn run(client: Arc<Client>, id: &RunId) -> Result<Option<RunHead>, Failure> {
    let text = format!("{HEADS} WHERE id = $1");
    let row = client.query_typed_opt(&text, &[(&id.as_str(), Type::TEXT)]).await?;
    row.as_ref().map(head).transpose()
}

pub(super) async fn plan(client: Arc<Client>, id: &RunId) -> Result<Option<String>, Failure> {
    let text = "SELECT json::text FROM host_client_journal.plans
        JOIN host_client_journal.runs ON number = run WHERE id = $1";
    let row = client.query_typed_opt(text, &[(&id.as_str(), Type::TEXT)]).await?;
    Ok(row.map(|row| row.try_get(0)).transpose()?)
}

pub(super) async fn runs(client: Arc<Client>, filter: &RunFilter) -> Result<Vec<RunHead>, Failure> {
    // The condition is part of the statement, so that the server can choose the index for it.
    let which = if filter.unfinished { "status <> 'ended' AND" } else { "" };
    let (beyond, order, first) = match filter.newest_first {
        true => ("<", "created_ms DESC, id DESC", i64::MAX),
        false => (">", "created_ms, id", i64::MIN),
    };
    let text = format!("{HEADS} WHERE {which} (created_ms, id) {beyond} ($1, $2) ORDER BY {order} LIMIT $3");
    let (created_ms, id) = filter.after.as_ref().map_or((first, ""), |(created_ms, id)| (*created_ms, id.as_str()));
    let limit = i64::try_from(filter.limit).unwrap_or(i64::MAX);
    let rows = client.query_typed(&text, &[(&created_ms, Type::INT8), (&id, Type::TEXT), (&limit, Type::INT8)]).await?;
    rows.iter().map(head).collect()
}

pub(super) async fn entries(client: Arc<Client>, id: &RunId, after: u64) -> Result<Vec<JournalEntry>, Failure> {
    // A run that exists has at least one row.
    let text = "SELECT runs.entries, entries.number, kind, call, json::text, chain FROM host_client_journal.runs
        LEFT JOIN host_client_journal.entries ON run = runs.number AND entries.number > $2
        WHERE id = $1 ORDER BY entries.number";
    let rows = client.query_typed(text, &[(&id.as_str(), Type::TEXT), (&signed(after), Type::INT8)]).await?;
    let first = rows.first().ok_or_else(|| JournalError::Unknown(id.clone()))?;
    let expected = after.saturating_add(1)..=unsigned(first.try_get(0)?)?;
    let found = rows.iter().filter_map(|row| entry(row).transpose()).collect::<Result<Vec<_>, _>>()?;
    if !found.iter().map(|(number, _)| *number).eq(expected) {
        return Err(JournalError::Damaged(format!("entries of the run {id} are missing")).into());
    }
    Ok(found.into_iter().map(|(_, entry)| entry).collect())
}

pub(super) async fn instructions(client: Arc<Client>, after: u64) -> Result<Vec<NumberedInstruction>, Failure> {
    let text = "SELECT call, json::text, instructions.number, id FROM host_client_journal.instructions
        JOIN host_client_journal.runs ON runs.number = run
        WHERE instructions.number > $1 ORDER BY instructions.number LIMIT $2";
    let rows = client.query_typed(text, &[(&signed(after), Type::INT8), (&INSTRUCTIONS, Type::INT8)]).await?;
    let numbered = |row: &Row| -> Result<_, Failure> {
        let (number, run) = (unsigned(row.try_get(2)?)?, parsed(row, 3)?);
        Ok(NumberedInstruction { number, run, instruction: instruction(row)? })
    };
    rows.iter().map(numbered).collect()
}

pub(super) async fn instructions_of(client: Arc<Client>, id: &RunId) -> Result<Vec<Instruction>, Failure> {
    // A run that exists has at least one row.
    let text = "SELECT call, json::text FROM host_client_journal.runs
        LEFT JOIN host_client_journal.instructions ON run = runs.number WHERE id = $1 ORDER BY instructions.number";
    let rows = client.query_typed(text, &[(&id.as_str(), Type::TEXT)]).await?;
    if rows.is_empty() {
        return Err(JournalError::Unknown(id.clone()).into());
    }
    let mut found = Vec::new();
    for row in &rows {
        if row.try_get::<_, Option<i64>>(0)?.is_some() {
            found.push(instruction(row)?);
        }
    }
    Ok(found)
}

/// Reads the first two columns of a row.
fn instruction(row: &Row) -> Result<Instruction, Failure> {
    Ok(Instruction { call: unsigned(row.try_get(0)?)?, json: row.try_get(1)? })
}

/// Reads the claim from two columns: the holder, and the time until which it holds.
pub(super) fn claim(row: &Row, column: usize) -> Result<Option<Claim>, Failure> {
    let holder: Option<String> = row.try_get(column)?;
    let until_ms: Option<i64> = row.try_get(column + 1)?;
    Ok(holder.map(|holder| Claim { holder, until_ms: until_ms.unwrap_or(0) }))
}

fn head(row: &Row) -> Result<RunHead, Failure> {
    Ok(RunHead {
        id: parsed(row, 0)?,
        created_ms: row.try_get(1)?,
        changed_ms: row.try_get(2)?,
        status: parsed(row, 3)?,
        entries: unsigned(row.try_get(4)?)?,
        claim: claim(row, 5)?,
    })
}

/// Reads an entry with its number; `None`: the run has no entries, and the row only shows that the run exists.
fn entry(row: &Row) -> Result<Option<(u64, JournalEntry)>, Failure> {
    let Some(number) = row.try_get::<_, Option<i64>>(1)? else {
        return Ok(None);
    };
    let call = row.try_get::<_, Option<i64>>(3)?.map(unsigned).transpose()?;
    let entry = JournalEntry { kind: row.try_get(2)?, call, json: row.try_get(4)?, chain: row.try_get(5)? };
    Ok(Some((unsigned(number)?, entry)))
}

/// Reads a column and parses its text.
fn parsed<T: FromStr<Err: Display>>(row: &Row, column: usize) -> Result<T, Failure> {
    let text: String = row.try_get(column)?;
    Ok(text.parse().map_err(|error: T::Err| JournalError::Damaged(error.to_string()))?)
}
