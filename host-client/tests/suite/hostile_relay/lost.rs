//! What becomes of executions and calls whose relay is lost.

use futures_util::FutureExt as _;
use host_client::error::{CallEnd, CallGroup};
use host_client::{ConnectionState, ExecutionError, Usage};
use tokio::sync::Notify;

use super::*;

/// Tools of which one, `bank.transfer`, changes something and runs until it is told to end, one call at a time.
struct Bank {
    tools: Tools,
    begun: Arc<Notify>,
    may_end: Arc<Notify>,
}

impl Bank {
    fn new() -> Self {
        let (tools, begun, may_end) = (Tools::new(), Arc::new(Notify::new()), Arc::new(Notify::new()));
        for name in ["files.read", "secrets.read"] {
            let spec = ToolSpec::new(name, "Reads", json!({"type": "object"})).effect(Effect::ReadOnly);
            tools.add_with(spec, |_, _| async { Ok("\"read\"".into()) }).unwrap();
        }
        let (tell, wait) = (Arc::clone(&begun), Arc::clone(&may_end));
        let spec = ToolSpec::new("bank.transfer", "Pays", json!({"type": "object"})).effect(Effect::Mutating);
        let spec = spec.concurrency(1);
        let transfer = move |_, _| {
            let (tell, wait) = (Arc::clone(&tell), Arc::clone(&wait));
            async move {
                tell.notify_one();
                wait.notified().await;
                Ok("\"paid\"".into())
            }
        };
        tools.add_with(spec, transfer).unwrap();
        Self { tools, begun, may_end }
    }

    fn host(&self) -> Host {
        Host::new(self.tools.clone()).policy(Policy::new().allow(["*"]))
    }
}

fn one_call(tool: &str) -> ExecuteRequest {
    ExecuteRequest::new(format!("return await mcp.call({tool:?}, {{}})"))
}

fn code() -> ExecuteRequest {
    ExecuteRequest::new("return 1 + 1")
}

#[tokio::test]
async fn a_call_that_needs_no_relay_outlives_it() {
    let bank = Bank::new();
    let granted = wire::Welcome { tools: vec!["bank.*".into(), "files.*".into()], ..welcome() };
    let (client, mut relay) = session_of(bank.host(), granted, |_| {}).await;
    let own = client.execute(one_call("bank.transfer")).await.unwrap();
    within(bank.begun.notified()).await;
    let sent = client.execute(code()).await.unwrap();
    relay.execution().await;
    drop(relay);
    let error = within(sent).await.unwrap_err();
    assert_code(&error, ErrorCode::SessionLost);
    assert!(error.is_retryable() && client.is_over(), "it had called nothing: {error}");
    bank.may_end.notify_one();
    let outcome = within(own).await.unwrap();
    assert_eq!((outcome.value().unwrap(), outcome.usage.tool_calls), (json!("paid"), 1));

    // It works without a relay, too, with what the token allowed.
    assert_eq!(within(client.run(one_call("files.read"))).await.unwrap().value().unwrap(), json!("read"));
    let error = within(client.run(code())).await.unwrap_err();
    assert_code(&error, ErrorCode::SessionLost);
    assert!(error.is_retryable() && !error.to_string().contains("before that"), "{error}");
    assert_code(&within(client.run(one_call("secrets.read"))).await.unwrap_err(), ErrorCode::CheckFailed);
}

#[tokio::test]
async fn a_call_that_needs_no_relay_does_not_wait_for_the_connection() {
    let bank = Bank::new();
    let mut resumable = welcome();
    resumable.features.push("resume".into());
    let resumable = wire::Welcome {
        session_id: "1".into(),
        resume_secret: vec![7; 32].into(),
        resume_window_ms: 60_000,
        epoch: 1,
        unacknowledged_bytes: 16 << 20,
        ..resumable
    };
    let (client, relay) = session_of(bank.host(), resumable, |_| {}).await;
    let mut states = client.state_changes();
    drop(relay);
    while !matches!(client.state(), ConnectionState::Reconnecting { .. }) {
        within(states.next()).await.unwrap();
    }
    // The code waits for the connection.
    let mut waits = std::pin::pin!(client.run(code()));
    assert!(waits.as_mut().now_or_never().is_none());
    assert_eq!(within(client.run(one_call("files.read"))).await.unwrap().value().unwrap(), json!("read"));
    assert!(waits.now_or_never().is_none());
}

