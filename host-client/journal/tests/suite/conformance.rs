//! What every journal does.

use std::collections::BTreeSet;
use std::sync::Arc;

use host_client_core::durable::{Batch, Claim, Instruction, Journal, JournalError, RunFilter, RunHead, RunStatus};
use relay_test_support::within;
use serde_json::json;

use crate::storage::{
    NOW, PLAN, Storage, batch, claim, create, entries, entry, everything, for_each_journal, id, new_run, status_only,
};

for_each_journal! {
    a_new_journal_is_opened_by_many_at_once
    a_run_is_listed_as_it_was_created
    entries_come_back_as_they_were_appended
    a_batch_is_there_whole_or_not_at_all
    only_the_holder_appends
    a_claim_ends_and_fences_its_holder
    one_of_many_takes_a_run
    lists_come_in_pages_while_runs_are_forgotten
    the_first_instruction_about_a_call_counts
    instructions_are_found_by_their_numbers_while_many_come
    what_was_forgotten_is_gone
    eight_writers_leave_neither_gaps_nor_doubles
    eight_runs_are_written_at_once
    a_large_answer_fits
    an_absent_run_is_unknown
}

async fn a_new_journal_is_opened_by_many_at_once(storage: Storage) {
    let journals = futures_util::future::join_all((0..8).map(|_| storage.open())).await;
    for (number, journal) in journals.iter().enumerate() {
        create(&**journal, &format!("run-{number}")).await;
    }
    assert_eq!(journals[0].runs(everything()).await.unwrap().len(), 8);
}

async fn a_run_is_listed_as_it_was_created(storage: Storage) {
    let journal = storage.open().await;
    let run = create(&*journal, "run-1").await;
    let head = RunHead {
        id: run.clone(),
        created_ms: NOW,
        changed_ms: NOW,
        status: RunStatus::Running,
        entries: 0,
        claim: Some(claim("host")),
    };
    assert_eq!(journal.run(run.clone()).await.unwrap(), Some(head.clone()));
    assert_eq!(journal.runs(everything()).await.unwrap(), std::slice::from_ref(&head));
    assert_eq!(journal.plan(run.clone()).await.unwrap().as_deref(), Some(PLAN));
    let again = journal.create(new_run("run-1", NOW + 1), claim("other")).await.unwrap_err();
    assert_eq!(again, JournalError::Exists(run.clone()));
    assert_eq!(journal.run(run).await.unwrap(), Some(head), "and it has changed nothing");
}

async fn entries_come_back_as_they_were_appended(storage: Storage) {
    let journal = storage.open().await;
    let run = create(&*journal, "run").await;
    journal.append(run.clone(), "host".to_owned(), batch(1, 1)).await.unwrap();
    let waiting = Batch { status: Some(RunStatus::Waiting), ..batch(2, 5) };
    journal.append(run.clone(), "host".to_owned(), waiting).await.unwrap();
    // Another connection sees the same as the one that wrote.
    for journal in [journal, storage.open().await] {
        assert_eq!(journal.entries(run.clone(), 0).await.unwrap(), entries(1, 5));
        assert_eq!(journal.entries(run.clone(), 3).await.unwrap(), entries(4, 5));
        assert_eq!(journal.entries(run.clone(), 5).await.unwrap(), []);
        let head = journal.run(run.clone()).await.unwrap().unwrap();
        assert_eq!((head.entries, head.changed_ms, head.status), (5, NOW + 5, RunStatus::Waiting));
    }
}

async fn a_batch_is_there_whole_or_not_at_all(storage: Storage) {
    let journal = storage.open().await;
    let run = create(&*journal, "run").await;
    let append = |batch| journal.append(run.clone(), "host".to_owned(), batch);
    append(batch(1, 3)).await.unwrap();
    for wrong in [batch(1, 1), batch(3, 6), batch(5, 6), batch(0, 0), status_only(3, RunStatus::Ended)] {
        let (run, expected) = (run.clone(), wrong.first.saturating_sub(1));
        assert_eq!(append(wrong).await.unwrap_err(), JournalError::Conflict { run, expected, found: 3 });
    }
    assert_eq!(journal.entries(run.clone(), 0).await.unwrap(), entries(1, 3));
    append(status_only(4, RunStatus::Ended)).await.unwrap();
    let head = journal.run(run.clone()).await.unwrap().unwrap();
    assert_eq!((head.entries, head.status, head.changed_ms), (3, RunStatus::Ended, NOW + 500));
}

