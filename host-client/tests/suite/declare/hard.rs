//! Every kind of schema, with values that it takes and refuses: the type has to agree, as far as a type can.

use host_client::{ToolSpec, declare};
use serde_json::{Value, json};

use super::compiler::Program;

/// A schema, what fits it, and what does not for a reason that a type can say.
struct Case(&'static str, Value, Vec<Value>, Vec<Value>);

fn cases() -> Vec<Case> {
    let tree = json!({"type": "object", "properties": {
        "value": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#"}},
    }, "required": ["value"]});
    let json_value = json!({"anyOf": [
        {"type": ["string", "number", "boolean", "null"]},
        {"type": "array", "items": {"$ref": "#/$defs/json"}},
        {"type": "object", "additionalProperties": {"$ref": "#/$defs/json"}},
    ]});
    vec![
        Case(
            "required-and-optional",
            json!({"type": "object", "required": ["query"], "properties": {
                "query": {"type": "string", "description": "What to look for"},
                "limit": {"type": "integer", "default": 10, "minimum": 1, "maximum": 50},
            }}),
            vec![json!({"query": "x"}), json!({"query": "x", "limit": 3})],
            vec![json!({}), json!({"limit": 3}), json!({"query": 1}), json!({"query": "x", "limit": "3"})],
        ),
        Case("zero", json!({"type": "object"}), vec![json!({})], vec![]),
        // Names that begin alike, and one for every other string: a type is named only where it is meant.
        Case(
            "alike",
            json!({"type": "object", "required": ["y", "z"], "properties": {
                "y": {"$ref": "#/$defs/A"}, "z": {"$ref": "#/$defs/Big"},
            }, "$defs": {
                "A": {"$ref": "#/$defs/B"},
                "B": {"type": "object", "required": ["n"], "properties": {"n": {"type": "number"}}},
                "Big": {"type": "object", "required": ["s"], "properties": {"s": {"type": "string"}}},
            }}),
            vec![json!({"y": {"n": 1}, "z": {"s": "x"}})],
            vec![json!({"y": {"s": "x"}, "z": {"s": "x"}}), json!({"y": {"n": 1}, "z": {"n": 1}})],
        ),
        Case(
            "one-of-many-strings",
            json!({"type": "object", "required": ["id"], "properties": {
                "id": {"$ref": "#/$defs/UserId"}, "name": {"type": "string", "description": "kind: string of name"},
                "tags": {"type": "array", "items": {"type": "string"}},
            }, "$defs": {"UserId": {"enum": ["u1", "u2"], "x-k": 1}}}),
            vec![json!({"id": "u1", "name": "any", "tags": ["x"]})],
            vec![json!({"id": "other"})],
        ),
        Case(
            "zero2",
            json!({"type": "object", "properties": {}, "additionalProperties": false}),
            vec![json!({})],
            vec![],
        ),
        Case(
            "enums",
            json!({"type": "object", "required": ["a", "b"], "properties": {
                "a": {"enum": ["x", "y\"\n", 3, true, null, [1, {"k": "v"}], {"a b": {}}]}, "b": {"const": "fixed"},
            }}),
            vec![
                json!({"a": "x", "b": "fixed"}),
                json!({"a": "y\"\n", "b": "fixed"}),
                json!({"a": 3, "b": "fixed"}),
                json!({"a": null, "b": "fixed"}),
                json!({"a": [1, {"k": "v"}], "b": "fixed"}),
                json!({"a": {"a b": {}}, "b": "fixed"}),
            ],
            vec![
                json!({"a": "z", "b": "fixed"}),
                json!({"a": "x", "b": "other"}),
                json!({"a": [2, {"k": "v"}], "b": "fixed"}),
            ],
        ),
        Case(
            "nullable",
            json!({"type": "object", "properties": {
                "a": {"type": ["string", "null"]}, "b": {"type": "string", "nullable": true},
                "c": {"$ref": "#/$defs/point", "nullable": true}, "d": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            }, "$defs": {"point": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}}}),
            vec![json!({"a": null, "d": null}), json!({"a": "x", "c": {"x": 1}, "d": 1})],
            vec![json!({"a": 1}), json!({"b": 1}), json!({"c": {}}), json!({"c": 1}), json!({"d": "x"})],
        ),
        Case(
            "root-one-of",
            json!({"type": "object", "required": ["kind"], "properties": {
                "kind": {"type": "string"}, "id": {"type": "integer"}, "name": {"type": "string"},
            }, "oneOf": [{"required": ["id"]}, {"required": ["name"]}]}),
            vec![json!({"kind": "a", "id": 1}), json!({"kind": "a", "name": "x"})],
            vec![json!({"kind": "a"}), json!({"id": 1}), json!({"kind": "a", "id": "x"})],
        ),
        Case(
            "discriminated",
            json!({"oneOf": [
                {"type": "object", "properties": {"type": {"const": "circle"}, "r": {"type": "number"}}, "required": ["type", "r"]},
                {"type": "object", "properties": {"type": {"const": "square"}, "a": {"type": "number"}}, "required": ["type", "a"]},
            ]}),
            vec![json!({"type": "circle", "r": 1}), json!({"type": "square", "a": 1})],
            vec![json!({"type": "circle", "a": 1}), json!({"type": "line"}), json!({"type": "square"})],
        ),
        Case(
            "all-of",
            json!({"allOf": [
                {"$ref": "#/definitions/named"},
                {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]},
                {"required": ["note"]},
            ], "definitions": {"named": {"type": "object", "properties": {
                "name": {"type": "string"}, "note": {"type": "string"}}, "required": ["name"]}}}),
            vec![json!({"name": "x", "size": 1, "note": "n"})],
            vec![
                json!({"name": "x", "size": 1}),
                json!({"size": 1, "note": "n"}),
                json!({"name": 1, "size": 1, "note": "n"}),
            ],
        ),
        Case(
            "tree",
            tree,
            vec![json!({"value": "a", "children": [{"value": "b", "children": []}]})],
            vec![
                json!({"children": []}),
                json!({"value": "a", "children": [{"value": 1}]}),
                json!({"value": "a", "children": [{}]}),
            ],
        ),
        Case(
            "json",
            json!({"type": "object", "properties": {"value": {"$ref": "#/$defs/json"}}, "required": ["value"],
                "$defs": {"json": json_value}}),
            vec![json!({"value": {"a": [1, "x", null, {"b": {}}]}}), json!({"value": 1})],
            vec![json!({})],
        ),
        Case(
            "mutual",
            json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "required": ["a"], "$defs": {
                "a": {"type": "object", "properties": {"b": {"$ref": "#/$defs/b"}}},
                "b": {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}, "n": {"type": "number"}}, "required": ["n"]},
            }}),
            vec![json!({"a": {}}), json!({"a": {"b": {"n": 1, "a": {}}}})],
            vec![json!({"a": {"b": {}}}), json!({"a": {"b": {"n": 1, "a": {"b": 1}}}})],
        ),
        Case(
            "anchor",
            json!({"type": "object", "properties": {"at": {"$ref": "#place"}}, "required": ["at"], "$defs": {
                "p": {"$anchor": "place", "type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}}}),
            vec![json!({"at": {"x": 1}})],
            vec![json!({"at": {}}), json!({"at": 1})],
        ),
        Case(
            "tuples",
            json!({"type": "object", "properties": {
                "new": {"type": "array", "prefixItems": [{"type": "number"}, {"type": "string"}], "items": false, "minItems": 2},
                "list": {"type": "array", "items": {"type": ["string", "number"]}},
                "open": {"type": "array"},
            }}),
            vec![json!({"new": [1, "x"], "list": [1, "x"], "open": [1, {}]})],
            vec![
                json!({"new": [1]}),
                json!({"new": ["x", 1]}),
                json!({"new": [1, "x", 2]}),
                json!({"list": [true]}),
                json!({"open": 1}),
            ],
        ),
        Case(
            "old-tuples",
            json!({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": {"old": {
                "type": "array", "items": [{"type": "number"}, {"type": "string"}], "additionalItems": {"type": "boolean"},
            }}}),
            vec![json!({"old": [1, "x", true, false]}), json!({"old": []}), json!({"old": [1]})],
            vec![json!({"old": ["x"]}), json!({"old": [1, "x", 1]})],
        ),
        Case(
            "maps",
            json!({"type": "object", "properties": {
                "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
                "patterns": {"type": "object", "patternProperties": {"^x-": {"type": "string"}}, "additionalProperties": false},
                "mixed": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"],
                    "additionalProperties": {"type": "number"}},
                "free": {"type": "object", "additionalProperties": true},
                "half": {"type": "object", "patternProperties": {"^x-": {"type": "string"}}},
            }}),
            vec![
                json!({"counts": {"a": 1}, "patterns": {"x-a": "b"}, "mixed": {"id": "i", "n": 1}, "free": {"a": []}}),
                json!({"half": {"x-a": "b", "y": 5}}),
            ],
            vec![
                json!({"counts": {"a": "x"}}),
                json!({"patterns": {"x-a": 1}}),
                json!({"mixed": {"n": 1}}),
                json!({"mixed": {"id": "i", "n": true}}),
                json!({"free": 1}),
            ],
        ),
        Case(
            "odd-names",
            json!({"type": "object", "required": ["a-b"], "properties": {
                "a-b": {"type": "string"}, "": {"type": "number"}, "__proto__": {"type": "number"}, "new": {"type": "boolean"},
                "get": {"type": "number"}, "readonly": {"type": "number"}, "*/ evil": {"type": "number"}, "a\nb\u{2028}": {"type": "number"},
                "constructor": {"type": "string"}, "1": {"type": "number"},
            }}),
            vec![
                json!({"a-b": "x", "": 1, "new": true, "get": 1, "readonly": 2, "*/ evil": 3, "a\nb\u{2028}": 4, "1": 5, "constructor": "c"}),
            ],
            vec![
                json!({"a-b": 1}),
                json!({"a-b": "x", "new": 1}),
                json!({"a-b": "x", "*/ evil": "x"}),
                json!({"a-b": "x", "a\nb\u{2028}": "x"}),
            ],
        ),
        Case(
            "never",
            json!({"type": "object", "properties": {"no": false, "any": true, "some": {}}}),
            vec![json!({"any": 1, "some": []})],
            vec![json!({"no": 1})],
        ),
        Case(
            "only-some-keywords",
            json!({"type": "object", "properties": {"s": {"minLength": 2}, "o": {"properties": {"x": {"type": "number"}}},
                "n": {"not": {"type": "string"}}, "w": {"type": "string", "anyOf": [{"pattern": "a"}, {"pattern": "b"}]}}}),
            vec![json!({"s": "xx", "o": {"x": 1}, "n": 1, "w": "a"})],
            vec![json!({"o": {"x": "1"}}), json!({"w": 1})],
        ),
        Case(
            "large-enum",
            json!({"type": "object", "properties": {"zone": {"enum": (0..500).map(|it| format!("zone-{it}")).collect::<Vec<_>>()}}}),
            vec![json!({"zone": "zone-499"})],
            vec![json!({"zone": 1})],
        ),
    ]
}

