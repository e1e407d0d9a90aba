//! The short paths: one tool call is made on the host, and nobody can tell by the outcome.

use host_client::event::Route;
use host_client::local::TokenRequest;
use host_client::{
    CallContext, Check, Client, ClientConfig, Effect, Error, ErrorCode, Event, ExecuteRequest, ExecutionError,
    LargeIntegers, LimitName, LocalRelay, Outcome, ToolSpec, Tools,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};

use relay_test_support::within;

/// Results that JSON can hold and that JavaScript reads in its own way.
const ODD: [&str; 18] = [
    r#"{"b":1,"a":1.0,"10":1,"2":2,"dup":1,"x":3,"dup":2,"-1":0,"01":0}"#,
    r#"[1e2,1E400,-0,-0.0,12345678901234567890,0.1e-6,1e21,123456789012345680000,5e-324]"#,
    r#"{"__proto__":{"a":1},"constructor":1,"then":2,"toJSON":3}"#,
    r#""\u0041\u00e9\ud83d\ude00\ud800\u2028\/\b\f\n\r\t\u001f\u007f""#,
    " {\n \"a\" : [ 1 , 2 ] } ",
    r#"{"4294967294":1,"4294967295":2,"9007199254740993":3,"1.5":4," 1":5}"#,
    "\"\\udc00\\ud800\"",
    "null",
    "",
    "{]",
    "[1,]",
    "\u{feff}1",
    "tru",
    "1 2",
    r#"{"id":9007199254740993,"list":[1,{"n":-12345678901234567890}],"text":"9007199254740993","fine":9007199254740992}"#,
    r#"[9007199254740993,9007199254740993,9007199254740993,9007199254740993,9007199254740995]"#,
    "{9007199254740993:1}",
    r#"{"dup":9007199254740993,"dup":9007199254740995,"":{"\u0061\"":9007199254740993,"__proto__":9007199254740993}}"#,
];

fn tools() -> Tools {
    let tools = Tools::new();
    let add = |name: &str, answer: fn(Value, CallContext) -> Result<String, host_client::ToolError>| {
        let spec = ToolSpec::new(name, "", json!(true)).effect(Effect::ReadOnly);
        let answer = move |arguments, context| async move { Ok(answer(arguments, context)?.into()) };
        tools.add_with(spec, answer).unwrap();
    };
    add("exa.search", |arguments, context| Ok(json!([context.tool.as_str(), arguments]).to_string()));
    add("exa.web-search", |arguments, context| Ok(json!([context.tool.as_str(), arguments]).to_string()));
    add("exa.has.dots", |arguments, _| Ok(arguments.to_string()));
    add("my-backend.run", |_, context| Ok(json!(context.tool.as_str()).to_string()));
    add("Math.max", |_, _| Ok("\"a tool\"".into()));
    add("two-a.x", |_, _| Ok("1".into()));
    add("two_a.x", |_, _| Ok("2".into()));
    add("hasOwnProperty.search", |_, _| Ok("\"odd\"".into()));
    add("odd.fail", |_, _| Err(host_client::ToolError::new("it did not work: \"é\"")));
    add("odd.result", |arguments, _| {
        let index = arguments.get("i").and_then(Value::as_u64).unwrap_or_default();
        Ok(ODD[usize::try_from(index).unwrap() % ODD.len()].to_owned())
    });
    add("odd.deep", |arguments, _| {
        let levels = usize::try_from(arguments["levels"].as_u64().unwrap_or(1)).unwrap();
        Ok(format!("{}1{}", "[".repeat(levels), "]".repeat(levels)))
    });
    add("odd.large", |arguments, _| {
        Ok(json!("x".repeat(usize::try_from(arguments["bytes"].as_u64().unwrap_or(1)).unwrap())).to_string())
    });
    let strict = json!({"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"], "additionalProperties": false});
    let strict = ToolSpec::new("odd.strict", "", strict).effect(Effect::ReadOnly);
    tools.add_with(strict, |_, _| async { Ok("true".into()) }).unwrap();
    tools
        .add_with(ToolSpec::new("odd.write", "", json!(true)).effect(Effect::Mutating), |_, _| async { Ok("1".into()) })
        .unwrap();
    tools
}

