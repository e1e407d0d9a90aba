//! `execute_code` as a tool of an agent loop.

use host_client::ExecuteCode;
use serde_json::json;

use crate::{Scene, nowhere};

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
