//! Tests of MCP tools and their answers, as the code sees them.

use host_client::Effect;
use serde_json::{Value, json};

use super::relay::Relay;
use super::{fake, started, state};

#[tokio::test]
async fn every_kind_of_content_has_its_json() {
    let (tools, _servers) = started(json!({"fake": fake("plain")})).await;
    let mut relay = Relay::start(&tools).await;
    let text = |text: &str| json!({"type": "text", "text": text, "annotations": {"priority": 1}});
    let image = json!({"type": "image", "data": "aGk=", "mimeType": "image/png"});
    let link = json!({"type": "resource_link", "uri": "file:///x", "name": "x"});
    let resource = json!({"type": "resource", "resource": {"uri": "file:///x", "mimeType": "text/x", "text": "hi"}});
    let flat = json!({"type": "resource", "uri": "file:///x", "mimeType": "text/x", "text": "hi"});
    let video = json!({"type": "video", "frames": [1, 2]});
    let content = |items: &[Value]| json!({"content": items});
    for (result, expected) in [
        (json!({}), json!(null)),
        (content(&[]), json!(null)),
        (content(&[text("plain words")]), json!("plain words")),
        (content(&[text("7")]), json!("7")),
        (content(&[text("{\"a\": [1]}")]), json!({"a": [1]})),
        (content(&[text(" [1, 2] ")]), json!([1, 2])),
        (content(&[text("{\"a\": 1} and more")]), json!("{\"a\": 1} and more")),
        (content(&[text("[1]"), text("two")]), json!(["[1]", "two"])),
        (content(std::slice::from_ref(&image)), image.clone()),
        (content(&[text("see:"), image.clone(), link.clone()]), json!(["see:", image, link])),
        (content(std::slice::from_ref(&resource)), flat),
        (content(&[video.clone(), text("{}")]), json!([video, "{}"])),
        (json!({"content": [text("x")], "structuredContent": {"n": 1}}), json!({"n": 1})),
        (json!({"content": [text("x")], "structuredContent": null}), json!(null)),
        (json!({"content": [], "structuredContent": [1]}), json!([1])),
        (
            json!({"content": [text("{\"n\": 1}"), image, link], "structuredContent": {"n": 1}}),
            json!({"n": 1, "content": [image, link]}),
        ),
        (json!({"content": [image], "structuredContent": {"content": 1}}), json!([{"content": 1}, image])),
        (json!({"content": [image], "structuredContent": [1]}), json!([[1], image])),
    ] {
        assert_eq!(relay.call("fake.answer", json!({"result": result})).await.unwrap(), expected, "{result}");
    }
}

