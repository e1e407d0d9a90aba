//! Validation of arguments before the tool gets them, and of results before the code gets them, against the tool's JSON
//! Schemas. References to other documents are refused, never fetched.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use relay_proto::spelling::nearest;
use serde_json::{Value, json};

use crate::tool::nullable::with_null;
use crate::tool::patterns::{Loosened, loosened};
use crate::tool::schema::{self, Checked};

/// The most faults that an error names.
const MAX_NAMED_FAULTS: usize = 3;
/// The most fields that an error lists.
const MAX_LISTED_FIELDS: usize = 20;
/// The most JSON values in arguments or results whose faults are named, counted at all depths. Naming faults takes far
/// longer than finding that there is one: of larger ones an error says only that they do not fit.
const MAX_EXPLAINED_VALUES: usize = 5_000;
/// The most evaluations of a subschema for naming the faults of one value, where the schema contains itself.
const MAX_EVALUATIONS: u64 = 200_000;
/// The most memory of one compiled regular expression, in bytes.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// A compiled JSON Schema.
pub struct Schema {
    validator: jsonschema::Validator,
    /// The schema that is checked, from which errors suggest field names.
    schema: Value,
    checked: Checked,
    /// The regular expressions that are not checked, because the engine cannot take them.
    unchecked: Vec<String>,
}

/// Arguments that fit their tool's schema. Only [`Schema::check`] creates them.
#[derive(Debug)]
pub struct ValidArguments(Arc<Value>);

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Schema").field(&self.schema).finish()
    }
}

impl ValidArguments {
    /// Returns the arguments.
    pub fn into_inner(self) -> Value {
        Arc::unwrap_or_clone(self.0)
    }

    /// Returns the arguments for reading, without copying them.
    pub fn share(&self) -> Arc<Value> {
        Arc::clone(&self.0)
    }
}

impl Schema {
    /// Compiles a schema, once its evaluation is known to end soon. Regular expressions that the engine cannot take are
    /// not checked, such as those with lookaround; [`Schema::unchecked`] names them.
    ///
    /// # Errors
    /// `schema` is not a JSON Schema, refers to other documents, or is too large or too costly to evaluate. The text is
    /// for the tool's author.
    pub fn compile(schema: &Value) -> Result<Self, String> {
        match with_null(schema) {
            Some(schema) => Self::compile_plain(&schema),
            None => Self::compile_plain(schema),
        }
    }

    /// Compiles a schema without `nullable`.
    fn compile_plain(schema: &Value) -> Result<Self, String> {
        let checked = schema::check(schema)?;
        let unusable = |error| format!("its schema is not usable: {error}");
        let error = match build(schema) {
            Ok(validator) => {
                return Ok(Self { validator, schema: schema.clone(), checked, unchecked: Vec::new() });
            }
            Err(error) => error,
        };
        let is_taken = |pattern: &str| build(&json!({"pattern": pattern})).is_ok();
        let Some(Loosened { schema: loose, left_out }) = loosened(schema, is_taken) else {
            return Err(unusable(error));
        };
        // Checking the loosened schema again makes sure that no rewriting made it costly.
        let checked = schema::check(&loose)?;
        let validator = build(&loose).map_err(|error| unusable(error.to_owned()))?;
        Ok(Self { validator, schema: loose, checked, unchecked: left_out.into_iter().collect() })
    }

    /// Returns the regular expressions of the schema that are not checked, because the engine cannot take them.
    pub(crate) fn unchecked(&self) -> &[String] {
        &self.unchecked
    }

    /// Checks the arguments of a call.
    ///
    /// # Errors
    /// They do not fit the schema. The text names up to three places with what is expected and what the arguments have
    /// there, and suggests similar field names. It is for the author of the code.
    pub fn check(&self, arguments: Value) -> Result<ValidArguments, String> {
        if self.validator.is_valid(&arguments) {
            return Ok(ValidArguments(Arc::new(arguments)));
        }
        // No arguments are `{}` to some and `null` to others: a schema that takes one of them is given that one.
        let none = match &arguments {
            Value::Null => Some(Value::Object(serde_json::Map::new())),
            Value::Object(members) if members.is_empty() => Some(Value::Null),
            _ => None,
        };
        if let Some(none) = none.filter(|none| self.validator.is_valid(none)) {
            return Ok(ValidArguments(Arc::new(none)));
        }
        // The library collects faults without a limit.
        if !self.can_explain(&arguments) {
            return Err("they do not fit its schema; they are too large, or nest too deeply, to say where".into());
        }
        let mut message = String::new();
        for (number, fault) in self.validator.iter_errors(&arguments).take(MAX_NAMED_FAULTS).enumerate() {
            let mut path = fault.instance_path().to_string();
            path.truncate(path.floor_char_boundary(200));
            let place = if path.is_empty() { "the arguments".to_owned() } else { path };
            let mut text = self.describe(&fault, &arguments);
            text.truncate(text.floor_char_boundary(300));
            let separator = if number == 0 { "" } else { "; " };
            // Writing to a String cannot fail.
            let _ = write!(message, "{separator}at {place}: {text}");
        }
        Err(message)
    }

