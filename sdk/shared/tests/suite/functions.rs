//! Functions as tools and approvers.

use relay_sdk::{Answer, ErrorKind};
use serde_json::{Value, json};

use crate::{description, host, request};

#[tokio::test]
async fn code_calls_functions_and_its_outcome_events_and_usage_are_told() {
    let (host, _) = host(json!({}), None).await;
    let code = "console.log('hello'); const one = await mcp.call('demo.read', {a: 1}); return one.sum";
    let run = host.execute(request(code), None).unwrap();
    let mut types = Vec::new();
    loop {
        let events = run.events().next(64).await;
        if events.is_empty() {
            break;
        }
        types.extend(events.iter().map(|event| event["type"].as_str().unwrap().to_owned()));
    }
    let outcome = run.outcome().await.unwrap();
    assert_eq!((outcome.json.as_str(), outcome.usage.tool_calls), ("2", 1));
    assert_eq!((outcome.output[0].kind, outcome.output[0].text.as_str()), ("log", "hello"));
    for expected in ["code_received", "started", "tool_call_started", "tool_call_finished", "output", "ended"] {
        assert!(types.iter().any(|it| it == expected), "{expected} in {types:?}");
    }
    assert_eq!(types.last().unwrap(), "ended");
    host.close(std::time::Duration::from_secs(10)).await;
}

#[tokio::test]
async fn failures_of_functions_are_errors_of_the_code_with_their_place() {
    let (host, _) = host(json!({}), None).await;
    let run = host.execute(request("\nreturn await mcp.call('demo.read', {do: 'fail'})"), None).unwrap();
    let error = run.outcome().await.unwrap_err();
    assert_eq!(
        (error.kind, error.tool.as_deref(), error.tool_code.as_deref()),
        (ErrorKind::Script, Some("demo.read"), Some("TOOL_DENIED"))
    );
    assert_eq!(error.line, Some(2));
    assert!(error.text.contains("not for you"), "{error}");
    let shown: Value = serde_json::to_value(&error).unwrap();
    assert_eq!((&shown["kind"], &shown["retryable"]), (&json!("script"), &json!(false)));

    let panics = "try { await mcp.call('demo.read', {do: 'panic'}) } catch (error) { return error.code }";
    let outcome = host.execute(request(panics), None).unwrap().outcome().await.unwrap();
    assert_eq!(outcome.json, "\"TOOL_FAILED\"");
}

#[tokio::test]
async fn an_approver_is_asked_about_what_changes_something() {
    let code = "return await mcp.call('demo.change', {a: 7})";
    for (answer, expected) in
        [(Answer::Once, None), (Answer::Deny { reason: Some("no".into()) }, Some("APPROVAL_DENIED"))]
    {
        let (host, _) = host(json!({}), Some(answer)).await;
        let ended = host.execute(request(code), None).unwrap().outcome().await;
        match expected {
            None => assert_eq!(ended.unwrap().json, r#"{"sum":8,"tool":"demo.change"}"#),
            Some(code) => assert_eq!(ended.unwrap_err().tool_code.as_deref(), Some(code)),
        }
    }
    let (host, _) = host(json!({}), None).await;
    let error = host.execute(request(code), None).unwrap().outcome().await.unwrap_err();
    assert_eq!(error.tool_code.as_deref(), Some("APPROVAL_DENIED"), "nobody can be asked");
}

#[tokio::test]
async fn a_conversation_has_definitions_and_reports() {
    let (host, _) = host(json!({"limits": {"tool_calls": 3}}), None).await;
    let talk = host.conversation().unwrap();
    let definitions = talk.definitions(relay_sdk::agent::DefinitionStyle::Anthropic).unwrap();
    assert_eq!(definitions[0]["name"], "execute_code");
    assert!(definitions[0]["description"].as_str().unwrap().contains("demo"));
    let report = talk.call("execute_code", json!({"code": "return 6 * 7"})).await.unwrap();
    assert_eq!((report.text.as_str(), report.is_error), ("42", false));
    let many = "for (let i = 0; i < 4; i++) await mcp.call('demo.read', {a: i}); return 1";
    let report = talk.call("execute_code", json!({"code": many})).await.unwrap();
    assert!(report.is_error && report.text.contains("tool_calls"), "{}", report.text);
    assert!(host.search("test", 5).iter().any(|tool| tool.name == "demo.read" && tool.declaration.contains("demo")));
    assert_eq!(host.call("demo.read", &json!({"a": 2})).await.unwrap(), r#"{"sum":3,"tool":"demo.read"}"#);
}

#[tokio::test]
async fn a_host_with_other_tools_has_the_rules_and_the_relay_of_the_first() {
    let (first, calls) = host(json!({}), Some(Answer::Once)).await;
    first.execute(request("return 1"), None).unwrap().outcome().await.unwrap();
    let other = first.with_tools(vec![(description("demo.change", "mutating"), calls)]).unwrap();
    let names: Vec<_> = other.tools().into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["demo.change"]);
    let run = other.execute(request("return (await mcp.call('demo.change', {a: 7})).sum"), None).unwrap();
    assert_eq!(run.outcome().await.unwrap().json, "8");
    assert_eq!(other.relay_process().await, first.relay_process().await);
    other.close(std::time::Duration::from_secs(10)).await;
    first.execute(request("return 2"), None).unwrap().outcome().await.unwrap();
    let other = first.with_tools(Vec::new()).unwrap();
    first.close(std::time::Duration::from_secs(10)).await;
    assert_eq!(other.execute(request("return 3"), None).unwrap_err().kind, ErrorKind::Closed);
    assert_eq!(first.with_tools(Vec::new()).unwrap_err().kind, ErrorKind::Closed);
}
