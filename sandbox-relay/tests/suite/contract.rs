//! Tests what code can rely on, with both ways to make a worker.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use host_client::{ErrorCode, Event, ExecuteRequest, LimitName, OutputKind};
use serde_json::{Value, json};

use crate::support::{Fixture, assert_code, connect, tools, until, within};

macro_rules! against_both_backends {
    ($($name:ident)*) => {
        mod fork {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(crate::support::Fixture::start(&["--worker-backend", "fork"]).await).await;
            })*
        }
        mod exec {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let arguments = ["--worker-backend", "exec", "--worker-stock", "2"];
                super::$name(crate::support::Fixture::start(&arguments).await).await;
            })*
        }
    };
}

against_both_backends! {
    every_form_of_code_gives_its_value
    values_cross_as_json
    what_the_code_leaves_behind_is_a_warning
    errors_say_what_happened_and_where
    values_without_json_are_refused_with_their_path
    syntax_errors_have_the_authors_position
    endless_loops_are_stopped_on_time
    memory_bombs_end_alone
    sizes_are_limited
    failed_calls_can_be_caught
    uncaught_failed_calls_name_their_tool
    calls_run_at_once_and_no_more_than_allowed
    console_and_input_and_output
    output_is_limited_and_what_was_printed_arrives
    nothing_that_is_patched_changes_what_crosses
    runs_see_nothing_of_each_other
    dropping_an_execution_cancels_it
    open_calls_are_cancelled_when_the_code_ends
    deep_nesting_is_an_error_and_no_crash
}

async fn every_form_of_code_gives_its_value(fixture: Fixture) {
    for (code, value) in [
        ("const a = 20; return a + 1", json!(21)),
        ("return await mcp.call('test.add', {a: 1, b: 2})", json!(3)),
        ("1 + 1", json!(2)),
        ("1 + 1; // two", json!(2)),
        ("await mcp.call('test.add', {a: 1, b: 2});", json!(3)),
        ("{a: 1, b: [2]}", json!({"a": 1, "b": [2]})),
        ("{a: 1}", json!({"a": 1})),
        ("'use strict'", json!("use strict")),
        ("async () => { return 5 }", json!(5)),
        ("() => 5", json!(5)),
        ("function () { return 5 }", json!(5)),
        ("(async function () { return 5 })", json!(5)),
        ("async function anything() { return 5 }", json!(5)),
        ("(async () => 5)()", json!(5)),
        (";(async () => 5)()", json!(5)),
        ("/* first */ ;\n; 1 + 1", json!(2)),
        ("async function main() { return help() }\nfunction help() { return 5 }", json!(5)),
        ("const main = async () => 5", json!(5)),
        ("export default async () => 5", json!(5)),
        ("export default 5", json!(5)),
        ("const x = await mcp.call('test.add', {a: 1, b: 2}); export default x", json!(3)),
        ("export async function main() { return 5 }", json!(5)),
        ("```js\nreturn 5\n```", json!(5)),
        ("Here it is:\n\n```typescript\nreturn 5\n```\nand\n```js\nreturn 6\n```", json!(5)),
        ("return \"export default 1\"", json!("export default 1")),
        ("", Value::Null),
        ("const x = 1", Value::Null),
        // A line break after return ends the statement.
        ("return\n+ missing", Value::Null),
    ] {
        assert_eq!(fixture.value(code).await, value, "{code}");
    }
}

async fn values_cross_as_json(fixture: Fixture) {
    for (code, value) in [
        ("return {a: undefined, b: () => 1, c: NaN, d: [undefined]}", json!({"c": null, "d": [null]})),
        ("return new Date(0)", json!("1970-01-01T00:00:00.000Z")),
        ("return {toJSON() { return 7 }}", json!(7)),
        ("return {toJSON() {}}", Value::Null),
        ("return {then(resolve) { resolve(7) }}", json!(7)),
        ("return 'a\\ud800b'", json!("a\u{FFFD}b")),
        ("return '\\ud83d\\ude00 \\u00e9 \\u4e2d'", json!("\u{1F600} é 中")),
        ("return await mcp.call('test.echo.it', {k: 'a\\udfffb'})", json!({"k": "a\u{FFFD}b"})),
        (
            "return await mcp.call('test.echo.it', {'\\ud83d\\ude00': '\\u0000\\u2028'})",
            json!({"\u{1F600}": "\0\u{2028}"}),
        ),
        ("return await mcp.call('test.echo.it')", json!({})),
        ("return await mcp.call('test.echo.it', undefined)", json!({})),
        ("return await mcp.call('test.echo.it', [1, null, 'x'])", json!([1, null, "x"])),
        (
            "const r = await mcp.call('test.echo.it', JSON.parse('{\"__proto__\": {\"x\": 1}}')); \
             return [Object.getPrototypeOf(r) === Object.prototype, Object.keys(r), r.x === undefined]",
            json!([true, ["__proto__"], true]),
        ),
    ] {
        assert_eq!(fixture.value(code).await, value, "{code}");
    }
}

