//! `execute_code` as durable runs: handles, who may use them, and what stays in the journal.

use host_client::durable::RunFilter;
use host_client::runs::{RunState, RunVerdict, decide, list};
use host_client::{Approval, ExecuteCode, ExecuteRequest, Host, Policy, Report, RunId, Runs};
use relay_test_support::within;
use serde_json::{Value, json};

use crate::stage::{Folder, Ledger, Relays, nothing, runs, tools};

const ASKS: &str = "console.log('begins'); return (await mcp.call('t.step', {n: 7})).n";

async fn asking(folder: &Folder, ledger: &Ledger) -> Host {
    folder.host(tools(ledger, nothing)).await.policy(Policy::new().ask(["t.step"]).allow(["*"]))
}

/// The tool of a process with the journal.
async fn open(folder: &Folder, relays: &Relays, ledger: &Ledger) -> (Runs, ExecuteCode) {
    let client = relays.client(asking(folder, ledger).await);
    let runs = runs(client.clone());
    let tool = ExecuteCode::new(client).durable(runs.of("ada"));
    (runs, tool)
}

async fn call(tool: &ExecuteCode, name: &str, arguments: Value) -> Report {
    within(tool.call_tool(name, arguments)).await
}

async fn heads(runs: &Runs) -> usize {
    list(runs.journal(), RunFilter { unfinished: false, limit: 9, after: None, newest_first: false })
        .await
        .unwrap()
        .len()
}

