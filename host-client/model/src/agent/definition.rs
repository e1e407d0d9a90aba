//! Definitions of tools for models, in the shapes of their providers.

use serde_json::{Value, json};

/// Name, description and schema of a tool for a model. For providers that none of its methods fit, build the shape of
/// the fields.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    /// Name of the tool: letters, digits and `_`.
    pub name: String,
    /// Description of the tool for the model.
    pub description: String,
    /// JSON Schema of the arguments, an object.
    pub parameters: Value,
    is_strict: bool,
}

impl Definition {
    pub(crate) fn new(name: &str, description: String, mut parameters: Value) -> Self {
        if let Value::Object(members) = &mut parameters {
            // Each provider has its own dialect, and the member costs tokens.
            members.remove("$schema");
        }
        Self { name: name.to_owned(), description, parameters, is_strict: false }
    }

    /// Rewrites the schema by the rules of OpenAI's strict mode: every member is required, and optional ones may be
    /// `null`. Calls with such arguments need no conversion.
    #[must_use]
    pub fn strict(mut self) -> Self {
        make_strict(&mut self.parameters);
        self.is_strict = true;
        self
    }

    /// Formats a member of `tools` for OpenAI's chat completions, which most other providers accept, too.
    pub fn openai_chat(&self) -> Value {
        let mut function = json!({
            "name": self.name,
            "description": self.description,
            "parameters": self.parameters,
        });
        if self.is_strict {
            function["strict"] = true.into();
        }
        json!({"type": "function", "function": function})
    }

    /// Formats a member of `tools` for OpenAI's responses. `strict` is always given, because its default there is
    /// `true`.
    pub fn openai_responses(&self) -> Value {
        json!({
            "type": "function",
            "name": self.name,
            "description": self.description,
            "parameters": self.parameters,
            "strict": self.is_strict,
        })
    }

    /// Formats a member of `tools` for Anthropic's messages.
    pub fn anthropic(&self) -> Value {
        json!({"name": self.name, "description": self.description, "input_schema": self.parameters})
    }
}

/// Rewrites a schema by the rules of strict mode.
fn make_strict(schema: &mut Value) {
    let Value::Object(schema) = schema else { return };
    for unknown in ["default", "format"] {
        schema.remove(unknown);
    }
    for inner in ["items", "additionalProperties"] {
        schema.get_mut(inner).into_iter().for_each(make_strict);
    }
    // Strict mode supports `anyOf` alone.
    if let Some(alternatives) = schema.remove("oneOf") {
        schema.insert("anyOf".into(), alternatives);
    }
    schema.get_mut("anyOf").and_then(Value::as_array_mut).into_iter().flatten().for_each(make_strict);
    let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    for (name, property) in properties.iter_mut() {
        make_strict(property);
        if !required.iter().any(|required| required == name) {
            make_nullable(property);
        }
    }
    let names: Vec<_> = properties.keys().cloned().collect();
    schema.insert("required".into(), names.into());
    schema.insert("additionalProperties".into(), false.into());
}

/// Allows `null` in a schema.
fn make_nullable(schema: &mut Value) {
    let is_null = |one: &Value| *one == "null" || one.get("type").is_some_and(|of| of == "null");
    let may_be_null = |of: &Value| of.as_array().is_some_and(|of| of.iter().any(is_null));
    if !["type", "anyOf"].into_iter().filter_map(|name| schema.get(name)).any(may_be_null) {
        *schema = json!({"anyOf": [schema.take(), {"type": "null"}]});
    }
}