async fn what_the_code_leaves_behind_is_a_warning(fixture: Fixture) {
    for (code, warning, text) in [
        (
            "mcp.call('test.fail'); await mcp.call('test.wait', {ms: 50}); return 1",
            "UNHANDLED_REJECTION",
            "it did not work",
        ),
        ("Promise.reject(new Error('lost')); return 1", "UNHANDLED_REJECTION", "Error: lost"),
        ("mcp.call('test.fail'); return 1", "TOOL_CALLS_CANCELLED", "test.fail"),
    ] {
        let outcome = fixture.run(code).await.unwrap();
        assert_eq!(outcome.value().unwrap(), json!(1), "{code}");
        let [only] = outcome.warnings.as_slice() else { panic!("{code}: {:?}", outcome.warnings) };
        assert!(only.code == warning && only.message.contains(text), "{code}: {only:?}");
    }
    let outcome = fixture.run("const p = mcp.call('test.fail'); try { await p } catch {} return 1").await.unwrap();
    assert_eq!(outcome.warnings, [], "a rejection that is looked at is none");
}

async fn errors_say_what_happened_and_where(fixture: Fixture) {
    for (code, message, position) in [
        ("throw 'text'", "text", None),
        ("throw {code: 7}", "{ code: 7 }", None),
        ("throw null", "null", None),
        ("const x = 1;\n  throw new TypeError('bad');", "TypeError: bad", Some((2, 9))),
        ("await null;\nmissing()", "ReferenceError: missing is not defined", Some((2, 1))),
        ("({}).x.y", "TypeError: Cannot read properties of undefined (reading 'y')", Some((1, 8))),
        ("```js\nthrow new Error('in a fence')\n```", "Error: in a fence", Some((2, 7))),
        ("export default async () => {\n  throw new Error('in a module') }", "Error: in a module", Some((2, 9))),
        ("return eval('1')", "EvalError: Code generation from strings disallowed for this context", Some((1, 1))),
        (
            "return new Function('return 1')()",
            "EvalError: Code generation from strings disallowed for this context",
            Some((1, 8)),
        ),
        (
            "await import('fs')",
            "TypeError: imports are not available; call tools with mcp.call(\"server.tool\", args)",
            Some((1, 1)),
        ),
    ] {
        let error = fixture.error(code).await;
        assert_code(&error, ErrorCode::EvalError);
        assert_eq!(error.message, message, "{code}");
        assert_eq!(error.line.zip(error.column), position, "{code}");
    }
    // A place inside of JSON that the code parses is none of the code's.
    for (code, line, column) in [
        ("const text = '[1,,]';\nconst a =\n  JSON.parse(text);", 3, 8),
        (
            "await null;\nreturn ['{}', '[\\n\\n,'].map((text) => {\n  return JSON.parse(text, (key, value) => value) })",
            3,
            15,
        ),
        ("const read = () => JSON.parse('');\nreturn read()", 1, 25),
        ("setTimeout(() => {\n JSON.parse('{') }); await new Promise(() => {})", 2, 7),
        ("return {\n  toJSON() { return JSON.parse('nul') } }", 2, 26),
    ] {
        let request = ExecuteRequest::new(code).bindings(["timers"]);
        let error = fixture.request_error(request).await;
        assert!(error.message.starts_with("SyntaxError: "), "{code}: {error}");
        assert_eq!((error.line, error.column), (Some(line), Some(column)), "{code}: {error}");
    }
    // Parser and runtime end a line at the same characters.
    for (code, place) in
        [("const a = 'x\u{2028}y';\n  missing()", (3, 3)), ("const a = 'x\u{2028}y';\nconst = 1", (3, 7))]
    {
        let error = fixture.error(code).await;
        assert_eq!(error.line.zip(error.column), Some(place), "{code:?}: {error}");
    }
    let error = fixture.error("throw new Error('x'.repeat(5_000_000))").await;
    assert!(error.message.len() < 10_000);
    let error = fixture.error("await new Promise(() => {})").await;
    assert_code(&error, ErrorCode::Unsettled);
    assert!(error.hint.is_some());
}

