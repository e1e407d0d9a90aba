//! Arguments against the schema of their tool, before the tool sees them, and results before the code does. References are
//! never fetched.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use relay_proto::spelling::nearest;
use serde_json::Value;

use crate::tool::schema::{self, Checked};

/// How many faults an error names.
const NAMED_FAULTS: usize = 3;

/// The most values of arguments whose faults are named: naming them asks far more than finding that there are any.
const MAX_EXPLAINED: usize = 5_000;
/// The most memory of one regular expression, in bytes.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// A compiled JSON Schema.
pub struct Schema {
    validator: jsonschema::Validator,
    /// As it was given, to find what could have been meant.
    schema: Value,
    is_recursive: bool,
}

/// Proof that arguments fit their tool's schema.
#[derive(Debug)]
pub struct ValidArguments(Arc<Value>);

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Schema").field(&self.schema).finish()
    }
}

impl ValidArguments {
    pub fn into_inner(self) -> Value {
        Arc::unwrap_or_clone(self.0)
    }

    /// For those who look and do not touch.
    pub fn share(&self) -> Arc<Value> {
        Arc::clone(&self.0)
    }
}

impl Schema {
    /// Compiles a schema.
    ///
    /// # Errors
    /// It is not one; the text says where.
    pub fn compile(schema: &Value) -> Result<Self, String> {
        let Checked { is_recursive } = schema::check(schema)?;
        let patterns = jsonschema::PatternOptions::regex().size_limit(MAX_PATTERN_BYTES);
        let compiled = jsonschema::options().with_pattern_options(patterns).build(schema);
        let validator = compiled.map_err(|error| format!("its schema is not usable: {error}"))?;
        Ok(Self { validator, schema: schema.clone(), is_recursive })
    }

    /// Checks arguments.
    ///
    /// # Errors
    /// They do not fit; the text names where, what is expected and what came.
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
        // What the library collects to name faults has no bound of its own.
        if self.is_recursive || !has_at_most(&arguments, &mut MAX_EXPLAINED.clone()) {
            return Err("they do not fit its schema".into());
        }
        let mut message = String::new();
        for (number, fault) in self.validator.iter_errors(&arguments).take(NAMED_FAULTS).enumerate() {
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
}

impl Schema {
    /// Checks a result. The text names places and expectations, and nothing of what the tool said.
    ///
    /// # Errors
    /// It does not fit.
    pub fn check_result(&self, result: &Value) -> Result<(), String> {
        if self.validator.is_valid(result) {
            return Ok(());
        }
        if self.is_recursive || !has_at_most(result, &mut MAX_EXPLAINED.clone()) {
            return Err("it does not fit".into());
        }
        let fault = self.validator.iter_errors(result).next();
        let Some(fault) = fault else { return Err("it does not fit".into()) };
        let mut place = fault.instance_path().to_string();
        place.truncate(place.floor_char_boundary(200));
        let place = if place.is_empty() { "the whole".to_owned() } else { place };
        Err(format!("at {place}: {}", expectation(&fault)))
    }

    /// What is wrong: what was expected, what came, and the field that may have been meant.
    fn describe(&self, fault: &ValidationError<'_>, arguments: &Value) -> String {
        let keyword = fault.schema_path().to_string();
        let object = keyword.rsplit_once('/').and_then(|(object, _)| self.schema.pointer(object));
        let known = object.and_then(|object| object.get("properties")).and_then(Value::as_object);
        let known: Vec<&str> = known.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
        match fault.kind() {
            ValidationErrorKind::AdditionalProperties { unexpected }
            | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
                let fields: Vec<_> = unexpected.iter().take(NAMED_FAULTS).map(|it| unknown_field(it, &known)).collect();
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

/// What a schema wants, without what came.
fn expectation(fault: &ValidationError<'_>) -> String {
    match fault.kind() {
        ValidationErrorKind::Required { property } => format!("the required field {property} is missing"),
        ValidationErrorKind::Type { kind: TypeKind::Single(kind) } => format!("it is not of type {kind}"),
        kind => format!("it does not fit `{}`", kind.keyword()),
    }
}

/// How many fields an error lists.
const MAX_LISTED: usize = 20;

fn unknown_field(name: &str, known: &[&str]) -> String {
    match nearest(name, known.iter().copied()) {
        Some(meant) => format!("{name:?}; did you mean {meant:?}?"),
        None if known.is_empty() => format!("{name:?}; there are none"),
        None => {
            // The order of a schema's members is kept or not, as the features of serde_json are.
            let mut some = known.to_vec();
            some.sort_unstable();
            let others = some.len().saturating_sub(MAX_LISTED);
            some.truncate(MAX_LISTED);
            let more = if others > 0 { format!(" and {others} others") } else { String::new() };
            format!("{name:?}; there are: {}{more}", some.join(", "))
        }
    }
}

/// Whether a value consists of no more values than are `left`.
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
    use serde_json::json;

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
    fn references_are_not_fetched_and_nonsense_is_refused() {
        assert!(Schema::compile(&json!({"$ref": "http://127.0.0.1:1/schema.json"})).is_err());
        assert!(Schema::compile(&json!({"type": "no such type"})).is_err());
    }
}
