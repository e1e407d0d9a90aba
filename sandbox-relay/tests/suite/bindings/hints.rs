//! Errors say what to write instead.

use host_client::{Effect, ExecuteRequest, ExecutionError, ToolSpec, Tools};
use serde_json::json;

use super::hint_cases::{
    ERRORS, ERRORS_WITHOUT, QUIET, RESULT_ERRORS, RESULT_ERRORS_WITHOUT, RESULT_QUIET, RESULT_WARNINGS, WARNINGS,
};
use crate::support::{Fixture, connect, start_relay};

async fn fixture() -> Fixture {
    let tools = Tools::new();
    for name in ["exa.web_search", "exa.find-similar", "github.list_issues", "my-backend.run"] {
        let spec = ToolSpec::new(name, "", json!({})).effect(Effect::ReadOnly);
        tools.add_with(spec, |_, _| async { Ok("[1]".into()) }).unwrap();
    }
    let relay = start_relay(&[]).await;
    let client = connect(&relay, tools).await;
    Fixture { relay, client, seen: std::sync::Arc::default() }
}

fn request(code: &str) -> ExecuteRequest {
    ExecuteRequest::new(code).bindings(["console", "timers", "servers"])
}

async fn error(fixture: &Fixture, code: &str) -> ExecutionError {
    fixture.request_error(request(code)).await
}

/// The hint of the error, or the hints among the warnings; `false`: the run failed.
async fn hints(fixture: &Fixture, code: &str) -> (bool, Vec<String>) {
    let bindings = ["console", "timers", "servers", "store", "introspection", "io"];
    match fixture.run_request(ExecuteRequest::new(code).bindings(bindings)).await {
        Ok(outcome) => {
            let hints = outcome.warnings.into_iter().filter(|it| it.code == "HINT");
            (true, hints.map(|it| it.message).collect())
        }
        Err(error) => (false, error.hint.into_iter().collect()),
    }
}