async fn values_without_json_are_refused_with_their_path(fixture: Fixture) {
    for (code, path) in [
        ("return () => 1", "$"),
        ("return Symbol('x')", "$"),
        ("return 10n", "$"),
        ("return {a: [1, 10n]}", "$.a[1]"),
        ("const o = {b: {}}; o.b.c = o; return o", "$.b.c"),
        ("let o = {}; for (let i = 0; i < 100; i++) o = {o}; return o", "$.o.o"),
        ("let a = []; for (let i = 0; i < 100_000; i++) a = [a]; return a", "$[0][0]"),
    ] {
        let error = fixture.error(code).await;
        assert_code(&error, ErrorCode::NotSerializable);
        assert!(error.message.contains(path), "{code}: {error}");
    }
    assert!(
        fixture.run("let o = 1; for (let i = 0; i < 100; i++) o = {o}; return o").await.is_ok(),
        "100 levels are fine"
    );
    let code = "try { await mcp.call('test.echo.it', {big: 1n}) } catch (e) { return [e.code, e.message] }";
    let value = fixture.value(code).await;
    assert!(value[0] == "NOT_SERIALIZABLE" && value[1].as_str().unwrap().contains("$.big"), "{value}");
    let error = fixture.error("return {toJSON() { throw new RangeError('mine') }}").await;
    assert_code(&error, ErrorCode::EvalError);
    assert_eq!(error.message, "RangeError: mine");
}

async fn syntax_errors_have_the_authors_position(fixture: Fixture) {
    for (code, line, column) in [
        ("const a = 1;\nconst = 2", 2, 7),
        ("return (1;", 1, 10),
        ("let a = 1;\nlet a = 2;", 2, 5),
        ("import fs from 'fs'", 1, 1),
        ("const x = 1;\nexport { y } from 'z'", 2, 1),
        ("```js\nreturn 1 +\n```", 3, 1),
        ("with (Math) { return PI }", 1, 1),
    ] {
        let error = fixture.error(code).await;
        assert_code(&error, ErrorCode::SyntaxError);
        assert_eq!((error.line, error.column), (Some(line), Some(column)), "{code}: {error}");
    }
    for code in
        ["}); evil(); (async () => {", "export const x = 1", "```python\nprint(1)\n```", "not code at all, really"]
    {
        assert_code(&fixture.error(code).await, ErrorCode::SyntaxError);
    }
}

async fn endless_loops_are_stopped_on_time(fixture: Fixture) {
    let limit = 300;
    for code in [
        "for(;;){}",
        "await null; for(;;){}",
        "/(a+)+$/.test('a'.repeat(40) + 'b')",
        "const f = () => Promise.resolve().then(f); await f()",
        "return {toJSON() { for(;;){} }}",
        "[].indexOf.call({length: 2**53 - 1}, 1)",
        "mcp.call('test.wait', {ms: 1}); for(;;){}",
    ] {
        let started = Instant::now();
        let error =
            fixture.request_error(ExecuteRequest::new(code).always_in_sandbox().limit(LimitName::WallMs, limit)).await;
        assert_code(&error, ErrorCode::Timeout);
        assert_eq!(error.limit_name(), Some(LimitName::WallMs), "{code}");
        assert!(error.message.contains("cpu_ms"), "how near the others are: {error}");
        // Far more than the 50 ms that are measured in the benchmark: this machine may be busy.
        assert!(started.elapsed() < Duration::from_secs(10), "{code}");
    }
    let request = ExecuteRequest::new("for(;;){}").limit(LimitName::CpuMs, 200).limit(LimitName::WallMs, 30_000);
    let error = fixture.request_error(request).await;
    assert_code(&error, ErrorCode::CpuLimit);
    assert!(
        error.usage.cpu >= Duration::from_millis(200) && error.usage.wall < Duration::from_secs(20),
        "{:?}",
        error.usage
    );
    let request = ExecuteRequest::new("await mcp.call('test.wait', {ms: 60000})")
        .always_in_sandbox()
        .limit(LimitName::WallMs, limit);
    assert_code(&fixture.request_error(request).await, ErrorCode::Timeout);
}

