//! `execute_code` as a tool of an agent loop.

use host_client::event::Route;
use host_client::output::StoreConfig;
use host_client::{Event, ExecuteCode, ExecuteRequest, OutputConfig};
use serde_json::{Value, json};

use super::{Scene, nowhere};

const ISSUES: &str = "return Array.from({length: 2000}, (_, id) => ({
    id, title: 'Issue number ' + id, body: id === 1234 ? 'the deadlock in the scheduler' : 'all is well '.repeat(10)}))";

#[tokio::test]
async fn one_definition_has_the_shape_of_each_provider() {
    let scene = Scene::new().await;
    let tool = ExecuteCode::new(scene.client.clone());
    let definition = tool.definition();
    assert!(
        definition
            .description
            .contains("\nmath.add(args: { a: number; b: number }): Promise<number> // Adds two numbers\n"),
        "{}",
        definition.description
    );
    assert_eq!(definition.parameters["required"], json!(["code"]));
    let (name, description, schema) = ("execute_code", &definition.description, &definition.parameters);
    let function = json!({"name": name, "description": description, "parameters": schema});
    assert_eq!(definition.openai_chat(), json!({"type": "function", "function": function}));
    let responses =
        json!({"type": "function", "name": name, "description": description, "parameters": schema, "strict": false});
    assert_eq!(definition.openai_responses(), responses);
    assert_eq!(definition.anthropic(), json!({"name": name, "description": description, "input_schema": schema}));
    let strict = definition.strict();
    assert_eq!(strict.openai_chat()["function"]["strict"], json!(true));
    let schema = &strict.parameters;
    for member in ["code", "intent", "limits"] {
        assert!(schema["required"].as_array().unwrap().contains(&json!(member)), "{schema:#}");
    }
    assert_eq!(schema["additionalProperties"], json!(false));
    assert_eq!(schema["properties"]["code"]["type"], json!("string"));
    let limits = &schema["properties"]["limits"]["anyOf"];
    assert_eq!(limits[1], json!({"type": "null"}));
    assert_eq!(limits[0]["required"].as_array().unwrap().len(), limits[0]["properties"].as_object().unwrap().len());
    for unknown in ["default", "format", "$schema", "$ref"] {
        assert!(!schema.to_string().contains(&format!("\"{unknown}\"")), "{schema:#}");
    }
}

