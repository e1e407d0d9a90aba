//! What becomes of runs when the journal is busy at their end, or the code of this library panics.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use host_client::durable::{JournalError, MemoryJournal};
use host_client::runs::RunState;
use host_client::{Error, ExecuteRequest, Host, Journal, Policy, RunError, RunStatus, Runs};
use relay_test_support::within;

use crate::journals::{Faulty, is_end};
use crate::stage::{Ledger, Relays, nothing, options, tools};

const CODE: &str = "return (await mcp.call('t.step', {n: 1})).n";

fn open(relays: &Relays, ledger: &Ledger, journal: impl Journal) -> Runs {
    let host = Host::new(tools(ledger, nothing)).policy(Policy::new().allow(["*"])).journal(journal);
    Runs::new(relays.client(host), options()).unwrap()
}

#[tokio::test]
async fn a_journal_that_is_busy_for_a_moment_costs_no_run_its_end() {
    let (relays, ledger, inner) = (Relays::default(), Ledger::default(), MemoryJournal::new());
    let left = Arc::new(AtomicUsize::new(2));
    let counted = Arc::clone(&left);
    let journal = Faulty::new(inner.clone()).appending(move |batch| {
        let is_busy = is_end(batch)
            && counted.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        if is_busy { Err(JournalError::Busy("others write".into())) } else { Ok(()) }
    });
    let runs = open(&relays, &ledger, journal);
    let run = within(runs.start(ExecuteRequest::new(CODE))).await.unwrap();
    assert_eq!(within(run.outcome()).await.unwrap().value().unwrap(), 1);
    assert_eq!(left.load(Ordering::SeqCst), 0);
    assert_eq!(inner.run(run.id().clone()).await.unwrap().unwrap().status, RunStatus::Ended);
    ledger.assert_each_once([1]);
}

#[tokio::test]
async fn a_run_whose_driver_panicked_is_left_for_others() {
    let (relays, ledger, inner) = (Relays::default(), Ledger::default(), MemoryJournal::new());
    let journal = Faulty::new(inner.clone()).appending(|batch| {
        assert!(!is_end(batch), "a fault of the journal");
        Ok(())
    });
    let first = open(&relays, &ledger, journal);
    let run = within(first.start(ExecuteRequest::new(CODE))).await.unwrap();
    let error = within(run.outcome()).await.unwrap_err();
    assert!(matches!(&error, Error::Run(it) if matches!(**it, RunError::Left)), "{error}");
    assert_eq!(run.state(), RunState::Ended);
    assert!(first.active().is_empty());

    // This process lives on, and does not keep others from the run.
    let released = async {
        while inner.run(run.id().clone()).await.unwrap().unwrap().claim.is_some() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    within(released).await;
    let second = open(&relays, &ledger, inner.clone());
    let again = within(second.resume(run.id())).await.unwrap();
    assert_eq!(within(again.outcome()).await.unwrap().value().unwrap(), 1);
    ledger.assert_each_once([1]);
}
