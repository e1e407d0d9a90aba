//! Holds what is known of arguments against a schema. Only keywords count that every value has to meet, whatever else
//! the schema says, so that each fault is certain.

use relay_proto::spelling::nearest;
use relay_script::Given;
use serde_json::{Map, Value};

/// The most levels of arguments that are looked at.
const MAX_DEPTH: usize = 6;
/// The most faults of one call.
const MAX_FAULTS: usize = 5;
/// The most values of an `enum` that are named.
const MAX_NAMED: usize = 8;

/// Returns the faults of arguments, each in words.
pub(super) fn faults(schema: &Value, given: &Given) -> Vec<String> {
    let mut found = Vec::new();
    // No arguments are `null` to a tool that takes that.
    let is_empty = matches!(given, Given::Object { members, is_open: false } if members.is_empty());
    if !(is_empty && schema.as_object().is_none_or(|schema| takes(schema, "null"))) {
        add(schema, given, "", 0, &mut found);
    }
    found.truncate(MAX_FAULTS);
    found
}

/// Adds the faults of a value at this path.
fn add(schema: &Value, given: &Given, path: &str, depth: usize, found: &mut Vec<String>) {
    let place = if path.is_empty() { "the arguments" } else { path };
    let Value::Object(schema) = schema else {
        if schema == &Value::Bool(false) && !matches!(given, Given::Unknown | Given::Absent) {
            found.push(format!("{place} is not allowed"));
        }
        return;
    };
    if depth > MAX_DEPTH || found.len() >= MAX_FAULTS {
        return;
    }
    let Some(kind) = kind(given) else { return };
    if !takes(schema, kind) {
        let expected = schema.get("type").map(spelled).unwrap_or_default();
        found.push(format!("{place} has to be {expected}, and is {kind}"));
        return;
    }
    if let Some(Value::Array(values)) = schema.get("enum")
        && let Some(value) = scalar(given)
        && !values.iter().any(|known| same(known, &value))
        && !(value.is_null() && schema.get("nullable") == Some(&Value::Bool(true)))
    {
        let known: Vec<_> = values.iter().take(MAX_NAMED).map(ToString::to_string).collect();
        let more = if values.len() > MAX_NAMED { ", …" } else { "" };
        found.push(format!("{place} has to be one of {}{more}, and is {value:.60}", known.join(", ")));
    }
    match given {
        Given::Object { members, is_open } => add_members(schema, members, *is_open, path, depth, found),
        Given::Array(Some(items)) if !schema.contains_key("prefixItems") => {
            let Some(of_items @ Value::Object(_)) = schema.get("items") else { return };
            for (number, item) in items.iter().enumerate() {
                add(of_items, item, &format!("{path}[{number}]"), depth + 1, found);
            }
        }
        _ => {}
    }
}

/// Adds the faults of an object's members.
fn add_members(
    schema: &Map<String, Value>,
    members: &[(String, Given)],
    is_open: bool,
    path: &str,
    depth: usize,
    found: &mut Vec<String>,
) {
    let empty = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    let at = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    let is_there = |name: &str| members.iter().any(|(known, value)| known == name && *value != Given::Absent);
    let required: Vec<&str> = match schema.get("required") {
        Some(Value::Array(names)) if !is_open => {
            names.iter().filter_map(Value::as_str).filter(|name| !is_there(name)).collect()
        }
        _ => Vec::new(),
    };
    let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false))
        && schema.get("patternProperties").is_none_or(|patterns| patterns.as_object().is_some_and(Map::is_empty));
    for name in &required {
        found.push(format!("{:.100} is missing", at(name)));
    }
    for (name, value) in members {
        if let Some(of_member) = properties.get(name) {
            add(of_member, value, &at(name), depth + 1, found);
        } else if is_closed && kind(value).is_some() {
            // The member that is missing is more likely meant than one that is there.
            let known = || properties.keys().map(String::as_str);
            let near = nearest(name, required.iter().copied()).or_else(|| nearest(name, known()));
            let hint = near.map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
            found.push(format!("there is no {:.100}{hint}", at(name)));
        }
    }
}

/// Returns the kind of a value as JSON Schema names it; `None`: it is not known.
fn kind(given: &Given) -> Option<&'static str> {
    Some(match given {
        Given::Unknown | Given::Absent => return None,
        Given::Null => "null",
        Given::Bool(_) => "boolean",
        Given::Number(number) if !number.is_finite() => return None,
        Given::Number(number) if number.fract() == 0.0 => "integer",
        Given::Number(_) => "number",
        Given::Text(_) => "string",
        Given::Array(_) => "array",
        Given::Object { .. } => "object",
    })
}

/// Returns `true` if a schema's `type` takes a kind of value.
fn takes(schema: &Map<String, Value>, kind: &str) -> bool {
    let is = |known: &Value| known == kind || (kind == "integer" && known == "number");
    let is_nullable = kind == "null" && schema.get("nullable") == Some(&Value::Bool(true));
    match schema.get("type") {
        Some(known @ Value::String(_)) => is(known) || is_nullable,
        Some(Value::Array(known)) => known.iter().any(is) || is_nullable,
        _ => true,
    }
}

/// Returns a schema's `type` in words.
fn spelled(kinds: &Value) -> String {
    match kinds {
        Value::String(kind) => kind.clone(),
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        _ => String::new(),
    }
}

/// Returns a value that is known and no list or object.
fn scalar(given: &Given) -> Option<Value> {
    match given {
        Given::Null => Some(Value::Null),
        Given::Bool(value) => Some((*value).into()),
        Given::Number(number) => serde_json::Number::from_f64(*number).map(Value::Number),
        Given::Text(Some(text)) => Some(text.as_str().into()),
        _ => None,
    }
}

/// Returns `true` if two values are the same, numbers by their value.
fn same(one: &Value, other: &Value) -> bool {
    one == other || one.as_f64().is_some_and(|number| Some(number) == other.as_f64())
}
