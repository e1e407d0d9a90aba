//! Several processes on one journal, and processes that are killed.

use std::collections::BTreeSet;
use std::io::Write as _;

use host_client_core::durable::{Batch, JournalError};
use relay_test_support::within;
use serde_json::json;

use crate::child;
use crate::storage::{NOW, Storage, batch, create, entries, entry, for_each_storage, id, open};

/// How many entries each of two processes writes.
const EACH: usize = 40;
/// How many entries a process that is killed writes at once.
const TOGETHER: u64 = 3;

for_each_storage! {
    two_processes_write_to_one_journal
    a_killed_process_leaves_all_that_was_acknowledged
}

async fn two_processes_write_to_one_journal(storage: Storage) {
    let journal = storage.open().await;
    let run = create(&*journal, "run").await;
    let children = [(); 2].map(|()| child::start("processes::writes_beside_another", &storage.address()));
    for child in children {
        child::succeeds(child).await;
    }
    let all = journal.entries(run, 0).await.unwrap();
    let numbers = (1..=2 * EACH).map(|number| format!("{number:064x}"));
    assert!(all.iter().map(|entry| entry.chain.clone()).eq(numbers), "{} entries", all.len());
    let contents: BTreeSet<_> = all.iter().map(|entry| &entry.json).collect();
    assert_eq!(contents.len(), 2 * EACH, "each entry of each process is there once");
}

#[tokio::test]
#[ignore = "a child of two_processes_write_to_one_journal"]
async fn writes_beside_another() {
    let journal = open(&child::given_address()).await.unwrap();
    let mut written = 0;
    while written < EACH {
        let first = journal.run(id("run")).await.unwrap().unwrap().entries + 1;
        let entries = vec![entry(first, json!({ "process": std::process::id(), "written": written }))];
        let batch = Batch { first, entries, status: None, at_ms: NOW };
        match journal.append(id("run"), "host".to_owned(), batch).await {
            Ok(()) => written += 1,
            Err(error) => assert!(matches!(error, JournalError::Conflict { .. }), "{error}"),
        }
    }
}

async fn a_killed_process_leaves_all_that_was_acknowledged(storage: Storage) {
    let journal = storage.open().await;
    let run = create(&*journal, "run").await;
    for round in 1..=5 {
        let mut writer = child::start("processes::writes_until_it_is_killed", &storage.address());
        let mut lines = child::lines(&mut writer);
        let mut acknowledged = 0;
        // It goes on with what the one before has left.
        while acknowledged < round * 20 * TOGETHER {
            let line = within(lines.next_line()).await.unwrap().expect("the writer writes until it is killed");
            acknowledged = line.strip_prefix("acknowledged ").map_or(acknowledged, |number| number.parse().unwrap());
        }
        writer.kill().await.unwrap();
        while let Some(line) = lines.next_line().await.unwrap() {
            acknowledged = line.strip_prefix("acknowledged ").map_or(acknowledged, |number| number.parse().unwrap());
        }
        // The journal is opened anew, as after a restart.
        let journal = storage.open().await;
        let count = journal.run(run.clone()).await.unwrap().unwrap().entries;
        assert!(
            count >= acknowledged && count.is_multiple_of(TOGETHER),
            "{count} entries, {acknowledged} acknowledged"
        );
        assert_eq!(
            journal.entries(run.clone(), 0).await.unwrap()[..],
            entries(1, count)[..usize::try_from(count).unwrap()]
        );
    }
}

#[tokio::test]
#[ignore = "a child of a_killed_process_leaves_all_that_was_acknowledged"]
async fn writes_until_it_is_killed() {
    let journal = open(&child::given_address()).await.unwrap();
    let mut written = journal.run(id("run")).await.unwrap().unwrap().entries;
    loop {
        journal.append(id("run"), "host".to_owned(), batch(written + 1, written + TOGETHER)).await.unwrap();
        written += TOGETHER;
        let mut out = std::io::stdout().lock();
        writeln!(out, "acknowledged {written}").unwrap();
        out.flush().unwrap();
    }
}
