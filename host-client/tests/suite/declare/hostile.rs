//! Schemas that are wrong, huge, or written by an attacker: what comes out is valid, within its bound, and holds no code.

use host_client::{ToolSpec, declare};
use serde_json::{Value, json};

use super::compiler::Program;

fn deep(levels: usize, wrap: impl Fn(Value) -> Value) -> Value {
    (0..levels).fold(json!({"type": "string"}), |inner, _| wrap(inner))
}

#[test]
fn wrong_and_huge_schemas_give_something_valid_and_bounded() {
    let wide: serde_json::Map<_, _> = (0..5_000)
        .map(|it| (format!("property_number_{it}"), json!({"type": "string", "description": "d".repeat(200)})))
        .collect();
    let fan: serde_json::Map<_, _> = (0..40)
        .map(|it| {
            let next = json!({"$ref": format!("#/$defs/l{}", it + 1)});
            (format!("l{it}"), json!({"type": "object", "properties": {"a": next, "b": next, "c": next}}))
        })
        .chain([("l40".to_owned(), json!(true))])
        .collect();
    let schemas = [
        json!(true),
        json!(false),
        json!({}),
        json!(null),
        json!(5),
        json!([]),
        json!({"type": 5}),
        json!({"type": "no such type"}),
        json!({"type": []}),
        json!({"type": [5, null]}),
        json!({"properties": 5}),
        json!({"properties": {"a": 5, "b": null, "c": []}}),
        json!({"required": "x"}),
        json!({"required": [1, "a", "a"]}),
        json!({"enum": "x"}),
        json!({"enum": []}),
        json!({"allOf": 5, "anyOf": {}, "oneOf": []}),
        json!({"$ref": "#/nowhere"}),
        json!({"$ref": 5}),
        json!({"$ref": "https://example.com/"}),
        json!({"$ref": "#"}),
        json!({"allOf": [{"$ref": "#"}]}),
        json!({"items": 5, "prefixItems": "x", "additionalProperties": 7}),
        json!({"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
        json!({"type": "object", "properties": wide}),
        json!({"type": "object", "properties": {"k".repeat(100_000): {"type": "string"}}}),
        json!({"enum": ["v".repeat(100_000)]}),
        json!({"$ref": "#/$defs/l0", "$defs": fan}),
        deep(60, |inner| json!({"type": "object", "properties": {"a": inner}})),
        deep(60, |inner| json!({"type": "array", "items": inner})),
        deep(60, |inner| json!({"anyOf": [inner, {"type": "null"}]})),
        deep(120, |inner| json!({"type": "array", "items": inner})),
        json!({"properties": {"n": {"const": -0.0}, "m": {"enum": [1e308, -5, 18446744073709551615_u64]}}}),
        json!({"type": "array", "prefixItems": vec![json!({"type": "string"}); 500]}),
        json!({"anyOf": vec![json!({"type": "object", "properties": {"a": {"const": 1}}}); 500]}),
    ];
    let mut program = Program::default();
    for schema in schemas {
        let spec = ToolSpec::new("odd.tool", "x".repeat(100_000), schema.clone()).output_schema(schema);
        let text = declare::declaration(&spec);
        assert!(text.len() <= declare::MAX_BYTES, "{} bytes", text.len());
        assert!(declare::signature(&spec).len() <= 1_000);
        program.add(&text);
        program.add(&format!("type Of = {{ {} }};", declare::signature(&spec).split_once('.').unwrap().1));
    }
    program.compile();
}

#[test]
fn nothing_in_a_tool_becomes_code() {
    let evil = [
        "*/ } globalThis.pwned = 1; /*",
        "\"; globalThis.pwned = 1; //",
        "`${globalThis.pwned = 1}`",
        "\n*/\nglobalThis.pwned = 1",
        "\u{2028}globalThis.pwned = 1",
        "\\",
        "\\\"",
        "*\u{0}/",
        "*\u{200b}/",
        "</script>",
        "}; pwned = 1; type X = {",
    ];
    let mut program = Program::default();
    for text in evil {
        let schema = json!({
            "title": text, "description": text, "type": "object",
            "properties": {
                text: {"description": text, "type": "string", "default": text, "format": text, "pattern": text},
                "b": {"enum": [text, {text: text}, [text]]}, "c": {"$ref": format!("#/$defs/{}", text.replace('~', "~0").replace('/', "~1"))},
                "d": {"patternProperties": {text: {"type": "string"}}},
            },
            "required": [text],
            "$defs": {text: {"type": "object", "description": text, "properties": {text: {"const": text}}}},
        });
        let name = format!("s{}.{text}", text.replace('.', "_"));
        let spec = ToolSpec::new(name, text, schema.clone()).output_schema(schema);
        let declared = declare::declaration(&spec);
        // Where it stands in a comment or a literal, it is no expression: the compiler knows no `pwned`, and would say so.
        program.add(&format!("{declared}\n// @ts-expect-error\npwned;"));
        assert_eq!(declared.matches("declare namespace").count(), 1, "{declared}");
        assert!(!declared.contains(['\u{2028}', '\u{200b}', '\u{0}']), "{declared}");
    }
    program.compile();
}

#[test]
fn what_is_left_out_is_said() {
    let inner = deep(
        30,
        |inner| json!({"type": "object", "properties": {"a_rather_long_name": inner, "b": {"type": "string"}}}),
    );
    let text = declare::declaration(&ToolSpec::new("a.deep", "", inner));
    assert!(text.contains("Not all of its types are shown") && text.contains("unknown"), "{text}");
}

#[test]
fn every_name_can_be_declared() {
    let names = "any unknown never string number boolean symbol object bigint type namespace module declare abstract async of get \
                 set from as is keyof infer require global undefined Math Promise Record Awaited Partial Intl Date console \
                 constructor prototype toString delete class await eval arguments globalThis __proto__ 123start my-backend \
                 has.dots größe 東京 🙂 a\u{200d}b";
    let mut program = Program::default();
    let schema = json!({"type": "object", "properties": {"next": {"$ref": "#"}, "map": {"additionalProperties": {"type": "string"}}}});
    for name in names.split_whitespace() {
        let server = name.replace('.', "-");
        let spec = ToolSpec::new(format!("{server}.{name}"), "", schema.clone()).output_schema(schema.clone());
        program.arguments(&spec, &[json!({"map": {"a": "b"}})], &[json!({"map": 1}), json!({"next": {"map": 1}})]);
        program.results(&spec, &[json!({"next": {"next": {}}})], &[json!({"next": {"map": {"a": 1}}})]);
    }
    program.compile();
}
