use relay_proto::ToolPatterns;
use relay_test_support::catalogue;
use serde_json::{Value, json};

use super::catalogue::estimate_tokens;
use super::declare::{declaration, signature};
use crate::introspect;
use crate::tool::ToolSpec;
use crate::tools::Tools;

fn real_tools() -> Tools {
    let tools = Tools::new();
    for listed in catalogue::tools() {
        let mut spec = ToolSpec::new(listed.name, listed.description, listed.input_schema);
        spec.output_schema = listed.output_schema;
        tools.add_with(spec, |_, _| std::future::pending()).unwrap();
    }
    tools
}

#[test]
fn lists_and_maps_of_plain_values_are_written_out_at_any_level() {
    let signature = signature(&real_tools().spec("memory.create_entities").unwrap());
    let entity = "{ name: string; entityType: string; observations: string[] }";
    assert!(signature.contains(&format!("args: {{ entities: {entity}[] }}")), "{signature}");
    let map = json!({"type": "object", "additionalProperties": {"type": "number"}});
    let deep =
        json!({"properties": {"a": {"properties": {"b": {"properties": {"map": map, "list": {"type": "array"}}}}}}});
    let signature = super::declare::signature(&ToolSpec::new("a.b", "", deep));
    assert!(signature.contains("list?: unknown; map?: Record<string, number>"), "{signature}");
}

#[test]
fn a_tool_with_much_in_its_arguments_keeps_what_it_needs() {
    let values: Vec<_> = (0..50).map(|number| format!("value_number_{number}")).collect();
    let mut members: serde_json::Map<_, _> =
        (0..60).map(|number| (format!("option_number_{number:02}"), json!({"type": "string"}))).collect();
    members.insert("kind".into(), json!({"enum": values}));
    let filter = json!({"type": "object", "required": ["kind"], "properties": members});
    let of = |schema: Value| signature(&ToolSpec::new("shop.find", "", schema));
    let nested = of(json!({"type": "object", "required": ["filter"], "properties": {"filter": filter}}));
    assert!(nested.starts_with("shop.find(args: { filter: { kind: string; option_number_00?: string;"), "{nested}");
    assert!(nested.contains(" more */ } }): Promise<unknown>") && nested.len() <= 400, "{nested}");
    let flat = of(filter.clone());
    assert!(flat.starts_with("shop.find(args: { kind: string; option_number_00?: string;"), "{flat}");
    let referred = of(json!({"$ref": "#/$defs/Filter", "$defs": {"Filter": filter}}));
    assert!(referred.contains("(args: { kind: "), "{referred}");
}

#[test]
fn examples_in_a_description_stay_as_they_are() {
    let description = "Changes files:\n*** Begin Patch\n*** Update File: a\n@@\n stays\n-goes\n+comes\n*** Add File: b\n\
                       +one\n+two\n+three\n+four\n+five\n+six\n*** End Patch\nThat is all.";
    let text = declaration(&ToolSpec::new("files.patch", description, json!({})));
    assert!(text.contains("   * @@\n   *  stays\n   * -goes\n"), "{text}");
    assert!(text.contains("   * *** End Patch\n   * That is all.\n"), "{text}");
    let docstring = "Finds things.\n\n    Arguments:\n        name: what to find\n    ";
    let text = declaration(&ToolSpec::new("files.find", docstring, json!({})));
    assert!(text.contains("   * Finds things.\n   * Arguments:\n   *     name: what to find\n"), "{text}");
    let long = "An example.\n".repeat(5_000);
    let text = declaration(&ToolSpec::new("files.long", long, json!({"properties": {"needed": {"type": "string"}}})));
    assert!(text.contains("   * …\n") && text.contains("needed?: string"), "{text}");
}

#[test]
fn the_overview_types_what_is_used_before_what_is_deprecated_or_long() {
    let tools = real_tools();
    // Room for the types of a part of them.
    let line = |overview: &str, tool: &str| overview.contains(&format!("{tool}(args"));
    let overview = tools.overview(3_000);
    assert!(!line(&overview, "files.read_file") && overview.contains("read_file"), "{overview}");
    assert!(!line(&overview, "github.create_pull_request"), "{overview}");
    let used = tools.get("github.create_pull_request").unwrap();
    tools.declarations().learn(&used, b"1");
    assert!(line(&tools.overview(3_000), "github.create_pull_request"));
    let all = tools.overview(20_000);
    let place = |tool: &str| all.find(&format!("\n{tool}(args")).unwrap();
    assert!(place("files.read_file") < place("files.read_text_file"), "in the order of names");

    let tools = Tools::new();
    for (name, description) in [
        ("a.a", "Deprecated: use b"),
        ("a.b", "Finds packages, also those that are deprecated by their authors, with some words more"),
        ("a.c", "Does it (deprecated)"),
        ("a.d", "An old way. This is deprecated."),
        ("a.e", "[DEPRECATED] Another old way"),
    ] {
        let spec = ToolSpec::new(name, description, json!({"properties": {"field": {"type": "string"}}}));
        tools.add_with(spec, |_, _| std::future::pending()).unwrap();
    }
    let overview = tools.overview(100);
    assert!(overview.contains("5 of 5 tools are shown, 1 of them") && line(&overview, "a.b"), "{overview}");
}

#[test]
fn a_tool_is_declared_to_a_model_once() {
    let tools = real_tools();
    for spec in tools.specs() {
        let declared = introspect::declare(&tools, &ToolPatterns::default(), &spec.name).unwrap();
        let (answer, text) = (declared.to_string(), declaration(&spec));
        assert_eq!(declared["typescript"], text);
        let (tokens, needed) = (estimate_tokens(&answer), estimate_tokens(&text));
        assert!(tokens < needed * 3 / 2 + 20, "{}: {tokens} tokens for {needed}: {answer}", spec.name);
    }
    let deep = (0..15).fold(json!({"type": "string"}), |inner, _| json!({"properties": {"a": inner}}));
    tools.add_with(ToolSpec::new("deep.tool", "", deep.clone()), |_, _| std::future::pending()).unwrap();
    let declared = introspect::declare(&tools, &ToolPatterns::default(), "deep.tool").unwrap();
    assert_eq!(declared["input_schema"], deep, "the declaration shows a part of it only");
}
