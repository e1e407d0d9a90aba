//! Hostile tool calls: names that would be code or properties anywhere else, floods, and answers that nobody asked for.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use host_client::{Effect, ExecuteRequest, LimitName, ToolSpec, Tools};
use serde_json::json;

use crate::hostile::arena::Arena;
use crate::support::{Seen, tools, within};

/// Names that are data, whatever they would be elsewhere.
const NAMES: [&str; 12] = [
    "x.then",
    "x.constructor",
    "x.__proto__",
    "__proto__.toString",
    "constructor.prototype",
    "x.*/evil();//",
    "x.\u{2028}",
    "x.\" + evil() + \"",
    "x.${evil()}",
    "x.\u{202e}",
    "x. ",
    "then.then",
];

#[tokio::test]
async fn names_stay_data() {
    let arena = Arena::start(&[]).await;
    let tools = Tools::new();
    for name in NAMES {
        let spec = ToolSpec::new(name, "", json!(true)).effect(Effect::ReadOnly);
        tools
            .add_with(spec, move |_, context| async move { Ok(json!(context.tool.as_str()).to_string().into()) })
            .unwrap();
    }
    let client = arena.connect("names", tools).await;
    let code = format!(
        "globalThis.evil = () => {{ throw 1 }}; const names = {}; \
         return await Promise.all(names.map((name) => mcp.call(name)))",
        json!(NAMES)
    );
    let outcome = within(client.run(ExecuteRequest::new(code).always_in_sandbox())).await.unwrap();
    assert_eq!(outcome.value().unwrap(), json!(NAMES));
    drop(client);
    arena.unharmed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn floods_of_calls_end_at_their_limits() {
    let arena = Arena::start(&[]).await;
    let seen = Arc::new(Seen::default());
    let client = arena.connect("flood", tools(&seen)).await;
    let floods = [
        // More than are allowed; the rest fail, and can be caught.
        (
            "const all = await Promise.allSettled(Array.from({length: 500}, () => mcp.call('test.wait', {ms: 1}))); \
          return all.filter((it) => it.reason?.code === 'TOOL_CALL_LIMIT').length",
            json!(400),
        ),
        // Calls of nothing count too.
        (
            "let n = 0; for (let i = 0; i < 500; i++) try { await mcp.call('no.tool') } catch (e) { n += e.code === 'UNKNOWN_SERVER' } return n",
            json!(100),
        ),
        (
            "let n = 0; for (let i = 0; i < 500; i++) try { await mcp.call('') } catch (e) { n += e.code === 'INVALID_TOOL_NAME' } return n",
            json!(500),
        ),
        (
            "let n = 0; for (let i = 0; i < 50; i++) try { await mcp.call('test.echo.it', 'x'.repeat(2e4)) } catch (e) { n += e.code === 'ARGUMENTS_LIMIT' } return n",
            json!(50),
        ),
    ];
    for (code, expected) in floods {
        let request = ExecuteRequest::new(code)
            .always_in_sandbox()
            .limit(LimitName::ToolCalls, 100)
            .limit(LimitName::ToolCallsInFlight, 7);
        let outcome = within(client.run(request.limit(LimitName::ArgumentsBytes, 10_000))).await.unwrap();
        assert_eq!(outcome.value().unwrap(), expected, "{code}");
    }
    assert_eq!(seen.started.load(Ordering::SeqCst), 100);
    assert!(seen.most.load(Ordering::SeqCst) <= 7, "at most so many at once");
    drop(client);
    arena.unharmed().await;
}

#[tokio::test]
async fn an_execution_calls_only_the_tools_that_it_was_given() {
    let arena = Arena::start(&[]).await;
    let client = arena.connect("given", tools(&Arc::default())).await;
    let code = "const call = (name) => mcp.call(name, {a: 1, b: 1}).then(() => 'ran', (e) => e.code); \
        return [await call('test.add'), await call('test.echo.it'), await call('test.fail')]";
    for (patterns, expected) in [
        (vec!["test.add"], json!(["ran", "UNKNOWN_TOOL", "UNKNOWN_TOOL"])),
        (vec!["test.e*", "other.*"], json!(["UNKNOWN_TOOL", "ran", "UNKNOWN_TOOL"])),
        (vec!["*"], json!(["ran", "ran", "TOOL_FAILED"])),
    ] {
        let outcome =
            within(client.run(ExecuteRequest::new(code).always_in_sandbox().tools(patterns.clone()))).await.unwrap();
        assert_eq!(outcome.value().unwrap(), expected, "{patterns:?}");
    }
    let many = ExecuteRequest::new("return 1").tools(vec!["x.*"; 300]);
    let error = within(client.run(many)).await.unwrap_err();
    assert!(error.to_string().contains("remote_tools"), "{error}");
    drop(client);
    arena.unharmed().await;
}
