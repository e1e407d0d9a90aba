//! Which schemas are taken. A schema comes from a tool's author, who may be anybody, and is evaluated on arguments that come
//! from a relay: what could make that endless, or only very long, is refused when the tool is registered.

use std::collections::HashMap;

use serde_json::Value;

/// The most bytes of a schema, as JSON.
const MAX_BYTES: usize = 1 << 20;
/// How many schemas may have a say on one and the same value, references followed.
const MAX_AT_ONE_PLACE: u64 = 10_000;

/// Keywords whose schemas are about the value itself, not about something inside of it.
const IN_PLACE: [&str; 8] = ["allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"];

/// # Errors
/// Evaluating the schema could take too long, or for ever; the text says why.
pub(crate) fn check(schema: &Value) -> Result<(), String> {
    let bytes = schema.to_string().len();
    if bytes > MAX_BYTES {
        return Err(format!("its schema has {bytes} bytes; at most {MAX_BYTES} are taken"));
    }
    let mut check = Check { root: schema, costs: HashMap::new() };
    check.everywhere(schema)
}

struct Check<'a> {
    root: &'a Value,
    /// What was found for a schema, by its address; nothing while it is being looked at.
    costs: HashMap<*const Value, Option<u64>>,
}

impl<'a> Check<'a> {
    /// Looks at every schema there is, wherever it stands: anything may be referred to.
    fn everywhere(&mut self, value: &'a Value) -> Result<(), String> {
        match value {
            Value::Object(members) => {
                self.cost(value)?;
                members.values().try_for_each(|member| self.everywhere(member))
            }
            Value::Array(items) => items.iter().try_for_each(|item| self.everywhere(item)),
            _ => Ok(()),
        }
    }

    /// How many schemas this one asks about the same value, itself included.
    fn cost(&mut self, schema: &'a Value) -> Result<u64, String> {
        let Value::Object(members) = schema else { return Ok(1) };
        match self.costs.get(&std::ptr::from_ref(schema)) {
            Some(Some(known)) => return Ok(*known),
            Some(None) => return Err("its schema refers to itself in a loop".into()),
            None => {}
        }
        self.costs.insert(schema, None);
        let mut cost = 1_u64;
        for keyword in ["$ref", "$dynamicRef", "$recursiveRef"] {
            if let Some(reference) = members.get(keyword).and_then(Value::as_str)
                && let Some(target) = self.target(reference)
            {
                cost = cost.saturating_add(self.cost(target)?);
            }
        }
        for (keyword, value) in members.iter().filter(|(keyword, _)| IN_PLACE.contains(&keyword.as_str())) {
            let parts: Vec<&Value> = match value {
                Value::Array(schemas) => schemas.iter().collect(),
                Value::Object(by_name) if keyword == "dependentSchemas" => by_name.values().collect(),
                schema => vec![schema],
            };
            for part in parts {
                cost = cost.saturating_add(self.cost(part)?);
            }
        }
        if cost > MAX_AT_ONE_PLACE {
            return Err(format!("its schema asks more than {MAX_AT_ONE_PLACE} questions about one value"));
        }
        self.costs.insert(schema, Some(cost));
        Ok(cost)
    }

    /// What a reference within this schema points to. Those to elsewhere are refused when the schema is compiled.
    fn target(&self, reference: &str) -> Option<&'a Value> {
        match reference.strip_prefix('#')? {
            "" => Some(self.root),
            pointer if pointer.starts_with('/') => self.root.pointer(&pointer.replace("%25", "%")),
            anchor => find_anchor(self.root, anchor),
        }
    }
}

fn find_anchor<'a>(value: &'a Value, anchor: &str) -> Option<&'a Value> {
    match value {
        Value::Object(members) => {
            let is = |keyword: &str| members.get(keyword).and_then(Value::as_str) == Some(anchor);
            if is("$anchor") || is("$dynamicAnchor") {
                return Some(value);
            }
            members.values().find_map(|member| find_anchor(member, anchor))
        }
        Value::Array(items) => items.iter().find_map(|item| find_anchor(item, anchor)),
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
            json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [{"$ref": "#/$defs/a"}]}}}),
            json!({"not": {"$ref": "#"}}),
            json!({"$dynamicAnchor": "x", "if": {"$dynamicRef": "#x"}}),
        ] {
            assert!(check(&looping).is_err_and(|reason| reason.contains("loop")), "{looping}");
        }
        let tree = json!({"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#"}}}});
        assert_eq!(check(&tree), Ok(()));
        assert_eq!(check(&json!({"not": {"items": {"$ref": "#"}}})), Ok(()));
        assert_eq!(check(&json!(true)), Ok(()));
    }

    #[test]
    fn schemas_that_multiply_are_refused() {
        let mut definitions = serde_json::Map::new();
        for level in 0..20 {
            let next = format!("#/$defs/l{}", level + 1);
            definitions.insert(format!("l{level}"), json!({"allOf": [{"$ref": next}, {"$ref": next}]}));
        }
        definitions.insert("l20".into(), json!({"type": "string"}));
        let schema = json!({"$ref": "#/$defs/l0", "$defs": definitions});
        assert!(check(&schema).is_err_and(|reason| reason.contains("questions")));
        assert!(check(&json!({"description": "x".repeat(MAX_BYTES)})).is_err());
    }
}
