//! Translates schemas of a document to JSON Schema: references are copied to `$defs`, and the dialect of OpenAPI 3.0 is
//! converted.
//!
//! A keyword that is left out only makes the check of arguments looser: the server checks them itself. `pattern` is
//! left out, because engines differ in its syntax, and some patterns take long to compile.

use std::collections::{BTreeMap, HashMap, VecDeque};

use serde_json::{Map, Value, json};

use super::document::Document;
use super::error::Flaw;
use super::text::identifier;

/// Maximum length of a description within a schema, in characters.
const MAX_DESCRIPTION_CHARS: usize = 300;
/// Maximum number of definitions of one operation.
const MAX_DEFINITIONS: usize = 500;

/// Keywords that are copied unchanged.
const PLAIN: [&str; 18] = [
    "const",
    "default",
    "dependentRequired",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "type",
    "uniqueItems",
];

/// Translator of the schemas of one operation.
pub(super) struct Translator<'a> {
    document: &'a Document,
    /// Names of definitions by reference.
    names: HashMap<&'a str, String>,
    /// Definitions that are still to be translated: their names and references.
    pending: VecDeque<(String, &'a str)>,
    /// Number of bytes that may still be used.
    left: usize,
    /// `true`: the schemas are of results, which have the properties that are `readOnly`.
    is_of_results: bool,
}

impl<'a> Translator<'a> {
    pub(super) fn new(document: &'a Document, bytes: usize) -> Self {
        Self { document, names: HashMap::new(), pending: VecDeque::new(), left: bytes, is_of_results: false }
    }

    /// Creates a translator of the schemas of results.
    pub(super) fn for_results(document: &'a Document, bytes: usize) -> Self {
        Self { is_of_results: true, ..Self::new(document, bytes) }
    }