    /// Checks the result of a call.
    ///
    /// # Errors
    /// It does not fit the schema. The text names the first place and what is expected there, but no part of the
    /// result.
    pub fn check_result(&self, result: &Value) -> Result<(), String> {
        if self.validator.is_valid(result) {
            return Ok(());
        }
        if !self.can_explain(result) {
            return Err("it does not fit".into());
        }
        let fault = self.validator.iter_errors(result).next();
        let Some(fault) = fault else { return Err("it does not fit".into()) };
        let mut place = fault.instance_path().to_string();
        place.truncate(place.floor_char_boundary(200));
        let place = if place.is_empty() { "the whole".to_owned() } else { place };
        Err(format!("at {place}: {}", expectation(&fault)))
    }

    /// Returns `true` if the faults of a value can be named in a bounded time.
    fn can_explain(&self, value: &Value) -> bool {
        let mut left = MAX_EXPLAINED_VALUES;
        if !has_at_most(value, &mut left) {
            return false;
        }
        // Unlike the check, naming faults evaluates a value again for each way that leads to it: their number grows with
        // each level where a schema contains itself more than once.
        let Checked { cost, recursions } = self.checked;
        let values = u64::try_from(MAX_EXPLAINED_VALUES - left).unwrap_or(u64::MAX);
        let ways = recursions.checked_pow(levels(value));
        let evaluations = ways.and_then(|ways| ways.max(1).checked_mul(cost)?.checked_mul(values));
        recursions == 0 || evaluations.is_some_and(|evaluations| evaluations <= MAX_EVALUATIONS)
    }

    /// Returns a fault in words: what is expected, what the arguments have, and the field name that may have been
    /// meant.
    fn describe(&self, fault: &ValidationError<'_>, arguments: &Value) -> String {
        let keyword = fault.schema_path().to_string();
        let object = keyword.rsplit_once('/').and_then(|(object, _)| self.schema.pointer(object));
        let known = object.and_then(|object| object.get("properties")).and_then(Value::as_object);
        let known: Vec<&str> = known.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
        match fault.kind() {
            ValidationErrorKind::AdditionalProperties { unexpected }
            | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
                let fields: Vec<_> =
                    unexpected.iter().take(MAX_NAMED_FAULTS).map(|it| unknown_field(it, &known)).collect();
                format!("there is no field {}", fields.join(", nor "))
            }
            ValidationErrorKind::Required { property: Value::String(missing) } => {
                let came = arguments.pointer(&fault.instance_path().to_string()).and_then(Value::as_object);
                let came = came.into_iter().flatten().map(|(name, _)| name.as_str());
                let unknown: Vec<_> = came.filter(|name| !known.contains(name)).collect();
                match nearest(missing, unknown.iter().copied()) {
                    Some(meant) => format!("the required field {missing:?} is missing; there is {meant:?} instead"),
                    None => format!("the required field {missing:?} is missing"),
                }
            }
            _ => fault.to_string(),
        }
    }
}

/// Builds the validator of a schema.
fn build(schema: &Value) -> Result<jsonschema::Validator, ValidationError<'static>> {
    let patterns = jsonschema::PatternOptions::regex().size_limit(MAX_PATTERN_BYTES);
    jsonschema::options().with_pattern_options(patterns).build(schema).map_err(|error| error.to_owned())
}

/// Returns what a schema expects, without any part of the value that does not fit.
fn expectation(fault: &ValidationError<'_>) -> String {
    match fault.kind() {
        ValidationErrorKind::Required { property } => format!("the required field {property} is missing"),
        ValidationErrorKind::Type { kind: TypeKind::Single(kind) } => format!("it is not of type {kind}"),
        kind => format!("it does not fit `{}`", kind.keyword()),
    }
}

