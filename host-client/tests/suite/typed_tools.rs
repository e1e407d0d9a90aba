//! Tools made of typed functions: every shape of arguments and results through a real relay, and what a call knows of itself.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use host_client::{
    CallContext, Client, Effect, ErrorCode, Event, ExecuteRequest, Host, LocalRelay, Manifest, ManifestChange, Mode,
    Overflow, Policy, ToolError, Tools,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use relay_test_support::within;

use crate::support::Caller;

#[derive(Debug, Deserialize, JsonSchema)]
struct Add {
    a: f64,
    b: f64,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
struct Point {
    x: i64,
    label: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Nothing;

/// An even number, which its schema does not say.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(try_from = "u32")]
#[schemars(with = "u32")]
struct Even(u32);

impl TryFrom<u32> for Even {
    type Error = String;

    fn try_from(number: u32) -> Result<Self, String> {
        if number.is_multiple_of(2) { Ok(Self(number)) } else { Err(format!("{number} is odd")) }
    }
}

async fn half(Even(number): Even) -> anyhow::Result<u32> {
    anyhow::ensure!(number > 0, "there is no half of nothing");
    Ok(number / 2)
}

async fn whoami(_: Nothing, context: CallContext) -> Result<String, std::io::Error> {
    Ok(context.tool.to_string())
}

async fn constant() -> Result<u8, std::convert::Infallible> {
    Ok(7)
}

/// One tool for each shape.
fn tools() -> Tools {
    let tools = Tools::new();
    let tool = |name: &str| tools.tool(format!("t.{name}")).effect(Effect::ReadOnly);
    tool("add").run(|args: Add| async move { Ok(args.a + args.b) }).unwrap();
    tool("number").run(|number: f64| async move { Ok(number * 2.0) }).unwrap();
    tool("text").run(|text: String| async move { Ok(text.len()) }).unwrap();
    tool("list").run(|list: Vec<Point>| async move { Ok(list) }).unwrap();
    tool("maybe").run(|point: Option<Point>| async move { Ok(point.map(|point| point.x)) }).unwrap();
    tool("pair").run(|(left, right): (u8, String)| async move { Ok((right, left)) }).unwrap();
    tool("nothing").run(|(): ()| async { Ok(()) }).unwrap();
    tool("context").handler(|(): (), ctx| async move { Ok((ctx.tool.to_string(), ctx.result_bytes)) }).unwrap();
    tool("async_closure").run(async |args: Add| Ok(args.a - args.b)).unwrap();
    tool("half").function(half).unwrap();
    tool("whoami").function(whoami).unwrap();
    tool("constant").function(constant).unwrap();
    let schema = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
    tool("raw").input_schema(schema).run(|args: Value| async move { Ok(args["n"].clone()) }).unwrap();
    let never = json!({"type": "string"});
    tool("liar").output_schema(never).run(|(): ()| async { Ok(7) }).unwrap();
    tools.add("t.added", "", Effect::ReadOnly, |(): ()| async { Ok("added") }).unwrap();
    tools
}

#[tokio::test(flavor = "multi_thread")]
async fn every_shape_of_arguments_and_results_works_from_code() {
    let relay = within(LocalRelay::start()).await.unwrap();
    let client = within(Client::connect(relay.client_config().await.unwrap(), tools())).await.unwrap();
    for (call, expected) in [
        ("'t.add', {a: 1, b: 2}", json!(3)),
        ("'t.number', 21", json!(42)),
        ("'t.text', 'four'", json!(4)),
        ("'t.list', [{x: 1}, {x: 2, label: 'two'}]", json!([{"x": 1, "label": null}, {"x": 2, "label": "two"}])),
        ("'t.maybe', {x: 3}", json!(3)),
        ("'t.maybe', null", json!(null)),
        ("'t.maybe'", json!(null)),
        ("'t.maybe', {}", json!(null)),
        ("'t.pair', [1, 'one']", json!(["one", 1])),
        ("'t.nothing', {}", json!(null)),
        ("'t.nothing'", json!(null)),
        ("'t.nothing', null", json!(null)),
        ("'t.context'", json!(["t.context", 10 << 20])),
        ("'t.async_closure', {a: 1, b: 2}", json!(-1)),
        ("'t.half', 8", json!(4)),
        ("'t.whoami'", json!("t.whoami")),
        ("'t.constant'", json!(7)),
        ("'t.raw', {n: 5}", json!(5)),
        ("'t.added'", json!("added")),
        ("'t.added', null", json!("added")),
    ] {
        let code = format!("const value = await mcp.call({call}); return value");
        let outcome = within(client.run(ExecuteRequest::new(code).always_in_sandbox())).await;
        assert_eq!(outcome.unwrap_or_else(|error| panic!("{call}: {error}")).value().unwrap(), expected, "{call}");
    }
    for (call, code, text) in [
        ("'t.add', {a: 1}", "INVALID_ARGUMENTS", "the required field \"b\" is missing"),
        ("'t.nothing', {a: 1}", "INVALID_ARGUMENTS", "there is no field \"a\"; there are none"),
        ("'t.nothing', 1", "INVALID_ARGUMENTS", "not of type"),
        ("'t.half', 7", "INVALID_ARGUMENTS", "7 is odd"),
        ("'t.half', 0", "TOOL_FAILED", "there is no half of nothing"),
        ("'t.raw', {}", "INVALID_ARGUMENTS", "required"),
        ("'t.liar'", "INVALID_RESULT", "not of type"),
    ] {
        let code_of = format!("try {{ await mcp.call({call}) }} catch (e) {{ return [e.code, e.message] }}");
        let outcome = within(client.run(ExecuteRequest::new(code_of).always_in_sandbox())).await.unwrap();
        let [found, message]: [String; 2] = serde_json::from_value(outcome.value().unwrap()).unwrap();
        assert!(found == code && message.contains(text), "{call}: {found}: {message}");
    }
}

#[tokio::test]
async fn a_relay_that_sends_no_arguments_calls_tools_without_any() {
    let mut caller = Caller::new(&tools()).await;
    assert_eq!(caller.call("t.nothing", json!(null)).await.unwrap(), json!(null));
    assert_eq!(caller.call("t.whoami", json!({})).await.unwrap(), json!("t.whoami"));
    assert_eq!(caller.call("t.add", json!(null)).await.unwrap_err().code, "INVALID_ARGUMENTS");
}

#[test]
fn a_tool_says_all_that_was_said_of_it() {
    let tools = Tools::new();
    tools
        .tool("math.add")
        .description("Adds two numbers")
        .effect(Effect::Mutating)
        .mode(Mode::RestrictedLocal)
        .timeout(Duration::from_secs(5))
        .result_bytes(100)
        .overflow(Overflow::Cut)
        .concurrency(2)
        .callable_from_code(false)
        .idempotent(true)
        .run(|args: Add| async move { Ok(args.a + args.b) })
        .unwrap();
    let spec = tools.spec("math.add").unwrap();
    let manifest = Manifest {
        effect: Some(Effect::Mutating),
        mode: Mode::RestrictedLocal,
        timeout: Duration::from_secs(5),
        result_bytes: 100,
        overflow: Overflow::Cut,
        concurrency: Some(2),
        callable_from_code: false,
        idempotent: true,
    };
    assert_eq!((&*spec.description, spec.manifest), ("Adds two numbers", manifest));
    assert_eq!(spec.input_schema["required"], json!(["a", "b"]));
    assert_eq!(spec.output_schema.unwrap()["type"], "number");
    let again = tools.tool("math.add").run(|(): ()| async { Ok(()) }).unwrap_err().to_string();
    assert!(again.contains("math.add") && again.contains("already"), "{again}");
    assert!(tools.tool("add").run(|(): ()| async { Ok(()) }).is_err(), "it has no server");
}

#[tokio::test]
async fn a_call_that_waited_its_turn_is_told_so() {
    let (tools, began) = (Tools::new(), Arc::new(tokio::sync::Notify::new()));
    let begins = Arc::clone(&began);
    tools
        .tool("slow.one")
        .effect(Effect::ReadOnly)
        .concurrency(1)
        .run(move |(): ()| {
            let begins = Arc::clone(&begins);
            async move {
                begins.notify_one();
                std::future::pending::<()>().await;
                Ok(())
            }
        })
        .unwrap();
    let impatient = ManifestChange { timeout_ms: Some(100), ..ManifestChange::default() };
    let other = Host::new(tools.clone()).policy(Policy::default().manifest(["slow.one"], impatient));
    let alone = within(other.call("slow.one", &json!({}))).await.unwrap_err().to_string();
    assert!(alone.contains("did not answer within 100 ms"), "{alone}");
    within(began.notified()).await;

    let host = Host::new(tools);
    let holds = tokio::spawn(async move { host.call("slow.one", &json!({})).await });
    within(began.notified()).await;
    let error = within(other.call("slow.one", &json!({}))).await.unwrap_err();
    let text = error.to_string();
    assert_eq!(error.code().unwrap().as_str(), "TOOL_TIMEOUT", "{text}");
    assert!(
        text.contains("slow.one was not run: it waited its turn for 100 ms, because only 1 of its calls"),
        "{text}"
    );
    holds.abort();
}

#[test]
fn a_tool_without_arguments_is_declared_so() {
    let tools = tools();
    for name in ["t.nothing", "t.added", "t.whoami"] {
        let signature = host_client::declare::signature(&tools.spec(name).unwrap());
        assert!(!signature.contains("null)") && !signature.contains("args: null"), "{signature}");
    }
}

#[tokio::test]
async fn progress_becomes_events_in_their_place_and_ends_with_the_call() {
    let tools = Tools::new();
    let kept = Arc::new(Mutex::new(None));
    let keeps = Arc::clone(&kept);
    let tool = tools.tool("a.work").effect(Effect::ReadOnly);
    tool.handler(move |(): (), ctx| {
        *keeps.lock().unwrap() = Some(ctx.clone());
        async move {
            ctx.progress(1.0, Some(2.0), "half");
            ctx.progress(2.0, None, "");
            Ok(())
        }
    })
    .unwrap();
    let relay = within(LocalRelay::start()).await.unwrap();
    let client = within(Client::connect(relay.client_config().await.unwrap(), tools)).await.unwrap();
    let mut execution = within(client.execute(ExecuteRequest::new("await mcp.call('a.work')"))).await.unwrap();
    let mut events = execution.events().unwrap();
    within(execution).await.unwrap();
    let context = kept.lock().unwrap().take().unwrap();
    assert!(context.is_cancelled());
    within(context.cancelled()).await;
    context.progress(3.0, None, "too late");
    let mut seen = Vec::new();
    while let Some(event) = within(events.next()).await {
        seen.push(match event {
            Event::ToolCallStarted { tool, .. } => format!("{tool} started"),
            Event::ToolCallProgress { tool, done, total, message, .. } => format!("{tool} {done} {total:?} {message}"),
            Event::ToolCallFinished { tool, .. } => format!("{tool} finished"),
            _ => continue,
        });
    }
    assert_eq!(seen, ["a.work started", "a.work 1 Some(2.0) half", "a.work 2 None ", "a.work finished"]);
}

/// A tool whose work goes on elsewhere, and says when it was told to stop.
fn working(tools: &Tools, timeout: Duration) -> (oneshot::Receiver<()>, oneshot::Receiver<Duration>) {
    let ((begins, began), (stops, stopped)) = (oneshot::channel(), oneshot::channel());
    let ends = Mutex::new(Some((begins, stops)));
    let tool = tools.tool("a.work").effect(Effect::ReadOnly).timeout(timeout).result_bytes(99);
    tool.handler(move |(): (), ctx| {
        let (begins, stops) = ends.lock().unwrap().take().unwrap();
        tokio::spawn(async move {
            assert_eq!((ctx.result_bytes, ctx.is_cancelled()), (99, false));
            begins.send(()).unwrap();
            ctx.cancelled().await;
            assert!(ctx.is_cancelled());
            stops.send(ctx.remaining()).unwrap();
        });
        std::future::pending::<Result<(), ToolError>>()
    })
    .unwrap();
    (began, stopped)
}

#[tokio::test]
async fn work_that_goes_on_elsewhere_learns_that_its_call_was_cancelled() {
    let tools = Tools::new();
    let (began, stopped) = working(&tools, Duration::from_secs(600));
    let relay = within(LocalRelay::start()).await.unwrap();
    let client = within(Client::connect(relay.client_config().await.unwrap(), tools)).await.unwrap();
    let execution = within(client.execute(ExecuteRequest::new("await mcp.call('a.work')"))).await.unwrap();
    within(began).await.unwrap();
    drop(execution);
    let left = within(stopped).await.unwrap();
    assert!(left > Duration::from_secs(20) && left <= Duration::from_secs(30), "the relay gives 30 s: {left:?}");
}

#[tokio::test]
async fn work_that_goes_on_elsewhere_learns_that_its_time_is_up() {
    let tools = Tools::new();
    let (_began, stopped) = working(&tools, Duration::from_millis(50));
    let host = Host::new(tools).policy(Policy::new().allow(["*"]));
    let error = within(host.call("a.work", &json!({}))).await.unwrap_err();
    assert!(error.code().is_some_and(|code| *code == ErrorCode::ToolTimeout), "{error}");
    assert_eq!(within(stopped).await.unwrap(), Duration::ZERO);
}