    pub(super) fn document(&self) -> &'a Document {
        self.document
    }

    /// Number of bytes that may still be used.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// Translates the definitions that the translated schemas refer to.
    pub(super) fn definitions(&mut self) -> Result<Map<String, Value>, Flaw> {
        let mut definitions = BTreeMap::new();
        while let Some((name, reference)) = self.pending.pop_front() {
            let target = self.document.target(reference)?;
            let schema = self.schema(target)?;
            definitions.insert(name, schema);
        }
        Ok(definitions.into_iter().collect())
    }

    /// Translates one schema. Its depth is bounded, because the parser bounds that of the document.
    ///
    /// # Errors
    /// [`Flaw::Size`] over the limit, [`Flaw::Reference`] for a reference without a target.
    pub(super) fn schema(&mut self, schema: &'a Value) -> Result<Value, Flaw> {
        let Value::Object(members) = schema else {
            self.charge(8)?;
            return Ok(Value::Bool(schema.as_bool().unwrap_or(true)));
        };
        let mut translated = Map::new();
        if let Some(reference) = members.get("$ref").and_then(Value::as_str) {
            translated.insert("$ref".into(), self.reference(reference)?);
            if self.document.is_3_0 {
                // OpenAPI 3.0 ignores the members beside a reference.
                return Ok(Value::Object(translated));
            }
        }
        for (keyword, value) in members {
            if let Some((keyword, value)) = self.keyword(keyword, value, members)? {
                self.charge(keyword.len() + 4)?;
                translated.insert(keyword.to_owned(), value);
            }
        }
        if self.document.is_3_0 {
            exclusive_bound(&mut translated, "exclusiveMinimum", "minimum");
            exclusive_bound(&mut translated, "exclusiveMaximum", "maximum");
            if members.get("nullable").and_then(Value::as_bool) == Some(true) {
                return Ok(nullable(translated));
            }
        }
        Ok(Value::Object(translated))
    }

    /// Translates one keyword. Returns `None` for those that are left out.
    fn keyword(
        &mut self,
        keyword: &'a str,
        value: &'a Value,
        around: &'a Map<String, Value>,
    ) -> Result<Option<(&'a str, Value)>, Flaw> {
        let translated = match (keyword, value) {
            (keyword, value) if PLAIN.contains(&keyword) => {
                self.charge_value(value)?;
                value.clone()
            }
            ("description", Value::String(text)) => {
                let text: String = text.chars().take(MAX_DESCRIPTION_CHARS).collect();
                self.charge(text.len())?;
                Value::String(text)
            }
            ("required", Value::Array(names)) => {
                self.charge_value(value)?;
                names.iter().filter(|name| !self.is_read_only(around, name)).cloned().collect()
            }
            ("properties", Value::Object(properties)) => {
                let mut translated = Map::new();
                for (name, schema) in properties {
                    self.charge(name.len() + 4)?;
                    translated.insert(name.clone(), self.schema(schema)?);
                }
                Value::Object(translated)
            }
            ("items" | "additionalProperties" | "contains" | "propertyNames", Value::Object(_) | Value::Bool(_)) => {
                self.schema(value)?
            }
            ("allOf" | "anyOf" | "prefixItems", Value::Array(schemas)) => self.schemas(schemas)?,
            // `oneOf` becomes `anyOf`: without the keywords that are left out, more than one alternative may match.
            ("oneOf", Value::Array(schemas)) if !around.contains_key("anyOf") => {
                return Ok(Some(("anyOf", self.schemas(schemas)?)));
            }
            _ => return Ok(None),
        };
        Ok(Some((keyword, translated)))
    }

    fn schemas(&mut self, schemas: &'a [Value]) -> Result<Value, Flaw> {
        schemas.iter().map(|schema| self.schema(schema)).collect()
    }

    /// Translates a reference, and queues its definition.
    fn reference(&mut self, reference: &'a str) -> Result<Value, Flaw> {
        self.charge(reference.len() + 16)?;
        let name = match self.names.get(reference) {
            Some(name) => name,
            None => {
                self.document.target(reference)?;
                if self.names.len() >= MAX_DEFINITIONS {
                    return Err(Flaw::Size);
                }
                let name = self.definition_name(reference);
                self.pending.push_back((name.clone(), reference));
                self.names.entry(reference).or_insert(name)
            }
        };
        Ok(Value::String(format!("#/$defs/{name}")))
    }

    /// Names a definition after the last part of its reference, with a number if the name is taken.
    fn definition_name(&self, reference: &str) -> String {
        let name = identifier(reference.rsplit('/').next().unwrap_or_default());
        let is_free = |name: &String| !name.is_empty() && self.names.values().all(|taken| taken != name);
        if is_free(&name) {
            return name;
        }
        // Counting from the number of names finds a free one at once, however many definitions share the name.
        let numbered = (self.names.len()..).map(|number| format!("{name}_{number}"));
        numbered.take(MAX_DEFINITIONS).find(is_free).unwrap_or(name)
    }

    /// Returns `true` if the property is `readOnly` and the schema is of arguments: only responses have it.
    fn is_read_only(&self, schema: &Map<String, Value>, name: &Value) -> bool {
        if self.is_of_results {
            return false;
        }
        let property = name.as_str().and_then(|name| schema.get("properties")?.get(name));
        let resolved = property.and_then(|property| self.document.resolve(property).ok());
        resolved.and_then(|property| property.get("readOnly")?.as_bool()) == Some(true)
    }

    /// Charges the approximate size of a value as JSON. Stops at the limit, so that a large value costs no more time.
    fn charge_value(&mut self, value: &Value) -> Result<(), Flaw> {
        match value {
            Value::Array(items) => items.iter().try_for_each(|item| self.charge_value(item))?,
            Value::Object(members) => {
                for (name, member) in members {
                    self.charge(name.len() + 4)?;
                    self.charge_value(member)?;
                }
            }
            Value::String(text) => self.charge(text.len())?,
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
        self.charge(4)
    }

    /// Takes bytes from those left.
    ///
    /// # Errors
    /// [`Flaw::Size`] if fewer are left.
    fn charge(&mut self, bytes: usize) -> Result<(), Flaw> {
        self.left = self.left.checked_sub(bytes).ok_or(Flaw::Size)?;
        Ok(())
    }
}

/// Converts the boolean `exclusiveMinimum` or `exclusiveMaximum` of OpenAPI 3.0, which makes `minimum` or `maximum`
/// exclusive.
fn exclusive_bound(schema: &mut Map<String, Value>, exclusive: &str, bound: &str) {
    if let Some(is_exclusive) = schema.get(exclusive).and_then(Value::as_bool) {
        schema.remove(exclusive);
        if is_exclusive && let Some(value) = schema.remove(bound) {
            schema.insert(exclusive.to_owned(), value);
        }
    }
}

