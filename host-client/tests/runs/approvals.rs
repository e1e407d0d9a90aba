//! Runs that wait for people and for timers: they hold nothing at a relay meanwhile, and go on after restarts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use host_client::durable::JournalError;
use host_client::runs::{QuestionState, RunState, RunVerdict, cancel, decide, show};
use host_client::{
    Approval, ApprovalRequest, CallbackApprover, Client, ErrorCode, ExecuteRequest, Host, LimitName, LocalRelay,
    Policy, RunError, RunId, RunOptions, RunStatus, Runs, Tools,
};
use relay_test_support::within;
use serde_json::json;
use tokio::sync::Semaphore;

use crate::stage::{Folder, Ledger, Relays, nothing, options, runs, tools, value};

const CODE: &str = "
    const before = await mcp.call('t.again', {n: 1});
    const asked = await mcp.call('t.step', {n: 2, extra: {to: 'Ada'}});
    return [asked.n, (await mcp.call('t.again', {n: 3})) !== before]";

/// A host whose tool `t.step` needs an approval.
async fn asking(folder: &Folder, tools: Tools) -> Host {
    Host::new(tools).policy(Policy::new().ask(["t.step"]).allow(["*"])).journal(folder.journal().await)
}

#[tokio::test]
async fn a_run_that_waits_for_a_person_holds_nothing_at_its_relay() {
    let (folder, relays, ledger) = (Folder::new(), Relays::default(), Ledger::default());
    let answers = Arc::new(Semaphore::new(0));
    let waits = Arc::clone(&answers);
    let approver = CallbackApprover::new("Bo", move |request: ApprovalRequest| {
        let waits = Arc::clone(&waits);
        async move {
            assert_eq!(request.arguments["extra"]["to"], "Ada");
            waits.acquire().await.unwrap().forget();
            Approval::Once
        }
    });
    let host = asking(&folder, tools(&ledger, nothing)).await.approver(approver);
    let runs = runs(relays.client(host));
    let run = within(runs.start(ExecuteRequest::new(CODE))).await.unwrap();
    assert_eq!(within(run.settled()).await, RunState::WaitingForApproval(vec![2]));
    within(relays.until_idle()).await;
    // The relay may go meanwhile.
    relays.kill().await;
    let journal = folder.journal().await;
    let shown = show(&journal, run.id()).await.unwrap();
    assert_eq!((shown.head.status, shown.waiting()), (RunStatus::Waiting, vec![2]));
    assert_eq!(
        (&shown.calls[1].arguments, shown.calls[1].state),
        (&Some(json!({"n": 2, "extra": {"to": "Ada"}})), "waiting_for_approval")
    );
    answers.add_permits(1);
    assert_eq!(within(run.outcome()).await.unwrap().value().unwrap(), json!([2, true]));
    ledger.assert_each_once([1, 2, 3]);
    let shown = show(&journal, run.id()).await.unwrap();
    assert_eq!(shown.calls[1].decided_by.as_deref(), Some("Bo"));
}

#[tokio::test]
async fn another_process_decides_by_the_journal_while_nobody_runs_it() {
    let (folder, relays, ledger) = (Folder::new(), Relays::default(), Ledger::default());
    let first = runs(relays.client(asking(&folder, tools(&ledger, nothing)).await));
    let run = within(first.start(ExecuteRequest::new(CODE))).await.unwrap();
    assert_eq!(within(run.settled()).await, RunState::WaitingForApproval(vec![2]));
    let id = run.id().clone();
    first.leave().await;
    drop((run, first));

    let journal = folder.journal().await;
    let wrong = decide(&journal, &id, 1, RunVerdict::Approve, "Cy").await.unwrap_err();
    assert!(matches!(wrong, RunError::NotAsked { call: 1, .. }), "{wrong}");
    decide(&journal, &id, 2, RunVerdict::Approve, "Cy").await.unwrap();
    let twice = decide(&journal, &id, 2, RunVerdict::Deny { reason: None }, "Di").await.unwrap_err();
    assert!(matches!(twice, RunError::Journal(JournalError::Instructed { call: 2, .. })), "{twice}");

    let again = runs(relays.client(asking(&folder, tools(&ledger, nothing)).await));
    let recovered = within(again.recover()).await.unwrap();
    assert!(recovered.held.is_empty() && recovered.failed.is_empty(), "{recovered:?}");
    assert_eq!(recovered.runs.len(), 1);
    assert_eq!(within(recovered.runs[0].outcome()).await.unwrap().value().unwrap(), json!([2, true]));
    ledger.assert_each_once([1, 2, 3]);
    assert_eq!(show(&journal, &id).await.unwrap().calls[1].decided_by.as_deref(), Some("Cy"));
}