/// A relay, and a client of it with the tools.
struct Fixture {
    relay: LocalRelay,
    client: Client,
}

async fn fixture() -> Fixture {
    let relay = within(LocalRelay::start()).await.unwrap();
    let client = within(Client::connect(relay.client_config().await.unwrap(), tools())).await.unwrap();
    Fixture { relay, client }
}

fn request(code: &str) -> ExecuteRequest {
    ExecuteRequest::new(code).check(Check::Off).bindings(["console", "timers", "servers", "introspection"])
}

#[derive(Debug, PartialEq)]
struct SeenError {
    code: String,
    message: String,
    limit: Option<String>,
    hint: Option<String>,
    /// The tool and its code.
    tool: Option<(String, String)>,
    place: (Option<u32>, Option<u32>),
}

/// All that an author can see of an outcome.
#[derive(Debug, PartialEq)]
struct Seen {
    json: Option<String>,
    error: Option<SeenError>,
    warnings: Vec<(String, String)>,
    output: Vec<String>,
    tool_calls: u64,
}

impl From<Result<Outcome, ExecutionError>> for Seen {
    fn from(outcome: Result<Outcome, ExecutionError>) -> Self {
        let warned = |warnings: Vec<host_client::client::Warning>| {
            warnings.into_iter().map(|it| (it.code, it.message)).collect()
        };
        let printed = |output: Vec<host_client::OutputItem>| output.into_iter().map(|it| it.text).collect();
        match outcome {
            Ok(outcome) => Self {
                json: Some(String::from_utf8(outcome.json.to_vec()).unwrap()),
                error: None,
                warnings: warned(outcome.warnings),
                output: printed(outcome.output),
                tool_calls: outcome.usage.tool_calls,
            },
            Err(error) => {
                let tool = error.tool.map(|(tool, code)| (tool, code.as_str().to_owned()));
                // The used part of a limit is not the same twice.
                let message = error.message.split(" (used: ").next().unwrap().to_owned();
                let code = error.code.as_str().to_owned();
                Self {
                    json: None,
                    error: Some(SeenError {
                        code,
                        message,
                        limit: error.limit,
                        hint: error.hint,
                        tool,
                        place: (error.line, error.column),
                    }),
                    warnings: warned(error.warnings),
                    output: printed(error.output),
                    tool_calls: error.usage.tool_calls,
                }
            }
        }
    }
}

/// Place where the code ran, and its outcome.
async fn run(fixture: &Fixture, request: ExecuteRequest) -> (Route, Seen) {
    let mut execution = fixture.client.execute(request).await.unwrap();
    let mut events = execution.events().unwrap();
    let outcome = within(execution).await.map_err(|error| match error {
        Error::Execution(error) => *error,
        error => panic!("{error}"),
    });
    let mut path = None;
    while let Some(event) = events.next().await {
        if let Event::RouteChosen(chosen) = event {
            path = Some(chosen);
        }
    }
    (path.unwrap(), outcome.into())
}

/// Runs it both ways, compares, and gives where it would run and what comes of it.
async fn both(fixture: &Fixture, request: ExecuteRequest) -> (Route, Seen) {
    let code = request.code.clone();
    let (path, short) = run(fixture, request.clone()).await;
    let (in_sandbox, long) = run(fixture, request.always_in_sandbox()).await;
    assert_eq!(in_sandbox, Route::Relay);
    assert_eq!(short, long, "{path:?}: {code}");
    (path, short)
}

fn json_of(seen: &Seen) -> Value {
    serde_json::from_str(seen.json.as_deref().unwrap_or_else(|| panic!("{seen:?}"))).unwrap()
}