/// Returns the schema with `null` allowed.
fn nullable(mut schema: Map<String, Value>) -> Value {
    match (schema.get("type").cloned(), schema.get_mut("enum")) {
        (Some(Value::String(kind)), listed) => {
            if let Some(Value::Array(values)) = listed
                && !values.contains(&Value::Null)
            {
                values.push(Value::Null);
            }
            schema.insert("type".into(), json!([kind, "null"]));
            Value::Object(schema)
        }
        _ => json!({"anyOf": [schema, {"type": "null"}]}),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn translated(version: &str, schema: Value) -> Result<(Value, Value), Flaw> {
        let components = json!({"schemas": {
            "Tree": {"properties": {"children": {"type": "array", "items": {"$ref": "#/components/schemas/Tree"}}}},
            "Id": {"type": "string", "readOnly": true},
        }});
        let root = json!({"openapi": version, "components": components, "other": {"Tree": {"type": "integer"}}});
        let document = Document::parse(&root.to_string()).unwrap();
        let mut translator = Translator::new(&document, 10_000);
        let schema = translator.schema(&schema)?;
        Ok((schema, Value::Object(translator.definitions()?)))
    }

    #[test]
    fn the_dialect_of_3_0_becomes_json_schema() {
        for (from, to) in [
            (json!({"type": "string", "nullable": true}), json!({"type": ["string", "null"]})),
            (
                json!({"type": "string", "nullable": true, "enum": ["a"]}),
                json!({"type": ["string", "null"], "enum": ["a", null]}),
            ),
            (
                json!({"allOf": [{"type": "object"}], "nullable": true}),
                json!({"anyOf": [{"allOf": [{"type": "object"}]}, {"type": "null"}]}),
            ),
            (json!({"minimum": 1, "exclusiveMinimum": true}), json!({"exclusiveMinimum": 1})),
            (json!({"maximum": 1, "exclusiveMaximum": false}), json!({"maximum": 1})),
            (json!({"type": "string", "example": "x", "xml": {}, "x-y": 1}), json!({"type": "string"})),
            (json!({"pattern": "^(?=a)b"}), json!({})),
            (json!({"oneOf": [{"type": "string"}, {}]}), json!({"anyOf": [{"type": "string"}, {}]})),
            (json!({"not": {"x-unknown": 1}}), json!({})),
            (
                json!({"properties": {"id": {"$ref": "#/components/schemas/Id"}, "b": {}}, "required": ["id", "b"]}),
                json!({"properties": {"id": {"$ref": "#/$defs/Id"}, "b": {}}, "required": ["b"]}),
            ),
        ] {
            assert_eq!(translated("3.0.3", from.clone()).unwrap().0, to, "{from}");
        }
        let (kept, _) = translated("3.1.0", json!({"type": ["string", "null"], "exclusiveMinimum": 1})).unwrap();
        assert_eq!(kept, json!({"type": ["string", "null"], "exclusiveMinimum": 1}));
    }

    #[test]
    fn references_become_definitions_and_recursive_ones_stay_references() {
        let both = json!({"allOf": [{"$ref": "#/components/schemas/Tree"}, {"$ref": "#/other/Tree"}]});
        let (schema, definitions) = translated("3.0.3", both).unwrap();
        assert_eq!(schema, json!({"allOf": [{"$ref": "#/$defs/Tree"}, {"$ref": "#/$defs/Tree_1"}]}));
        assert_eq!(definitions["Tree_1"], json!({"type": "integer"}));
        assert_eq!(definitions["Tree"]["properties"]["children"]["items"], json!({"$ref": "#/$defs/Tree"}));
    }

    #[test]
    fn what_is_too_large_or_elsewhere_is_a_flaw() {
        assert_eq!(translated("3.0.3", json!({"enum": ["x".repeat(10_000)]})), Err(Flaw::Size));
        let elsewhere = translated("3.0.3", json!({"$ref": "https://example.com/x"}));
        assert!(matches!(elsewhere, Err(Flaw::Reference(_))));
    }
}
