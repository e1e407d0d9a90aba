//! Runs that go on in another process: with approvals of their own, and without waiting for others.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use host_client::durable::MemoryJournal;
use host_client::runs::RunState;
use host_client::{Approval, Error, ExecuteRequest, Host, Journal, Policy, RunError, Runs};
use relay_test_support::within;
use tokio::sync::Semaphore;

use crate::journals::Faulty;
use crate::stage::{Ledger, Relays, nothing, options, tools};

fn asking(relays: &Relays, ledger: &Ledger, journal: impl Journal) -> Runs {
    let policy = Policy::new().ask(["t.step"]).allow(["*"]);
    let host = Host::new(tools(ledger, nothing)).policy(policy).journal(journal);
    Runs::new(relays.client(host), options()).unwrap()
}

fn step(n: usize) -> ExecuteRequest {
    ExecuteRequest::new(format!("return (await mcp.call('t.step', {{n: {n}}})).n"))
}

#[tokio::test]
async fn what_was_approved_for_a_session_does_not_hold_for_a_run_that_is_resumed_there() {
    let (relays, ledger, journal) = (Relays::default(), Ledger::default(), MemoryJournal::new());
    let first = asking(&relays, &ledger, journal.clone());
    let left = within(first.start(step(1))).await.unwrap();
    assert_eq!(within(left.settled()).await, RunState::WaitingForApproval(vec![1]));
    within(first.leave()).await;

    let second = asking(&relays, &ledger, journal);
    let of_session = within(second.start(step(2))).await.unwrap();
    within(of_session.until(|_| !of_session.questions().is_empty())).await;
    of_session.answer(1, Approval::Session, "Bo").unwrap();
    assert_eq!(within(of_session.outcome()).await.unwrap().value().unwrap(), 2);
    // It holds for what begins there.
    let begun = within(second.start(step(3))).await.unwrap();
    assert_eq!(within(begun.outcome()).await.unwrap().value().unwrap(), 3);

    let resumed = within(second.resume(left.id())).await.unwrap();
    assert_eq!(within(resumed.settled()).await, RunState::WaitingForApproval(vec![1]));
    resumed.answer(1, Approval::Session, "Bo").unwrap();
    assert_eq!(within(resumed.outcome()).await.unwrap().value().unwrap(), 1);
    ledger.assert_each_once([1, 2, 3]);
}

#[tokio::test]
async fn a_run_whose_journal_is_slow_holds_up_no_other() {
    let (relays, ledger, inner) = (Relays::default(), Ledger::default(), MemoryJournal::new());
    let first = asking(&relays, &ledger, inner.clone());
    let (slow, quick) = (within(first.start(step(1))).await.unwrap(), within(first.start(step(2))).await.unwrap());
    let ended = within(first.start(ExecuteRequest::new("return 3"))).await.unwrap();
    within(ended.outcome()).await.unwrap();
    within(slow.settled()).await;
    within(quick.settled()).await;
    within(first.leave()).await;

    let (open, id) = (Arc::new(Semaphore::new(0)), slow.id().clone());
    let waits = Arc::clone(&open);
    let journal = Faulty::new(inner).reading(move |run| match *run == id {
        true => {
            let waits = Arc::clone(&waits);
            async move { drop(waits.acquire().await) }.boxed()
        }
        false => std::future::ready(()).boxed(),
    });
    let second = asking(&relays, &ledger, journal.clone());
    let resuming = {
        let (second, id) = (second.clone(), slow.id().clone());
        tokio::spawn(async move { second.resume(&id).await })
    };
    while journal.claims() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let resumed = within(second.resume(quick.id())).await.unwrap();
    assert_eq!(within(resumed.settled()).await, RunState::WaitingForApproval(vec![1]));
    // One that has ended is not taken from anybody.
    let claims = journal.claims();
    let error = within(second.resume(ended.id())).await.unwrap_err();
    assert!(matches!(&error, Error::Run(it) if matches!(**it, RunError::Unknown(_))), "{error}");
    assert_eq!(journal.claims(), claims);
    open.add_permits(9);
    let resumed = within(resuming).await.unwrap().unwrap();
    assert_eq!(within(resumed.settled()).await, RunState::WaitingForApproval(vec![1]));
}
