//! The keyword `nullable` of OpenAPI 3.0, which tools of MCP servers have too: JSON Schema does not know it and would
//! refuse the `null` that it allows.

use serde_json::{Map, Value, json};

use super::schema::{BY_NAME_KEYWORDS, DATA_KEYWORDS};

/// Returns the schema with `null` allowed wherever `nullable` is `true`; `None`: it is nowhere.
pub(super) fn with_null(schema: &Value) -> Option<Value> {
    is_anywhere(schema).then(|| allowing(schema))
}

fn is_anywhere(schema: &Value) -> bool {
    match schema {
        Value::Array(items) => items.iter().any(is_anywhere),
        Value::Object(members) => is_nullable(members) || subschemas(members).any(|(_, value)| is_anywhere(value)),
        _ => false,
    }
}

fn is_nullable(members: &Map<String, Value>) -> bool {
    members.get("nullable") == Some(&Value::Bool(true))
}

/// Returns the members of a schema that hold schemas, and those of its members that hold schemas by name.
fn subschemas(members: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    members.iter().filter(|(keyword, _)| !DATA_KEYWORDS.contains(&keyword.as_str())).flat_map(|(keyword, value)| {
        match value {
            Value::Object(by_name) if BY_NAME_KEYWORDS.contains(&keyword.as_str()) => {
                by_name.iter().collect::<Vec<_>>()
            }
            _ => vec![(keyword, value)],
        }
    })
}

fn allowing(schema: &Value) -> Value {
    let members = match schema {
        Value::Object(members) => members,
        Value::Array(items) => return items.iter().map(allowing).collect(),
        other => return other.clone(),
    };
    let translated = members.iter().map(|(keyword, value)| {
        let value = match value {
            value if DATA_KEYWORDS.contains(&keyword.as_str()) => value.clone(),
            Value::Object(by_name) if BY_NAME_KEYWORDS.contains(&keyword.as_str()) => {
                by_name.iter().map(|(name, schema)| (name.clone(), allowing(schema))).collect()
            }
            value => allowing(value),
        };
        (keyword.clone(), value)
    });
    let mut translated: Map<String, Value> = translated.collect();
    if !is_nullable(members) {
        return Value::Object(translated);
    }
    let has_more = ["const", "$ref", "allOf", "anyOf", "oneOf", "not"].iter().any(|it| members.contains_key(*it));
    match translated.get("type") {
        Some(Value::String(kind)) if !has_more => {
            let kinds = json!([kind, "null"]);
            translated.insert("type".into(), kinds);
            if let Some(Value::Array(values)) = translated.get_mut("enum")
                && !values.contains(&Value::Null)
            {
                values.push(Value::Null);
            }
            Value::Object(translated)
        }
        Some(Value::Array(_)) if !has_more => Value::Object(translated),
        _ => json!({"anyOf": [translated, {"type": "null"}]}),
    }
}