#[test]
fn types_agree_with_schemas() {
    let mut program = Program::default();
    for Case(name, schema, taken, refused) in cases() {
        let validator = jsonschema::validator_for(&schema).unwrap();
        for value in &taken {
            // `nullable` is no keyword of JSON Schema.
            assert!(validator.is_valid(value), "{name} refuses {value}");
        }
        for value in &refused {
            assert!(!validator.is_valid(value), "{name} takes {value}");
        }
        let spec = ToolSpec::new(format!("my-hard.{name}"), "A hard one", schema.clone());
        program.arguments(&spec, &taken, &refused);
        let spec =
            ToolSpec::new(format!("my-hard.{name}"), "A hard one", json!({"type": "object"})).output_schema(schema);
        program.results(&spec, &taken, &refused);
    }
    program.compile();
}

#[test]
fn a_declaration_is_short_and_complete() {
    let spec = ToolSpec::new(
        "my-exa.web.search",
        "Searches the web.\n\nSecond line.",
        json!({"type": "object", "required": ["query"], "properties": {
            "limit": {"type": "integer", "default": 10, "minimum": 1},
            "query": {"type": "string", "description": "What to look for"},
        }}),
    )
    .output_schema(json!({"type": "object", "required": ["results"], "properties": {
        "results": {"type": "array", "items": {"type": "string"}}}}));
    assert_eq!(
        declare::declaration(&spec),
        r#"declare namespace my_exa {
  /**
   * Searches the web.
   * Second line.
   *
   * mcp.call("my-exa.web.search", args)
   */
  function web_search(args: {
    /** What to look for */
    query: string;
    /** integer, at least 1, default 10 */
    limit?: number;
  }): Promise<{ results: string[] }>;
}
"#
    );
    let signature = "my_exa.web_search(args: { query: string; limit?: number }): Promise<{ results: string[] }>";
    assert_eq!(declare::signature(&spec), signature);
    let none = ToolSpec::new("time.now", "", json!({"type": "object", "properties": {}}));
    assert_eq!(declare::signature(&none), "time.now(args?: {}): Promise<unknown>");
    let optional = json!({"type": "object", "properties": {"zone": {"type": "string"}}});
    assert_eq!(
        declare::signature(&ToolSpec::new("a.b", "", optional)),
        "a.b(args?: { zone?: string }): Promise<unknown>"
    );
}

#[test]
fn a_type_that_holds_itself_has_a_name() {
    let tree = json!({"type": "object", "properties": {"next": {"$ref": "#"}}, "title": "Node"});
    let spec = ToolSpec::new("a.walk", "", tree);
    let text = declare::declaration(&spec);
    assert!(text.contains("  type WalkNode = { next?: WalkNode };\n"), "{text}");
    assert!(text.contains("  function walk(args?: WalkNode): Promise<unknown>;\n"), "{text}");
}
