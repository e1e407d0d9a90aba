//! Regular expressions of a schema that the engine of this host cannot take, such as those with lookaround: they are
//! left out of the check, in such a way that the rest of the schema refuses nothing that the whole would take.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::schema::{BY_NAME_KEYWORDS, DATA_KEYWORDS, REFERENCE_KEYWORDS};

/// The most regular expressions that a note names.
const MAX_NAMED: usize = 3;

/// Says that these regular expressions are not checked; `None`: there are none. `of`: the arguments or the results.
pub(super) fn unchecked_note(of: &str, patterns: &[String]) -> Option<String> {
    let named: Vec<String> = patterns.iter().take(MAX_NAMED).map(|pattern| format!("{pattern:.100?}")).collect();
    let more = match patterns.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let note = format!(
        "its {of} are not checked against patterns that the engine of this host cannot take: {}{more}",
        named.join(", ")
    );
    (!patterns.is_empty()).then_some(note)
}

/// A schema without the regular expressions that the engine cannot take.
pub(super) struct Loosened {
    pub(super) schema: Value,
    /// The regular expressions that were left out, sorted. There is at least one.
    pub(super) left_out: BTreeSet<String>,
}

/// Leaves the regular expressions out that `is_taken` refuses; `None`: there are none of that kind.
pub(super) fn loosened(schema: &Value, is_taken: impl Fn(&str) -> bool) -> Option<Loosened> {
    let mut all = BTreeSet::new();
    collect(schema, &mut all);
    let left_out: BTreeSet<String> = all.into_iter().filter(|pattern| !is_taken(pattern)).map(str::to_owned).collect();
    if left_out.is_empty() {
        return None;
    }
    let schema = Loosening { left_out: &left_out }.schema(schema);
    Some(Loosened { schema, left_out })
}

/// Collects the regular expressions of a schema.
fn collect<'a>(schema: &'a Value, found: &mut BTreeSet<&'a str>) {
    match schema {
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        Value::Object(members) => {
            for (keyword, value) in members {
                match (keyword.as_str(), value) {
                    ("pattern", Value::String(pattern)) => drop(found.insert(pattern)),
                    (keyword, Value::Object(by_name)) if BY_NAME_KEYWORDS.contains(&keyword) => {
                        if keyword == "patternProperties" {
                            found.extend(by_name.keys().map(String::as_str));
                        }
                        by_name.values().for_each(|schema| collect(schema, found));
                    }
                    (keyword, _) if DATA_KEYWORDS.contains(&keyword) => {}
                    _ => collect(value, found),
                }
            }
        }
        _ => {}
    }
}

struct Loosening<'a> {
    left_out: &'a BTreeSet<String>,
}

impl Loosening<'_> {
    /// Returns a schema that takes everything that this one takes.
    fn schema(&self, schema: &Value) -> Value {
        let members = match schema {
            Value::Object(members) => members,
            Value::Array(items) => return items.iter().map(|item| self.schema(item)).collect(),
            other => return other.clone(),
        };
        let mut loose = Map::new();
        let mut also = Vec::new();
        let is_affected = |keyword: &str| members.get(keyword).is_some_and(|value| self.affects(value));
        let has_affected_condition = is_affected("if");
        for (keyword, value) in members {
            let value = match (keyword.as_str(), value) {
                ("pattern", Value::String(pattern)) if self.left_out.contains(pattern) => continue,
                ("patternProperties", Value::Object(patterns)) => self.pattern_properties(patterns),
                (keyword, Value::Object(by_name)) if BY_NAME_KEYWORDS.contains(&keyword) => {
                    by_name.iter().map(|(name, schema)| (name.clone(), self.schema(schema))).collect()
                }
                (keyword, value) if DATA_KEYWORDS.contains(&keyword) => value.clone(),
                // What a looser schema takes, these would refuse.
                ("not", value) if self.affects(value) => continue,
                ("maxContains", _) if is_affected("contains") => continue,
                ("oneOf", value) if self.affects(value) => {
                    also.push(json!({"anyOf": self.schema(value)}));
                    continue;
                }
                ("then" | "else", _) if has_affected_condition => continue,
                ("if", condition) if has_affected_condition => {
                    let branch = |keyword: &str| members.get(keyword).map_or(Value::Bool(true), |it| self.schema(it));
                    let (then, otherwise) = (branch("then"), branch("else"));
                    also.push(json!({"anyOf": [{"allOf": [self.schema(condition), then]}, otherwise]}));
                    continue;
                }
                (_, value) => self.schema(value),
            };
            loose.insert(keyword.clone(), value);
        }
        if !also.is_empty() {
            match loose.entry("allOf").or_insert_with(|| Value::Array(Vec::new())) {
                Value::Array(all) => all.extend(also),
                // Something else is no JSON Schema, and is refused as such.
                _ => return schema.clone(),
            }
        }
        Value::Object(loose)
    }

    /// Returns the member `patternProperties` where any name fits an expression that is left out.
    fn pattern_properties(&self, patterns: &Map<String, Value>) -> Value {
        let mut loose = Map::new();
        for (pattern, schema) in patterns {
            if self.left_out.contains(pattern) {
                // The empty expression fits every name. Without it, `additionalProperties` would refuse the names.
                loose.entry("").or_insert(Value::Bool(true));
            } else {
                loose.insert(pattern.clone(), self.schema(schema));
            }
        }
        Value::Object(loose)
    }

    /// Returns `true` if a schema may depend on an expression that is left out. One with a reference may.
    fn affects(&self, schema: &Value) -> bool {
        match schema {
            Value::Array(items) => items.iter().any(|item| self.affects(item)),
            Value::Object(members) => members.iter().any(|(keyword, value)| match (keyword.as_str(), value) {
                ("pattern", Value::String(pattern)) => self.left_out.contains(pattern),
                (keyword, Value::String(_)) => REFERENCE_KEYWORDS.contains(&keyword),
                ("patternProperties", Value::Object(patterns)) => {
                    patterns.iter().any(|(pattern, schema)| self.left_out.contains(pattern) || self.affects(schema))
                }
                (keyword, Value::Object(by_name)) if BY_NAME_KEYWORDS.contains(&keyword) => {
                    by_name.values().any(|schema| self.affects(schema))
                }
                (keyword, _) if DATA_KEYWORDS.contains(&keyword) => false,
                (_, value) => self.affects(value),
            }),
            _ => false,
        }
    }
}
