//! Tests of calls of the server's tools.

use serde_json::{Value, json};

use super::python::Client;
use super::setup::Setup;

fn text(result: &Value, block: usize) -> &str {
    result["content"][block]["text"].as_str().unwrap_or_else(|| panic!("{result}"))
}

#[tokio::test]
async fn code_calls_tools_of_other_servers_and_gives_text_and_structured_content() {
    let setup = Setup::with_everything().allowing_all();
    let mut client = Client::over_stdio(&setup).await;
    client.ready().await;
    let tools = client.list().await;
    let names: Vec<_> = tools.as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["execute_code", "search_tools", "describe_tools", "read_output"]);
    assert!(
        tools[0]["description"].as_str().unwrap().contains(
            "\neverything.echo(args: { message: string }): Promise<unknown> // Echoes back the input string\n"
        )
    );

    let code = "const [a, b] = await Promise.all([
        mcp.call('everything.get-sum', {a: 2, b: 3}), mcp.call('everything.echo', {message: 'hi'})]);
        console.log('both are there'); console.error('nothing is wrong');
        mcp.call('fake.echo', {});
        return {a, b}";
    let result = client.execute(code).await;
    let value = json!({"a": "The sum of 2 and 3 is 5.", "b": "Echo: hi"});
    assert_eq!(result["isError"], false, "{result}");
    assert_eq!(serde_json::from_str::<Value>(text(&result, 0)).unwrap(), value);
    let structured = &result["structuredContent"];
    assert_eq!(structured["result"], value);
    assert_eq!(structured["output"], "both are there\nnothing is wrong\n");
    assert!(structured["usage"]["wall_ms"].is_u64(), "{structured}");
    let warnings = structured["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 1, "{structured}");
    assert!(warnings[0].as_str().unwrap().contains("fake.echo"), "{structured}");
    let notes = format!("Output:\nboth are there\nnothing is wrong\nWarning: {}", warnings[0].as_str().unwrap());
    assert_eq!(text(&result, 1), notes);

    let result = client.execute("return 'a text as it is'").await;
    assert_eq!(
        (text(&result, 0), &result["structuredContent"]["result"]),
        ("a text as it is", &json!("a text as it is"))
    );
    assert_eq!(result["content"].as_array().unwrap().len(), 1, "{result}");
    assert_eq!(client.value("").await, Value::Null);
    client.close().await;
}

