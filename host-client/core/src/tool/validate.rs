//! Validation of arguments before the tool gets them, and of results before the code gets them, against the tool's JSON
//! Schemas. References to other documents are refused, never fetched.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use relay_proto::spelling::nearest;
use serde_json::Value;

use crate::tool::schema::{self, Checked};

/// The most faults that an error names.
const MAX_NAMED_FAULTS: usize = 3;
/// The most fields that an error lists.
const MAX_LISTED_FIELDS: usize = 20;
/// The most JSON values in arguments or results whose faults are named, counted at all depths. Naming faults takes far
/// longer than finding that there is one: of larger ones an error says only that they do not fit.
const MAX_EXPLAINED_VALUES: usize = 5_000;
/// The most memory of one compiled regular expression, in bytes.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// A compiled JSON Schema.
pub struct Schema {
    validator: jsonschema::Validator,
    /// The schema as it was given, from which errors suggest field names.
    schema: Value,
    /// `true` if the schema contains itself.
    is_recursive: bool,
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
    /// Compiles a schema, once its evaluation is known to end soon.
    ///
    /// # Errors
    /// `schema` is not a JSON Schema, refers to other documents, or is too large or too costly to evaluate. The text is
    /// for the tool's author.
    pub fn compile(schema: &Value) -> Result<Self, String> {
        let Checked { is_recursive } = schema::check(schema)?;
        let patterns = jsonschema::PatternOptions::regex().size_limit(MAX_PATTERN_BYTES);
        let compiled = jsonschema::options().with_pattern_options(patterns).build(schema);
        let validator = compiled.map_err(|error| format!("its schema is not usable: {error}"))?;
        Ok(Self { validator, schema: schema.clone(), is_recursive })
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
            return Err("they do not fit its schema".into());
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
        !self.is_recursive && has_at_most(value, &mut MAX_EXPLAINED_VALUES.clone())
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
