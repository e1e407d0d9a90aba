//! The check of a tool's schema when the tool is registered. A schema comes from a tool's author, who is not trusted,
//! and is evaluated on arguments that come from a relay: a schema whose evaluation could take very long, or never end,
//! is refused.
//!
//! The check bounds the cost of a schema: the number of subschemas that are evaluated for one place of a value, with
//! all references written out. This is enough, because the validator caches its results where a schema contains itself.

use std::collections::HashMap;

use serde_json::Value;

/// The most bytes of a schema's JSON, 1 MiB.
const MAX_BYTES: usize = 1 << 20;
/// The highest cost of a schema: the number of its subschemas, with every reference written out.
const MAX_COST: u64 = 10_000;
/// The most levels of a schema, with every reference written out.
const MAX_DEPTH: usize = 100;
/// The most regular expressions in a schema.
const MAX_PATTERNS: usize = 200;

/// The keywords whose subschemas apply to the value itself, not to a part of it.
const IN_PLACE_KEYWORDS: [&str; 9] =
    ["allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"];
/// The keywords that hold an object of subschemas by name. The names are no keywords, whatever they are.
pub(super) const BY_NAME_KEYWORDS: [&str; 6] =
    ["properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"];
/// The keywords that hold values, not subschemas.
pub(super) const DATA_KEYWORDS: [&str; 4] = ["const", "default", "enum", "examples"];
/// The keywords that hold subschemas which apply only where a reference points to them.
const DEFINITION_KEYWORDS: [&str; 2] = ["$defs", "definitions"];
/// The keywords that hold references.
pub(super) const REFERENCE_KEYWORDS: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// The result of checking a schema that is usable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Checked {
    /// The number of subschemas, with every reference written out up to where the schema contains itself.
    pub(crate) cost: u64,
    /// The number of places where the schema contains itself, as that of a tree does; 0: it does not.
    pub(crate) recursions: u64,
}

impl Checked {
    fn and(self, other: Self) -> Self {
        let (cost, recursions) =
            (self.cost.saturating_add(other.cost), self.recursions.saturating_add(other.recursions));
        Self { cost, recursions }
    }
}

/// Checks that the evaluation of a schema ends, and soon.
///
/// # Errors
/// The schema is too large or too deep, refers to itself in a loop, refers to something outside of itself, or costs too
/// much to evaluate. The text says which.
pub(crate) fn check(schema: &Value) -> Result<Checked, String> {
    let bytes = schema.to_string().len();
    if bytes > MAX_BYTES {
        return Err(format!("its schema has {bytes} bytes; at most {MAX_BYTES} are taken"));
    }
    let mut check = Check { root: schema, costs: HashMap::new(), open: Vec::new(), patterns: 0 };
    let checked = check.cost(schema, true)?;
    // The validator compiles all definitions, also those without references.
    check.definitions(schema, 0)?;
    Ok(checked)
}

/// The state of a check.
struct Check<'a> {
    root: &'a Value,
    /// The costs of the subschemas that were visited, by their address.
    costs: HashMap<*const Value, Checked>,
    /// The subschemas around the current one; `true`: it applies to the same value as the one around it.
    open: Vec<(*const Value, bool)>,
    /// The number of regular expressions so far.
    patterns: usize,
}

impl<'a> Check<'a> {
    /// Returns the number of subschemas in this one, itself included, with references written out. `in_place` is `true`
    /// if it applies to the same value as the schema around it.
    ///
    /// # Errors
    /// The schema is too deep, refers to itself in a loop, or costs too much.
    fn cost(&mut self, schema: &'a Value, in_place: bool) -> Result<Checked, String> {
        let place = std::ptr::from_ref(schema);
        if let Some(known) = self.costs.get(&place) {
            return Ok(*known);
        }
        if let Some(at) = self.open.iter().position(|(open, _)| *open == place) {
            let stays = in_place && self.open.iter().skip(at + 1).all(|(_, in_place)| *in_place);
            let again = Checked { cost: 1, recursions: 1 };
            return if stays { Err("its schema refers to itself in a loop".into()) } else { Ok(again) };
        }
        if self.open.len() >= MAX_DEPTH {
            return Err(format!("its schema nests more than {MAX_DEPTH} levels"));
        }
        self.open.push((place, in_place));
        let cost = match schema {
            Value::Object(members) => self.members(members)?,
            Value::Array(items) => {
                let mut cost = Checked::default();
                for item in items {
                    cost = cost.and(self.cost(item, in_place)?);
                }
                cost
            }
            _ => Checked::default(),
        };
        self.open.pop();
        if cost.cost > MAX_COST {
            return Err(format!("its schema asks more than {MAX_COST} questions, with its references written out"));
        }
        self.costs.insert(place, cost);
        Ok(cost)
    }

