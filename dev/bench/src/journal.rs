//! Measures what it costs to append to the journal of durable runs.

use std::path::Path;
use std::time::Instant;

use anyhow::Context as _;
use host_client::durable::{Batch, Claim, Journal, JournalEntry, NewRun, RunId, first_chain};
use host_client::{Durability, SqliteJournal};

use crate::report::{Table, Times, micros};

/// The bytes of an entry's content.
const CONTENT_BYTES: usize = 200;
/// The number of entries with [`Durability::Process`].
const ENTRIES: usize = 10_000;
/// The number of entries with [`Durability::Power`], which are slower.
const DURABLE_ENTRIES: usize = 1_000;

/// Appends entries one by one and adds the times for each durability, and the bytes of an entry. The files lie below
/// the current folder, since `/tmp` may be in memory. No relay takes part.
pub(crate) async fn journal(scale: usize, table: &mut Table) -> anyhow::Result<()> {
    let folder = tempfile::tempdir_in(".")?;
    let fast = append(&folder.path().join("process.db"), Durability::Process, ENTRIES / scale).await?;
    table.at_most("one entry into the journal, p50", micros(fast.times.median()), 60.0, "µs");
    table.note("one entry into the journal, p99", format!("{:.0} µs", micros(fast.times.at(990))));
    table.note(&format!("bytes of the file for an entry of {CONTENT_BYTES}"), fast.bytes_per_entry.to_string());
    let safe = append(&folder.path().join("power.db"), Durability::Power, DURABLE_ENTRIES / scale).await?;
    let median = format!("{:.0} µs", micros(safe.times.median()));
    table.note("one entry that survives a power failure, p50", median);
    Ok(())
}

struct Appended {
    times: Times,
    bytes_per_entry: u64,
}

async fn append(path: &Path, durability: Durability, count: usize) -> anyhow::Result<Appended> {
    let journal = SqliteJournal::options().durability(durability).open(path).await?;
    let (run, holder) = (RunId::random(), "bench".to_owned());
    let plan = "{}".to_owned();
    let mut before = first_chain(&run, &plan);
    let claim = Claim { holder: holder.clone(), until_ms: i64::MAX };
    journal.create(NewRun { id: run.clone(), created_ms: 0, plan }, claim).await?;
    let empty = path.metadata()?.len();
    let json = format!("\"{}\"", "x".repeat(CONTENT_BYTES - 2));
    let mut times = Vec::with_capacity(count);
    for first in (1..).take(count) {
        let entry = JournalEntry::chained(&before, "called", Some(first), json.clone());
        before.clone_from(&entry.chain);
        let batch = Batch { first, entries: vec![entry], status: None, at_ms: 0 };
        let started = Instant::now();
        journal.append(run.clone(), holder.clone(), batch).await?;
        times.push(started.elapsed());
    }
    journal.close().await;
    let grown = path.metadata()?.len().saturating_sub(empty);
    let bytes_per_entry = grown.checked_div(u64::try_from(count)?).context("nothing was appended")?;
    Ok(Appended { times: Times::new(times), bytes_per_entry })
}