#[tokio::test]
async fn every_program_gets_the_hint_that_is_certain_and_no_other() {
    let tools = Tools::new();
    for (name, result) in [
        ("exa.search", r#"{"results":[{"title":"a"}]}"#),
        ("exa.web_search", r#"{"results":[]}"#),
        ("exa.find-similar", "[1]"),
        ("github.list_issues", "[1]"),
        ("github.search_issues", "[1]"),
        ("my-backend.run", "1"),
        ("notes.list", "[]"),
        ("notes.search", "[]"),
        ("time.now", "1"),
        ("workspace.ls", r#"{"files":["a"]}"#),
        ("vcs.log", r#""one\ntwo""#),
        ("vcs.show", r#"{"hash":"a1","message":"m","entries":[{"id":1}]}"#),
    ] {
        let spec = ToolSpec::new(name, "", json!({})).effect(Effect::ReadOnly);
        tools.add_with(spec, move |_, _| async move { Ok(result.into()) }).unwrap();
    }
    let give = ToolSpec::new("vcs.give", "", json!({})).effect(Effect::ReadOnly);
    tools.add_with(give, |arguments, _| async move { Ok(arguments["value"].to_string().into()) }).unwrap();
    let relay = start_relay(&[]).await;
    let client = connect(&relay, tools).await;
    let fixture = Fixture { relay, client, seen: std::sync::Arc::default() };

    let mut wrong = Vec::new();
    let own = [(ERRORS, false), (ERRORS_WITHOUT, false), (WARNINGS, true), (QUIET, true)];
    let of_results =
        [(RESULT_ERRORS, false), (RESULT_ERRORS_WITHOUT, false), (RESULT_WARNINGS, true), (RESULT_QUIET, true)];
    for (cases, succeed) in own.into_iter().chain(of_results) {
        for (code, expected) in cases {
            let (succeeded, hints) = hints(&fixture, code).await;
            let is_right = match hints.as_slice() {
                [] => expected.is_empty(),
                [only] => !expected.is_empty() && only.contains(expected),
                _ => false,
            };
            if !is_right || succeeded != succeed {
                wrong.push(format!("{code}\n  should get {expected:?}\n  got {hints:?}, ended well: {succeeded}"));
            }
        }
    }
    let count = [ERRORS, ERRORS_WITHOUT, WARNINGS, QUIET].map(<[_]>::len).iter().sum::<usize>();
    assert!(wrong.is_empty(), "{} of {count} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(RESULT_ERRORS.len() + RESULT_WARNINGS.len() <= RESULT_ERRORS_WITHOUT.len() + RESULT_QUIET.len());
    assert!(count >= 150 && (ERRORS_WITHOUT.len() + QUIET.len()) * 2 >= count - 20, "{count}");
}

#[tokio::test]
async fn an_error_keeps_its_words_and_gets_a_hint() {
    let fixture = fixture().await;
    for (code, message, hint) in [
        (
            "const exa = await exa.web_search({query: 'x'}); return exa",
            "ReferenceError: Cannot access 'exa' before initialization",
            "exa is the name of a server: call your own variable something else, such as exaResult",
        ),
        (
            "return await exaa.web_search({})",
            "ReferenceError: exaa is not defined",
            "there is a server exa: did you mean that?",
        ),
        (
            "return await exa.web_serch({})",
            "TypeError: exa.web_serch is not a function",
            "the server exa has no tool web_serch; did you mean exa.web_search({…})?",
        ),
        (
            "return await exa.zzz({})",
            "TypeError: exa.zzz is not a function",
            "the server exa has no tool zzz; it has find_similar, web_search",
        ),
        (
            "return await web_search({query: 'x'})",
            "ReferenceError: web_search is not defined",
            "web_search is a tool of a server: write exa.web_search({…})",
        ),
        (
            "return await find_similar({})",
            "ReferenceError: find_similar is not defined",
            "find_similar is a tool of a server: write exa.find_similar({…})",
        ),
        ("return list_isues({})", "ReferenceError: list_isues is not defined", "did you mean github.list_issues({…})?"),
        (
            "return await search_tools({query: 'x'})",
            "ReferenceError: search_tools is not defined",
            "search_tools is a tool of its own, called outside of code and not in it",
        ),
        (
            "const fs = require('fs'); return fs",
            "ReferenceError: require is not defined",
            "nothing can be imported here; everything from outside is a tool: await mcp.call(\"server.tool\", args)",
        ),
        (
            "return process.env",
            "ReferenceError: process is not defined",
            "there is no process, environment or argument here; what the code needs stands in the code, or a tool gives it",
        ),
        (
            "return await fetch('http://x')",
            "ReferenceError: fetch is not defined",
            "there is no network here; look for a tool that gets it: await mcp.call(\"server.tool\", args)",
        ),
        (
            "return fs.readFileSync('x')",
            "ReferenceError: fs is not defined",
            "there are no files and no system here; look for a tool that does it: await mcp.call(\"server.tool\", args)",
        ),
        (
            "return new Function('return 1')()",
            "EvalError: Code generation from strings disallowed for this context",
            "a text is never run as code here, by eval, Function or a timer: write the code itself",
        ),
        (
            "return mcp.exa({})",
            "TypeError: mcp.exa is not a function",
            "mcp has no exa; tools are called by await mcp.call(\"server.tool\", args)",
        ),
    ] {
        let error = error(&fixture, code).await;
        assert_eq!((error.message.as_str(), error.hint.as_deref()), (message, Some(hint)), "{code}");
        assert_eq!(error.line, Some(1), "{code}");
    }
    for (code, hint) in [
        ("return jira.list({})", "if jira is to be a server, it is not connected; there are: exa, github, my_backend"),
        ("return servers.exaa.search({})", "there is no server exaa; there are: exa, github, my_backend"),
        ("return globalThis.jira.search({})", "there is no server jira; there are: exa, github, my_backend"),
        ("return mcp.exa.web_search({})", "mcp has no exa: write exa.web_search({…})"),
        ("for (const x of exa.web_search({})) {}", "a tool call gives a Promise: write await before it"),
        (
            "async function exa() { return await exa.web_search({}) }",
            "exa.web_search is a tool, but here exa is something else: another thing of that name hides it",
        ),
    ] {
        assert_eq!(error(&fixture, code).await.hint.as_deref(), Some(hint), "{code}");
    }
    for code in ["throw new Error('own')", "return other", "null.x", "return Object.nothing()"] {
        assert_eq!(error(&fixture, code).await.hint, None, "{code}");
    }
}

#[tokio::test]
async fn a_call_of_what_is_not_there_names_the_nearest() {
    let fixture = fixture().await;
    for (code, expected) in [
        (
            "await mcp.call('exa.web_serch')",
            "the server \"exa\" has no tool \"web_serch\"; did you mean \"web_search\"?",
        ),
        (
            "await mcp.call('githb.list_issues')",
            "there is no server \"githb\"; there are: exa, github, my-backend; did you mean \"github\"?",
        ),
        (
            "await mcp.call('my_backend.run')",
            "there is no server \"my_backend\"; there are: exa, github, my-backend; did you mean \"my-backend\"?",
        ),
    ] {
        let message = format!("Error: {expected}");
        assert_eq!(error(&fixture, code).await.message, message, "{code}");
        let caught = request(&format!("try {{ {code} }} catch (e) {{ return e.message }}"));
        assert_eq!(fixture.run_request(caught).await.unwrap().value().unwrap(), json!(expected), "{code}");
    }
    for (code, expected) in [
        ("await mcp.call('web_search')", "mcp.call got web_search; did you mean \"exa.web_search\"?"),
        ("await mcp.call('find_similar')", "mcp.call got find_similar; did you mean \"exa.find-similar\"?"),
        ("await mcp.call('list_isues')", "mcp.call got list_isues; did you mean \"github.list_issues\"?"),
        ("await mcp.call('zzz')", "mcp.call got zzz"),
    ] {
        let message = error(&fixture, code).await.message;
        assert!(message.ends_with(expected), "{code}: {message}");
    }
    // Code that fails on and on is told a few times.
    let code = "let told = 0; for (let i = 0; i < 20; i++) await mcp.call('exa.web_serch').catch((e) => told += /mean/.test(e.message)); return told";
    assert_eq!(fixture.run_request(request(code)).await.unwrap().value().unwrap(), json!(8));
    // Hints do not name tools that the execution may not call.
    let only = request("await mcp.call('github.lst_issues')").tools(["exa.*"]);
    assert_eq!(fixture.request_error(only).await.message, "Error: the server \"github\" has no tool \"lst_issues\"");
}

#[tokio::test]
async fn a_promise_that_nobody_awaited_is_no_empty_object() {
    let fixture = fixture().await;
    let why = "there is a Promise that nobody awaited; write await before the call";
    for (code, expected) in [
        ("return {a: [1, exa.web_search({})]}", format!("the result cannot be returned as JSON: at $.a[1], {why}")),
        (
            "return [1, 2].map((x) => exa.web_search({x}))",
            format!("the result cannot be returned as JSON: at $[0], {why}"),
        ),
        (
            "await exa.web_search({query: exa.web_search({})})",
            format!("Error: the arguments of exa.web_search cannot be sent as JSON: at $.query, {why}"),
        ),
        (
            "await exa.web_search(exa.web_search({}))",
            format!("Error: the arguments of exa.web_search cannot be sent as JSON: at $, {why}"),
        ),
    ] {
        assert_eq!(error(&fixture, code).await.message, expected, "{code}");
    }
    for code in ["return exa.web_search({})", "return {a: {}, b: await exa.web_search({})}", "return [{}, new Map()]"] {
        fixture.run_request(request(code)).await.unwrap();
    }
}

#[tokio::test]
async fn what_was_caught_is_hinted_at_and_what_was_asked_for_first_is_not() {
    let fixture = fixture().await;
    let hints = async |code: &str| {
        let outcome = fixture.run_request(request(code)).await.unwrap();
        outcome.warnings.into_iter().inspect(|it| assert_eq!(it.code, "HINT")).map(|it| it.message).collect::<Vec<_>>()
    };
    let caught = "try {\n  return await fetch('http://x') } catch (e) { return e.message }";
    let expected = "fetch is not defined: line 2 fails where it runs; there is no network here; look for a tool that gets it: \
        await mcp.call(\"server.tool\", args)";
    assert_eq!(hints(caught).await, [expected]);
    let bare = "return web_search({}).catch(() => 1)";
    assert!(fixture.run_request(request(bare)).await.is_err());
    let bare = "const all = await Promise.allSettled([(async () => web_search({}))()]); return all[0].status";
    let expected = "web_search is not defined: line 1 fails where it runs; web_search is a tool of a server: write exa.web_search({…})";
    assert_eq!(hints(bare).await, [expected]);
    for (code, hint) in [
        (
            "try { return await exa.web_serch({}) } catch (e) { return e.message }",
            "the server exa has no tool web_serch; did you mean exa.web_search({…})?",
        ),
        (
            "try { const exa = await exa.web_search({}); return exa } catch (e) { return e.message }",
            "exa is the name of a server: call your own variable something else, such as exaResult",
        ),
        (
            "try { return eval('1') } catch { return 5 }",
            "eval(…) fails here: a text is never run as code; write the code itself",
        ),
    ] {
        assert_eq!(hints(code).await, [hint], "{code}");
    }
    for code in [
        "try { if (typeof require === 'function') require('fs') } catch {} return 1",
        "try { return Math.max(1) } catch { return console }",
        "const exa = [1]; try { return exa.map((x) => x) } catch {}",
        "const fetch = () => 1; try { return fetch() } catch {}",
        "try { return exa.web_search({}) } catch {}",
        "return 1",
    ] {
        assert_eq!(hints(code).await, [] as [&str; 0], "{code}");
    }
    let lost = "nothing was returned; the last statement has a value: write return before it";
    for code in [
        "const r = await exa.web_search({});\nr.length",
        "const a = [1];\na.map((x) => x * 2);",
        "async () => { const r = 1; r + 1 }",
    ] {
        assert_eq!(hints(code).await, [lost], "{code}");
    }
    for code in [
        "const a = 1;",
        "let a; a = 5",
        "console.log(1); console.log(2)",
        "if (1) { return } 5 + 5",
        "for (const x of [1]) x",
    ] {
        assert_eq!(hints(code).await, [] as [&str; 0], "{code}");
    }
}

#[tokio::test]
async fn a_look_for_hints_that_goes_too_deep_changes_nothing() {
    let fixture = fixture().await;
    let sum = format!("try {{ return {} }} catch {{ fetch() }}", vec!["1"; 60_000].join("+"));
    let outcome = fixture.run_request(request(&sum)).await;
    if let Ok(outcome) = outcome {
        assert_eq!(outcome.value().unwrap(), json!(60_000));
    } else {
        assert_eq!(outcome.unwrap_err().code, host_client::ErrorCode::SyntaxError);
    }
    fixture.run_request(request("return 1")).await.unwrap();
}

#[tokio::test]
async fn an_error_stays_what_it_is_however_deep_the_code_nests() {
    let fixture = fixture().await;
    let mut explained = 0;
    for count in [100, 1_000, 3_000, 6_000, 12_000, 25_000] {
        for (before, after) in [("1+", "1"), ("!", "1"), ("(", ")"), ("[", "]")] {
            let closing = if after.len() == 1 && after != "1" { after.repeat(count) } else { String::new() };
            let middle = if closing.is_empty() { after } else { "1" };
            let code = format!("const deep = () => {}{middle}{closing};\nreturn exa.zzz({{}})", before.repeat(count));
            let error = fixture.run_request(request(&code)).await.unwrap_err();
            if error.code == host_client::ErrorCode::SyntaxError {
                assert!(error.message.contains("nest") || error.message.contains("call stack"), "{error}");
                continue;
            }
            assert_eq!(error.message, "TypeError: exa.zzz is not a function", "{count} times {before}");
            assert_eq!((error.line, error.column), (Some(2), Some(12)), "{count} times {before}");
            explained += usize::from(error.hint.is_some());
        }
    }
    assert!(explained >= 4, "{explained}");
}

#[tokio::test]
async fn hints_of_much_code_take_little_time() {
    let fixture = fixture().await;
    let name = |n: usize| format!("nm{n}");
    let names: String = (0..6_000).map(|n| format!("{};", name(n))).collect();
    let members: String = "exa.zzz().ü;".repeat(4_000);
    let chain = format!("exa{};", ".ü".repeat(15_000));
    let variables: String = (0..3_000).map(|n| format!("let v{n}=()=>v{}();", (n * 7) % 3_000)).collect();
    for code in [names, members, chain, variables] {
        let code = format!("try {{}} catch {{}}\nfunction later() {{ {code} v0() }}\nlet r; r;");
        assert!(code.len() < 64 << 10, "{}", code.len());
        let request = request(&code).limit(host_client::LimitName::CpuMs, 3_000);
        let outcome = fixture.run_request(request).await.unwrap();
        assert!(outcome.warnings.len() <= 4, "{:?}", outcome.warnings);
    }
}

#[tokio::test]
async fn a_limit_of_a_call_is_named_with_how_near_the_others_were() {
    let fixture = fixture().await;
    let code = "await exa.web_search({}); await exa.web_search({})";
    let error = fixture.request_error(request(code).limit(host_client::LimitName::ToolCalls, 1)).await;
    assert_eq!(error.limit.as_deref(), Some("tool_calls"));
    assert!(error.message.contains("(used: wall_ms ") && error.message.contains("tool_calls 1 of 1"), "{error}");
    assert_eq!(error.hint.as_deref(), Some("call fewer tools, or ask one call for more at once"));
}

#[tokio::test]
async fn what_a_script_does_to_the_global_object_is_not_asked_after_its_end() {
    let fixture = fixture().await;
    let code = "Object.setPrototypeOf(globalThis, new Proxy({}, {has(t, k) { throw new Error(String(k)) }}));
        const f = () => undefinedThing1; try {} catch {} return 1";
    let outcome = fixture.run_request(request(code)).await.unwrap();
    assert_eq!(outcome.value().unwrap(), json!(1));
}