#[tokio::test]
async fn nothing_is_decided_too_late_or_about_a_run_that_is_over() {
    let (folder, relays, ledger) = (Folder::new(), Relays::default(), Ledger::default());
    let begin = async |seconds| {
        let client = relays.client(asking(&folder, tools(&ledger, nothing)).await);
        let approval_within = Duration::from_secs(seconds);
        let first = Runs::new(client, RunOptions { approval_within, ..options() }).unwrap();
        let run = within(first.start(ExecuteRequest::new(CODE))).await.unwrap();
        within(run.settled()).await;
        first.leave().await;
        run.id().clone()
    };
    let journal = folder.journal().await;
    let state = async |id: &RunId| {
        let shown = show(&journal, id).await.unwrap();
        (shown.question(&shown.calls[1]).unwrap(), shown.waiting())
    };
    let denial = RunVerdict::Deny { reason: None };

    let mut late = None;
    for seconds in [2, 8, 32] {
        let id = begin(seconds).await;
        let call = show(&journal, &id).await.unwrap().calls.remove(1);
        // On a slow machine the time may be over before the process has left the run.
        if call.state == "waiting_for_approval" {
            let left = call.until_ms.unwrap() - relay_proto::time::now_ms();
            tokio::time::sleep(Duration::from_millis(u64::try_from(left).unwrap_or(0))).await;
            late = Some(id);
            break;
        }
    }
    let late = late.unwrap();
    assert_eq!(state(&late).await, (QuestionState::TooLate, vec![]));
    for verdict in [RunVerdict::Approve, denial.clone()] {
        let error = decide(&journal, &late, 2, verdict, "Cy").await.unwrap_err();
        assert!(matches!(error, RunError::TooLate { call: 2, .. }), "{error}");
    }

    let cancelled = begin(3_600).await;
    assert_eq!(state(&cancelled).await, (QuestionState::Open, vec![2]));
    cancel(&journal, &cancelled).await.unwrap();
    assert_eq!(state(&cancelled).await, (QuestionState::Over, vec![]));
    let error = decide(&journal, &cancelled, 2, RunVerdict::Approve, "Cy").await.unwrap_err();
    assert!(matches!(error, RunError::Over(_)), "{error}");

    let again = runs(relays.client(asking(&folder, tools(&ledger, nothing)).await));
    let ended = within(again.resume(&cancelled)).await.unwrap();
    assert!(within(ended.outcome()).await.is_err());
    assert_eq!(state(&cancelled).await, (QuestionState::Over, vec![]));
    let error = decide(&journal, &cancelled, 2, denial, "Cy").await.unwrap_err();
    assert!(matches!(error, RunError::Over(_)), "{error}");
    let error = cancel(&journal, &cancelled).await.unwrap_err();
    assert!(matches!(error, RunError::Over(_)), "{error}");
    // The decision came too late, and the run that goes on denies the call.
    let denied = within(again.resume(&late)).await.unwrap();
    let error = within(denied.outcome()).await.unwrap_err().to_string();
    assert!(error.contains("nobody approved the call of t.step in time"), "{error}");
}

