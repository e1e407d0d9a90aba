use std::future::Future as _;
use std::sync::Arc;
use std::task::{Context, Waker};

use serde_json::value::RawValue;

use super::entry::{Answer, Answered, Asked, CallOnly, Called, Entry, RelayFailure, Steps, Told};
use super::journal::{Claim, Journal as _, JournalError, NewRun, RunId, RunStatus};
use super::log::RunLog;
use super::memory::MemoryJournal;
use super::record::{Known, RunRecord};
use super::{check_entries, first_chain};
use crate::hash::Hash;

const PLAN: &str = "{}";
const ME: &str = "me";

fn run() -> RunId {
    "a-run".parse().unwrap()
}

async fn begun() -> (MemoryJournal, RunLog) {
    let journal = MemoryJournal::new();
    let claim = Claim { holder: ME.into(), until_ms: i64::MAX };
    journal.create(NewRun { id: run(), created_ms: 1, plan: PLAN.into() }, claim).await.unwrap();
    let log = RunLog::new(Arc::new(journal.clone()), run(), ME.into(), 0, first_chain(&run(), PLAN));
    (journal, log)
}

fn called(call: u64, tool: &str) -> Entry {
    let steps = Steps {
        steps: vec![2, 5],
        failures: vec![RelayFailure { call: 9, code: "TOOL_TIMEOUT".into(), message: "late".into() }],
    };
    let arguments = RawValue::from_string(r#"{"a":1}"#.into()).ok();
    Entry::Called(Called { call, tool: tool.into(), arguments_sha256: Hash::of(b"{}"), arguments, steps })
}

fn answered(call: u64, json: &str) -> Entry {
    Entry::Answered(Answered { call, answer: Answer::Result(RawValue::from_string(json.into()).unwrap()) })
}

async fn read(journal: &MemoryJournal) -> Result<RunRecord, JournalError> {
    RunRecord::read(&run(), PLAN, &journal.entries(run(), 0).await.unwrap())
}

#[tokio::test]
async fn entries_are_read_as_they_were_written() {
    let (journal, log) = begun().await;
    log.push(&called(1, "a.b"), None);
    log.push(&called(3, "a.c"), None);
    log.push(&Entry::Started(CallOnly { call: 3 }), None);
    log.push(&answered(1, r#"{"x": [1, 2]}"#), None);
    log.push(&answered(3, "null"), None);
    log.push(&Entry::Told(Told { output: 7, steps: Steps { steps: vec![4, 0], failures: Vec::new() } }), None);
    assert!(journal.entries(run(), 0).await.unwrap().is_empty(), "nobody has waited yet");
    log.set_status(RunStatus::Waiting);
    log.commit_all().await.unwrap();

    let entries = journal.entries(run(), 0).await.unwrap();
    check_entries(&run(), PLAN, &entries).unwrap();
    assert_eq!(journal.run(run()).await.unwrap().unwrap().status, RunStatus::Waiting);
    let record = read(&journal).await.unwrap();
    assert_eq!((record.entries, record.told, record.newest_call()), (6, 7, 3));
    assert_eq!((&record.steps.steps[..], record.steps.failures.len()), (&[2, 5, 2, 5, 4, 0][..], 2));
    assert_eq!(record.unanswered().count(), 0);

    let hash = Hash::of(b"{}");
    let Known::Answered(Answer::Result(json)) = record.find(1, "a.b", hash) else { panic!("it has an answer") };
    assert_eq!(json.get(), r#"{"x": [1, 2]}"#);
    assert!(matches!(record.find(3, "a.c", hash), Known::Answered(Answer::Result(json)) if json.get() == "null"));
    assert!(matches!(record.find(4, "a.c", hash), Known::New));
    for (call, tool, arguments) in [(1, "a.c", "{}"), (1, "a.b", "[]"), (2, "a.b", "{}")] {
        let found = record.find(call, tool, Hash::of(arguments.as_bytes()));
        let Known::Diverged(divergence) = found else { panic!("{call} {tool} {arguments}: {found:?}") };
        let text = divergence.to_string();
        assert!(text.contains(&format!("call {call}")) && text.contains(tool), "{text}");
    }
}

#[tokio::test]
async fn every_change_of_an_entry_is_found() {
    let (journal, log) = begun().await;
    log.push(&called(1, "a.b"), None);
    log.push(&answered(1, "1"), None);
    log.commit_all().await.unwrap();
    let entries = journal.entries(run(), 0).await.unwrap();
    let read = |plan: &str, entries: &[_]| RunRecord::read(&run(), plan, entries);
    assert!(read(PLAN, &entries).is_ok());
    type Change = fn(&mut Vec<super::JournalEntry>);
    let changes: [Change; 6] = [
        |all| all[1].json = all[1].json.replace('1', "2"),
        |all| all[1].call = Some(2),
        |all| all[1].kind = "told".into(),
        |all| all[0].chain = all[1].chain.clone(),
        |all| all.swap(0, 1),
        |all| drop(all.remove(0)),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut changed = entries.clone();
        change(&mut changed);
        assert!(matches!(read(PLAN, &changed), Err(JournalError::Damaged(_))), "change {number}");
        assert!(matches!(check_entries(&run(), PLAN, &changed), Err(JournalError::Damaged(_))), "change {number}");
    }
    assert!(matches!(read("[]", &entries), Err(JournalError::Damaged(_))), "another plan");
}

#[tokio::test]
async fn an_entry_about_a_call_that_was_not_made_is_damage() {
    let (journal, log) = begun().await;
    let asked = Asked {
        call: 5,
        tool: "a.b".into(),
        rule: "ask".into(),
        tool_sha256: Hash::of(b""),
        arguments_sha256: Hash::of(b"{}"),
        arguments: serde_json::Value::Null,
        is_shortened: false,
        line: None,
        description: String::new(),
        until_ms: 1,
    };
    log.push(&Entry::Asked(asked), None);
    log.commit_all().await.unwrap();
    let error = read(&journal).await.unwrap_err();
    assert!(matches!(&error, JournalError::Damaged(text) if text.contains("call 5")), "{error}");
}

#[tokio::test]
async fn a_wait_that_is_given_up_leaves_nothing_undone_and_nothing_twice() {
    let (journal, log) = begun().await;
    for call in 1..=50 {
        let number = log.push(&called(call, "a.b"), None);
        // Polled once and dropped: the journal may have written it.
        let mut commit = std::pin::pin!(log.commit(number));
        let _ = commit.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    }
    log.commit_all().await.unwrap();
    assert_eq!(read(&journal).await.unwrap().entries, 50);
}

#[tokio::test]
async fn entries_of_many_waiters_keep_their_order() {
    let (journal, log) = begun().await;
    let log = Arc::new(log);
    let tasks: Vec<_> = (1..=200)
        .map(|call| {
            let log = Arc::clone(&log);
            let number = log.push(&called(call, "a.b"), None);
            tokio::spawn(async move { log.commit(number).await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    let record = read(&journal).await.unwrap();
    assert_eq!(record.calls().map(|(call, _)| call).collect::<Vec<_>>(), (1..=200).collect::<Vec<_>>());
}

#[tokio::test]
async fn after_an_error_nothing_more_is_written() {
    let (journal, log) = begun().await;
    log.push(&called(1, "a.b"), None);
    log.commit_all().await.unwrap();
    let other = Claim { holder: "other".into(), until_ms: i64::MAX };
    journal.release(run(), ME.into()).await.unwrap();
    journal.claim(run(), other, 0).await.unwrap();
    log.push(&answered(1, "1"), None);
    let error = log.commit_all().await.unwrap_err();
    assert!(matches!(error, JournalError::Claimed { .. }), "{error}");
    journal.release(run(), "other".into()).await.unwrap();
    let mine = Claim { holder: ME.into(), until_ms: i64::MAX };
    journal.claim(run(), mine, 0).await.unwrap();
    log.push(&called(2, "a.b"), None);
    assert_eq!(log.commit_all().await.unwrap_err(), error);
    assert_eq!((log.failed(), read(&journal).await.unwrap().entries), (Some(error), 1));
}
