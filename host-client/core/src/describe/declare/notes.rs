//! Comments on values: a schema's description and the restrictions that a type cannot express, in a few words.

use serde_json::{Map, Value};

use super::text::comment_line;

/// The most bytes of a format, a pattern or a default. Longer ones are left out.
const MAX_VALUE_BYTES: usize = 60;

/// Returns the comment on a value as one line, which is empty if there is nothing to say. `target` is the schema that
/// this one refers to, if any: its description is used if this one has none, and its restrictions are added.
pub(super) fn comment_for(schema: &Value, target: Option<&Value>) -> String {
    let Some(members) = schema.as_object() else { return String::new() };
    let target = target.and_then(Value::as_object);
    let described = |members: &Map<String, Value>| Some(comment_line(members.get("description")?.as_str()?));
    let description = described(members).or_else(|| target.and_then(described)).unwrap_or_default();
    let mut notes = Vec::new();
    for members in [Some(members), target].into_iter().flatten() {
        constraints(members, &mut notes);
    }
    let notes = notes.join(", ");
    let mut line = match (description.is_empty(), notes.is_empty()) {
        (_, true) => description,
        (true, false) => notes,
        (false, false) => format!("{description} ({notes})"),
    };
    if members.get("deprecated") == Some(&Value::Bool(true)) {
        line = format!("@deprecated {line}").trim_end().to_owned();
    }
    line
}

/// Adds the restrictions of a schema that a type cannot express.
fn constraints(members: &Map<String, Value>, notes: &mut Vec<String>) {
    let is_integer =
        members.get("type").is_some_and(|it| it == "integer" || it == &serde_json::json!(["integer", "null"]));
    if is_integer {
        notes.push("integer".into());
    }
    if let Some(format) = members.get("format").and_then(Value::as_str).filter(|it| it.len() <= MAX_VALUE_BYTES) {
        notes.push(comment_line(format));
    }
    let number = |keyword: &str| members.get(keyword).filter(|it| it.is_number());
    notes.extend(between(number("minimum"), number("maximum"), ""));
    notes.extend(number("exclusiveMinimum").map(|least| format!("more than {least}")));
    notes.extend(number("exclusiveMaximum").map(|most| format!("less than {most}")));
    notes.extend(number("multipleOf").map(|step| format!("a multiple of {step}")));
    notes.extend(between(number("minLength"), number("maxLength"), " characters"));
    notes.extend(between(number("minItems"), number("maxItems"), " items"));
    if members.get("uniqueItems") == Some(&Value::Bool(true)) {
        notes.push("no item twice".into());
    }
    if let Some(pattern) = members.get("pattern").and_then(Value::as_str).filter(|it| it.len() <= MAX_VALUE_BYTES) {
        notes.push(format!("matches {}", comment_line(pattern)));
    }
    let default = members.get("default").filter(|it| !it.is_null()).map(Value::to_string);
    notes.extend(default.filter(|it| it.len() <= MAX_VALUE_BYTES).map(|it| format!("default {}", comment_line(&it))));
}

/// Returns a range in words; `None`: it does not restrict values of the kind.
fn between(least: Option<&Value>, most: Option<&Value>, unit: &str) -> Option<String> {
    let zero = |it: &&Value| unit.is_empty() || it.as_u64() != Some(0);
    // The bounds of 32-bit and 64-bit integers come from the types of some program, and help nobody.
    let is_meant = |it: &&Value| it.as_f64().is_some_and(|number| number.abs() < 2_147_483_647.0);
    let counted = |number: &Value| if number == 1 { unit.trim_end_matches('s') } else { unit }.to_owned();
    match (least.filter(zero).filter(is_meant), most.filter(is_meant)) {
        (Some(least), Some(most)) if least == most => Some(format!("{least}{}", counted(least))),
        (Some(least), Some(most)) => Some(format!("{least} to {most}{unit}")),
        (Some(least), None) => Some(format!("at least {least}{}", counted(least))),
        (None, Some(most)) => Some(format!("at most {most}{}", counted(most))),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::comment_for;

    #[test]
    fn what_a_type_cannot_say_is_said_in_words() {
        for (schema, expected) in [
            (
                json!({"description": "How many", "type": "integer", "minimum": 1, "maximum": 9, "default": 3}),
                "How many (integer, 1 to 9, default 3)",
            ),
            (json!({"type": "string", "format": "date-time", "minLength": 1}), "date-time, at least 1 character"),
            (
                json!({"exclusiveMinimum": 0, "pattern": "^*/$", "deprecated": true}),
                "@deprecated more than 0, matches ^*\\/$",
            ),
            (json!({"minItems": 2, "maxItems": 2, "uniqueItems": true}), "2 items, no item twice"),
            (json!({"minimum": -9007199254740991_i64, "maximum": 9007199254740991_i64}), ""),
            (json!({"minimum": "x", "format": 5, "default": null, "description": []}), ""),
            (json!(true), ""),
        ] {
            assert_eq!(comment_for(&schema, None), expected, "{schema}");
        }
    }
}