async fn memory_bombs_end_alone(fixture: Fixture) {
    let canary = connect(&fixture.relay, tools(&fixture.seen)).await;
    for code in [
        "const a = []; for(;;) a.push([1, 2, 3])",
        "const a = []; for(;;) a.push(new Uint8Array(1e7).fill(1))",
        "const m = new Map(); for (let i = 0;; i++) m.set(i, {i})",
        "const f = []; for(;;) f.push(() => f)",
        "await Promise.all(Array.from({length: 600}, () => mcp.call('test.echo.it', 'x'.repeat(1e6))))",
        "let s = 'x'; const a = []; for(;;) { s = s + s.slice(0, 1000) + a.length; a.push(s.split('')) }",
    ] {
        let neighbour = async {
            let outcome = canary
                .run(ExecuteRequest::new("return await mcp.call('test.add', {a: 1, b: 1})").always_in_sandbox())
                .await;
            assert_eq!(outcome.unwrap().value().unwrap(), json!(2));
        };
        let (error, ()) = within(async { tokio::join!(fixture.error(code), neighbour) }).await;
        assert!(matches!(error.code.as_str(), "MEMORY_LIMIT" | "EVAL_ERROR"), "{code}: {error}");
        if error.code == ErrorCode::EvalError {
            assert!(error.message.contains("RangeError"), "{code}: {error}");
        }
    }
    let mut used = Vec::new();
    for heap_bytes in [16 << 20, 64 << 20] {
        let request = ExecuteRequest::new("const a = []; for(;;) a.push([1])").limit(LimitName::HeapBytes, heap_bytes);
        let error = fixture.request_error(request).await;
        assert_code(&error, ErrorCode::MemoryLimit);
        assert_eq!(error.limit_name(), Some(LimitName::HeapBytes));
        used.push(error.usage.memory_bytes);
    }
    // Each ended at its own limit. What the binary itself takes is in both figures.
    assert!(used[0] + (24 << 20) < used[1], "with 16 and 64 MiB of heap: {used:?}");
}

async fn sizes_are_limited(fixture: Fixture) {
    let error = fixture.error("return 'x'.repeat(100_000_000)").await;
    assert_code(&error, ErrorCode::ResultLimit);
    let request = ExecuteRequest::new("return {a: 'x'.repeat(2000)}").limit(LimitName::ResultBytes, 1_000);
    assert_code(&fixture.request_error(request).await, ErrorCode::ResultLimit);
    let error = fixture.error(&format!("return 1 //{}", "x".repeat(1 << 20))).await;
    assert_code(&error, ErrorCode::InvalidInput);
    assert!(error.message.contains("source_bytes"), "{error}");
    let error = fixture.error(&"x".repeat(7 << 20)).await;
    assert_code(&error, ErrorCode::InvalidInput);
    let long = "x".repeat(900_000);
    assert_eq!(fixture.value(&format!("return '{long}'.length")).await, json!(900_000));
    let code = "return (await mcp.call('test.large', {bytes: 9_000_000})).length";
    assert_eq!(fixture.value(code).await, json!(9_000_000));
    let code = "return (await mcp.call('test.echo.it', 'x'.repeat(1_000_000))).length";
    assert_eq!(fixture.value(code).await, json!(1_000_000));
    let request = ExecuteRequest::new("return 1").bindings(["process"]);
    assert_code(&fixture.request_error(request).await, ErrorCode::InvalidInput);
}

/// Makes a failing call inside `try` and returns its `e.code` and `e.message`.
async fn caught(fixture: &Fixture, call: &str) -> (String, String) {
    let code = format!("try {{ await {call} }} catch (e) {{ return [e instanceof Error, e.code, e.message] }}");
    let value = fixture.value(&code).await;
    assert_eq!(value[0], json!(true), "{call}: {value}");
    (value[1].as_str().unwrap().into(), value[2].as_str().unwrap().into())
}