#[tokio::test]
async fn what_was_called_stands_in_the_error_of_a_lost_execution() {
    let (bank, folder) = (Bank::new(), tempfile::tempdir().unwrap());
    let log = folder.path().join("audit.jsonl");
    let audit = Audit::open(AuditConfig::new(&log)).unwrap();
    let (client, mut relay) = session_of(bank.host().audit(audit.clone()), welcome(), |_| {}).await;
    let mut running = client.execute(code()).await.unwrap();
    let mut events = running.events().unwrap();
    let execution = relay.execution().await;
    for id in ["1", "2"] {
        relay.call(id, &execution, "files.read", "{}").await;
        assert!(relay.result().await.success);
    }
    relay.call("3", &execution, "no.tool", "{}").await;
    assert!(!relay.result().await.success);
    relay.call("4", &execution, "bank.transfer", "{}").await;
    within(bank.begun.notified()).await;
    // This one waits for its turn.
    relay.call("5", &execution, "bank.transfer", "{}").await;
    while !matches!(within(events.next()).await.unwrap(), Event::ToolCallStarted { id: 5, .. }) {}
    drop(relay);

    let error = within(running).await.unwrap_err();
    assert!(!error.is_retryable());
    let Error::Execution(error) = error else { panic!("{error}") };
    let ExecutionError { calls, usage, .. } = &*error;
    assert_eq!((&error.code, usage.tool_calls, calls.count()), (&ErrorCode::SessionLost.into(), 5, 5));
    let group = |it: &CallGroup| (it.tool.clone(), it.effect, it.end, it.count);
    let mut groups: Vec<_> = calls.groups().iter().map(group).collect();
    // The calls that are open end in any order.
    groups[2..].sort_by_key(|(_, _, end, _)| *end == CallEnd::Unknown);
    let expected = [
        ("files.read".to_owned(), Some(Effect::ReadOnly), CallEnd::Finished, 2),
        ("no.tool".to_owned(), None, CallEnd::NotRun, 1),
        ("bank.transfer".to_owned(), Some(Effect::Mutating), CallEnd::NotRun, 1),
        ("bank.transfer".to_owned(), Some(Effect::Mutating), CallEnd::Unknown, 1),
    ];
    assert_eq!(groups, expected);
    assert_eq!(calls.groups().iter().filter(|group| group.may_have_changed()).collect::<Vec<&CallGroup>>().len(), 1);
    let text = "\nbefore that: 2 calls finished (files.read ×2), 2 did not run (no.tool, bank.transfer), 1 has an unknown outcome \
                (bank.transfer); find out what was done before you do it again";
    assert!(error.to_string().ends_with(text), "{error}");

    // The events and the audit say the same.
    let mut unknown = Vec::new();
    let last = loop {
        match within(events.next()).await.unwrap() {
            Event::ToolCallFailed { tool, code, .. } if code == ErrorCode::OutcomeUnknown => unknown.push(tool),
            Event::Ended { code, usage: Usage { tool_calls, .. } } => break (code, tool_calls),
            _ => {}
        }
    };
    assert_eq!((unknown, last), (vec!["bank.transfer".to_owned()], (Some(ErrorCode::SessionLost.into()), 5)));
    let recorded = std::fs::read_to_string(&log).unwrap();
    for code in ["OUTCOME_UNKNOWN", "CANCELLED", "SESSION_LOST"] {
        assert_eq!(recorded.matches(code).count(), 1, "{code}: {recorded}");
    }
}