    /// Returns the cost of a schema that is an object.
    fn members(&mut self, members: &'a serde_json::Map<String, Value>) -> Result<Checked, String> {
        let mut cost = Checked { cost: 1, recursions: 0 };
        for (keyword, value) in members {
            let keyword = keyword.as_str();
            match value {
                Value::String(reference) if REFERENCE_KEYWORDS.contains(&keyword) => {
                    let target = self.target(reference)?;
                    cost = cost.and(self.cost(target, true)?);
                }
                Value::String(_) if keyword == "pattern" => self.count_pattern()?,
                Value::Object(_) | Value::Array(_)
                    if !DATA_KEYWORDS.contains(&keyword) && !DEFINITION_KEYWORDS.contains(&keyword) =>
                {
                    if let ("patternProperties", Value::Object(patterns)) = (keyword, value) {
                        patterns.iter().try_for_each(|_| self.count_pattern())?;
                    }
                    let in_place = IN_PLACE_KEYWORDS.contains(&keyword);
                    match value {
                        Value::Object(by_name) if BY_NAME_KEYWORDS.contains(&keyword) => {
                            for schema in by_name.values() {
                                cost = cost.and(self.cost(schema, in_place)?);
                            }
                        }
                        _ => cost = cost.and(self.cost(value, in_place)?),
                    }
                }
                _ => {}
            }
        }
        // To find the members that are not evaluated yet, the validator evaluates everything else once more.
        let is_doubled =
            ["unevaluatedProperties", "unevaluatedItems"].iter().any(|keyword| members.contains_key(*keyword));
        Ok(if is_doubled { cost.and(cost) } else { cost })
    }

    /// Counts a regular expression.
    fn count_pattern(&mut self) -> Result<(), String> {
        self.patterns += 1;
        let too_many = self.patterns > MAX_PATTERNS;
        if too_many { Err(format!("its schema holds more than {MAX_PATTERNS} patterns")) } else { Ok(()) }
    }

    /// Checks all definitions at any depth, and that no subschema has an `$id` of its own, which would change the
    /// meaning of the references in it.
    fn definitions(&mut self, value: &'a Value, depth: usize) -> Result<(), String> {
        if depth > MAX_DEPTH {
            return Err(format!("its schema nests more than {MAX_DEPTH} levels"));
        }
        match value {
            Value::Object(members) => {
                if depth > 0 && members.get("$id").is_some_and(Value::is_string) {
                    return Err("a part of its schema has an address of its own ($id)".into());
                }
                for (keyword, value) in members {
                    if DEFINITION_KEYWORDS.contains(&keyword.as_str()) {
                        self.cost(value, false)?;
                    }
                    match value {
                        Value::Object(by_name) if BY_NAME_KEYWORDS.contains(&keyword.as_str()) => {
                            by_name.values().try_for_each(|schema| self.definitions(schema, depth + 1))?;
                        }
                        _ if DATA_KEYWORDS.contains(&keyword.as_str()) => {}
                        _ => self.definitions(value, depth + 1)?,
                    }
                }
                Ok(())
            }
            Value::Array(items) => items.iter().try_for_each(|item| self.definitions(item, depth + 1)),
            _ => Ok(()),
        }
    }

    /// Returns the subschema that a reference points to.
    ///
    /// # Errors
    /// It points outside of the schema, or to nothing.
    fn target(&self, reference: &str) -> Result<&'a Value, String> {
        if !reference.starts_with('#') {
            return Err(format!("its schema refers to {reference:.80?}; only references into itself (#…) are taken"));
        }
        resolve(self.root, reference)
            .ok_or_else(|| format!("its schema refers to {reference:.80?}, which is not there"))
    }
}

/// Returns the subschema that a reference such as `#/$defs/a` or `#anchor` points to; `None`: the reference points
/// outside of the schema, or to nothing.
pub(crate) fn resolve<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    let fragment = percent_decode(reference.strip_prefix('#')?)?;
    match fragment.as_str() {
        "" => Some(root),
        pointer if pointer.starts_with('/') => root.pointer(pointer),
        anchor => find_anchor(root, anchor, 0),
    }
}

/// Decodes the percent-encoding of a fragment; `None`: it is invalid, or not UTF-8.
fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).ok()
}