#[tokio::test]
async fn one_call_with_literal_arguments_is_made_on_the_host() {
    let fixture = fixture().await;
    for code in [
        r#"await exa.search({query: "x"})"#,
        r#"return await exa.search({query: "x"})"#,
        r#"return await exa.search({query: "x"});"#,
        "const r = await exa.search({query: \"x\"}); return r;",
        "const r = await exa.search({\n  'query': `x`, // what\n});\nreturn r;\n",
        r#"mcp.call("exa.search", {"query": "x",})"#,
        r#"return await mcp.call('exa.search', {query: 'x'})"#,
        "/* first */ await mcp.call(\"exa.search\", {\n  query: \"x\",\n});",
        "let result = await exa.search({query: 'x'});\n\nreturn result",
        "async () => { return await exa.search({query: 'x'}) }",
        "export default async function main() {\n  return await exa.search({query: 'x'});\n}",
        "const r: unknown = await exa.search({query: 'x'} as any); return r;",
        "```js\nreturn await exa.search({query: 'x'})\n```",
    ] {
        let (path, seen) = both(&fixture, request(code)).await;
        assert_eq!((path, json_of(&seen)), (Route::Host, json!(["exa.search", {"query": "x"}])), "{code}");
    }
    for (code, expected) in [
        (
            "return exa.web_search({a: [1, -2.50, null, true, {b: 'é'}]})",
            json!(["exa.web-search", {"a": [1, -2.5, null, true, {"b": "é"}]}]),
        ),
        ("return my_backend.run()", json!("my-backend.run")),
        ("return exa.has_dots({b: 1, 2: 2, 1: 3, b: 4})", json!({"1": 3, "2": 2, "b": 4})),
    ] {
        let (path, seen) = both(&fixture, request(code)).await;
        assert_eq!((path, json_of(&seen)), (Route::Host, expected), "{code}");
    }
}

#[tokio::test]
async fn the_answer_never_depends_on_the_path() {
    let fixture = fixture().await;
    for (code, expected) in [
        ("Math.max(1)", json!(1)),
        ("return \"a.b({})\"", json!("a.b({})")),
        ("return `exa.search({})`", json!("exa.search({})")),
        ("console.log(\"x\")", json!(null)),
        ("return servers.Math.max({})", json!("a tool")),
        ("return exa", json!({})),
        ("exa.search", json!(null)),
    ] {
        let (path, seen) = both(&fixture, request(code)).await;
        if seen.error.is_some() {
            // A function is no JSON.
            assert_eq!((path, code), (Route::Relay, "exa.search"));
            continue;
        }
        assert_eq!((path, json_of(&seen)), (Route::Relay, expected), "{code}");
    }
    for (code, expected) in [
        ("const x = await exa.search({}); return y", "ReferenceError: y is not defined"),
        ("const exa = await exa.search({}); return exa", "ReferenceError: Cannot access 'exa' before initialization"),
        (
            "return two_a.x({})",
            "TypeError: this could be the server \"two-a\" or \"two_a\"; say which: mcp.call(\"two-a.tool\", args)",
        ),
        ("return exa.nothing({})", "TypeError: exa.nothing is not a function"),
        ("return await mcp.call('exa.nothing', {})", "Error: the server \"exa\" has no tool \"nothing\""),
        ("return await mcp.call('exa', {})", "Error: a tool is called by its full name, \"server.tool\""),
    ] {
        let (path, seen) = both(&fixture, request(code)).await;
        let SeenError { code: error, message, .. } = seen.error.unwrap();
        assert_eq!(path, Route::Relay, "{code}");
        assert!(error == "EVAL_ERROR" && message.starts_with(expected), "{code}: {message}");
    }
    // A call that fails fails alike.
    for (code, expected) in [
        ("return await odd.fail({})", "TOOL_FAILED"),
        ("await mcp.call('odd.strict', {quer: 1})", "INVALID_ARGUMENTS"),
        ("return await odd.write({})", "APPROVAL_DENIED"),
        ("return odd.result({i: 9})", "INVALID_RESULT"),
        ("return odd.result({i: 10})", "INVALID_RESULT"),
    ] {
        let (path, seen) = both(&fixture, request(code)).await;
        let tool = seen.error.unwrap().tool;
        assert_eq!((path, tool.unwrap().1.as_str()), (Route::Host, expected), "{code}");
    }
    for index in 0..ODD.len() {
        both(&fixture, request(&format!("return await odd.result({{i: {index}}})"))).await;
    }
    // An integer that JavaScript cannot hold is said.
    let (path, seen) = both(&fixture, request("return await odd.result({i: 14})")).await;
    let warned: Vec<_> = seen.warnings.iter().map(|(code, message)| (code.as_str(), message.as_str())).collect();
    let [("VALUE_CHANGED", first), ("VALUE_CHANGED", second)] = warned[..] else { panic!("{warned:?}") };
    assert_eq!(path, Route::Host);
    assert!(first.contains("the integer 9007199254740993 at $.id became 9007199254740992: "), "{first}");
    assert!(second.contains("-12345678901234567890 at $.list[1].n became -12345678901234567000: "), "{second}");
    for form in [LargeIntegers::Text, LargeIntegers::BigInt] {
        for index in 0..ODD.len() {
            both(&fixture, request(&format!("return await odd.result({{i: {index}}})")).large_integers(form)).await;
        }
    }
    let texts = request("return await odd.result({i: 14})").large_integers(LargeIntegers::Text);
    let (path, seen) = both(&fixture, texts).await;
    let expected = json!({"id": "9007199254740993", "list": [1, {"n": "-12345678901234567890"}],
        "text": "9007199254740993", "fine": 9_007_199_254_740_992_u64});
    assert_eq!((path, json_of(&seen), seen.warnings), (Route::Host, expected, vec![]));
    let code = "const r = await odd.result({i: 14}); const all = await odd.result({i: 15});
        return [typeof r.id, String(r.id + 1n), String(r.list[1].n), typeof r.text, typeof r.fine, all.map(String)]";
    let (path, seen) = both(&fixture, request(code).large_integers(LargeIntegers::BigInt)).await;
    let same = "9007199254740993";
    let expected = json!([
        "bigint",
        "9007199254740994",
        "-12345678901234567890",
        "string",
        "number",
        [same, same, same, same, "9007199254740995"]
    ]);
    assert_eq!((path, json_of(&seen), seen.warnings), (Route::Relay, expected, vec![]));
    for levels in [1, 99, 100, 101, 102, 1_000] {
        both(&fixture, request(&format!("return await odd.deep({{levels: {levels}}})"))).await;
    }
    for bytes in [996, 998, 999, 1_000] {
        let code = format!("return await odd.large({{bytes: {bytes}}})");
        let (path, seen) = both(&fixture, request(&code).limit(LimitName::ResultBytes, 1_000)).await;
        assert_eq!(path, Route::Host);
        assert_eq!(seen.error.map(|it| it.code), (bytes > 998).then(|| "RESULT_LIMIT".to_owned()), "{bytes}");
    }
}

