//! Queries and their statements. Each query runs in one transaction, and so sees one state.

use std::fmt::Display;
use std::str::FromStr;

use host_client_core::durable::{
    Claim, Instruction, JournalEntry, JournalError, NumberedInstruction, RunFilter, RunHead, RunId,
};
use rusqlite::{Connection, OptionalExtension as _, Row, ToSql};

use super::fault::Failure;
use crate::integer::{signed, unsigned};

/// The maximum number of instructions that are returned at once.
const INSTRUCTIONS: i64 = 1_000;

/// The statement for heads of runs, without its condition.
const HEADS: &str = "SELECT id, created_ms, changed_ms, status, entries, holder, until_ms
    FROM runs LEFT JOIN holders ON holders.name = runs.holder";

/// Returns the number by which the tables know a run.
pub(super) fn number(tables: &Connection, id: &RunId) -> Result<i64, Failure> {
    let mut statement = tables.prepare_cached("SELECT number FROM runs WHERE id = ?")?;
    let number = statement.query_row([id.as_str()], |row| row.get(0)).optional()?;
    Ok(number.ok_or_else(|| JournalError::Unknown(id.clone()))?)
}

pub(super) fn run(tables: &Connection, id: &RunId) -> Result<Option<RunHead>, Failure> {
    Ok(all(tables, &format!("{HEADS} WHERE id = ?"), &[&id.as_str()], head)?.pop())
}

pub(super) fn plan(tables: &Connection, id: &RunId) -> Result<Option<String>, Failure> {
    let text = "SELECT json FROM plans JOIN runs ON runs.number = plans.run WHERE runs.id = ?";
    let mut statement = tables.prepare_cached(text)?;
    Ok(statement.query_row([id.as_str()], |row| row.get(0)).optional()?)
}

pub(super) fn runs(tables: &Connection, filter: &RunFilter) -> Result<Vec<RunHead>, Failure> {
    // The condition is part of the statement, so that SQLite can choose the index for it.
    let which = if filter.unfinished { "status <> 'ended' AND" } else { "" };
    let (beyond, order, first) = match filter.newest_first {
        true => ("<", "created_ms DESC, id DESC", i64::MAX),
        false => (">", "created_ms, id", i64::MIN),
    };
    let text = format!("{HEADS} WHERE {which} (created_ms, id) {beyond} (?, ?) ORDER BY {order} LIMIT ?");
    let (created_ms, id) = filter.after.as_ref().map_or((first, ""), |(created_ms, id)| (*created_ms, id.as_str()));
    let limit = i64::try_from(filter.limit).unwrap_or(i64::MAX);
    all(tables, &text, &[&created_ms, &id, &limit], head)
}

pub(super) fn entries(tables: &Connection, id: &RunId, after: u64) -> Result<Vec<JournalEntry>, Failure> {
    let run = number(tables, id)?;
    let text = "SELECT number, kind, call, json, chain FROM entries WHERE run = ? AND number > ? ORDER BY number";
    let found = all(tables, text, &[&run, &signed(after)], entry)?;
    let count: i64 = tables.query_row("SELECT entries FROM runs WHERE number = ?", [run], |row| row.get(0))?;
    let expected = after.saturating_add(1)..=unsigned(count)?;
    if !found.iter().map(|(number, _)| *number).eq(expected) {
        return Err(JournalError::Damaged(format!("entries of the run {id} are missing")).into());
    }
    Ok(found.into_iter().map(|(_, entry)| entry).collect())
}

pub(super) fn instructions(tables: &Connection, after: u64) -> Result<Vec<NumberedInstruction>, Failure> {
    let text = "SELECT instructions.number, id, call, json FROM instructions JOIN runs ON runs.number = run
        WHERE instructions.number > ? ORDER BY instructions.number LIMIT ?";
    all(tables, text, &[&signed(after), &INSTRUCTIONS], |row| {
        let instruction = Instruction { call: unsigned(row.get(2)?)?, json: row.get(3)? };
        Ok(NumberedInstruction { number: unsigned(row.get(0)?)?, run: parsed(row, 1)?, instruction })
    })
}

pub(super) fn instructions_of(tables: &Connection, id: &RunId) -> Result<Vec<Instruction>, Failure> {
    let text = "SELECT call, json FROM instructions WHERE run = ? ORDER BY number";
    all(tables, text, &[&number(tables, id)?], |row| {
        Ok(Instruction { call: unsigned(row.get(0)?)?, json: row.get(1)? })
    })
}

/// Returns all rows of a query.
fn all<T>(
    tables: &Connection,
    text: &str,
    parameters: &[&dyn ToSql],
    read: impl Fn(&Row<'_>) -> Result<T, Failure>,
) -> Result<Vec<T>, Failure> {
    let mut statement = tables.prepare_cached(text)?;
    let mut rows = statement.query(parameters)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(row)?);
    }
    Ok(found)
}

fn head(row: &Row<'_>) -> Result<RunHead, Failure> {
    let holder: Option<String> = row.get(5)?;
    let until_ms: Option<i64> = row.get(6)?;
    Ok(RunHead {
        id: parsed(row, 0)?,
        created_ms: row.get(1)?,
        changed_ms: row.get(2)?,
        status: parsed(row, 3)?,
        entries: unsigned(row.get(4)?)?,
        claim: holder.map(|holder| Claim { holder, until_ms: until_ms.unwrap_or(0) }),
    })
}

fn entry(row: &Row<'_>) -> Result<(u64, JournalEntry), Failure> {
    let call: Option<i64> = row.get(2)?;
    let call = call.map(unsigned).transpose()?;
    Ok((unsigned(row.get(0)?)?, JournalEntry { kind: row.get(1)?, call, json: row.get(3)?, chain: row.get(4)? }))
}

/// Reads a column and parses its text.
fn parsed<T: FromStr<Err: Display>>(row: &Row<'_>, column: usize) -> Result<T, Failure> {
    let text: String = row.get(column)?;
    Ok(text.parse().map_err(|error: T::Err| JournalError::Damaged(error.to_string()))?)
}