/// Returns a field's name with the known name that is most similar, or else a list of the known names.
fn unknown_field(name: &str, known: &[&str]) -> String {
    match nearest(name, known.iter().copied()) {
        Some(meant) => format!("{name:?}; did you mean {meant:?}?"),
        None if known.is_empty() => format!("{name:?}; there are none"),
        None => {
            // The order of a schema's members depends on the features of serde_json.
            let mut some = known.to_vec();
            some.sort_unstable();
            let others = some.len().saturating_sub(MAX_LISTED_FIELDS);
            some.truncate(MAX_LISTED_FIELDS);
            let more = if others > 0 { format!(" and {others} others") } else { String::new() };
            format!("{name:?}; there are: {}{more}", some.join(", "))
        }
    }
}

/// Returns the number of arrays and objects that are within one another.
fn levels(value: &Value) -> u32 {
    match value {
        Value::Array(items) => 1 + items.iter().map(levels).max().unwrap_or_default(),
        Value::Object(members) => 1 + members.values().map(levels).max().unwrap_or_default(),
        _ => 0,
    }
}

/// Returns `true` if a value consists of at most `left` values at all depths, and subtracts their number from `left`.
fn has_at_most(value: &Value, left: &mut usize) -> bool {
    let Some(less) = left.checked_sub(1) else { return false };
    *left = less;
    match value {
        Value::Array(items) => items.iter().all(|item| has_at_most(item, left)),
        Value::Object(members) => members.values().all(|member| has_at_most(member, left)),
        _ => true,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn faults_name_their_place() {
        let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]});
        let schema = Schema::compile(&schema).unwrap();
        assert!(schema.check(json!({"path": "x"})).is_ok());
        let fault = schema.check(json!({"path": 7})).err().unwrap();
        assert!(fault.contains("/path") && fault.contains("string"), "{fault}");
        let fault = schema.check(json!({})).err().unwrap();
        assert!(fault.contains("path") && fault.contains("required"), "{fault}");
        let fault = schema.check(json!({"pth": "x"})).err().unwrap();
        assert_eq!(fault, r#"at the arguments: the required field "path" is missing; there is "pth" instead"#);
        let schema = json!({"type": "object", "properties": {"file": {"type": "object", "additionalProperties": false,
            "properties": {"path": {"type": "string"}, "mode": {"enum": ["r", "w"]}}}}});
        let schema = Schema::compile(&schema).unwrap();
        for (arguments, expected) in [
            (json!({"file": {"paht": 1}}), r#"at /file: there is no field "paht"; did you mean "path"?"#),
            (json!({"file": {"xyz": 1}}), r#"at /file: there is no field "xyz"; there are: mode, path"#),
            (json!({"file": {"path": [1]}}), r#"at /file/path: [1] is not of type "string""#),
            (json!({"file": {"mode": "x"}}), r#"at /file/mode: "x" is not one of "r" or "w""#),
        ] {
            assert_eq!(schema.check(arguments).err().unwrap(), expected);
        }
    }

    #[test]
    fn patterns_that_the_engine_cannot_take_are_not_checked_and_all_else_is() {
        let email = r"^(?!\.)(?!.*\.\.)[a-z.]+@[a-z.]+$";
        let backward = r"(a)\1";
        let refused = |schema: Value, arguments: Value| {
            let schema = Schema::compile(&schema).unwrap();
            (schema.check(arguments).is_err(), schema.unchecked().to_vec())
        };
        let bad = json!({"pattern": email});
        let left_out = vec![email.to_owned()];
        for (schema, arguments) in [
            (json!({"properties": {"to": {"type": "string", "pattern": email}}}), json!({"to": ".."})),
            (json!({"patternProperties": {email: {"type": "string"}}, "additionalProperties": false}), json!({"a": 1})),
            (json!({"patternProperties": {email: true}, "unevaluatedProperties": false}), json!({"a": 1})),
            (json!({"not": bad}), json!("..")),
            (json!({"oneOf": [bad, {"type": "string"}]}), json!("..")),
            (json!({"if": bad, "then": {"type": "number"}, "else": {"type": "string"}}), json!("..")),
            (json!({"if": bad, "then": {"type": "number"}}), json!("..")),
            (json!({"contains": bad, "maxContains": 1}), json!(["..", "..."])),
            (json!({"not": {"$ref": "#/$defs/email"}, "$defs": {"email": bad}}), json!("..")),
        ] {
            assert_eq!(refused(schema.clone(), arguments), (false, left_out.clone()), "{schema}");
        }
        for (schema, arguments) in [
            (json!({"properties": {"to": {"type": "string", "pattern": email}}}), json!({"to": 7})),
            (json!({"properties": {"to": bad, "b": {"pattern": "^x"}}}), json!({"b": "y"})),
            (json!({"properties": {"pattern": {"type": "number"}, "to": bad}}), json!({"pattern": "x"})),
            (json!({"oneOf": [{"type": "string", "pattern": email}, {"type": "number"}]}), json!(true)),
            (json!({"if": bad, "then": {"type": "number"}, "else": {"type": "string"}}), json!(true)),
            (json!({"allOf": [{"type": "number"}], "oneOf": [bad]}), json!("x")),
            (json!({"properties": {"a": {"not": {"type": "string"}}, "b": bad}}), json!({"a": "x"})),
        ] {
            assert_eq!(refused(schema.clone(), arguments), (true, left_out.clone()), "{schema}");
        }
        let both = json!({"properties": {"a": bad, "b": {"pattern": backward}, "c": {"enum": [{"pattern": "(?!x)"}]}}});
        assert_eq!(refused(both, json!({})).1, [backward, email]);
        assert!(refused(json!({"pattern": "^(a|b)+$"}), json!("c")).0);
        assert!(Schema::compile(&json!({"type": "no such type", "pattern": email})).is_err());
    }

    #[test]
    fn faults_of_recursive_schemas_name_their_place() {
        let node = json!({"type": "object", "required": ["name"], "additionalProperties": false, "properties": {
            "name": {"type": "string"}, "left": {"$ref": "#/$defs/node"}, "right": {"$ref": "#/$defs/node"},
            "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}}});
        let schema = json!({"$ref": "#/$defs/node", "$defs": {"node": node}});
        let schema = Schema::compile(&schema).unwrap();
        for (arguments, expected) in [
            (json!({"name": "a", "children": [{"name": 7}]}), r#"at /children/0/name: 7 is not of type "string""#),
            (json!({"name": "a", "left": {"nam": "b"}}), "at /left: the required field \"name\" is missing"),
            (json!({"name": "a", "left": {"name": "b", "rigth": {}}}), "did you mean \"right\"?"),
        ] {
            let fault = schema.check(arguments).err().unwrap();
            assert!(fault.contains(expected), "{fault}");
        }
        // The number of ways through such a schema grows with every level: the answer still comes at once.
        let wide: Vec<Value> = (0..50).map(|_| json!({"items": {"$ref": "#"}})).collect();
        let schema = Schema::compile(&json!({"type": ["array", "number"], "allOf": wide})).unwrap();
        let mut deep = json!("x");
        for _ in 0..30 {
            deep = json!([deep]);
        }
        let start = std::time::Instant::now();
        let fault = schema.check(deep).err().unwrap();
        assert!(fault.contains("nest too deeply"), "{fault}");
        assert!(start.elapsed().as_secs() < 5, "{:?}", start.elapsed());
    }

    #[test]
    fn nullable_allows_null_and_nothing_else() {
        let schema = json!({
            "type": "object",
            "properties": {
                "plain": {"type": "string", "nullable": true},
                "listed": {"type": "string", "enum": ["a"], "nullable": true},
                "referred": {"$ref": "#/$defs/point", "nullable": true},
                "untyped": {"enum": ["a"], "nullable": true},
                "nullable": {"type": "number"},
                "strict": {"type": "string", "nullable": false},
                "items": {"type": "array", "items": {"type": "integer", "nullable": true}},
            },
            "$defs": {"point": {"type": "object", "required": ["x"]}},
        });
        let schema = Schema::compile(&schema).unwrap();
        for good in ["plain", "listed", "referred", "untyped"] {
            assert!(schema.check(json!({good: null})).is_ok(), "{good}");
        }
        assert!(schema.check(json!({"items": [1, null], "plain": "x", "referred": {"x": 1}})).is_ok());
        for (name, wrong) in [
            ("plain", json!(7)),
            ("listed", json!("b")),
            ("referred", json!({})),
            ("untyped", json!("b")),
            ("nullable", json!(null)),
            ("strict", json!(null)),
        ] {
            assert!(schema.check(json!({name: wrong})).is_err(), "{name}");
        }
    }

    #[test]
    fn references_are_not_fetched_and_nonsense_is_refused() {
        assert!(Schema::compile(&json!({"$ref": "http://127.0.0.1:1/schema.json"})).is_err());
        assert!(Schema::compile(&json!({"type": "no such type"})).is_err());
    }
}