#[tokio::test]
async fn what_code_asks_about_its_tools_is_answered_on_the_host() {
    let fixture = fixture().await;
    for code in [
        "__interfaces",
        "return __interfaces",
        "__getToolInterface(\"exa.search\")",
        "return __getToolInterface('web-search');",
        "__getToolInterface('nothing')",
    ] {
        let (path, seen) = both(&fixture, request(code)).await;
        assert_eq!(path, Route::Host, "{code}");
        assert!(seen.json.is_some(), "{seen:?}");
    }
    let (_, seen) = both(&fixture, request("return __interfaces").tools(["exa.*"])).await;
    assert_eq!(json_of(&seen).as_object().unwrap().keys().collect::<Vec<_>>(), ["exa"]);
    let (_, seen) =
        both(&fixture, request("return [typeof __interfaces.exa.search, __getToolInterface('exa.search').name]")).await;
    assert_eq!(json_of(&seen), json!(["object", "exa.search"]));
    let (path, seen) = both(&fixture, ExecuteRequest::new("return typeof __interfaces")).await;
    assert_eq!((path, json_of(&seen)), (Route::Relay, json!("undefined")));
    let (_, seen) = both(
        &fixture,
        request("return [(await mcp.search('search', 1))[0].name, (await mcp.describe('exa.search')).name]"),
    )
    .await;
    assert_eq!(json_of(&seen), json!(["exa.search", "exa.search"]));
    let (_, seen) = both(&fixture, request("return await mcp.describe('exa.serch')")).await;
    assert!(seen.error.unwrap().message.contains("exa.search"));
}

