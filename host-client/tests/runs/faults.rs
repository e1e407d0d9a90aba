//! Journals that fail or are not what they were, tools and relays that have changed: each is an error that says what to do, and
//! the journal stays whole.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use host_client::durable::{
    Batch, Claim, Journal, JournalEntry, JournalError, MemoryJournal, NewRun, check_entries, first_chain,
};
use host_client::{Error, ExecuteRequest, Host, Policy, RunError, RunId, RunOptions, RunStatus, Runs, Tools};
use relay_test_support::within;
use serde_json::{Value, json};

use crate::journals::Faulty;
use crate::stage::{Ledger, Relays, nothing, options, tools};

const CODE: &str = "const seen = [];
    for (let n = 0; n < 6; n++) seen.push((await mcp.call('t.step', {n})).n);
    return seen";

fn host(tools: Tools, journal: impl Journal) -> Host {
    Host::new(tools).policy(Policy::new().allow(["*"])).journal(journal)
}

fn runs_over(relays: &Relays, tools: Tools, journal: impl Journal) -> Runs {
    Runs::new(relays.client(host(tools, journal)), options()).unwrap()
}

fn run_error(error: Error) -> RunError {
    match error {
        Error::Run(error) => *error,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_full_disk_stops_a_run_wherever_it_is_and_it_goes_on_when_there_is_room() {
    let relays = Relays::default();
    for room in 1..16 {
        let (ledger, whole, left) = (Ledger::default(), MemoryJournal::new(), Arc::new(AtomicUsize::new(room)));
        let counted = Arc::clone(&left);
        let small = Faulty::new(whole.clone()).appending(move |_| {
            let left = counted.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
            left.map(drop).map_err(|_| JournalError::Full("no space left on device".into()))
        });
        let runs = runs_over(&relays, tools(&ledger, nothing), small);
        let run = within(runs.start(ExecuteRequest::new(CODE))).await.unwrap();
        let Err(error) = within(run.outcome()).await else {
            // It had room for everything.
            assert!(room >= 12, "{room}");
            break;
        };
        let error = run_error(error);
        assert!(matches!(error, RunError::Journal(JournalError::Full(_))), "{error}");
        let entries = whole.entries(run.id().clone(), 0).await.unwrap();
        check_entries(run.id(), &whole.plan(run.id().clone()).await.unwrap().unwrap(), &entries).unwrap();
        left.store(usize::MAX, Ordering::SeqCst);
        let before = ledger.runs();
        let again = within(runs.resume(run.id())).await.unwrap();
        let outcome = within(again.outcome()).await;
        assert!(ledger.runs().values().all(|count| *count == 1), "room {room}: {:?}", ledger.runs());
        match outcome {
            Ok(outcome) => assert_eq!(outcome.value().unwrap(), json!([0, 1, 2, 3, 4, 5])),
            // A tool had run, and its answer was not kept.
            Err(error) => {
                assert!(error.to_string().contains("is not known"), "room {room}: {error}");
                assert_eq!(ledger.runs(), before);
            }
        }
    }
}

/// A run whose first three calls are in a journal, and whose fourth was put to a person.
async fn begun(relays: &Relays) -> (MemoryJournal, RunId) {
    let (journal, ledger) = (MemoryJournal::new(), Ledger::default());
    let policy = Policy::new().ask(["t.fail"]).allow(["*"]);
    let host = Host::new(tools(&ledger, nothing)).policy(policy).journal(journal.clone());
    let runs = Runs::new(relays.client(host), options()).unwrap();
    let code = "for (let n = 0; n < 3; n++) await mcp.call('t.step', {n});
        try { await mcp.call('t.fail', {n: 3}) } catch (error) { return error.message }";
    let run = within(runs.start(ExecuteRequest::new(code))).await.unwrap();
    within(run.settled()).await;
    runs.leave().await;
    (journal, run.id().clone())
}

/// Copies a run into a new journal, with changes that keep its chain right.
async fn altered(
    journal: &MemoryJournal,
    id: &RunId,
    plan: impl Fn(Value) -> Value,
    entry: impl Fn(&JournalEntry) -> String,
) -> MemoryJournal {
    let (copy, holder) = (MemoryJournal::new(), "somebody".to_owned());
    let json = plan(serde_json::from_str(&journal.plan(id.clone()).await.unwrap().unwrap()).unwrap()).to_string();
    let mut before = first_chain(id, &json);
    let new = NewRun { id: id.clone(), created_ms: 1, plan: json };
    copy.create(new, Claim { holder: holder.clone(), until_ms: i64::MAX }).await.unwrap();
    let mut entries = Vec::new();
    for old in journal.entries(id.clone(), 0).await.unwrap() {
        let new = JournalEntry::chained(&before, &old.kind, old.call, entry(&old));
        before.clone_from(&new.chain);
        entries.push(new);
    }
    copy.append(id.clone(), holder.clone(), Batch { first: 1, entries, status: Some(RunStatus::Waiting), at_ms: 2 })
        .await
        .unwrap();
    copy.release(id.clone(), holder).await.unwrap();
    copy
}

async fn resumed(relays: &Relays, tools: Tools, journal: &MemoryJournal, id: &RunId, options: RunOptions) -> RunError {
    let runs = Runs::new(relays.client(host(tools, journal.clone())), options).unwrap();
    let error = match within(runs.resume(id)).await {
        Ok(run) => within(run.outcome()).await.unwrap_err(),
        Err(error) => error,
    };
    let entries = journal.entries(id.clone(), 0).await.unwrap();
    let plan = journal.plan(id.clone()).await.unwrap().unwrap();
    let status = journal.run(id.clone()).await.unwrap().unwrap().status;
    // It can go on when the reason is mended.
    assert!(check_entries(id, &plan, &entries).is_ok() && status != RunStatus::Ended, "{status:?}");
    run_error(error)
}

#[tokio::test]
async fn a_tool_that_is_gone_or_has_changed_stops_a_run_with_a_question_about_it() {
    let relays = Relays::default();
    let (journal, id) = begun(&relays).await;
    let error = resumed(&relays, Tools::new(), &journal, &id, options()).await;
    assert!(matches!(&error, RunError::ToolGone { call: 4, tool } if tool == "t.fail"), "{error}");
    let changed = Tools::new();
    let other = |_: Value| async { Ok::<_, host_client::ToolError>(1) };
    changed.add("t.fail", "Another tool", host_client::Effect::Mutating, other).unwrap();
    let error = resumed(&relays, changed, &journal, &id, options()).await;
    assert!(matches!(&error, RunError::ToolChanged { call: 4, tool } if tool == "t.fail"), "{error}");
}

#[tokio::test]
async fn a_run_whose_tool_is_gone_can_be_cancelled() {
    let relays = Relays::default();
    let (journal, id) = begun(&relays).await;
    host_client::runs::cancel(&journal, &id).await.unwrap();
    let runs = runs_over(&relays, Tools::new(), journal.clone());
    let error = within(within(runs.resume(&id)).await.unwrap().outcome()).await.unwrap_err();
    assert_eq!(error.error_code(), Some(host_client::ErrorCode::Cancelled), "{error}");
    assert_eq!(journal.run(id).await.unwrap().unwrap().status, RunStatus::Ended);
}

#[tokio::test]
async fn another_build_is_refused_unless_the_application_allows_it() {
    let relays = Relays::default();
    let (journal, id) = begun(&relays).await;
    let build = |entry: &JournalEntry| {
        let mut json: Value = serde_json::from_str(&entry.json).unwrap();
        if entry.kind == "attempt" {
            json["build"] = "another".into();
        }
        json.to_string()
    };
    let copy = altered(&journal, &id, |plan| plan, build).await;
    let same = || tools(&Ledger::default(), nothing);
    let error = resumed(&relays, same(), &copy, &id, options()).await;
    assert!(matches!(&error, RunError::OtherBuild { recorded, .. } if recorded == "another"), "{error}");
    let runs = Runs::new(relays.client(host(same(), copy)), RunOptions { any_build: true, ..options() }).unwrap();
    let run = within(runs.resume(&id)).await.unwrap();
    // Its policy allows the call that the first one asked about.
    assert_eq!(within(run.outcome()).await.unwrap().value().unwrap(), "no 3");
}

#[tokio::test]
async fn code_that_does_something_else_than_before_is_stopped() {
    let relays = Relays::default();
    let (journal, id) = begun(&relays).await;
    let ledger = Ledger::default();
    let other_code = |mut plan: Value| {
        plan["code"] = plan["code"].as_str().unwrap().replace("{n}", "{n, extra: 1}").into();
        plan
    };
    let copy = altered(&journal, &id, other_code, |entry| entry.json.clone()).await;
    let error = resumed(&relays, tools(&ledger, nothing), &copy, &id, options()).await;
    assert!(matches!(&error, RunError::Diverged(text) if text.contains("call 1")), "{error}");
    let no_call = |mut plan: Value| {
        plan["code"] = "return 1".into();
        plan
    };
    let copy = altered(&journal, &id, no_call, |entry| entry.json.clone()).await;
    let error = resumed(&relays, tools(&ledger, nothing), &copy, &id, options()).await;
    assert!(matches!(&error, RunError::Diverged(_)), "{error}");
    assert_eq!(ledger.total(), 0, "no tool ran");
}

#[tokio::test]
async fn a_damaged_run_does_not_go_on_and_the_others_do() {
    let relays = Relays::default();
    let (journal, id) = begun(&relays).await;
    let copy = altered(&journal, &id, |plan| plan, |entry| entry.json.replace("answered", "?")).await;
    // One entry more, which does not continue the chain.
    let holder = "somebody".to_owned();
    copy.claim(id.clone(), Claim { holder: holder.clone(), until_ms: i64::MAX }, 0).await.unwrap();
    let entries = copy.entries(id.clone(), 0).await.unwrap();
    let batch = Batch { first: entries.len() as u64 + 1, entries: vec![entries[0].clone()], status: None, at_ms: 3 };
    copy.append(id.clone(), holder.clone(), batch).await.unwrap();
    copy.release(id.clone(), holder).await.unwrap();
    let runs = runs_over(&relays, tools(&Ledger::default(), nothing), copy);
    let good = within(runs.start(ExecuteRequest::new(CODE))).await.unwrap();
    let recovered = within(runs.recover()).await.unwrap();
    let [(failed, error)] = &recovered.failed[..] else { panic!("{recovered:?}") };
    assert!(*failed == id && matches!(error, RunError::Journal(JournalError::Damaged(_))), "{error}");
    assert_eq!(within(good.outcome()).await.unwrap().value().unwrap(), json!([0, 1, 2, 3, 4, 5]));
}
