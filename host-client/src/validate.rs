//! Arguments against the schema of their tool, before the tool sees them. References are never fetched.

use std::fmt::Write as _;

use serde_json::Value;

/// How many faults an error names.
const NAMED_FAULTS: usize = 3;

/// A compiled JSON Schema.
pub(crate) struct Schema(jsonschema::Validator);

/// Proof that arguments fit their tool's schema.
pub(crate) struct ValidArguments(Value);

impl ValidArguments {
    pub(crate) fn into_inner(self) -> Value {
        self.0
    }
}

impl Schema {
    /// Compiles a schema.
    ///
    /// # Errors
    /// It is not one; the text says where.
    pub(crate) fn compile(schema: &Value) -> Result<Self, String> {
        crate::schema::check(schema)?;
        let compiled = jsonschema::options().with_pattern_options(jsonschema::PatternOptions::regex()).build(schema);
        compiled.map(Self).map_err(|error| format!("its input schema is not usable: {error}"))
    }

    /// Checks arguments.
    ///
    /// # Errors
    /// They do not fit; the text names where, what is expected and what came.
    pub(crate) fn check(&self, arguments: Value) -> Result<ValidArguments, String> {
        if self.0.is_valid(&arguments) {
            return Ok(ValidArguments(arguments));
        }
        let mut message = String::new();
        for (number, fault) in self.0.iter_errors(&arguments).take(NAMED_FAULTS).enumerate() {
            let mut path = fault.instance_path().to_string();
            path.truncate(path.floor_char_boundary(200));
            let place = if path.is_empty() { "the arguments".to_owned() } else { path };
            let mut text = fault.to_string();
            text.truncate(text.floor_char_boundary(300));
            let separator = if number == 0 { "" } else { "; " };
            // Writing to a String cannot fail.
            let _ = write!(message, "{separator}at {place}: {text}");
        }
        Err(message)
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
    }

    #[test]
    fn references_are_not_fetched_and_nonsense_is_refused() {
        assert!(Schema::compile(&json!({"$ref": "http://127.0.0.1:1/schema.json"})).is_err());
        assert!(Schema::compile(&json!({"type": "no such type"})).is_err());
    }
}
