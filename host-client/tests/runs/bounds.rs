//! How many runs of one owner may be open.

use host_client::durable::MemoryJournal;
use host_client::{Error, ExecuteCode, ExecuteRequest, Host, Policy, Run, RunError, RunOptions, Runs};
use relay_test_support::within;
use serde_json::json;

use crate::stage::{Ledger, Relays, nothing, options, tools};

const ASKS: &str = "return (await mcp.call('t.step', {n: 7})).n";

fn open(relays: &Relays, journal: MemoryJournal, open_runs: usize) -> (Runs, ExecuteCode) {
    let policy = Policy::new().ask(["t.step"]).allow(["*"]);
    let host = Host::new(tools(&Ledger::default(), nothing)).policy(policy).journal(journal);
    let client = relays.client(host);
    let runs = Runs::new(client.clone(), RunOptions { open_runs, ..options() }).unwrap();
    (runs.clone(), ExecuteCode::new(client).durable(runs.of("ada")))
}

async fn start(runs: &Runs) -> Result<Run, Error> {
    within(runs.start(ExecuteRequest::new(ASKS))).await
}

fn is_refused(error: &Error) -> bool {
    matches!(error, Error::Run(it) if matches!(**it, RunError::TooMany { most: 2 }))
}

#[tokio::test]
async fn an_owner_has_so_many_open_runs_and_no_more() {
    let (relays, journal) = (Relays::default(), MemoryJournal::new());
    let (runs, tool) = open(&relays, journal.clone(), 2);
    let ada = runs.of("ada");
    let (first, second) = (start(&ada).await.unwrap(), start(&ada).await.unwrap());
    let error = start(&ada).await.unwrap_err();
    assert!(is_refused(&error) && error.to_string().contains("open_runs"), "{error}");
    let report = within(tool.call(json!({"code": ASKS}))).await;
    assert!(report.is_error && report.text.contains("2 runs have not ended"), "{}", report.text);
    // Others have room of their own.
    let of_others = [start(&runs.of("bo")).await.unwrap(), start(&runs).await.unwrap()];
    first.cancel();
    within(first.outcome()).await.unwrap_err();
    let third = start(&ada).await.unwrap();
    assert!(is_refused(&start(&ada).await.unwrap_err()));
    // One that is refused leaves nothing behind.
    assert_eq!(runs.active().len(), 4);
    for run in [second, third].iter().chain(&of_others) {
        within(run.settled()).await;
    }
    within(runs.leave()).await;

    // Those that no process goes on with count, too.
    let (later, _) = open(&relays, journal.clone(), 2);
    let ada = later.of("ada");
    assert!(is_refused(&start(&ada).await.unwrap_err()));
    let left = within(later.recover()).await.unwrap().runs;
    assert_eq!(left.len(), 4);
    assert!(is_refused(&start(&ada).await.unwrap_err()));
    let run = left.iter().find(|run| run.owner() == Some("ada")).unwrap();
    run.cancel();
    within(run.outcome()).await.unwrap_err();
    start(&ada).await.unwrap();
    start(&later.of("bo")).await.unwrap();
    assert!(is_refused(&start(&later.of("bo")).await.unwrap_err()));
}

#[tokio::test]
async fn runs_that_begin_at_once_do_not_exceed_the_maximum() {
    let (relays, journal) = (Relays::default(), MemoryJournal::new());
    let (runs, _) = open(&relays, journal, 2);
    let starts = (0..8).map(|_| {
        let runs = runs.of("ada");
        tokio::spawn(async move { runs.start(ExecuteRequest::new(ASKS)).await })
    });
    let mut begun = 0;
    for start in starts.collect::<Vec<_>>() {
        begun += usize::from(within(start).await.unwrap().is_ok());
    }
    // One that is refused may have kept another one out.
    assert!((1..=2).contains(&begun), "{begun}");
    assert_eq!(runs.active().len(), begun);
}
