//! Runs that are cancelled: what is said of them, and what they are.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use host_client::durable::{JournalError, MemoryJournal};
use host_client::runs::{self, cancel, show};
use host_client::{ErrorCode, ExecuteCode, ExecuteRequest, Host, Journal, Policy, RunError, RunStatus, Runs};
use relay_test_support::within;
use serde_json::{Value, json};

use crate::journals::{Faulty, is_end};
use crate::stage::{Ledger, Relays, nothing, options, tools};

const ASKS: &str = "return (await mcp.call('t.step', {n: 7})).n";

/// The runs of a process over a journal, and the tool for its models.
fn open(relays: &Relays, ledger: &Ledger, journal: impl Journal) -> (Runs, ExecuteCode) {
    let policy = Policy::new().ask(["t.step"]).allow(["*"]);
    let client = relays.client(Host::new(tools(ledger, nothing)).policy(policy).journal(journal));
    let runs = Runs::new(client.clone(), options()).unwrap();
    (runs.clone(), ExecuteCode::new(client).durable(runs.of("ada")))
}

async fn begun(tool: &ExecuteCode) -> String {
    let report = within(tool.call(json!({"code": ASKS}))).await;
    report.structured.unwrap()["run"].as_str().unwrap().to_owned()
}

async fn call(tool: &ExecuteCode, name: &str, run: &str) -> (bool, Value, String) {
    let report = within(tool.call_tool(name, json!({"run": run}))).await;
    (report.is_error, report.structured.unwrap_or_default()["status"].take(), report.text)
}

#[tokio::test]
async fn a_run_whose_end_the_journal_does_not_take_is_not_said_to_be_cancelled() {
    let (relays, ledger, inner) = (Relays::default(), Ledger::default(), MemoryJournal::new());
    let is_full = Arc::new(AtomicBool::new(true));
    let full = Arc::clone(&is_full);
    let journal =
        Faulty::new(inner.clone()).appending(move |batch| match full.load(Ordering::SeqCst) && is_end(batch) {
            true => Err(JournalError::Full("no space left on device".into())),
            false => Ok(()),
        });
    let (_runs, tool) = open(&relays, &ledger, journal);
    let run = begun(&tool).await;
    let (is_error, status, text) = call(&tool, "cancel_run", &run).await;
    assert!(is_error && status.is_null() && text.contains("has not ended") && text.contains("disk is full"), "{text}");
    // Whichever process goes on with it, and whenever: it is cancelled.
    let left = inner.instructions_of(run.parse().unwrap()).await.unwrap();
    assert!(left.len() == 1 && left[0].call == 0, "{left:?}");
    is_full.store(false, Ordering::SeqCst);
    let (is_error, _, text) = call(&tool, "wait_for_run", &run).await;
    assert!(is_error && text == "CANCELLED: the run was cancelled", "{text}");
    assert_eq!(inner.run(run.parse().unwrap()).await.unwrap().unwrap().status, RunStatus::Ended);
    assert_eq!(ledger.total(), 0);
}

#[tokio::test]
async fn a_run_of_another_process_is_said_to_be_cancelled_when_it_is() {
    let (relays, ledger, journal) = (Relays::default(), Ledger::default(), MemoryJournal::new());
    let (_first, tool) = open(&relays, &ledger, journal.clone());
    let (_second, other) = open(&relays, &ledger, journal.clone());
    let run = begun(&tool).await;
    let (is_error, status, text) = call(&other, "cancel_run", &run).await;
    assert!(!is_error && status == "cancelled", "{text}");
    let shown = show(&journal, &run.parse().unwrap()).await.unwrap();
    assert!(shown.head.status == RunStatus::Ended && shown.error.unwrap().0 == "CANCELLED", "it had not ended");
    // It stays so, and is no run to be cancelled.
    for tool in [&tool, &other] {
        let (is_error, _, text) = call(tool, "cancel_run", &run).await;
        assert!(is_error && text.contains("has ended"), "{text}");
    }
}

#[tokio::test]
async fn a_run_that_no_process_goes_on_with_is_cancelled_where_that_is_asked_for() {
    let (relays, ledger, journal) = (Relays::default(), Ledger::default(), MemoryJournal::new());
    let (first, tool) = open(&relays, &ledger, journal.clone());
    let run = begun(&tool).await;
    within(first.leave()).await;
    let (_second, other) = open(&relays, &ledger, journal.clone());
    let (is_error, status, text) = call(&other, "cancel_run", &run).await;
    assert!(!is_error && status == "cancelled", "{text}");
    assert_eq!(show(&journal, &run.parse().unwrap()).await.unwrap().error.unwrap().0, "CANCELLED");
}

#[tokio::test]
async fn a_run_that_has_ended_cannot_be_cancelled_and_one_can_be_twice() {
    let (relays, ledger, journal) = (Relays::default(), Ledger::default(), MemoryJournal::new());
    let (all, tool) = open(&relays, &ledger, journal.clone());
    let run = within(all.start(ExecuteRequest::new("return 1"))).await.unwrap();
    within(run.outcome()).await.unwrap();
    let error = cancel(&journal, run.id()).await.unwrap_err();
    assert!(matches!(&error, RunError::Over(id) if id == run.id()), "{error}");
    assert!(matches!(all.cancel(run.id()).await, Err(RunError::Over(_))));
    assert!(journal.instructions_of(run.id().clone()).await.unwrap().is_empty());

    let waits = begun(&tool).await.parse().unwrap();
    within(all.leave()).await;
    cancel(&journal, &waits).await.unwrap();
    cancel(&journal, &waits).await.unwrap();
    assert_eq!(journal.instructions_of(waits.clone()).await.unwrap().len(), 1);
    let error = within(within(all.resume(&waits)).await.unwrap().outcome()).await.unwrap_err();
    assert_eq!(error.error_code(), Some(ErrorCode::Cancelled), "{error}");
    let unknown = "0123456789abcdef".parse().unwrap();
    assert!(matches!(all.cancel(&unknown).await, Err(RunError::Unknown(_))));
    assert!(matches!(all.of("bo").cancel(&waits).await, Err(RunError::Unknown(_))), "it is Ada's");
    assert!(runs::forget(&journal, &waits).await.unwrap());
}