#[tokio::test]
async fn an_image_beside_a_typed_value_reaches_the_code_and_the_value_is_checked() {
    let (tools, _servers) = started(json!({"fake": fake("plain")})).await;
    let mut relay = Relay::start(&tools).await;
    let image = json!({"type": "image", "data": "aGk=", "mimeType": "image/png"});
    let answer = |value: Value| json!({"result": {"content": [image], "structuredContent": value}});
    let result = relay.call("fake.closed", answer(json!({"n": 1}))).await.unwrap();
    assert_eq!(result, json!({"n": 1, "content": [image]}));
    for wrong in [json!({"n": "x"}), json!({"n": 1, "more": 2}), json!([1])] {
        assert_eq!(relay.fail("fake.closed", answer(wrong)).await.0, "INVALID_RESULT");
    }
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_is_told_at_once() {
    let (tools, _servers) = started(json!({"fake": fake("plain")})).await;
    let mut relay = Relay::start(&tools).await;
    let answer =
        |content: &str| format!(r#"{{"jsonrpc": "2.0", "id": ID, "result": {{"structuredContent": {content}}}}}"#);
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    for (line, code, expected) in [
        (answer("{\"n\": NaN}"), "OUTCOME_UNKNOWN", "near"),
        (answer("1e400"), "OUTCOME_UNKNOWN", "number out of range"),
        (answer(r#""\ud83d""#), "OUTCOME_UNKNOWN", "no JSON"),
        (answer("\"\u{ff}\""), "OUTCOME_UNKNOWN", "not UTF-8"),
        (answer(&deep), "OUTCOME_UNKNOWN", "recursion limit"),
        (r#"{"jsonrpc": "2.0", "id": ID, "error": {"code": -5}}"#.to_owned(), "TOOL_FAILED", "code -5"),
        (r#"{"jsonrpc": "2.0", "id": ID, "error": "no disk"}"#.to_owned(), "TOOL_FAILED", "no disk"),
        (r#"{"jsonrpc": "2.0", "id": ID}"#.to_owned(), "OUTCOME_UNKNOWN", "no message of MCP"),
    ] {
        let start = std::time::Instant::now();
        let (found, message) = relay.fail("fake.raw", json!({"line": line})).await;
        assert_eq!(found, code, "{message}");
        assert!(message.contains(expected), "{message}");
        assert!(code == "TOOL_FAILED" || message.contains("cannot be read"), "{message}");
        assert!(start.elapsed() < std::time::Duration::from_secs(10), "it waited for the time limit: {line}");
    }
    // The connection is as good as before.
    assert_eq!(relay.call("fake.echo", json!({"a": 1})).await.unwrap()["arguments"], json!({"a": 1}));
}

#[tokio::test]
async fn an_answer_without_an_id_is_the_answer_to_the_only_open_call() {
    let (tools, _servers) = started(json!({"fake": fake("plain")})).await;
    let mut relay = Relay::start(&tools).await;
    for (line, code, expected) in [
        (
            r#"{"jsonrpc": "2.0", "result": {"structuredContent": NaN}}"#,
            "OUTCOME_UNKNOWN",
            "cannot be read: it is no JSON",
        ),
        (r#"{"result": {"n": NaN}, "id": [ID}"#, "OUTCOME_UNKNOWN", "cannot be read: it is no JSON"),
        // As a server says that it could not read the request.
        (r#"{"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "bad"}}"#, "TOOL_FAILED", "bad"),
        (r#"{"jsonrpc": "2.0", "error": {"code": -32600, "message": "no request"}}"#, "TOOL_FAILED", "no request"),
    ] {
        let start = std::time::Instant::now();
        let (found, message) = relay.fail("fake.raw", json!({"line": line})).await;
        assert!(found == code && message.contains(expected), "{line}: {found}: {message}");
        assert!(start.elapsed() < std::time::Duration::from_secs(10), "it waited for the time limit: {line}");
    }
    let right = r#"{"jsonrpc": "2.0", "id": ID, "result": {"content": [{"type": "text", "text": "right"}]}}"#;
    // Requests, and lines that may be for people, answer nothing.
    for line in [r#"{"id": 5, "method": "ping", "params": NaN}"#, "{started}", r#"{"id"#] {
        let result = relay.call("fake.raw", json!({"line": format!("{line}\n{right}")})).await;
        assert_eq!(result.unwrap(), "right", "{line}");
    }
    // Of two open calls, neither is ended.
    relay.begin("fake.raw", json!({"line": ""}), std::time::Duration::from_secs(60)).await;
    let line = format!("{{\"result\": NaN}}\n{right}");
    assert_eq!(relay.call("fake.raw", json!({"line": line})).await.unwrap(), "right");
}

#[tokio::test]
async fn failures_are_catchable_and_say_what_the_tool_says() {
    let (tools, _servers) = started(json!({"fake": fake("plain")})).await;
    let mut relay = Relay::start(&tools).await;
    let failed = |result: Value| json!({"result": result});
    let text = json!({"type": "text", "text": "no such branch"});
    for (tool, arguments, code, message) in [
        ("fake.answer", failed(json!({"isError": true, "content": [text]})), "TOOL_FAILED", "no such branch"),
        ("fake.answer", failed(json!({"isError": true})), "TOOL_FAILED", "fake.answer failed and does not say why"),
        (
            "fake.answer",
            failed(json!({"isError": true, "content": [], "structuredContent": {"n": 1}})),
            "TOOL_FAILED",
            "{\"n\":1}",
        ),
        (
            "fake.answer",
            failed(json!({"isError": true, "content": [text], "structuredContent": {"retry_after": 7}})),
            "TOOL_FAILED",
            "no such branch\n{\"retry_after\":7}",
        ),
        ("fake.refuse", json!({"data": {"known": ["Bonn"]}}), "TOOL_FAILED", "no such city\n{\"known\":[\"Bonn\"]}"),
        ("fake.answer", failed(json!({"tools": []})), "TOOL_FAILED", "answered with what is no result"),
        ("fake.answer", failed(json!({"odd": 1})), "TOOL_FAILED", "answered with what is no result"),
        // An error need not fit the schema of results.
        ("fake.typed", failed(json!({"isError": true, "content": [text]})), "TOOL_FAILED", "no such branch"),
        ("fake.refuse", json!({}), "TOOL_FAILED", "there is no such city"),
        ("fake.big", json!({"bytes": 50_000_000}), "TOOL_RESULT_LIMIT", "at most"),
        ("fake.answer", json!(7), "INVALID_ARGUMENTS", "object"),
    ] {
        let (found, text) = relay.fail(tool, arguments).await;
        assert_eq!(found, code, "{text}");
        assert!(text.contains(message), "{text}");
    }
}

#[tokio::test]
async fn what_a_server_says_of_its_tools_is_taken_over() {
    let (tools, _servers) = started(json!({"fake": fake("two-pages")})).await;
    let effect = |name: &str| tools.spec(name).unwrap().manifest.effect;
    assert_eq!(effect("fake.reads"), Some(Effect::ReadOnly));
    assert_eq!(effect("fake.writes"), Some(Effect::Mutating));
    assert_eq!(effect("fake.hints"), Some(Effect::Mutating));
    assert_eq!(effect("fake.echo"), None);
    assert_eq!(tools.spec("fake.echo").unwrap().description, "Gives its arguments back");
    assert_eq!(tools.spec("fake.reads").unwrap().description, "Reads");
    assert_eq!(tools.spec("fake.typed").unwrap().output_schema, Some(json!({"type": "object", "required": ["n"]})));
}

#[tokio::test]
async fn a_program_whose_annotations_are_not_trusted_says_nothing_about_reading() {
    let mut entry = fake("plain");
    entry["trust_annotations"] = json!(false);
    let (tools, _servers) = started(json!({"fake": entry})).await;
    let effect = |name: &str| tools.spec(name).unwrap().manifest.effect;
    assert_eq!(effect("fake.reads"), None);
    assert_eq!(effect("fake.writes"), Some(Effect::Mutating));
    let origin = tools.effect_origin("fake.reads").unwrap();
    assert!(origin.contains("not believed"), "{origin}");
}

#[tokio::test]
async fn tools_that_cannot_be_taken_are_left_out_and_named() {
    let (tools, servers) = started(json!({"fake": fake("odd")})).await;
    let status = state(&servers, "fake").to_string();
    assert!(status.starts_with("connected, 16 tools; left out: "), "{status}");
    for name in ["fake.elsewhere", "fake.echo", "\"yes\"", "\"schemaless\"", "tool 20"] {
        assert!(status.contains(name), "{name}: {status}");
    }
    assert_eq!(tools.specs().len(), 16);
    let left_out: Vec<String> = tools.left_out().into_iter().map(|tool| tool.name).collect();
    assert_eq!(left_out, ["fake.elsewhere", "fake.echo", "fake.yes", "fake.schemaless"]);
    // Code that calls one of them is told why it is not there, and nothing that it may have meant.
    let mut relay = Relay::start(&tools).await;
    for (name, why) in [("fake.elsewhere", "https://example.com/schema.json"), ("fake.yes", "cannot be read")] {
        let (code, message) = relay.fail(name, json!({})).await;
        assert!(code == "UNKNOWN_TOOL" && message.contains("left out") && message.contains(why), "{message}");
        assert!(!message.contains("did you mean"), "{message}");
    }
}

#[tokio::test]
async fn tools_with_patterns_that_the_engine_cannot_take_stay() {
    let (tools, servers) = started(json!({"fake": fake("zod")})).await;
    assert_eq!(state(&servers, "fake").to_string(), "connected, 4 tools");
    let mut relay = Relay::start(&tools).await;
    for (tool, it) in [("t_email", "me@example.com"), ("t_duration", "P1D"), ("t_emoji", "🙂")] {
        let tool = format!("fake.{tool}");
        assert_eq!(relay.call(&tool, json!({"it": it})).await.unwrap(), json!(it));
        let notes = tools.notes(&tool);
        let is_checked = tool == "fake.t_emoji";
        assert_eq!(notes.len(), usize::from(!is_checked), "{notes:?}");
        assert!(notes.iter().all(|note| note.contains("not checked") && note.contains('^')), "{notes:?}");
        // All else of the schema is checked.
        for wrong in [json!({"it": 7}), json!({}), json!({"it": it, "more": 1})] {
            assert_eq!(relay.fail(&tool, wrong).await.0, "INVALID_ARGUMENTS");
        }
        let declared = tools.spec(&tool).unwrap().input_schema["properties"]["it"]["pattern"].to_string();
        assert!(declared.contains('^'), "the schema itself stays as it came: {declared}");
    }
    // So do tools whose results are described in another place.
    assert_eq!(relay.call("fake.t_promises", json!({"it": "x"})).await.unwrap(), json!("x"));
    let notes = tools.notes("fake.t_promises");
    assert!(
        matches!(&notes[..], [note] if note.contains("results are not checked: its schema refers to")),
        "{notes:?}"
    );
}

#[tokio::test]
async fn a_call_carries_its_arguments_and_its_trace() {
    let (tools, _servers) = started(json!({"fake": fake("plain")})).await;
    let mut relay = Relay::start(&tools).await;
    let result = relay.call("fake.dotted.name", json!({"city": "Köln", "n": 9_007_199_254_740_993_u64})).await.unwrap();
    assert_eq!(result["arguments"], json!({"city": "Köln", "n": 9_007_199_254_740_993_u64}));
    let trace = result["traceparent"].as_str().unwrap();
    assert!(trace.parse::<host_client::TraceContext>().is_ok(), "{trace}");
}