/// Returns the subschema with this `$anchor` or `$dynamicAnchor`.
fn find_anchor<'a>(value: &'a Value, anchor: &str, depth: usize) -> Option<&'a Value> {
    if depth > MAX_DEPTH {
        return None;
    }
    match value {
        Value::Object(members) => {
            let is = |keyword: &str| members.get(keyword).and_then(Value::as_str) == Some(anchor);
            if is("$anchor") || is("$dynamicAnchor") {
                return Some(value);
            }
            members.values().find_map(|member| find_anchor(member, anchor, depth + 1))
        }
        Value::Array(items) => items.iter().find_map(|item| find_anchor(item, anchor, depth + 1)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn loops_are_refused_and_trees_are_taken() {
        for looping in [
            json!({"$ref": "#"}),
            json!({"allOf": [{"$ref": "#"}]}),
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [{"$ref": "#/$defs/a"}]}}}),
            json!({"$defs": {"a": {"$ref": "#/%24defs/a"}}}),
            json!({"not": {"$ref": "#"}}),
            json!({"dependencies": {"x": {"$ref": "#"}}}),
            json!({"$dynamicAnchor": "x", "if": {"$dynamicRef": "#x"}}),
        ] {
            assert!(check(&looping).is_err_and(|reason| reason.contains("loop")), "{looping}");
        }
        let recursions = |schema: serde_json::Value| check(&schema).map(|checked| checked.recursions);
        let tree = json!({"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#"}}}});
        assert_eq!(recursions(tree), Ok(1));
        assert_eq!(recursions(json!({"not": {"items": {"$ref": "#"}}})), Ok(1));
        assert_eq!(recursions(json!({"properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}})), Ok(2));
        assert_eq!(recursions(json!(true)), Ok(0));
        let shared =
            json!({"properties": {"a": {"$ref": "#/$defs/p"}, "b": {"$ref": "#/$defs/p"}}, "$defs": {"p": {}}});
        assert_eq!(recursions(shared), Ok(0));
    }

    #[test]
    fn schemas_that_multiply_are_refused() {
        for (here, there) in [("allOf", "$defs"), ("allOf", "%24defs"), ("prefixItems", "$defs")] {
            let mut definitions = serde_json::Map::new();
            for level in 0..20 {
                let next = json!({"$ref": format!("#/{there}/l{}", level + 1)});
                definitions.insert(format!("l{level}"), json!({here: [next, next]}));
            }
            definitions.insert("l20".into(), json!({"type": "string"}));
            let schema = json!({"$ref": "#/$defs/l0", "$defs": definitions});
            assert!(check(&schema).is_err_and(|reason| reason.contains("questions")), "{here} {there}");
        }
        let mut left_over = json!({});
        for _ in 0..20 {
            left_over = json!({"anyOf": [left_over], "unevaluatedProperties": false});
        }
        assert!(check(&left_over).is_err_and(|reason| reason.contains("questions")));
        assert!(check(&json!({"description": "x".repeat(MAX_BYTES)})).is_err());
    }

    #[test]
    fn a_property_may_have_the_name_of_a_keyword() {
        let mut costly = json!({});
        for _ in 0..20 {
            costly = json!({"anyOf": [costly], "unevaluatedProperties": false});
        }
        for name in ["default", "enum", "$defs", "allOf"] {
            let schema = json!({"properties": {name: costly}});
            assert!(check(&schema).is_err_and(|reason| reason.contains("questions")), "{name}");
            assert!(check(&json!({"properties": {name: {"items": {"$id": "x"}}}})).is_err(), "{name}");
            assert!(check(&json!({"properties": {name: {"items": {"$ref": "#"}}}})).is_ok(), "{name}");
        }
    }

    #[test]
    fn depth_and_addresses_are_refused() {
        let mut chain = serde_json::Map::new();
        for level in 0..10_000 {
            chain.insert(format!("l{level}"), json!({"items": {"$ref": format!("#/$defs/l{}", level + 1)}}));
        }
        chain.insert("l10000".into(), json!(true));
        let schema = json!({"$ref": "#/$defs/l0", "$defs": chain});
        assert!(check(&schema).is_err_and(|reason| reason.contains("levels")));
        for elsewhere in ["", "other.json", "json-schema:///#", "https://example.com/x", "#/nowhere", "#%zz"] {
            assert!(check(&json!({"$ref": elsewhere})).is_err(), "{elsewhere}");
        }
        assert!(check(&json!({"items": {"$id": "x", "$ref": "#"}})).is_err());
    }
}
