//! Runs that nothing disturbs, and those that cannot be begun.

use std::sync::{Arc, Mutex};

use host_client::durable::check_entries;
use host_client::{
    Audit, AuditConfig, CallContext, Effect, Error, ErrorCode, Event, ExecuteRequest, Host, Journal as _, Policy,
    RunError, RunStatus, Runs, SqliteJournal, ToolSpec, Tools, runs,
};
use relay_test_support::within;
use serde_json::{Value, json};

use crate::stage::{Folder, Ledger, Relays, nothing, options, runs as runs_of, tools, value};

#[tokio::test]
async fn a_run_has_the_outcome_of_its_code_and_is_in_the_journal() {
    let (folder, relays, ledger) = (Folder::new(), Relays::default(), Ledger::default());
    let host = folder.host(tools(&ledger, nothing)).await;
    let runs = runs_of(relays.client(host));
    let code = "console.log('begins');
        const {n} = await mcp.call('t.step', {n: 4});
        let caught;
        try { await mcp.call('t.fail', {n: 5}) } catch (error) { caught = error.message }
        return [n, caught]";
    let run = within(runs.start(ExecuteRequest::new(code))).await.unwrap();
    let mut events = run.events();
    let outcome = within(run.outcome()).await.unwrap();
    assert_eq!(outcome.value().unwrap(), json!([4, "no 5"]));
    assert_eq!(outcome.output[0].text, "begins");
    ledger.assert_each_once([4, 5]);
    let mut ended = false;
    while let Some(event) = within(events.next()).await {
        ended = matches!(event, Event::Ended { code: None, .. });
    }
    assert!(ended);

    let journal = folder.journal().await;
    let shown = runs::show(&journal, run.id()).await.unwrap();
    assert_eq!((shown.head.status, shown.head.claim, shown.attempts), (RunStatus::Ended, None, 1));
    assert_eq!(shown.result, Some(json!([4, "no 5"])));
    let calls: Vec<_> = shown.calls.iter().map(|call| (call.call, call.tool.as_str(), call.state)).collect();
    assert_eq!(calls, [(1, "t.step", "answered"), (2, "t.fail", "failed")]);
    let plan = journal.plan(run.id().clone()).await.unwrap().unwrap();
    check_entries(run.id(), &plan, &journal.entries(run.id().clone(), 0).await.unwrap()).unwrap();
    assert!(runs.recover().await.unwrap().runs.is_empty(), "nothing is left to do");
}

/// The kinds of a run's entries in the journal, each with its call.
async fn written(journal: &SqliteJournal, run: &str) -> Vec<(String, Option<u64>)> {
    let entries = journal.entries(run.parse().unwrap(), 0).await.unwrap();
    entries.into_iter().map(|entry| (entry.kind, entry.call)).collect()
}

#[tokio::test]
async fn before_a_tool_changes_something_the_journal_has_all_that_led_to_it() {
    let (folder, relays) = (Folder::new(), Relays::default());
    let (journal, found) = (Arc::new(folder.journal().await), Arc::new(Mutex::new(Vec::new())));
    let tools = Tools::new();
    let answer = |n: u64| move |_: Value, _: CallContext| async move { Ok(json!(n).to_string().into()) };
    let schema = json!({"type": "object"});
    let reads = ToolSpec::new("t.read", "Reads", schema.clone()).effect(Effect::ReadOnly);
    tools.add_with(reads, answer(1)).unwrap();
    for (name, is_idempotent) in [("t.pay", false), ("t.put", true)] {
        let (journal, found) = (Arc::clone(&journal), Arc::clone(&found));
        let looks = move |_: Value, context: CallContext| {
            let (journal, found) = (Arc::clone(&journal), Arc::clone(&found));
            async move {
                let key = context.idempotency_key();
                let (run, call) = key.rsplit_once('-').unwrap();
                let entries = written(&journal, run).await;
                found.lock().unwrap().push((call.parse::<u64>().unwrap(), entries));
                Ok("null".into())
            }
        };
        let spec = ToolSpec::new(name, "Changes", schema.clone()).effect(Effect::Mutating).idempotent(is_idempotent);
        tools.add_with(spec, looks).unwrap();
    }
    let runs = runs_of(relays.client(folder.host(tools).await));
    let code = "for (let n = 0; n < 5; n++) {
        for (const tool of ['t.read', 't.pay', 't.read', 't.put']) await mcp.call(tool, {});
    }";
    within(within(runs.start(ExecuteRequest::new(code))).await.unwrap().outcome()).await.unwrap();
    let found = std::mem::take(&mut *found.lock().unwrap());
    assert_eq!(found.len(), 10);
    for (call, entries) in found {
        let has = |kind: &str, call: u64| entries.iter().any(|it| *it == (kind.to_owned(), Some(call)));
        assert!(has("started", call), "call {call}: {entries:?}");
        assert!((1..call).all(|before| has("answered", before)), "call {call}: {entries:?}");
    }
}