async fn only_the_holder_appends(storage: Storage) {
    let journal = storage.open().await;
    let run = create(&*journal, "run").await;
    let append = |holder: &str| journal.append(run.clone(), holder.to_owned(), batch(1, 1));
    let claimed = JournalError::Claimed { run: run.clone(), until_ms: NOW + 60_000 };
    assert_eq!(append("other").await.unwrap_err(), claimed);
    // Only its holder gives it back.
    journal.release(run.clone(), "other".to_owned()).await.unwrap();
    assert_eq!(append("other").await.unwrap_err(), claimed);
    journal.release(run.clone(), "host".to_owned()).await.unwrap();
    for holder in ["host", "other"] {
        assert_eq!(append(holder).await.unwrap_err(), JournalError::Unclaimed(run.clone()));
    }
    assert_eq!(journal.run(run.clone()).await.unwrap().unwrap().claim, None);
    journal.claim(run.clone(), claim("other"), NOW).await.unwrap();
    append("other").await.unwrap();
}

async fn a_claim_ends_and_fences_its_holder(storage: Storage) {
    let journal = storage.open().await;
    let run = create(&*journal, "run").await;
    let until = |holder: &str, until_ms| Claim { holder: holder.to_owned(), until_ms };
    let take = |now_ms| journal.claim(run.clone(), until("second", NOW + 200_000), now_ms);
    let claimed = |until_ms| JournalError::Claimed { run: run.clone(), until_ms };
    assert_eq!(take(NOW + 59_999).await.unwrap_err(), claimed(NOW + 60_000));
    // One renewal is for all that the holder holds.
    let other = create(&*journal, "other").await;
    journal.renew(until("host", NOW + 100_000)).await.unwrap();
    assert_eq!(take(NOW + 99_999).await.unwrap_err(), claimed(NOW + 100_000));
    assert_eq!(journal.run(other).await.unwrap().unwrap().claim, Some(until("host", NOW + 100_000)));
    // Its time is over, but nobody has taken the run.
    journal.append(run.clone(), "host".to_owned(), batch(1, 1)).await.unwrap();
    take(NOW + 100_000).await.unwrap();
    let fenced = journal.append(run.clone(), "host".to_owned(), batch(2, 2)).await.unwrap_err();
    assert_eq!(fenced, claimed(NOW + 200_000));
    journal.append(run.clone(), "second".to_owned(), batch(2, 2)).await.unwrap();
    // The holder itself may always claim again.
    take(NOW).await.unwrap();
}

async fn one_of_many_takes_a_run(storage: Storage) {
    let journal = storage.open().await;
    for round in 0..20 {
        let run = create(&*journal, &format!("run-{round}")).await;
        journal.release(run.clone(), "host".to_owned()).await.unwrap();
        let takers = (0..8).map(|taker| {
            let run = run.clone();
            let journal = journal.clone();
            tokio::spawn(async move { journal.claim(run, claim(&format!("taker-{taker}")), NOW).await })
        });
        let mut taken = 0;
        for taker in takers.collect::<Vec<_>>() {
            match taker.await.unwrap() {
                Ok(()) => taken += 1,
                Err(error) => assert!(matches!(error, JournalError::Claimed { .. }), "{error}"),
            }
        }
        assert_eq!(taken, 1, "in round {round}");
    }
}

