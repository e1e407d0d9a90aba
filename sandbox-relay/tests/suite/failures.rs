//! Errors name their place, the errors that they gather, and their cause.

use host_client::{ErrorCode, ExecuteRequest, LimitName};
use serde_json::{Value, json};

use crate::support::{Fixture, assert_code};

#[tokio::test]
async fn a_failed_call_has_the_line_of_the_call() {
    let fixture = Fixture::start(&[]).await;
    for (code, line, tool_code) in [
        ("const x = 1;\nawait mcp.call('test.fail')", 2, ErrorCode::ToolFailed),
        ("const x = 1;\n\nawait mcp.call('test.nothing')", 3, ErrorCode::UnknownTool),
        (
            "\nconst f = async () => {\n  return await mcp.call('test.add', { a: 'x' })\n}\nreturn await f()",
            3,
            ErrorCode::InvalidArguments,
        ),
        (
            "async function main() {\n  const all = [1].map(() => mcp.call('test.junk'));\n  await Promise.all(all)\n}",
            2,
            ErrorCode::InvalidResult,
        ),
        ("return await\n  test.fail({})", 2, ErrorCode::ToolFailed),
    ] {
        let error = fixture.request_error(ExecuteRequest::new(code).bindings(["servers"])).await;
        assert_code(&error, ErrorCode::EvalError);
        let of_tool = error.tool.as_ref().map(|(_, code)| code.clone());
        assert_eq!((error.line, of_tool), (Some(line), Some(tool_code.into())), "{code}: {error}");
        assert!(error.column.is_some(), "{code}");
    }
    let without_a_tool = fixture.error("\nawait mcp.call('nodot')").await;
    assert_eq!((without_a_tool.line, without_a_tool.tool), (Some(2), None));
    let code = "const call = async () => {\n  return await mcp.call('test.fail') };
        const e = await call().catch((e) => e); return e.stack";
    let stack = fixture.value(code).await;
    let lines: Vec<_> = stack.as_str().unwrap().lines().map(str::trim).collect();
    assert_eq!(lines[0], "Error: it did not work");
    assert!(lines[1].starts_with("at call (script.js:2:"), "{lines:?}");
}

#[tokio::test]
async fn errors_of_calls_that_are_returned_keep_what_they_say() {
    let fixture = Fixture::start(&[]).await;
    let said = json!({"message": "it did not work", "code": "TOOL_FAILED", "tool": "test.fail"});
    for (code, expected) in [
        ("return await mcp.call('test.fail').catch((e) => e)", said.clone()),
        ("try { await mcp.call('test.fail') } catch (e) { return { ...e } }", said.clone()),
        (
            "return await Promise.allSettled([mcp.call('test.fail'), mcp.call('test.add', { a: 1, b: 2 })])",
            json!([{"status": "rejected", "reason": said}, {"status": "fulfilled", "value": 3}]),
        ),
        (
            "return await mcp.call('test.echo.it', { e: await mcp.call('test.fail').catch((e) => e) })",
            json!({"e": said}),
        ),
    ] {
        let outcome = fixture.run(code).await.unwrap_or_else(|error| panic!("{code}: {error}"));
        assert_eq!(outcome.parse::<Value>().unwrap(), expected, "{code}");
        assert!(outcome.warnings.is_empty(), "{code}: {:?}", outcome.warnings);
    }
}

#[tokio::test]
async fn what_is_behind_an_error_is_said() {
    let fixture = Fixture::start(&[]).await;
    for (code, expected) in [
        (
            "await Promise.any([mcp.call('test.fail'), Promise.reject(new TypeError('other')), Promise.reject('text')])",
            "AggregateError: All promises were rejected: [Error: it did not work; TypeError: other; text]",
        ),
        (
            "throw new Error('outer', { cause: new RangeError('middle', { cause: new TypeError('inner') }) })",
            "Error: outer; caused by RangeError: middle; caused by TypeError: inner",
        ),
        ("throw new Error('x', { cause: { code: 5 } })", "Error: x; caused by { code: 5 }"),
        ("throw new Error('x', { cause: undefined })", "Error: x"),
        ("const e = new Error('x'); e.cause = e; throw e", "Error: x; caused by Error: x"),
        ("throw new AggregateError(Array(7).fill(1), 'many')", "AggregateError: many: [1; 1; 1; 1; 1; … 2 more]"),
        ("throw Object.defineProperty(new Error('x'), 'cause', { get() { throw 1 } })", "Error: x"),
    ] {
        assert_eq!(fixture.error(code).await.message, expected, "{code}");
    }
    let printed = fixture.run("console.log(new Error('a', { cause: 'b' }))").await.unwrap();
    assert_eq!(printed.output[0].text, "Error: a; caused by b");
    // However deep, the first error comes through.
    let deep = ExecuteRequest::new("return await mcp.call('local.down', { n: 100 })")
        .local_tool("down", "async ({ n }) => { if (n === 0) throw new Error('the bottom'); return await mcp.call('local.down', { n: n - 1 }) }");
    let error = fixture.request_error(deep).await;
    assert_eq!(error.message, "Error: local.down failed: 100 calls below, local.down failed: Error: the bottom");
    let one = ExecuteRequest::new("return await mcp.call('local.outer')")
        .local_tool("outer", "() => mcp.call('local.inner')")
        .local_tool("inner", "() => { throw new Error('no') }");
    let error = fixture.request_error(one).await;
    assert_eq!(error.message, "Error: local.outer failed: local.inner failed: Error: no");
}

#[tokio::test]
async fn a_buffer_without_memory_names_the_limit() {
    let fixture = Fixture::start(&[]).await;
    let request = ExecuteRequest::new("const a = new Uint8Array(100e6); return a.length");
    let error = fixture.request_error(request.limit(LimitName::MemoryBytes, 64 << 20)).await;
    assert_eq!(error.limit.as_deref(), Some("memory_bytes"), "{error}");
    assert!(error.message.contains("allocation failed") && error.hint.is_some(), "{error}");
    // A lone surrogate has six bytes as V8 writes it, and three as it crosses.
    let request = |units: usize| {
        let code = format!("return '\\ud800'.repeat({units})");
        ExecuteRequest::new(code).limit(LimitName::ResultBytes, 1_024)
    };
    let whole = fixture.run_request(request(340)).await.unwrap();
    assert_eq!(whole.json.len(), 1_022);
    assert_code(&fixture.request_error(request(341)).await, ErrorCode::ResultLimit);
}