#[tokio::test]
async fn a_call_as_json_is_dispatched_at_once() {
    let fixture = fixture().await;
    let (path, seen) =
        run(&fixture, request(r#" {"tool":"exa.search","arguments":{"query":"x", "10": 1.0, "2": 1}} "#)).await;
    assert_eq!((path, seen.json.as_deref()), (Route::Host, Some(r#"["exa.search",{"2":1,"10":1,"query":"x"}]"#)));
    let (_, seen) = run(&fixture, request(r#"{"tool":"exa.search"}"#)).await;
    assert_eq!(json_of(&seen), json!(["exa.search", {}]));
    for (code, expected) in [
        (
            r#"{"tool":"exa.serch","arguments":{}}"#,
            "Error: the server \"exa\" has no tool \"serch\"; did you mean \"search\"?",
        ),
        (r#"{"tool":"exa","arguments":{}}"#, "Error: a tool is called by its full name, \"server.tool\""),
        (r#"{"tool":"odd.fail","arguments":{}}"#, "Error: it did not work: \"é\""),
    ] {
        let (path, seen) = run(&fixture, request(code)).await;
        let SeenError { code: error, message, .. } = seen.error.unwrap();
        assert_eq!((path, error.as_str()), (Route::Host, "EVAL_ERROR"), "{code}");
        assert!(message.starts_with(expected), "{code}: {message}");
    }
    // Where it has to be made in the sandbox it is the same call.
    for code in [
        r#"{"tool":"exa.search","arguments":{"query":"é", "__proto__": {"a": 1}}}"#,
        r#"{"tool":"exa.search","arguments":[1]}"#,
        "```json\n{\"tool\": \"exa.web-search\"}\n```",
        r#"{"tool":"odd.fail","arguments":null}"#,
    ] {
        let (path, _) = both(&fixture, request(code)).await;
        assert_eq!(path, Route::Host, "{code}");
    }
    let local = request(r#"{"tool":"local.f","arguments":{"n":2}}"#).local_tool("f", "({n}) => n * 2");
    let (path, seen) = run(&fixture, local).await;
    assert_eq!((path, json_of(&seen)), (Route::Relay, json!(4)));
    let question = r#"{"tool":"mcp.search","arguments":{"query":"search","limit":1}}"#;
    let (path, seen) = both(&fixture, request(question)).await;
    assert_eq!((path, json_of(&seen)[0]["name"].clone()), (Route::Host, json!("exa.search")));
    let (path, seen) = both(&fixture, ExecuteRequest::new(question)).await;
    assert_eq!((path, seen.error.unwrap().tool.unwrap().1.as_str()), (Route::Relay, "UNKNOWN_SERVER"));
    // Code that is meant as a call and is none does not become its own result.
    for (code, expected) in [
        (r#"{"tool":"exa.search","args":{}}"#, "unknown field `args`"),
        (r#"{"tool":"exa.search","arguments":{},"id":7}"#, "unknown field `id`"),
    ] {
        let (path, seen) = run(&fixture, request(code)).await;
        let SeenError { code: error, message, .. } = seen.error.unwrap();
        assert_eq!((path, error.as_str()), (Route::Host, "INVALID_INPUT"), "{code}");
        assert!(message.contains(expected), "{code}: {message}");
    }
    // A name of no tool has the meaning that JavaScript gives it.
    for code in [r#"{"tool":5}"#, r#"{tool:"exa.search"}"#, r#"{"name":"exa.search"}"#] {
        let (path, seen) = both(&fixture, request(code)).await;
        assert_eq!(path, Route::Relay, "{code}");
        assert!(seen.json.is_some(), "{seen:?}");
    }
}

#[tokio::test]
async fn tokens_patterns_and_limits_hold_on_the_short_path() {
    let fixture = fixture().await;
    let only = |code: &str| request(code).tools(["my-backend.*"]);
    let (path, seen) = both(&fixture, only("return await mcp.call('exa.search', {})")).await;
    assert_eq!((path, seen.error.unwrap().tool.unwrap().1.as_str()), (Route::Relay, "UNKNOWN_TOOL"));
    let (path, seen) = run(&fixture, only(r#"{"tool":"exa.search"}"#)).await;
    assert_eq!((path, seen.error.unwrap().tool.unwrap().1.as_str()), (Route::Host, "UNKNOWN_TOOL"));
    let narrow = TokenRequest::new("s").tools(["my-backend.*"]);
    let token = fixture.relay.token_for(&narrow).await.unwrap();
    let client = within(Client::connect(ClientConfig::new(fixture.relay.url(), token), tools())).await.unwrap();
    for code in [r#"{"tool":"exa.search"}"#, "return await mcp.call('exa.search', {})", "return exa.search({})"] {
        let error = within(client.run(request(code))).await.unwrap_err();
        assert_eq!(error.code(), Some(&ErrorCode::EvalError.into()), "{code}: {error}");
    }
    let outcome = within(client.run(request("return Object.keys(__interfaces)"))).await.unwrap();
    assert_eq!(outcome.value().unwrap(), json!(["my-backend"]));
    let outcome = within(client.run(request("return __interfaces"))).await.unwrap();
    assert_eq!(outcome.value().unwrap().as_object().unwrap().keys().collect::<Vec<_>>(), ["my-backend"]);
    for (code, limit, value, expected) in [
        ("return exa.search({a: 'long'})", LimitName::ArgumentsBytes, 4, "ARGUMENTS_LIMIT"),
        ("return exa.search({a: 'long'})", LimitName::SourceBytes, 10, "INVALID_INPUT"),
        ("return odd.large({bytes: 2000})", LimitName::ToolResultBytes, 1_000, "TOOL_RESULT_LIMIT"),
        ("return __interfaces", LimitName::ToolResultBytes, 100, "TOOL_RESULT_LIMIT"),
        (r#"{"tool":"exa.search","arguments":{"a":"long"}}"#, LimitName::ArgumentsBytes, 4, "ARGUMENTS_LIMIT"),
    ] {
        let (_, seen) = run(&fixture, request(code).limit(limit, value)).await;
        let error = seen.error.unwrap();
        let code_of = error.tool.map_or(error.code, |(_, code)| code);
        assert_eq!(
            (code_of.as_str(), error.limit.as_deref()),
            (expected, Some(limit.as_str()).filter(|_| expected != "INVALID_INPUT")),
            "{code}"
        );
        assert!(error.hint.is_some() || expected == "INVALID_INPUT", "{code}");
        // A name that is read as a variable fails in its place, which the short path does not know.
        if !code.starts_with('{') && code != "return __interfaces" {
            both(&fixture, request(code).limit(limit, value)).await;
        }
    }
}

/// Values as an author writes them: JSON, and what nearly is.
fn literal() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".into()),
        any::<i32>().prop_map(|it| it.to_string()),
        any::<f64>().prop_filter("finite", |it| it.is_finite()).prop_map(|it| format!("{it:e}")),
        prop_oneof![
            Just("-0"),
            Just("0x1F"),
            Just("1_000"),
            Just(".5"),
            Just("5."),
            Just("1e400"),
            Just("0b11"),
            Just("1n"),
            Just("+1")
        ]
        .prop_map(str::to_owned),
        prop_oneof![
            Just("undefined"),
            Just("NaN"),
            Just("Infinity"),
            Just("x"),
            Just("/x/"),
            Just("() => 1"),
            Just("new Date(0)"),
            Just("[,1]"),
            Just("1 + 1"),
            Just("!0"),
            Just("void 0")
        ]
        .prop_map(str::to_owned),
        "[ -~é😀\u{2028}]{0,8}".prop_map(|it| format!("{it:?}")),
        "[a-z']{0,5}".prop_map(|it| format!("'{}'", it.replace('\'', "\\'"))),
        "[a-z ]{0,5}".prop_map(|it| format!("`{it}`")),
        prop_oneof![
            Just(r#""\u{1F600}""#),
            Just(r#""\x41\0""#),
            Just(r#""\ud800""#),
            Just("`a${1}`"),
            Just("`\\n`"),
            Just("'a\\\nb'")
        ]
        .prop_map(str::to_owned),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        let key = prop_oneof![
            "[a-z]{1,4}",
            "[0-9]{1,3}",
            "\"[a-z -]{0,5}\"",
            Just("__proto__".to_owned()),
            Just("\"__proto__\"".to_owned()),
            Just("['a']".to_owned()),
            Just("async".to_owned()),
            Just("1.5".to_owned()),
            Just("0x10".to_owned()),
        ];
        let member = prop_oneof![
            12 => (key, inner.clone()).prop_map(|(key, value)| format!("{key}: {value}")),
            1 => Just("x".to_owned()),
            1 => Just("...{a: 1}".to_owned()),
            1 => Just("get a() { return 1 }".to_owned()),
            1 => Just("f() {}".to_owned()),
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|it| format!("[{}]", it.join(", "))),
            (prop::collection::vec(member, 0..4), prop_oneof![Just(""), Just(",")]).prop_map(|(it, comma)| format!(
                "{{{}{}}}",
                it.join(", "),
                if it.is_empty() { "" } else { comma }
            )),
            inner.prop_map(|it| format!("({it})")),
        ]
    })
}

/// Programs that are one call, and programs that nearly are.
fn program() -> impl Strategy<Value = String> {
    let callee = prop_oneof![
        6 => prop_oneof![
            Just("exa.search("), Just("exa.web_search("), Just("exa['web-search']("), Just("exa[\"has.dots\"]("), Just("my_backend.run("),
            Just("globalThis.exa.search("), Just("servers.exa.search("), Just("mcp.call('exa.search', "), Just("mcp.call(\"exa.has.dots\", "), Just("odd.strict("),
            Just("mcp['call'](`exa.search`, "), Just("odd.result("), Just("odd.fail("), Just("odd.deep("),
        ],
        2 => prop_oneof![
            Just("exa?.search("), Just("exa.search?.("), Just("new exa.search("), Just("Math.max("), Just("console.log("), Just("servers.Math.max("), Just("exa.nothing("),
            Just("two_a.x("), Just("nothing.x("), Just("mcp.call("), Just("mcp.call('mcp.search', "), Just("mcp.search("), Just("exa.search.call(null, "), Just("(0, exa.search)("),
            Just("exa.constructor("), Just("exa.toString("), Just("toString("), Just("hasOwnProperty.search("), Just("_hasOwnProperty.search("), Just("exa.search`x`, ("),
        ],
    ];
    let call = (callee, prop::collection::vec(literal(), 0..3))
        .prop_map(|(callee, arguments)| format!("{callee}{})", arguments.join(", ")));
    let object = literal().prop_map(|it| format!("exa.search({{a: {it}}})"));
    let call = prop_oneof![call, object];
    (call, 0..24_usize).prop_map(|(call, form)| match form {
        0 => call,
        1 => format!("await {call}"),
        2 => format!("return {call}"),
        3 => format!("return await {call};"),
        4 => format!("const r = await {call}; return r;"),
        5 => format!("let r = await {call};\n// the answer\nreturn r"),
        6 => format!("async () => {call}"),
        7 => format!("async () => {{ return await {call} }}"),
        8 => format!("export default async function main() {{\n  return await {call};\n}}"),
        9 => format!("async function main() {{ const r = await {call}; return r }}"),
        10 => format!("```ts\nconst r: any = await {call};\nreturn r;\n```"),
        11 => format!("const r = {call}; return r;"),
        12 => format!("const exa = await {call}; return exa"),
        13 => format!("const r = await {call}; return y"),
        14 => format!("const r = await {call}; return r.x"),
        15 => format!("'use strict'; return await {call}"),
        16 => format!("try {{ return await {call} }} catch (e) {{ return e.message }}"),
        17 => format!("return [await {call}]"),
        18 => format!("return await {call}, 1"),
        19 => format!("(await {call})"),
        20 => format!("const mcp = 1; return await {call}"),
        21 => format!("() => {call}"),
        22 => format!("const {{a}} = await {call}; return a"),
        _ => format!("await {call}; await {call}"),
    })
}

/// Generated programs, down both ways. `SHORT_PATH_PROGRAMS` says how many, and `SHORT_PATH_SEED` which.
#[tokio::test]
async fn generated_programs_come_out_the_same_both_ways() {
    let number = |name: &str, otherwise: u64| std::env::var(name).map_or(otherwise, |text| text.parse().unwrap());
    let (programs, seed) = (number("SHORT_PATH_PROGRAMS", 600), number("SHORT_PATH_SEED", 1));
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let fixture = fixture().await;
    let (mut here, strategy) = (0, program());
    for _ in 0..programs {
        let code = strategy.new_tree(&mut runner).unwrap().current();
        let (path, _) = both(&fixture, request(&code)).await;
        here += u64::from(path == Route::Host);
    }
    assert!(here * 10 > programs && here * 10 < programs * 9, "{here} of {programs} were made on the host");
}
