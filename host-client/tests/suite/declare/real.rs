//! The tools of MCP servers that people use: each declaration compiles, and takes and refuses what the schema does.

use std::time::Duration;

use host_client::{McpConfig, McpOptions, McpServers, Tools, declare};
use serde_json::{Map, Value, json};

use super::compiler::Program;
use crate::servers::program;

/// A small value that a part of a schema may take.
fn sample(schema: &Value, root: &Value) -> Value {
    if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
        return sample(root.pointer(target.strip_prefix('#').unwrap()).unwrap(), root);
    }
    let first = |keyword: &str| schema.get(keyword).and_then(Value::as_array).and_then(|them| them.first());
    if let Some(value) = schema.get("const").or_else(|| schema.get("default")).or_else(|| first("enum")) {
        return value.clone();
    }
    if let Some(branch) = first("anyOf").or_else(|| first("oneOf")) {
        return sample(branch, root);
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("object") => Value::Object(required(schema, root)),
        Some("array") => {
            let items = schema.get("minItems").and_then(Value::as_u64).unwrap_or(1);
            json!((0..items).map(|_| sample(&schema["items"], root)).collect::<Vec<_>>())
        }
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or(json!(1)),
        Some("boolean") => json!(true),
        Some("null") => Value::Null,
        _ => json!("text"),
    }
}

fn required(schema: &Value, root: &Value) -> Map<String, Value> {
    let names = schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    names.map(|name| (name.to_owned(), sample(&schema["properties"][name], root))).collect()
}

#[tokio::test]
async fn tools_of_real_servers_are_declared_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let git = std::process::Command::new("git").args(["init", "--quiet"]).current_dir(&folder).status().unwrap();
    assert!(git.success());
    let tools = Tools::new();
    let servers = McpServers::with_options(&tools, McpOptions { catalogues: None, ..McpOptions::default() });
    let config = json!({"mcpServers": {
        "everything": {"command": program("mcp-server-everything"), "args": ["stdio"]},
        "files": {"command": program("mcp-server-filesystem"), "args": [folder.path()]},
        "git": {"command": program("mcp-server-git"), "args": ["--repository", folder.path()]},
        "time": {"command": program("mcp-server-time"), "args": ["--local-timezone", "UTC"]},
    }});
    servers.start(McpConfig::from_json(&config.to_string(), "mcp.json").unwrap()).unwrap();
    servers.ready(Duration::from_secs(60)).await;
    let specs = tools.specs();
    for server in ["everything.", "files.", "git.", "time."] {
        assert!(
            specs.iter().filter(|spec| spec.name.starts_with(server)).count() > 1,
            "{server} {:?}",
            servers.status()
        );
    }
    let (mut program, mut refusals) = (Program::default(), 0);
    for spec in &specs {
        assert!(declare::declaration(spec).len() < 4_000, "{}", declare::declaration(spec));
        let validator = jsonschema::validator_for(&spec.input_schema).unwrap();
        let least = required(&spec.input_schema, &spec.input_schema);
        let mut most = least.clone();
        let all = spec.input_schema.get("properties").and_then(Value::as_object);
        for (name, schema) in all.into_iter().flatten() {
            most.entry(name.clone()).or_insert_with(|| sample(schema, &spec.input_schema));
        }
        let taken: Vec<_> = [least.clone(), most.clone()].map(Value::Object).into();
        let taken: Vec<_> = taken.into_iter().filter(|value| validator.is_valid(value)).collect();
        assert!(!taken.is_empty(), "{} takes no {least:?}", spec.name);
        // Each field of the wrong kind, and each required one left out.
        let mut refused = Vec::new();
        for name in most.keys() {
            let mut wrong = most.clone();
            wrong.insert(name.clone(), json!({"of": ["another kind"]}));
            refused.push(Value::Object(wrong));
            let mut without = least.clone();
            refused.extend(without.remove(name).map(|_| Value::Object(without)));
        }
        refused.retain(|value| !validator.is_valid(value));
        refusals += refused.len();
        program.arguments(spec, &taken, &refused);
        if let Some(schema) = &spec.output_schema {
            let result = sample(schema, schema);
            assert!(jsonschema::is_valid(schema, &result), "{} gives no {result}", spec.name);
            program.results(spec, &[result], &[json!(5)]);
        }
        // All the signatures of a server are types, too.
        program.add(&format!("type Of = {{ {} }};", declare::signature(spec).split_once('.').unwrap().1));
    }
    assert!(refusals > 50, "{refusals}");
    program.compile();
    servers.close().await;
}
