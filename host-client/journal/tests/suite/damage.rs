//! An SQLite file that was cut or changed: what it still tells is true, or it is told that it is damaged.

use std::fs;
use std::path::{Path, PathBuf};

use host_client_core::durable::{Batch, Journal, JournalEntry, JournalError, check_entries, first_chain};
use host_client_journal::SqliteJournal;
use rusqlite::Connection;
use serde_json::json;
use tempfile::TempDir;

use crate::storage::{NOW, PLAN, create, id};

/// How many batches are written.
const BATCHES: usize = 30;
/// The bytes of a page.
const PAGE: usize = 4096;
/// How many entries each has.
const TOGETHER: usize = 2;

/// The entries of a run, chained as those of durable runs are.
fn chained() -> Vec<JournalEntry> {
    let mut before = first_chain(&id("run"), PLAN);
    let entries = (1..=BATCHES * TOGETHER).map(|number| {
        let json = json!({ "number": number, "answer": "x".repeat(150 * (number % 7)) }).to_string();
        let call = (!number.is_multiple_of(5)).then_some(number as u64);
        let entry = JournalEntry::chained(&before, "called", call, json);
        before.clone_from(&entry.chain);
        entry
    });
    entries.collect()
}

/// A journal with one run in an empty folder, and its path. It is open.
async fn written() -> (TempDir, PathBuf, SqliteJournal) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    let journal = SqliteJournal::open(&path).await.unwrap();
    let run = create(&journal, "run").await;
    for (batch, entries) in chained().chunks(TOGETHER).enumerate() {
        let first = u64::try_from(batch * TOGETHER + 1).unwrap();
        let batch = Batch { first, entries: entries.to_owned(), status: None, at_ms: NOW };
        journal.append(run.clone(), "host".to_owned(), batch).await.unwrap();
    }
    (folder, path, journal)
}

fn log_of(path: &Path) -> PathBuf {
    PathBuf::from(format!("{}-wal", path.display()))
}

/// Opens the files that a killed process might have left, and checks that they hold a journal to go on with, which
/// lacks batches at its end at most. Returns how many entries it has.
async fn recover(file: &[u8], log: &[u8]) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    fs::write(&path, file).unwrap();
    fs::write(log_of(&path), log).unwrap();
    let journal = SqliteJournal::open(&path).await.unwrap();
    let Some(head) = journal.run(id("run")).await.unwrap() else {
        return 0;
    };
    let found = journal.entries(id("run"), 0).await.unwrap();
    assert!(found.len().is_multiple_of(TOGETHER) && found[..] == chained()[..found.len()], "{} entries", found.len());
    let next = Batch { first: head.entries + 1, entries: chained()[..1].to_owned(), status: None, at_ms: NOW };
    journal.append(id("run"), "host".to_owned(), next).await.unwrap();
    journal.close().await;
    let check = "PRAGMA integrity_check";
    let told: String = Connection::open(&path).unwrap().query_row(check, [], |row| row.get(0)).unwrap();
    assert_eq!(told, "ok");
    found.len()
}

#[tokio::test]
async fn a_write_ahead_log_that_was_cut_or_changed_loses_the_last_batches_alone() {
    let (_folder, path, journal) = written().await;
    let [file, log] = [path.clone(), log_of(&path)].map(|path| fs::read(path).unwrap());
    drop(journal);
    assert_eq!(recover(&file, &log).await, BATCHES * TOGETHER);
    let mut counts = vec![0];
    for part in 1..40 {
        let cut = log.len() * part / 40;
        let count = recover(&file, &log[..cut]).await;
        assert!(count >= *counts.last().unwrap(), "a longer log has more");
        counts.push(count);
        let mut changed = log.clone();
        changed[cut] ^= 0x10;
        assert!(recover(&file, &changed).await <= count, "whatever stands behind the damage is not believed");
    }
    counts.dedup();
    assert!(counts.len() > 10, "{counts:?}");
}

/// The plan and the entries of the run in a file, where they are not refused with a good reason.
async fn read(file: &[u8]) -> Option<(String, Vec<JournalEntry>)> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    fs::write(&path, file).unwrap();
    let result = async {
        let journal = SqliteJournal::open(&path).await?;
        let entries = journal.entries(id("run"), 0).await?;
        Ok((journal.plan(id("run")).await?.unwrap_or_default(), entries))
    };
    match result.await {
        Ok(found) => Some(found),
        Err(JournalError::Damaged(_) | JournalError::Unavailable(_) | JournalError::Version { .. }) => None,
        // The run's own row may be what was hit.
        Err(JournalError::Unknown(_)) => None,
        Err(error) => panic!("{error}"),
    }
}

/// A journal that was closed: all of it is in one file.
async fn closed() -> Vec<u8> {
    let (_folder, path, journal) = written().await;
    journal.close().await;
    let file = fs::read(path).unwrap();
    assert_eq!(read(&file).await, Some((PLAN.to_owned(), chained())));
    file
}

/// How a change of the file shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    /// The journal refuses the file or the run.
    Refused,
    /// What the run has is what was written.
    Harmless,
    /// The chain of the entries does not fit what is read.
    ByChain,
}

/// Looks at a file that was changed, as whoever goes on with a run does.
async fn look_at(file: &[u8]) -> Found {
    match read(file).await {
        None => Found::Refused,
        Some((plan, entries)) if plan == PLAN && entries == chained() => Found::Harmless,
        Some((plan, entries)) => {
            let checked = check_entries(&id("run"), &plan, &entries);
            assert!(matches!(checked, Err(JournalError::Damaged(_))), "{} other entries pass for good", entries.len());
            Found::ByChain
        }
    }
}

#[tokio::test]
async fn a_file_that_was_cut_is_refused() {
    let file = closed().await;
    for part in 1..40 {
        let cut = file.len() * part / 40;
        let found = look_at(&file[..cut]).await;
        // SQLite counts a page that was begun, and so the last one is read as far as it goes.
        let is_page_absent = file.len() - cut >= PAGE;
        assert!(found == Found::Refused || !is_page_absent, "{found:?} at {cut} of {} bytes", file.len());
    }
}

#[tokio::test]
async fn a_flipped_bit_anywhere_is_found_or_harmless() {
    let file = closed().await;
    let mut ways = Vec::new();
    for at in (0..file.len()).step_by(file.len() / 400) {
        let mut changed = file.clone();
        changed[at] ^= 1 << (at % 8);
        ways.push(look_at(&changed).await);
    }
    for way in [Found::Refused, Found::Harmless, Found::ByChain] {
        assert!(ways.contains(&way), "{way:?}");
    }
}
