//! One run over three real MCP servers, fifty calls, two that a person is asked about, one that the rules deny: events, spans
//! and the audit tell the same story.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod spans;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use host_client::audit::show::{Filter, Shown, records};
use host_client::audit::{series, verify};
use host_client::{
    Approval, Audit, AuditConfig, CallbackApprover, Client, Event, ExecuteRequest, Host, LocalRelay, McpConfig,
    McpServers, Policy, ServerState, Tools,
};
use relay_test_support::story as scene;
use serde_json::{Value, json};

/// By its id: the tool, and how the call ended.
type Story = BTreeMap<u64, (String, String)>;

#[tokio::test]
async fn events_spans_and_audit_tell_the_same_story() {
    let spans = spans::Kept::default();
    tracing::subscriber::set_global_default(spans.clone()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    scene::prepare(&root);

    let tools = Tools::new();
    let servers = McpServers::new(&tools);
    let config = json!({"mcpServers": scene::servers(&root)});
    servers.start(McpConfig::from_json(&config.to_string(), "a test").unwrap()).unwrap();
    for status in servers.ready(Duration::from_secs(60)).await {
        assert!(matches!(status.state, ServerState::Connected { .. }), "{status}");
    }

    let logs = tempfile::tempdir().unwrap();
    let log = logs.path().join("audit.jsonl");
    let answers = Mutex::new(vec![Approval::deny(), Approval::Once]);
    let approver = CallbackApprover::new("somebody", move |request| {
        assert_eq!(request.tool.as_str(), "files.write_file");
        std::future::ready(answers.lock().unwrap().pop().expect("a third question"))
    });
    let audit = Audit::open(AuditConfig::new(&log)).unwrap();
    let policy = Policy::parse(scene::POLICY, "policy.toml").unwrap();
    let host = Host::new(tools).policy(policy).approver(approver).audit(audit.clone());
    let relay = LocalRelay::start().await.unwrap();
    let client = Client::connect(relay.client_config().await.unwrap(), host).await.unwrap();

    let request = ExecuteRequest::new(scene::CODE).io(json!({"folder": root}).to_string());
    let mut execution = client.execute(request).await.unwrap();
    let mut stream = execution.events().unwrap();
    let outcome = tokio::time::timeout(Duration::from_secs(60), execution).await.unwrap().unwrap();
    assert_eq!(outcome.value().unwrap(), scene::result());
    assert_eq!(outcome.usage.tool_calls, 50);
    assert!(root.join("approved.txt").exists() && !root.join("refused.txt").exists());

    // The events.
    let (mut by_events, mut asked, mut approved) = (Story::new(), Vec::new(), Vec::new());
    while let Some(event) = stream.next().await {
        let (id, tool, end) = match event {
            Event::ToolCallFinished { id, tool, .. } => (id, tool.as_str().to_owned(), "ok".to_owned()),
            Event::ToolCallDenied { id, tool, code, .. } => (id, tool.as_str().to_owned(), code.to_string()),
            Event::ToolCallAwaitingApproval { id, .. } => {
                asked.push(id);
                continue;
            }
            Event::ToolCallApproved { id, by, .. } => {
                approved.push((id, by.unwrap()));
                continue;
            }
            Event::ToolCallFailed { tool, message, .. } => panic!("{tool}: {message}"),
            Event::Missed(missed) => panic!("{missed} events were missed"),
            _ => continue,
        };
        assert!(by_events.insert(id, (tool, end)).is_none(), "call {id} ended twice");
    }
    assert_eq!(by_events.len(), 50);
    assert_eq!(by_events.values().filter(|(_, end)| end == "ok").count(), 48);
    assert_eq!(approved, [(asked[0], "somebody".to_owned())]);
    assert_eq!(asked.len(), 2);

    // The spans: one for the execution, and its children.
    let executions = spans.named("execute_code");
    let [(parent, execution)] = &executions[..] else { panic!("{executions:?}") };
    assert_eq!(execution.fields["gen_ai.tool.name"], "execute_code");
    let mut by_spans = Story::new();
    for (_, span) in spans.named("execute_tool") {
        assert_eq!((span.parent, &*span.fields["gen_ai.operation.name"]), (Some(*parent), "execute_tool"));
        let tool = span.fields["gen_ai.tool.name"].clone();
        assert_eq!(span.fields["otel.name"], format!("execute_tool {tool}"));
        let end = span.fields.get("error.type").map_or("ok", String::as_str).to_owned();
        by_spans.insert(span.fields["gen_ai.tool.call.id"].parse().unwrap(), (tool, end));
    }
    assert_eq!(by_spans, by_events);

    // The audit.
    drop(client);
    servers.close().await;
    let (seq, hash) = audit.head();
    let files = series(&log).unwrap();
    let verified = verify(&files, Some(hash)).unwrap();
    assert!(verified.is_whole() && verified.unfinished_count == 0, "{verified}");
    assert_eq!((verified.executions, verified.calls, verified.records), (1, 50, seq));
    let (mut by_audit, mut decisions, mut verdicts) = (Story::new(), BTreeMap::<String, usize>::new(), Vec::new());
    for shown in records(files, Filter::default()) {
        let Shown::Record(record) = shown.unwrap() else { panic!("it is whole") };
        let record: Value = serde_json::from_str(record.json()).unwrap();
        let text = |name: &str| record[name].as_str().unwrap_or_default().to_owned();
        match record["kind"].as_str().unwrap() {
            "execution" => assert!(text("code").contains("git.git_reset") && text("subject") == "local", "{record}"),
            "decision" => *decisions.entry(text("decision")).or_default() += 1,
            "approval" => verdicts.push((record["call"].as_u64().unwrap(), text("verdict"), text("approver"))),
            "completion" => {
                let call = record["call"].as_u64().unwrap();
                assert!(by_audit.insert(call, (text("tool"), text("outcome"))).is_none(), "call {call} ended twice");
            }
            "end" => {
                assert_eq!((text("outcome"), &record["usage"]["tool_calls"]), ("ok".into(), &json!(50)), "{record}")
            }
            _ => {}
        }
    }
    assert_eq!(by_audit, by_events);
    assert_eq!(decisions, [("allow".into(), 47), ("ask".into(), 2), ("deny".into(), 1)].into());
    let somebody = || "somebody".to_owned();
    assert_eq!(verdicts, [(asked[0], "once".into(), somebody()), (asked[1], "denied".into(), somebody())]);
}
