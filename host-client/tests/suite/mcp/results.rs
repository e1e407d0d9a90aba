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
    ] {
        assert_eq!(relay.call("fake.answer", json!({"result": result})).await.unwrap(), expected, "{result}");
    }
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
async fn tools_that_cannot_be_taken_are_left_out_and_named() {
    let (tools, servers) = started(json!({"fake": fake("odd")})).await;
    let status = state(&servers, "fake").to_string();
    assert!(status.starts_with("connected, 14 tools; left out: "), "{status}");
    for name in ["fake.elsewhere", "fake.echo", "\"yes\"", "\"schemaless\"", "tool 18"] {
        assert!(status.contains(name), "{name}: {status}");
    }
    assert_eq!(tools.specs().len(), 14);
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
