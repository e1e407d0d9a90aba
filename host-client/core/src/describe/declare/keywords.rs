//! Questions about the keywords of a JSON Schema.

use serde_json::{Map, Value};

/// The keywords that do not restrict which values fit. A reference beside them alone is the whole type.
const ANNOTATIONS: [&str; 13] = [
    "$comment",
    "$defs",
    "$id",
    "$schema",
    "default",
    "definitions",
    "deprecated",
    "description",
    "example",
    "examples",
    "nullable",
    "readOnly",
    "title",
];
/// The most values of an `enum` that is written out instead of named.
const MAX_SMALL_ENUM: usize = 8;

/// Returns `true` if a keyword does not restrict which values fit.
pub(super) fn is_annotation(keyword: &str) -> bool {
    ANNOTATIONS.contains(&keyword)
}

/// Returns `true` if a type is short enough to be written out wherever it is referred to, instead of getting a name.
pub(super) fn is_small(schema: &Value) -> bool {
    let Value::Object(members) = schema else { return true };
    let is_short = |value: &Value| value.as_array().is_none_or(|values| values.len() <= MAX_SMALL_ENUM);
    members.iter().all(|(keyword, value)| match keyword.as_str() {
        "enum" => is_short(value),
        "type" => !kinds(members).iter().any(|kind| matches!(*kind, "object" | "array")),
        "const" | "format" | "pattern" | "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum"
        | "multipleOf" | "minLength" | "maxLength" => true,
        other => is_annotation(other),
    })
}

/// Returns the subschemas that a keyword such as `anyOf` lists.
pub(super) fn branches<'a>(members: &'a Map<String, Value>, keyword: &str) -> &'a [Value] {
    members.get(keyword).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Returns the strings in a list, such as that of `required`.
pub(super) fn strings(value: Option<&Value>) -> impl Iterator<Item = &str> {
    value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// Returns the kinds of values that a schema describes: those that `type` names, or else the kind that its other keywords
/// are about. An empty text stands for any kind.
pub(super) fn kinds(members: &Map<String, Value>) -> Vec<&str> {
    match members.get("type") {
        Some(Value::String(kind)) => return vec![kind],
        Some(Value::Array(kinds)) if !kinds.is_empty() => {
            return kinds.iter().map(|it| it.as_str().unwrap_or("")).collect();
        }
        _ => {}
    }
    let has = |keywords: &[&str]| keywords.iter().any(|keyword| members.contains_key(*keyword));
    if has(&["properties", "required", "additionalProperties", "patternProperties"]) {
        vec!["object"]
    } else if has(&["items", "prefixItems"]) {
        vec!["array"]
    } else {
        vec![""]
    }
}