async fn failed_calls_can_be_caught(fixture: Fixture) {
    for (call, code, text) in [
        ("mcp.call('test.nothing')", "UNKNOWN_TOOL", "nothing"),
        ("mcp.call('nobody.tool')", "UNKNOWN_SERVER", "there are: test"),
        ("mcp.call('nodot')", "INVALID_TOOL_NAME", "server.tool"),
        ("mcp.call('.x')", "INVALID_TOOL_NAME", ""),
        ("mcp.call('x'.repeat(100000) + '.y')", "INVALID_TOOL_NAME", ""),
        ("mcp.call()", "INVALID_TOOL_NAME", "undefined"),
        ("mcp.call({toString() { throw new Error('called') }})", "INVALID_TOOL_NAME", ""),
        ("mcp.call(new String('test.add'), {a: 1, b: 1})", "INVALID_TOOL_NAME", ""),
        ("mcp.call('test.add', {a: 1})", "INVALID_ARGUMENTS", "the required field \"b\" is missing"),
        ("mcp.call('test.add', {a: 'x', b: 1})", "INVALID_ARGUMENTS", "/a"),
        ("mcp.call('test.add', null)", "INVALID_ARGUMENTS", ""),
        ("mcp.call('test.fail')", "TOOL_FAILED", "it did not work"),
        ("mcp.call('test.panic')", "TOOL_FAILED", "panicked"),
        ("mcp.call('test.junk')", "INVALID_RESULT", "not JSON"),
        ("mcp.call('test.large', {bytes: 11_000_000})", "TOOL_RESULT_LIMIT", ""),
        ("mcp.call('test.echo.it', 'x'.repeat(2_000_000))", "ARGUMENTS_LIMIT", ""),
        ("mcp.call('test.echo.it', () => 1)", "NOT_SERIALIZABLE", "function"),
    ] {
        let (found, message) = caught(&fixture, call).await;
        assert!(found == code && message.contains(text), "{call}: {found}: {message}");
    }
    let code = "try { await mcp.call('test.wait', {ms: 60000}) } catch (e) { return e.code }";
    let outcome = fixture
        .run_request(ExecuteRequest::new(code).always_in_sandbox().limit(LimitName::ToolCallMs, 200))
        .await
        .unwrap();
    assert_eq!(outcome.value().unwrap(), json!("TOOL_TIMEOUT"));
    let code = "let n = 0; try { for (;;) { await mcp.call('test.add', {a: 1, b: 1}); n++ } } catch (e) { return [n, e.code] }";
    assert_eq!(fixture.value(code).await, json!([1_000, "TOOL_CALL_LIMIT"]));
    let all = "const r = await Promise.allSettled(Array.from({length: 1001}, () => mcp.call('test.add', {a: 1, b: 1}))); \
        return [r.slice(0, 1000).filter((x) => x.status !== 'fulfilled').map((x) => x.reason.code + ': ' + x.reason.message), r[1000].reason?.code]";
    assert_eq!(fixture.value(all).await, json!([[], "TOOL_CALL_LIMIT"]));
}

async fn uncaught_failed_calls_name_their_tool(fixture: Fixture) {
    let error = fixture.error("const x = 1;\nawait mcp.call('test.fail')").await;
    assert_code(&error, ErrorCode::EvalError);
    assert_eq!(error.message, "Error: it did not work");
    assert_eq!(error.tool, Some(("test.fail".into(), ErrorCode::ToolFailed.into())));
    let forged = "const e = new Error('mine'); e.code = 'TOOL_FAILED'; e.tool = 'test.fail'; throw e";
    assert_eq!(fixture.error(forged).await.tool, None, "only the bridge's own errors count");
}