fn handle(report: &Report) -> String {
    let structured = report.structured.as_ref().unwrap();
    assert_eq!(serde_json::from_str::<Value>(&report.text).unwrap(), *structured);
    assert_eq!(
        (&structured["status"], &structured["for"]),
        (&json!("waiting"), &json!("a person's approval of t.step")),
        "{structured}"
    );
    structured["run"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn the_tools_of_runs_are_there_where_there_is_a_journal() {
    let (folder, relays, ledger) = (Folder::new(), Relays::default(), Ledger::default());
    let (_, tool) = open(&folder, &relays, &ledger).await;
    let names = |tool: &ExecuteCode| tool.definitions().into_iter().map(|it| it.name).collect::<Vec<_>>();
    assert_eq!(names(&tool)[4..], ["wait_for_run", "cancel_run"]);
    assert_eq!(names(&tool.for_another_conversation()).len(), 6);
    let definitions = tool.definitions();
    let bytes = |name: &str| {
        let found = definitions.iter().find(|it| it.name == name).unwrap();
        found.openai_chat().to_string().len()
    };
    assert!(bytes("wait_for_run") + bytes("cancel_run") < 900, "they cost tokens in every turn");
    let plain = ExecuteCode::new(relays.client(Host::new(tools(&ledger, nothing))));
    assert_eq!(names(&plain).len(), 4);
    let refused = call(&plain, "wait_for_run", json!({})).await;
    assert!(refused.is_error && refused.text.contains("no such tool"), "{}", refused.text);
}

#[tokio::test]
async fn code_that_ends_at_once_gives_its_value_and_leaves_nothing_in_the_journal() {
    let (folder, relays, ledger) = (Folder::new(), Relays::default(), Ledger::default());
    let (runs, tool) = open(&folder, &relays, &ledger).await;
    let report =
        call(&tool, "execute_code", json!({"code": "console.log('x'); return (await mcp.call('t.slow', {n: 3})).n"}))
            .await;
    assert_eq!((report.text.as_str(), report.notes.as_deref()), ("3", Some("Output:\nx")));
    let failed = call(&tool, "execute_code", json!({"code": "return y"})).await;
    assert!(failed.is_error && failed.text.starts_with("EVAL_ERROR"), "{}", failed.text);
    assert_eq!(heads(&runs).await, 0);
}

#[tokio::test]
async fn a_handle_works_in_another_process_and_for_its_owner_alone() {
    let (folder, relays, ledger) = (Folder::new(), Relays::default(), Ledger::default());
    let (first, tool) = open(&folder, &relays, &ledger).await;
    let run = handle(&call(&tool, "execute_code", json!({"code": ASKS})).await);
    assert_eq!(handle(&call(&tool, "wait_for_run", json!({"run": run, "seconds": 0})).await), run);
    let listed = call(&tool, "wait_for_run", json!({})).await.structured.unwrap();
    assert_eq!(listed["runs"][0]["run"], run.as_str());
    within(first.leave()).await;
    drop((first, tool));

    let (second, tool) = open(&folder, &relays, &ledger).await;
    let stranger = ExecuteCode::new(relays.client(asking(&folder, &ledger).await)).durable(second.of("bo"));
    let id: RunId = run.parse().unwrap();
    for is_active in [false, true] {
        for name in ["wait_for_run", "cancel_run"] {
            let told = |run: &str| call(&stranger, name, json!({"run": run}));
            let (strange, unknown) = (told(&run).await, told("0123456789abcdef").await);
            assert!(
                strange.is_error && strange.text == unknown.text.replace("0123456789abcdef", &run),
                "{}",
                strange.text
            );
        }
        assert_eq!(call(&stranger, "wait_for_run", json!({})).await.text, r#"{"runs":[]}"#);
        assert!(second.of("bo").get(&id).is_none() && second.of("bo").show(&id).await.is_err());
        if !is_active {
            assert_eq!(handle(&call(&tool, "wait_for_run", json!({"run": run, "seconds": 1})).await), run);
        }
    }
    decide(second.journal(), &id, 1, RunVerdict::Approve, "Ada").await.unwrap();
    let ended = call(&tool, "wait_for_run", json!({"run": run})).await;
    assert_eq!((ended.text.as_str(), ended.is_error), ("7", false));
    // Its result can be asked for again.
    let again = call(&tool, "wait_for_run", json!({"run": run})).await;
    assert_eq!(again.structured.unwrap(), json!({"result": 7}));
    assert!(call(&stranger, "wait_for_run", json!({"run": run})).await.is_error);
    let cancelled = call(&tool, "cancel_run", json!({"run": run})).await;
    assert!(cancelled.is_error && cancelled.text.contains("has ended"), "{}", cancelled.text);
    ledger.assert_each_once([7]);
}

#[tokio::test]
async fn a_run_is_cancelled_by_its_handle_and_with_a_call_that_is_given_up() {
    let (folder, relays, ledger) = (Folder::new(), Relays::default(), Ledger::default());
    let (runs, tool) = open(&folder, &relays, &ledger).await;
    let run = handle(&call(&tool, "execute_code", json!({"code": ASKS})).await);
    let cancelled = call(&tool, "cancel_run", json!({"run": run})).await;
    assert_eq!(cancelled.structured.unwrap(), json!({"run": run, "status": "cancelled"}));
    let ended = call(&tool, "wait_for_run", json!({"run": run})).await;
    assert!(ended.is_error && ended.text == "CANCELLED: the run was cancelled", "{}", ended.text);
    assert_eq!(heads(&runs).await, 1);

    let mut given_up = Box::pin(tool.call(json!({"code": ASKS})));
    let asked = async {
        while runs.active().first().is_none_or(|run| run.questions().is_empty()) {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::select! { report = &mut given_up => panic!("{report:?}"), () = asked => {} }
    drop(given_up);
    let gone = async {
        while !runs.active().is_empty() || heads(&runs).await > 1 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    within(gone).await;
    assert_eq!(ledger.total(), 0);
}

#[tokio::test]
async fn questions_are_answered_where_they_are_asked() {
    let (folder, relays, ledger) = (Folder::new(), Relays::default(), Ledger::default());
    let runs = runs(relays.client(asking(&folder, &ledger).await));
    let code = "const ask = n => mcp.call('t.step', {n}).then(it => it.n, error => error.message);
        return [await ask(1), await ask(2), await ask(3)]";
    let run = within(runs.start(ExecuteRequest::new(code))).await.unwrap();
    assert!(run.owner().is_none() && run.answer(1, Approval::Once, "Bo").is_err(), "nobody is asked yet");
    for (call, approval) in
        [(1, Approval::Once), (2, Approval::Deny { reason: Some("no".into()) }), (3, Approval::Execution)]
    {
        let asks = |_: &RunState| run.questions().iter().any(|question| question.call == call);
        within(run.until(asks)).await;
        assert_eq!(run.questions()[0].arguments["n"], call);
        run.answer(call, approval, "Bo").unwrap();
    }
    let value = within(run.outcome()).await.unwrap().value().unwrap();
    assert!(value[0] == 1 && value[1].as_str().unwrap().contains("no") && value[2] == 3, "{value}");
    assert!(run.questions().is_empty());
    let shown = runs.show(run.id()).await.unwrap();
    assert!(shown.calls.iter().all(|call| call.decided_by.as_deref() == Some("Bo")), "{:?}", shown.calls);
}
