//! The host's own functions, which run beside the code.

use std::sync::atomic::Ordering;

use host_client::{ErrorCode, ExecuteRequest, LimitName};
use serde_json::json;

use crate::support::Fixture;

fn request(code: &str) -> ExecuteRequest {
    ExecuteRequest::new(code)
        .local_tool("sum", "(args) => args.numbers.reduce((a, b) => a + b, 0)")
        .local_tool("later", "export default async function ({x}) { await null; return {x, at: 'later'} }")
        .local_tool("fails", "async () => {\n  throw new RangeError('too far') }")
        .local_tool("throws", "() => { throw 'a text' }")
        .local_tool("nothing", "() => {}")
        .local_tool("odd", "() => () => 1")
        .local_tool("calls", "async (args) => mcp.call('test.add', args)")
        .local_tool("again", "(n) => mcp.call('local.again', n)")
}

#[tokio::test]
async fn a_local_tool_runs_without_a_way_to_the_host() {
    let fixture = Fixture::start(&[]).await;
    let started = fixture.seen.started.load(Ordering::SeqCst);
    for (code, expected) in [
        ("return mcp.call('local.sum', {numbers: [1, 2, 3]})", json!(6)),
        ("return mcp.call('local.later', {x: [1]})", json!({"x": [1], "at": "later"})),
        ("return mcp.call('local.nothing')", json!(null)),
        (
            "return Promise.all([1, 2].map((x) => mcp.call('local.later', {x})))",
            json!([{"x": 1, "at": "later"}, {"x": 2, "at": "later"}]),
        ),
        (
            "return mcp.call('local.fails').catch((e) => [e.code, e.tool, e.message])",
            json!(["TOOL_FAILED", "local.fails", "local.fails failed: RangeError: too far"]),
        ),
        (
            "return mcp.call('local.throws').catch((e) => [e.code, e.message])",
            json!(["TOOL_FAILED", "local.throws failed: a text"]),
        ),
        ("return mcp.call('local.odd').catch((e) => e.code)", json!("NOT_SERIALIZABLE")),
        (
            "return mcp.call('local.summ').catch((e) => [e.code, e.message])",
            json!(["UNKNOWN_TOOL", "there is no local tool \"summ\"; did you mean \"sum\"?"]),
        ),
        // Arguments are copies.
        ("const numbers = [1]; const p = mcp.call('local.sum', {numbers}); numbers.push(5); return p", json!(1)),
    ] {
        assert_eq!(fixture.run_request(request(code)).await.unwrap().value().unwrap(), expected, "{code}");
    }
    assert_eq!(fixture.seen.started.load(Ordering::SeqCst), started);
    let code = "return mcp.call('local.calls', {a: 1, b: 2})";
    assert_eq!(fixture.run_request(request(code)).await.unwrap().value().unwrap(), json!(3));
    let unknown = fixture.error("return await mcp.call('local.sum', {numbers: []})").await;
    assert_eq!(
        unknown.tool.as_ref().map(|(_, code)| code.clone()),
        Some(ErrorCode::UnknownServer.into()),
        "they are off unless they are sent"
    );
}

#[tokio::test]
async fn local_tools_live_inside_the_same_limits() {
    let fixture = Fixture::start(&[]).await;
    let twice = request("await mcp.call('local.sum', {numbers: []}); return mcp.call('local.sum', {numbers: []})");
    let error = fixture.request_error(twice.limit(LimitName::ToolCalls, 1)).await;
    assert_eq!(error.tool.as_ref().map(|(_, code)| code.clone()), Some(ErrorCode::ToolCallLimit.into()));
    let error = fixture.request_error(request("return mcp.call('local.again', 1)")).await;
    assert_eq!(error.tool.as_ref().map(|(_, code)| code.clone()), Some(ErrorCode::ToolFailed.into()), "{error}");
    let endless = ExecuteRequest::new("return mcp.call('local.x')").local_tool("x", "() => { for (;;); }");
    assert_eq!(fixture.request_error(endless.limit(LimitName::WallMs, 200)).await.code, ErrorCode::Timeout);
    let stuck = ExecuteRequest::new("return mcp.call('local.x')").local_tool("x", "() => new Promise(() => {})");
    assert_eq!(fixture.request_error(stuck).await.code, ErrorCode::Unsettled);
    let evals = ExecuteRequest::new("return mcp.call('local.x')").local_tool("x", "() => new Function('return 1')()");
    assert!(fixture.request_error(evals).await.message.contains("EvalError"));
    let long = ExecuteRequest::new("return 1").local_tool("x", format!("() => '{}'", "x".repeat(2_000)));
    let error = fixture.request_error(long.limit(LimitName::SourceBytes, 1_000)).await;
    assert_eq!(error.code, ErrorCode::InvalidInput);
    assert!(error.message.contains("the source and the local tools have 2"), "{error}");
}

#[tokio::test]
async fn local_calls_are_counted_and_those_left_open_are_told() {
    let fixture = Fixture::start(&[]).await;
    let code = "await mcp.call('local.sum', {numbers: []}); await mcp.call('test.add', {a: 1, b: 1}); return 1";
    assert_eq!(fixture.run_request(request(code)).await.unwrap().usage.tool_calls, 2);
    let stuck = ExecuteRequest::new("mcp.call('local.x'); return 1").local_tool("x", "() => new Promise(() => {})");
    let outcome = fixture.run_request(stuck).await.unwrap();
    assert_eq!(outcome.warnings[0].code, "TOOL_CALLS_CANCELLED");
}

#[tokio::test]
async fn what_is_no_function_is_refused_before_the_code_runs() {
    let fixture = Fixture::start(&[]).await;
    for (source, expected, line) in [
        ("1 + 1", "the local tool local.x: it is no function", 0),
        ("return 5", "the local tool local.x: it is no function", 0),
        ("(args) =>\n  args.", "the local tool local.x: ", 2),
        ("import 'fs'; export default () => 1", "the local tool local.x: imports are not available", 1),
        ("export default 5", "the local tool local.x: it is no function", 0),
    ] {
        let request = ExecuteRequest::new("await mcp.call('test.add', {a: 1, b: 1})").local_tool("x", source);
        let error = fixture.request_error(request).await;
        assert_eq!(error.code, ErrorCode::SyntaxError, "{source}: {error}");
        assert!(error.message.starts_with(expected) && error.line.unwrap_or(0) == line, "{source}: {error:?}");
    }
    for name in ["", &"n".repeat(300)] {
        let error = fixture.request_error(ExecuteRequest::new("return 1").local_tool(name, "() => 1")).await;
        assert_eq!(error.code, ErrorCode::InvalidInput, "{name:?}: {error}");
    }
}