#[tokio::test]
async fn a_call_gives_what_the_model_should_read() {
    let scene = Scene::new().await;
    let tool = ExecuteCode::new(scene.client.clone());
    let report = tool.call(json!({"code": "console.log('hi'); return await mcp.call('math.add', {a: 1, b: 2})"})).await;
    assert_eq!((report.is_error, &*report.text, report.notes.as_deref()), (false, "3", Some("Output:\nhi")));
    assert_eq!(report.structured.unwrap()["usage"]["tool_calls"], json!(1));
    // As OpenAI has it: a text, and in strict mode with every member.
    let report =
        tool.call(json!(r#"{"code": "return 1", "intent": null, "limits": {"wall_ms": 1000, "cpu_ms": null}}"#)).await;
    assert_eq!((report.is_error, &*report.text), (false, "1"));
    let report = tool.call(json!({"code": "return missing"})).await;
    assert!(report.is_error && report.text.starts_with("EVAL_ERROR: "), "{}", report.text);
    assert_eq!(report.structured.unwrap()["error"]["line"], json!(1));
}

#[tokio::test]
async fn a_call_that_makes_no_sense_is_answered_in_words() {
    let scene = Scene::new().await;
    let tool = ExecuteCode::new(scene.client.clone());
    for (arguments, says) in [
        (json!({}), "code"),
        (json!({"code": 1}), "string"),
        (json!({"code": "1", "shell": true}), "shell"),
        (json!({"code": "1", "limits": {"wall": 1}}), "wall"),
        (json!("{"), "object"),
        (json!(null), "object"),
    ] {
        let report = tool.call(arguments.clone()).await;
        assert!(report.is_error && report.structured.is_none(), "{arguments}");
        assert!(
            report.text.starts_with("INVALID_INPUT: ") && report.text.contains(says),
            "{arguments}: {}",
            report.text
        );
    }
    let report = ExecuteCode::new(nowhere()).call(json!({"code": "1"})).await;
    assert!(report.text.starts_with("the code was not run: no relay answers"), "{}", report.text);
}

#[tokio::test]
async fn there_are_four_tools_and_each_does_what_it_says() {
    let scene = Scene::new().await;
    let tools = ExecuteCode::new(scene.client.clone());
    let definitions = tools.definitions();
    let names: Vec<_> = definitions.iter().map(|definition| &*definition.name).collect();
    assert_eq!(names, ["execute_code", "search_tools", "describe_tools", "read_output"]);
    for definition in definitions {
        let strict = definition.strict().parameters;
        assert_eq!(strict["type"], json!("object"));
        for unknown in ["default", "format", "$schema", "$ref"] {
            assert!(!strict.to_string().contains(&format!("\"{unknown}\"")), "{strict:#}");
        }
    }
    // The example in the description runs, and shows that results are values.
    let description = tools.definition().description;
    let example = description.split_once("This runs: `").unwrap().1.split_once("`.").unwrap().0;
    let report = tools.call_tool("execute_code", json!({"code": example})).await;
    assert!(!report.is_error && report.structured.unwrap()["result"].is_array(), "{example}: {}", report.text);
    assert!(description.contains("has no `.content[0].text` around it"), "{description}");
    let report = tools.call_tool("execute_code", json!({"code": "return 1"})).await;
    assert_eq!((report.is_error, &*report.text), (false, "1"));
    // In strict mode, every member is there.
    let found = tools.call_tool("search_tools", json!({"query": "add numbers", "limit": null})).await;
    assert_eq!(found.structured.unwrap()["tools"][0]["name"], json!("math.add"));
    let described = tools.call_tool("describe_tools", json!(r#"{"names": ["add", "math.ad"]}"#)).await;
    let described: Value = serde_json::from_str(&described.text).unwrap();
    assert_eq!(described["tools"][0]["name"], json!("math.add"));
    assert!(described["tools"][1]["error"].as_str().unwrap().contains("math.add"), "{described:#}");
    for (name, arguments, says) in [
        (
            "run_code",
            json!({"code": "1"}),
            "there is no such tool; there are: execute_code, search_tools, describe_tools",
        ),
        ("search_tools", json!({}), "query"),
        ("read_output", json!({"handle": "out_"}), "there is no output with this handle"),
        ("read_output", json!({"handle": "out_", "offset": -1}), "offset"),
    ] {
        let report = tools.call_tool(name, arguments).await;
        assert!(report.is_error && report.structured.is_none(), "{}", report.text);
        assert!(report.text.starts_with("INVALID_INPUT: ") && report.text.contains(says), "{}", report.text);
    }
}

#[tokio::test]
async fn a_large_value_is_shown_in_part_and_read_on_in_its_conversation() {
    let scene = Scene::new().await;
    let tools = ExecuteCode::new(scene.client.clone());
    let report = tools.call(json!({"code": ISSUES})).await;
    assert!(
        report.text.starts_with("[Summary: an array of 2000 items, ") && report.text.len() < 7_000,
        "{}",
        report.text
    );
    let structured = report.structured.unwrap();
    assert_eq!((&structured["shown"], structured.get("result")), (&json!(report.text), None));
    let handle = report.handle.unwrap();
    assert_eq!(structured["handle"], json!(handle));
    let rest = json!({"handle": handle, "path": "[1234].body", "offset": 0, "limit": null});
    assert_eq!(tools.call_tool("read_output", rest.clone()).await.text, "the deadlock in the scheduler");
    assert_eq!(tools.clone().call_tool("read_output", rest.clone()).await.text, "the deadlock in the scheduler");
    let other = tools.for_another_conversation();
    let refused = other.call_tool("read_output", rest).await;
    assert!(refused.is_error && refused.text.contains("in the session that it was given in"), "{}", refused.text);
    assert_eq!(other.call(json!({"code": "return 2"})).await.text, "2");

    let report = tools.call(json!({"code": ISSUES, "intent": "Find deadlocks in the scheduler"})).await;
    assert!(report.text.starts_with("[Filtered by intent: 1 of "), "{}", report.text);
    let whole = OutputConfig { summary: None, cut: None, ..OutputConfig::default() };
    let report = tools.clone().output(whole).call(json!({"code": ISSUES})).await;
    assert_eq!((report.handle, report.structured.unwrap()["result"][1234]["id"].clone()), (None, json!(1234)));
    let nothing = StoreConfig { entries: 0, ..StoreConfig::default() };
    let report = tools.keep(nothing).call(json!({"code": ISSUES})).await;
    assert!(report.handle.is_none() && !report.text.contains("read_output"), "{}", report.text);
}

#[tokio::test]
async fn binary_data_is_handed_over_as_such() {
    let scene = Scene::new().await;
    let tools = ExecuteCode::new(scene.client.clone());
    let code = "return ['data:application/pdf;base64,QUJD', {type: 'image', mimeType: 'image/png', data: 'QUJD'}]";
    let report = tools.call(json!({"code": code})).await;
    let attachments: Vec<_> = report.attachments.iter().map(|it| (&*it.mime, &*it.base64)).collect();
    assert_eq!(attachments, [("application/pdf", "QUJD"), ("image/png", "QUJD")]);
    assert!(report.text.contains("attachment 2]") && !report.text.contains("QUJD"), "{}", report.text);
    assert!(!report.structured.unwrap().to_string().contains("QUJD"));
}

#[tokio::test]
async fn code_of_a_model_has_what_the_relay_offers_on_the_short_path_too() {
    let scene = Scene::new().await;
    for (code, path) in [
        ("return await math.add({a: 1, b: 2})", Route::Host),
        ("await mcp.call('math.add', {a: 1, b: 2})", Route::Host),
        ("const sum: number = await math.add({a: 1, b: 2}); return sum + 0", Route::Relay),
    ] {
        let mut execution = scene.client.execute(ExecuteRequest::for_model(code)).await.unwrap();
        let mut events = execution.events().unwrap();
        assert_eq!(execution.await.unwrap().value().unwrap(), json!(3), "{code}");
        let mut chosen = None;
        while let Some(event) = events.next().await {
            if let Event::RouteChosen(path) = event {
                chosen = Some(path);
            }
        }
        assert_eq!(chosen, Some(path), "{code}");
    }
    let tools = ExecuteCode::new(scene.client.clone());
    let code = "const [tool] = await mcp.search('add'); const same = await __getToolInterface(tool.name);
        console.log(typeof setTimeout); return [tool.name, same.name, (await mcp.describe('math.add')).name]";
    let report = tools.call(json!({"code": code})).await;
    assert_eq!(report.text, r#"["math.add","math.add","math.add"]"#);
    assert_eq!(report.notes.as_deref(), Some("Output:\nfunction"));
}

#[tokio::test]
async fn long_output_shows_its_beginning_and_its_end_and_has_a_handle() {
    let scene = Scene::new().await;
    let tool = ExecuteCode::new(scene.client.clone());
    let print = "for (let i = 0; i < 4_000; i++) console.log('line ' + i);";
    for (code, fails) in [(format!("{print} return 1"), false), (format!("{print} throw new Error('no')"), true)] {
        let report = tool.call(json!({"code": code})).await;
        let (notes, structured) = (report.notes.unwrap(), report.structured.unwrap());
        let handle = structured["output_handle"].as_str().unwrap();
        assert_eq!((report.is_error, report.handle), (fails, None), "{notes}");
        assert!(
            notes.starts_with("Output:\nline 0\nline 1\n") && notes.contains("\nline 3998\nline 3999\n"),
            "{notes}"
        );
        let end = format!("… (38890 bytes were printed; read_output with the handle {handle} gives the whole)");
        assert!(notes.ends_with(&end) && notes.len() < 21_000, "{notes}");
        assert!(!notes.contains("line 2000\n") && structured["output"].as_str().unwrap().contains("line 3999"));
        let page = tool.call_tool("read_output", json!({"handle": handle, "offset": 18_800, "limit": 1_000})).await;
        assert!(page.text.contains("line 2000\n"), "{}", page.text);
    }
    let short = tool.call(json!({"code": "console.log('x'.repeat(19_000)); return 1"})).await;
    assert_eq!(short.notes.unwrap().len(), "Output:\n".len() + 19_000);
    assert!(short.structured.unwrap().get("output_handle").is_none());
}