async fn calls_run_at_once_and_no_more_than_allowed(fixture: Fixture) {
    let code = "const r = await Promise.all([40, 5, 1].map((ms) => mcp.call('test.wait', {ms}))); return r";
    assert_eq!(fixture.value(code).await, json!([40, 5, 1]));
    assert!(fixture.seen.most.load(Ordering::SeqCst) >= 2);
    fixture.seen.most.store(0, Ordering::SeqCst);
    let code = "await Promise.all(Array.from({length: 60}, () => mcp.call('test.wait', {ms: 5}))); return 1";
    fixture
        .run_request(ExecuteRequest::new(code).always_in_sandbox().limit(LimitName::ToolCallsInFlight, 7))
        .await
        .unwrap();
    let most = fixture.seen.most.load(Ordering::SeqCst);
    assert!((1..=7).contains(&most), "{most} at once");
    let code =
        "return (await Promise.all(Array.from({length: 1000}, (_, n) => mcp.call('test.add', {a: n, b: 1})))).at(-1)";
    assert_eq!(fixture.value(code).await, json!(1_000));
    // Several executions of one session do not mix up their answers.
    let runs = (0..8).map(|n| {
        let code = format!(
            "let s = 0; for (let i = 0; i < 20; i++) s += await mcp.call('test.add', {{a: {n}, b: 0}}); return s"
        );
        let client = fixture.client.clone();
        tokio::spawn(async move {
            client.run(ExecuteRequest::new(code).always_in_sandbox()).await.unwrap().value().unwrap()
        })
    });
    for (n, run) in runs.collect::<Vec<_>>().into_iter().enumerate() {
        assert_eq!(within(run).await.unwrap(), json!(n * 20));
    }
}

async fn console_and_input_and_output(fixture: Fixture) {
    let code = "console.log('a', 1, {b: [true, null]}, [], 'c'); console.error(new Error('no')); console.debug(1n, Symbol('s')); \
        emit(read_input().toUpperCase()); const o = {}; o.self = o; console.info(o, new Map([[1, 2]])); console.warn(() => 1)";
    let outcome = fixture.run_request(ExecuteRequest::new(code).always_in_sandbox().io("käse")).await.unwrap();
    let output: Vec<_> = outcome.output.iter().map(|item| (item.kind, item.text.as_str())).collect();
    assert_eq!(
        output,
        [
            (OutputKind::Log, "a 1 { b: [ true, null ] } [] c"),
            (OutputKind::Error, "Error: no"),
            (OutputKind::Debug, "1n Symbol(s)"),
            (OutputKind::Emit, "KÄSE"),
            (OutputKind::Info, "{ self: [Circular] } Map { 1 => 2 }"),
            (OutputKind::Warn, "[Function: (anonymous)]"),
        ]
    );
    // Nothing is there that was not asked for.
    let outcome = fixture
        .run_request(ExecuteRequest::new("return [typeof console, typeof emit]").bindings([] as [&str; 0]))
        .await;
    assert_eq!(outcome.unwrap().value().unwrap(), json!(["undefined", "undefined"]));
    // Output streams while the code runs.
    let code = "console.log('early'); await mcp.call('test.wait', {ms: 60000})";
    let mut execution = fixture.client.execute(ExecuteRequest::new(code).always_in_sandbox()).await.unwrap();
    let mut events = execution.events().unwrap();
    let first = within(async {
        loop {
            if let Some(Event::Output(item)) = events.next().await {
                return item.text;
            }
        }
    });
    assert_eq!(first.await, "early");
}

async fn output_is_limited_and_what_was_printed_arrives(fixture: Fixture) {
    let error = fixture.error("console.log('first'); for(;;) console.log('ä'.repeat(500))").await;
    assert_code(&error, ErrorCode::OutputLimit);
    assert_eq!(error.limit_name(), Some(LimitName::OutputBytes));
    assert_eq!(error.output[0].text, "first");
    let bytes: usize = error.output.iter().map(|item| item.text.len()).sum();
    assert!((64 * 1024 - 2..=64 * 1024).contains(&bytes), "{bytes}");
    let request = ExecuteRequest::new("for(;;) console.log('')").limit(LimitName::OutputCount, 50);
    let error = fixture.request_error(request).await;
    assert_code(&error, ErrorCode::OutputLimit);
    assert_eq!((error.limit_name(), error.output.len()), (Some(LimitName::OutputCount), 50));
}