async fn lists_come_in_pages_while_runs_are_forgotten(storage: Storage) {
    let journal = storage.open().await;
    // Two begin in the same ms; ids stand in the order of their bytes.
    for (name, created_ms) in [("b", NOW), ("B", NOW), ("c", NOW - 1), ("a", NOW + 1), ("d", NOW + 2)] {
        journal.create(new_run(name, created_ms), claim("host")).await.unwrap();
    }
    journal.append(id("a"), "host".to_owned(), status_only(1, RunStatus::Ended)).await.unwrap();
    let names = async |filter: RunFilter| {
        let found = journal.runs(filter).await.unwrap().into_iter();
        found.map(|head| head.id.as_str().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(everything()).await, ["c", "B", "b", "a", "d"]);
    assert_eq!(names(RunFilter { unfinished: true, ..everything() }).await, ["c", "B", "b", "d"]);
    assert_eq!(names(RunFilter { limit: 2, ..everything() }).await, ["c", "B"]);
    let newest = RunFilter { newest_first: true, ..everything() };
    assert_eq!(names(newest.clone()).await, ["d", "a", "b", "B", "c"]);
    assert_eq!(names(RunFilter { unfinished: true, limit: 2, ..newest.clone() }).await, ["d", "b"]);
    assert_eq!(names(RunFilter { after: Some((NOW, id("b"))), ..newest }).await, ["B", "c"]);
    assert!(journal.forget(id("B"), "host".to_owned(), NOW).await.unwrap());
    let rest = RunFilter { limit: 2, after: Some((NOW, id("B"))), ..everything() };
    assert_eq!(names(rest).await, ["b", "a"]);
    let rest = RunFilter { unfinished: true, after: Some((NOW, id("b"))), ..everything() };
    assert_eq!(names(rest).await, ["d"]);
}

fn instruction(call: u64, text: &str) -> Instruction {
    Instruction { call, json: json!({ "decision": text }).to_string() }
}

async fn the_first_instruction_about_a_call_counts(storage: Storage) {
    let journal = storage.open().await;
    let run = create(&*journal, "run").await;
    journal.instruct(run.clone(), instruction(3, "approve")).await.unwrap();
    journal.instruct(run.clone(), instruction(0, "cancel")).await.unwrap();
    let second = journal.instruct(run.clone(), instruction(3, "deny")).await.unwrap_err();
    assert_eq!(second, JournalError::Instructed { run: run.clone(), call: 3 });
    let all = [instruction(3, "approve"), instruction(0, "cancel")];
    assert_eq!(journal.instructions_of(run).await.unwrap(), all);
}

async fn instructions_are_found_by_their_numbers_while_many_come(storage: Storage) {
    const WRITERS: u64 = 4;
    const EACH: u64 = 50;
    let journal = storage.open().await;
    let run = create(&*journal, "run").await;
    let write = async |journal: Arc<dyn Journal>, writer: u64| {
        for call in 0..EACH {
            journal.instruct(id("run"), instruction(writer * EACH + call, "approve")).await.unwrap();
        }
    };
    let mut writers = Vec::new();
    for writer in 0..WRITERS {
        writers.push(write(storage.open().await, writer));
    }
    let all = futures_util::future::join_all(writers);
    // Whoever goes on from the last number that was seen misses none.
    let reader = async {
        let (mut after, mut calls) = (0, BTreeSet::new());
        while calls.len() < usize::try_from(WRITERS * EACH).unwrap() {
            for found in journal.instructions(after).await.unwrap() {
                assert!(found.number > after && found.run == run, "{found:?} after {after}");
                after = found.number;
                assert!(calls.insert(found.instruction.call), "twice: {found:?}");
            }
        }
        assert_eq!(journal.instructions(after).await.unwrap(), []);
    };
    tokio::join!(within(all), within(reader));
}

async fn what_was_forgotten_is_gone(storage: Storage) {
    let journal = storage.open().await;
    let (run, other) = (create(&*journal, "run").await, create(&*journal, "other").await);
    for run in [&run, &other] {
        journal.append(run.clone(), "host".to_owned(), batch(1, 3)).await.unwrap();
        journal.instruct(run.clone(), instruction(1, "approve")).await.unwrap();
    }
    let forget = |holder: &str, now_ms| journal.forget(run.clone(), holder.to_owned(), now_ms);
    let claimed = JournalError::Claimed { run: run.clone(), until_ms: NOW + 60_000 };
    assert_eq!(forget("other", NOW).await.unwrap_err(), claimed);
    assert!(forget("other", NOW + 60_000).await.unwrap(), "its holder's time is over");
    assert!(!forget("other", NOW + 60_000).await.unwrap());
    assert_eq!(journal.run(run.clone()).await.unwrap(), None);
    assert_eq!(journal.plan(run.clone()).await.unwrap(), None);
    assert_eq!(journal.entries(run.clone(), 0).await.unwrap_err(), JournalError::Unknown(run.clone()));
    assert_eq!(journal.entries(other.clone(), 0).await.unwrap(), entries(1, 3));
    let left = journal.instructions(0).await.unwrap();
    assert_eq!(left.iter().map(|it| &it.run).collect::<Vec<_>>(), [&other]);
    // What comes later is seen by whoever saw the last one, also where the last ones were forgotten.
    let last = left[0].number;
    assert!(journal.forget(other, "host".to_owned(), NOW).await.unwrap());
    create(&*journal, "run").await;
    assert_eq!(journal.entries(run.clone(), 0).await.unwrap(), []);
    journal.instruct(run.clone(), instruction(1, "approve")).await.unwrap();
    assert_eq!(journal.instructions(last).await.unwrap().len(), 1);
}

async fn eight_writers_leave_neither_gaps_nor_doubles(storage: Storage) {
    const EACH: usize = 25;
    let journal = storage.open().await;
    let run = create(&*journal, "run").await;
    let write = async |journal: Arc<dyn Journal>, writer: u64| {
        let mut written = 0;
        while written < EACH {
            let head = journal.run(id("run")).await.unwrap().unwrap();
            let content = json!({ "writer": writer, "written": written });
            let entries = vec![entry(head.entries + 1, content)];
            let batch = Batch { first: head.entries + 1, entries, status: None, at_ms: NOW };
            match journal.append(id("run"), "host".to_owned(), batch).await {
                Ok(()) => written += 1,
                Err(error) => assert!(matches!(error, JournalError::Conflict { .. }), "{error}"),
            }
        }
    };
    let mut writers = Vec::new();
    for writer in 0..8 {
        // Half of them share a connection.
        let journal = if writer % 2 == 0 { journal.clone() } else { storage.open().await };
        writers.push(write(journal, writer));
    }
    futures_util::future::join_all(writers).await;
    let all = journal.entries(run, 0).await.unwrap();
    let contents: BTreeSet<_> = all.iter().map(|entry| &entry.json).collect();
    assert_eq!((all.len(), contents.len()), (8 * EACH, 8 * EACH));
    let numbers = (1..).take(all.len()).map(|number: u64| format!("{number:064x}"));
    assert!(all.iter().map(|entry| entry.chain.clone()).eq(numbers));
}

async fn eight_runs_are_written_at_once(storage: Storage) {
    let journal = storage.open().await;
    let write = async |number: u64| {
        let run = create(&*journal, &format!("run-{number}")).await;
        for first in (1..=40).step_by(2) {
            journal.append(run.clone(), "host".to_owned(), batch(first, first + 1)).await.unwrap();
        }
        // One that is refused keeps nobody else's back.
        let refused = journal.append(run.clone(), "host".to_owned(), batch(1, 1)).await.unwrap_err();
        assert!(matches!(refused, JournalError::Conflict { found: 40, .. }), "{refused}");
        assert_eq!(journal.entries(run, 0).await.unwrap(), entries(1, 40));
    };
    futures_util::future::join_all((0..8).map(write)).await;
}

async fn a_large_answer_fits(storage: Storage) {
    let journal = storage.open().await;
    let run = create(&*journal, "run").await;
    let large = entry(1, json!("x\u{e9}".repeat(4 << 20)));
    assert!(large.json.len() > 12 << 20);
    let batch = Batch { first: 1, entries: vec![large.clone()], status: None, at_ms: NOW };
    journal.append(run.clone(), "host".to_owned(), batch).await.unwrap();
    assert!(journal.entries(run, 0).await.unwrap() == [large]);
}

async fn an_absent_run_is_unknown(storage: Storage) {
    let journal = storage.open().await;
    let run = id("absent");
    let unknown = JournalError::Unknown(run.clone());
    let host = || "host".to_owned();
    assert_eq!(journal.run(run.clone()).await.unwrap(), None);
    assert_eq!(journal.plan(run.clone()).await.unwrap(), None);
    assert_eq!(journal.append(run.clone(), host(), batch(1, 1)).await.unwrap_err(), unknown);
    assert_eq!(journal.entries(run.clone(), 0).await.unwrap_err(), unknown);
    assert_eq!(journal.claim(run.clone(), claim("host"), NOW).await.unwrap_err(), unknown);
    assert_eq!(journal.release(run.clone(), host()).await.unwrap_err(), unknown);
    assert_eq!(journal.instruct(run.clone(), instruction(1, "approve")).await.unwrap_err(), unknown);
    assert_eq!(journal.instructions_of(run.clone()).await.unwrap_err(), unknown);
    assert!(!journal.forget(run, host(), NOW).await.unwrap());
}