#[tokio::test]
async fn what_the_journal_has_in_part_is_not_approved_by_it() {
    let (folder, ledger) = (Folder::new(), Ledger::default());
    let host = asking(&folder, tools(&ledger, nothing)).await;
    let relay = LocalRelay::builder().limit(LimitName::ArgumentsBytes, 4 << 20).start().await.unwrap();
    let runs = runs(Client::connect(relay.client_config().await.unwrap(), host).await.unwrap().into());
    let code = "return (await mcp.call('t.step', {n: 1, extra: 'w'.repeat(3_000_000)})).n";
    let request = ExecuteRequest::new(code).limit(LimitName::ArgumentsBytes, 4 << 20);
    let run = within(runs.start(request)).await.unwrap();
    assert_eq!(within(run.settled()).await, RunState::WaitingForApproval(vec![1]));
    let journal = folder.journal().await;
    assert!(show(&journal, run.id()).await.unwrap().calls[0].is_shortened);
    let error = decide(&journal, run.id(), 1, RunVerdict::Approve, "Cy").await.unwrap_err();
    assert!(matches!(error, RunError::Shortened { call: 1, .. }), "{error}");
    decide(&journal, run.id(), 1, RunVerdict::Deny { reason: None }, "Cy").await.unwrap();
    assert!(within(run.outcome()).await.is_err());
}

#[tokio::test]
async fn approvals_by_the_journal_are_no_denials_and_denials_are_counted() {
    const MANY: &str = "const seen = [];
        for (let n = 1; n < 7; n++) {
            try { seen.push((await mcp.call('t.step', {n})).n) } catch (error) { seen.push(error.code) }
        }
        return seen";
    for has_approver in [false, true] {
        for (verdict, expected) in [
            (RunVerdict::Approve, json!([1, 2, 3, 4, 5, 6])),
            (
                RunVerdict::Deny { reason: None },
                // After three, nobody is asked any more.
                json!([
                    "APPROVAL_DENIED",
                    "APPROVAL_DENIED",
                    "APPROVAL_DENIED",
                    "APPROVAL_DENIED",
                    "APPROVAL_DENIED",
                    "APPROVAL_DENIED"
                ]),
            ),
        ] {
            let (folder, relays, ledger) = (Folder::new(), Relays::default(), Ledger::default());
            let mut host = asking(&folder, tools(&ledger, nothing)).await;
            if has_approver {
                host = host.approver(CallbackApprover::new("a webhook", |_: ApprovalRequest| std::future::pending()));
            }
            let runs = runs(relays.client(host));
            let run = within(runs.start(ExecuteRequest::new(MANY))).await.unwrap();
            let journal = folder.journal().await;
            let mut decisions = 0;
            let outcome = loop {
                if let Some(outcome) = run.outcome_within(Duration::from_millis(20)).await {
                    break outcome.unwrap();
                }
                for question in run.questions() {
                    if decide(&journal, run.id(), question.call, verdict.clone(), "Ada").await.is_ok() {
                        decisions += 1;
                    }
                }
            };
            assert_eq!(outcome.value().unwrap(), expected, "{verdict:?}, an approver: {has_approver}");
            let most = if verdict == RunVerdict::Approve { 6 } else { 3 };
            assert_eq!(decisions, most, "{verdict:?}, an approver: {has_approver}");
        }
    }
}

#[tokio::test]
async fn a_denial_reaches_a_run_that_goes_on_and_its_code() {
    let (folder, relays, ledger) = (Folder::new(), Relays::default(), Ledger::default());
    let runs = runs(relays.client(asking(&folder, tools(&ledger, nothing)).await));
    let code = "try { await mcp.call('t.step', {n: 1}) } catch (error) { return [error.code, error.message] }";
    let run = within(runs.start(ExecuteRequest::new(code))).await.unwrap();
    assert_eq!(within(run.settled()).await, RunState::WaitingForApproval(vec![1]));
    let deny = RunVerdict::Deny { reason: Some("not today".into()) };
    decide(&folder.journal().await, run.id(), 1, deny, "Cy").await.unwrap();
    let outcome = within(run.outcome()).await.unwrap().value().unwrap();
    assert_eq!(outcome, json!(["APPROVAL_DENIED", "t.step was denied: not today"]));
    assert_eq!(ledger.total(), 0);
}