async fn nothing_that_is_patched_changes_what_crosses(fixture: Fixture) {
    let code = "
        const seen = [];
        const spy = (name) => function (...args) { seen.push(name); return undefined };
        JSON.stringify = spy('stringify'); JSON.parse = spy('parse');
        Promise.prototype.then = spy('then'); Promise.resolve = spy('resolve');
        Reflect.ownKeys = spy('ownKeys'); Object.keys = spy('keys'); Array.prototype[Symbol.iterator] = spy('iterator');
        String.prototype.toString = spy('toString'); Object.prototype.valueOf = spy('valueOf');
        Array.prototype.push = function (x) { this[this.length] = x };
        Object.defineProperty(Object.prototype, 'code', {set() { seen.push('code') }, configurable: true});
        Object.defineProperty(Object.prototype, 'tool', {set() { seen.push('tool') }, configurable: true});
        globalThis.Error = spy('Error');
        const sum = await mcp.call('test.add', {a: 1, b: 2});
        let failed; try { await mcp.call('test.fail') } catch (e) { failed = e.code }
        return {sum, failed, seen, frozen: [Object.isFrozen(mcp), (() => { try { mcp.call = 1; return false } catch { return true } })(),
            (() => { try { globalThis.mcp = 1; return false } catch { return true } })()]}";
    let value = fixture.value(code).await;
    assert_eq!(value, json!({"sum": 3, "failed": "TOOL_FAILED", "seen": [], "frozen": [true, true, true]}));
    let code = "Object.prototype.toJSON = function () { return 'mine' }; return {a: 1}";
    assert_eq!(fixture.value(code).await, json!("mine"), "toJSON stays the script's own hook on its own values");
}

async fn runs_see_nothing_of_each_other(fixture: Fixture) {
    fixture.value("globalThis.left = 1; Array.prototype.left = 2; Math.left = 3; return 1").await;
    let code = "return [typeof left, typeof [].left, typeof Math.left]";
    assert_eq!(fixture.value(code).await, json!(["undefined", "undefined", "undefined"]));
    let mut numbers = Vec::new();
    for _ in 0..6 {
        numbers.push(fixture.value("return Math.random()").await.as_f64().unwrap());
    }
    numbers.sort_by(f64::total_cmp);
    numbers.dedup();
    assert_eq!(numbers.len(), 6, "each run has entropy of its own");
    assert!(numbers.iter().all(|n| (0.0..1.0).contains(n)));
    let code = "return [new Date(0).getTimezoneOffset(), Intl.DateTimeFormat().resolvedOptions().timeZone, (1234.5).toLocaleString()]";
    assert_eq!(fixture.value(code).await, json!([0, "UTC", "1,234.5"]));
}

async fn dropping_an_execution_cancels_it(fixture: Fixture) {
    let execution = fixture
        .client
        .execute(ExecuteRequest::new("await mcp.call('test.wait', {ms: 60000})").always_in_sandbox())
        .await
        .unwrap();
    until(|| fixture.seen.running.load(Ordering::SeqCst) == 1).await;
    drop(execution);
    until(|| fixture.seen.dropped.load(Ordering::SeqCst) == 1).await;
    // Its place is free again, for as many as a session has.
    for _ in 0..10 {
        drop(fixture.client.execute(ExecuteRequest::new("for(;;){}")).await.unwrap());
    }
    assert_eq!(fixture.value("return 1").await, json!(1));
}

async fn open_calls_are_cancelled_when_the_code_ends(fixture: Fixture) {
    let code = "mcp.call('test.wait', {ms: 60000}); await mcp.call('test.add', {a: 1, b: 1}); return 1";
    let outcome = fixture.run(code).await.unwrap();
    assert_eq!(outcome.warnings[0].code, "TOOL_CALLS_CANCELLED");
    until(|| fixture.seen.dropped.load(Ordering::SeqCst) == 1).await;
}

async fn deep_nesting_is_an_error_and_no_crash(fixture: Fixture) {
    let deep = 300_000;
    for code in [
        format!("return {}1{}", "[".repeat(deep), "]".repeat(deep)),
        format!("return {}1", "!".repeat(deep)),
        format!("return {}1{}", "(".repeat(deep), ")".repeat(deep)),
        format!("return {}1", "a=>".repeat(deep)),
        "{".repeat(deep),
    ] {
        assert_code(&fixture.error(&code).await, ErrorCode::SyntaxError);
    }
    let error = fixture.error("const f = () => f() + 1; return f()").await;
    assert_eq!(error.message, "RangeError: Maximum call stack size exceeded");
}