#[tokio::test]
async fn a_failure_says_what_where_and_what_to_do() {
    let setup = Setup::new().allowing_all();
    let mut client = Client::over_stdio(&setup).await;
    client.list().await;
    let result = client.execute("console.log('before');\nconst it = null;\nreturn it.x").await;
    assert_eq!(result["isError"], true, "{result}");
    let error = &result["structuredContent"]["error"];
    assert_eq!((&error["code"], &error["line"], &error["column"]), (&json!("EVAL_ERROR"), &json!(3), &json!(11)));
    assert!(
        text(&result, 0).starts_with("EVAL_ERROR: ") && text(&result, 0).contains("(line 3, column 11)"),
        "{result}"
    );
    assert_eq!(text(&result, 1), "Output:\nbefore");
    assert_eq!(result["structuredContent"]["output"], "before\n");

    let result = client.execute("await mcp.call('fake.echo', {});\nreturn await mcp.call('fake.ecko', {})").await;
    let error = &result["structuredContent"]["error"];
    assert_eq!((&error["code"], &error["line"]), (&json!("CHECK_FAILED"), &json!(2)), "{result}");
    assert!(text(&result, 0).contains("did you mean \"echo\"?"), "{result}");
    assert_eq!(result["structuredContent"]["usage"]["tool_calls"], 0, "nothing has run: {result}");

    let result = client.execute("return await mcp.call('fake.' + 'ecko', {})").await;
    let error = &result["structuredContent"]["error"];
    assert_eq!((&error["tool"], &error["tool_code"]), (&json!("fake.ecko"), &json!("UNKNOWN_TOOL")), "{result}");
    assert!(text(&result, 0).contains("the server \"fake\" has no tool \"ecko\""), "{result}");
    assert_eq!(result["structuredContent"]["usage"]["tool_calls"], 0, "{result}");

    let small = json!({"code": "return 'x'.repeat(1_001)", "limits": {"result_bytes": 1_000}});
    let result = client.call("execute_code", small).await;
    let error = &result["structuredContent"]["error"];
    assert_eq!((&error["code"], &error["limit"]), (&json!("RESULT_LIMIT"), &json!("result_bytes")), "{result}");
    let hint = error["hint"].as_str().unwrap();
    assert!(text(&result, 0).ends_with(&format!("\nhint: {hint}")), "{result}");
    let result = client.execute("return 'x'.repeat(100_001)").await;
    assert_eq!(result["structuredContent"]["result"].as_str().map(str::len), Some(100_001));
    let result = client.execute("for (let i = 0; i < 1000; i++) console.log('x'.repeat(60))").await;
    let output = result["structuredContent"]["output"].as_str().unwrap();
    let handle = result["structuredContent"]["output_handle"].as_str().unwrap();
    let end = format!("… (61000 bytes were printed; read_output with the handle {handle} gives the whole)");
    assert!(output.len() < 21_000 && output.ends_with(&end), "{output}");
    client.close().await;
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_refused_by_name() {
    let setup = Setup::new();
    let mut client = Client::over_stdio(&setup).await;
    client.list().await;
    for (tool, arguments, said) in [
        ("execute_code", json!({}), "the required field \"code\" is missing"),
        ("execute_code", json!({"cod": "1"}), "there is \"cod\" instead"),
        ("execute_code", json!({"code": 1}), "at /code: 1 is not of type \"string\""),
        ("execute_code", json!({"code": "1", "intents": "x"}), "there is no field \"intents\""),
        ("execute_code", json!({"code": "1", "limits": {"wal_ms": 1}}), "did you mean \"wall_ms\"?"),
        ("execute_code", json!({"code": "1", "limits": {"wall_ms": "1"}}), "at /limits/wall_ms: \"1\" is not of type"),
        ("execute_code", json!({"code": "1", "limits": {"wall_ms": -1}}), "at /limits/wall_ms: -1"),
        ("execute_code", json!({"code": "1", "limits": 5}), "at /limits: 5 is not of type \"object\""),
        ("search_tools", json!({"query": "x", "limit": 1.5}), "at /limit: 1.5"),
        ("describe_tools", json!({"names": "fake.echo"}), "at /names"),
    ] {
        let result = client.call(tool, arguments.clone()).await;
        assert_eq!(result["isError"], true, "{arguments}: {result}");
        let text = text(&result, 0);
        assert!(text.starts_with("INVALID_INPUT: ") && text.contains(said), "{arguments}: {text}");
    }
    let id = client.begin("execute", json!({})).await;
    let end = client.end(id).await;
    assert!(end["error"].as_str().unwrap().contains("there are: execute_code"), "{end}");
    client.close().await;
}

#[tokio::test]
async fn limits_hold() {
    let setup = Setup::new().allowing_all();
    let mut client = Client::over_stdio(&setup).await;
    // From here on the server has started.
    client.value("await mcp.call('fake.echo', {}); return 1").await;
    for (code, limits, error, limit) in [
        ("await mcp.call('fake.wait', {})", json!({"wall_ms": 300}), "TIMEOUT", "wall_ms"),
        ("for (;;);", json!({"cpu_ms": 200}), "CPU_LIMIT", "cpu_ms"),
        ("return 'xxxxxxxxx'", json!({"result_bytes": 10}), "RESULT_LIMIT", "result_bytes"),
        ("console.log('xxxxxxxxx')", json!({"output_bytes": 5}), "OUTPUT_LIMIT", "output_bytes"),
    ] {
        let result = client.call("execute_code", json!({"code": code, "limits": limits})).await;
        let came = &result["structuredContent"]["error"];
        assert_eq!((&came["code"], &came["limit"]), (&json!(error), &json!(limit)), "{result}");
    }
    let most = json!({"code": "return 1", "limits": {"wall_ms": 1_000_000_000}});
    let result = client.call("execute_code", most).await;
    assert_eq!(result["structuredContent"]["result"], 1, "{result}");
    assert!(result["structuredContent"]["warnings"][0].as_str().unwrap().contains("wall_ms"), "{result}");
    client.close().await;
}

#[tokio::test]
async fn tools_are_found_by_words_and_described_by_names() {
    let setup = Setup::with_everything();
    let mut client = Client::over_stdio(&setup).await;
    client.list().await;
    client.ready().await;
    let found = client.call("search_tools", json!({"query": "sum of numbers", "limit": 3})).await;
    let found = &found["structuredContent"]["tools"];
    assert_eq!(found[0]["name"], "everything.get-sum", "{found}");
    assert!(found[0]["typescript"].as_str().unwrap().contains("function get_sum(args: {"), "{found}");
    assert!(found.as_array().unwrap().len() <= 3, "{found}");
    let nothing = client.call("search_tools", json!({"query": "xyzzy"})).await;
    assert_eq!(nothing["structuredContent"]["tools"], json!([]));
    let hint = nothing["structuredContent"]["hint"].as_str().unwrap();
    assert!(hint.contains("everything, fake"), "{hint}");

    let names = ["everything.get-sum", "everything.get-some", "everythin.echo", "echo", "fake.reads"];
    let described = client.call("describe_tools", json!({"names": names})).await;
    let described = &described["structuredContent"]["tools"];
    assert!(described[0].get("input_schema").is_none(), "the declaration says all of it: {described}");
    assert!(described[0]["typescript"].as_str().unwrap().contains("function get_sum(args: {"), "{described}");
    assert!(described[1]["error"].as_str().unwrap().contains("did you mean \"everything.get-sum\"?"), "{described}");
    assert!(described[2]["error"].as_str().unwrap().contains("did you mean \"everything.echo\"?"), "{described}");
    assert!(described[3]["error"].as_str().unwrap().contains("\"everything.echo\" or \"fake.echo\""), "{described}");
    assert_eq!(described[4]["effect"], "read_only", "{described}");
    let many = client.call("describe_tools", json!({"names": vec!["fake.echo"; 25]})).await;
    assert_eq!(many["structuredContent"]["tools"].as_array().unwrap().len(), 20);
    assert!(many["structuredContent"]["hint"].as_str().unwrap().contains("the last 5"), "{many}");
    client.close().await;
}

#[tokio::test]
async fn progress_tells_of_each_call_in_order() {
    let setup = Setup::new().allowing_all();
    let mut client = Client::over_stdio(&setup).await;
    let code = "await mcp.call('fake.echo', {a: 1}); await mcp.call('fake.reads', {}).catch(() => 0); return 1";
    let id = client.begin("execute_code", json!({"code": code})).await;
    assert_eq!(client.end(id).await["result"]["structuredContent"]["result"], 1);
    let progress = client.progress(id);
    let (numbers, texts): (Vec<_>, Vec<_>) = progress.into_iter().unzip();
    assert_eq!(numbers, [1.0, 2.0, 3.0, 4.0], "{texts:?}");
    assert_eq!((&*texts[0], &*texts[2]), ("fake.echo …", "fake.reads …"), "{texts:?}");
    assert!(texts[1].starts_with("fake.echo: ") && texts[1].ends_with(" bytes"), "{texts:?}");
    assert_eq!(texts[3], "fake.reads failed: TOOL_FAILED");
    client.close().await;
}

#[tokio::test]
async fn executions_of_one_client_run_at_once() {
    let setup = Setup::new().allowing_all();
    let mut client = Client::over_stdio(&setup).await;
    let waits = client.begin("execute_code", json!({"code": "await mcp.call('fake.wait', {})"})).await;
    client.hear(|said| said["message"] == "fake.wait …").await;
    assert_eq!(client.value("return (await mcp.call('fake.echo', {a: 5})).arguments").await, json!({"a": 5}));
    client.cancel(waits).await;
    assert_eq!(client.end(waits).await["cancelled"], true);
    client.close().await;
}

#[tokio::test]
async fn limits_of_the_command_line_hold_and_a_model_can_only_lower_them() {
    let setup = Setup::new().allowing_all().option("--limit", "tool_calls=3").option("--limit", "result_bytes=1_000");
    let mut client = Client::over_stdio(&setup).await;
    let code =
        "let calls = 0; try { for (;;) { await mcp.call('fake.echo'); calls++ } } catch (e) { return [calls, e.code] }";
    for (limits, calls) in [(json!({}), 3), (json!({"tool_calls": 2}), 2), (json!({"tool_calls": 100}), 3)] {
        let result = client.call("execute_code", json!({"code": code, "limits": limits})).await;
        assert_eq!(result["structuredContent"]["result"], json!([calls, "TOOL_CALL_LIMIT"]), "{limits}: {result}");
    }
    let result = client.call("execute_code", json!({"code": "return 'x'.repeat(1_001)"})).await;
    assert!(result["content"][0]["text"].as_str().unwrap().contains("RESULT_LIMIT"), "{result}");
    client.close().await;
}