#[tokio::test]
async fn an_approval_may_take_longer_than_the_relays_limits() {
    let (folder, relays, ledger) = (Folder::new(), Relays::default(), Ledger::default());
    let runs = runs(relays.client(asking(&folder, tools(&ledger, nothing)).await));
    let request = ExecuteRequest::new("return (await mcp.call('t.step', {n: 1})).n")
        .limit(LimitName::ApprovalMs, 1_000)
        .limit(LimitName::WallMs, 1_000);
    let run = within(runs.start(request)).await.unwrap();
    assert_eq!(within(run.settled()).await, RunState::WaitingForApproval(vec![1]));
    // Beyond both limits.
    assert!(run.outcome_within(Duration::from_millis(1_500)).await.is_none());
    decide(&folder.journal().await, run.id(), 1, RunVerdict::Approve, "Cy").await.unwrap();
    assert_eq!(within(run.outcome()).await.unwrap().value().unwrap(), 1);
}

#[tokio::test]
async fn code_that_waits_for_a_timer_is_taken_off_its_relay_and_wakes_in_time() {
    let (folder, relays, ledger) = (Folder::new(), Relays::default(), Ledger::default());
    let runs = runs(relays.client(folder.host(tools(&ledger, nothing)).await));
    let code = "const began = Date.now();
        const {n} = await mcp.call('t.step', {n: 1});
        await new Promise(done => setTimeout(done, 1500));
        return [n, Date.now() - began >= 1500, (await mcp.call('t.step', {n: 2})).n]";
    let began = Instant::now();
    let request = ExecuteRequest::new(code).bindings(["timers"]).limit(LimitName::WallMs, 1_000);
    let run = within(runs.start(request)).await.unwrap();
    assert_eq!(within(run.settled()).await, RunState::WaitingForTimer);
    within(relays.until_idle()).await;
    assert_eq!(within(run.outcome()).await.unwrap().value().unwrap(), json!([1, true, 2]));
    assert!(began.elapsed() >= Duration::from_millis(1_500), "{:?}", began.elapsed());
    ledger.assert_each_once([1, 2]);
}

#[tokio::test]
async fn a_race_of_an_approval_and_a_timer_ends_with_the_timer() {
    let (folder, relays, ledger) = (Folder::new(), Relays::default(), Ledger::default());
    let runs = runs(relays.client(asking(&folder, tools(&ledger, nothing)).await));
    let code = "const late = new Promise(done => setTimeout(() => done('late'), 1200));
        return await Promise.race([mcp.call('t.step', {n: 1}), late])";
    let request = ExecuteRequest::new(code).bindings(["timers"]);
    assert_eq!(value(&runs, request).await.unwrap(), "late");
    assert_eq!(ledger.total(), 0);
}

#[tokio::test]
async fn a_cancelled_run_ends_wherever_it_is() {
    let (folder, relays, ledger) = (Folder::new(), Relays::default(), Ledger::default());
    let runs = runs(relays.client(asking(&folder, tools(&ledger, nothing)).await));
    let code = "await mcp.call('t.step', {n: 1})";
    let (one, two) = (ExecuteRequest::new(code), ExecuteRequest::new(code));
    let (one, two) = (within(runs.start(one)).await.unwrap(), within(runs.start(two)).await.unwrap());
    assert_eq!(within(one.settled()).await, RunState::WaitingForApproval(vec![1]));
    one.cancel();
    cancel(&folder.journal().await, two.id()).await.unwrap();
    for run in [one, two] {
        assert_eq!(within(run.outcome()).await.unwrap_err().error_code(), Some(ErrorCode::Cancelled));
        let shown = show(&folder.journal().await, run.id()).await.unwrap();
        assert!(shown.head.status == RunStatus::Ended && shown.error.is_some_and(|(code, _)| code == "CANCELLED"));
    }
    assert_eq!(ledger.total(), 0);
}