#[tokio::test]
async fn code_that_fails_ends_its_run_with_its_error() {
    let (folder, relays) = (Folder::new(), Relays::default());
    let runs = runs_of(relays.client(folder.host(tools(&Ledger::default(), nothing)).await));
    let request = ExecuteRequest::new("await mcp.call('t.fail', {n: 1}); return 1");
    let run = within(runs.start(request)).await.unwrap();
    let error = within(run.outcome()).await.unwrap_err();
    assert_eq!(error.error_code(), Some(ErrorCode::EvalError), "{error}");
    let Error::Execution(error) = error else { panic!("{error}") };
    assert_eq!(error.calls.groups().iter().map(|group| group.tool.as_str()).collect::<Vec<_>>(), ["t.fail"]);
    let shown = runs::show(&folder.journal().await, run.id()).await.unwrap();
    let (code, message) = shown.error.unwrap();
    assert!(shown.head.status == RunStatus::Ended && code == "EVAL_ERROR" && message.contains("no 1"), "{message}");
}

#[tokio::test]
async fn the_clock_stands_at_the_last_answer_and_numbers_come_from_a_seed() {
    let (folder, relays, ledger) = (Folder::new(), Relays::default(), Ledger::default());
    let runs = runs_of(relays.client(folder.host(tools(&ledger, nothing)).await));
    let code = "const began = Date.now(), same = () => Date.now() === began;
        for (let sum = 0, n = 0; n < 3e6; n++) sum += n;
        const before = same();
        await mcp.call('t.slow', {n: 1});
        return [before, Date.now() - began >= 200, Math.random() === Math.random()]";
    let request = ExecuteRequest::new(code);
    assert_eq!(value(&runs, request).await.unwrap(), json!([true, true, false]));
}

#[tokio::test]
async fn a_run_is_in_one_audit_with_its_calls() {
    let (folder, relays, ledger) = (Folder::new(), Relays::default(), Ledger::default());
    let path = folder.path("audit.jsonl");
    let host = folder.host(tools(&ledger, nothing)).await.audit(Audit::open(AuditConfig::new(&path)).unwrap());
    let runs = runs_of(relays.client(host));
    let code = "await Promise.all([1, 2, 3].map(n => mcp.call('t.step', {n}))); return 'all'";
    let run = within(runs.start(ExecuteRequest::new(code))).await.unwrap();
    within(run.outcome()).await.unwrap();
    drop(runs);
    let report = host_client::audit::verify(std::slice::from_ref(&path), None).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(report.is_whole(), "{report:?}");
    assert_eq!(text.matches("\"decision\":\"allow\"").count(), 3, "{text}");
    assert!(text.contains(run.id().as_str()), "{text}");
}

#[tokio::test]
async fn what_cannot_be_durable_is_refused_before_it_begins() {
    let (folder, relays, ledger) = (Folder::new(), Relays::default(), Ledger::default());
    let without = Runs::new(relays.client(Host::new(Tools::new())), options()).unwrap_err();
    assert!(matches!(&without, Error::Run(error) if matches!(**error, RunError::NoJournal)), "{without}");

    let mut config = AuditConfig::new(folder.path("audit.jsonl"));
    config.redact.push(host_client::audit::Redaction { tools: vec!["t.fail".into()], path: "$.extra".into() });
    let host = folder.host(tools(&ledger, nothing)).await.audit(Audit::open(config).unwrap());
    let runs = runs_of(relays.client(host));
    let request = ExecuteRequest::new("return await mcp.call('t.step', {n: 1})");
    let error = within(runs.start(request.clone())).await.unwrap_err();
    assert!(matches!(&error, Error::Run(it) if matches!(**it, RunError::NotDurable(_))), "{error}");
    assert!(error.to_string().contains("t.fail") && error.to_string().contains("ExecuteRequest::tools"), "{error}");
    assert_eq!(ledger.total(), 0);
    // Without that tool it can be.
    assert_eq!(value(&runs, request.tools(["t.step"])).await.unwrap()["n"], 1);
}

#[tokio::test]
async fn the_policy_holds_for_a_run() {
    let (folder, relays, ledger) = (Folder::new(), Relays::default(), Ledger::default());
    let policy = Policy::new().deny(["t.fail"], "never").allow(["*"]);
    let host = folder.host(tools(&ledger, nothing)).await.policy(policy);
    let runs = runs_of(relays.client(host));
    let code = "try { await mcp.call('t.fail', {n: 1}) } catch (error) { return error.code }";
    let request = ExecuteRequest::new(code).always_in_sandbox();
    assert_eq!(value(&runs, request).await.unwrap(), "TOOL_DENIED");
    assert_eq!(ledger.total(), 0);
}
