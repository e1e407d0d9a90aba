//! What a model is told of a tool, in the shapes of those who run models.

use serde_json::{Value, json};

/// A tool's name, description and arguments. Clients that take none of the shapes here build their own of its fields.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    /// The name, of letters, digits and `_`.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema of its arguments, an object.
    pub parameters: Value,
    is_strict: bool,
}

impl Definition {
    pub(crate) fn new(name: &str, description: String, mut parameters: Value) -> Self {
        if let Value::Object(members) = &mut parameters {
            // Every provider knows which dialect it takes, and it costs tokens.
            members.remove("$schema");
        }
        Self { name: name.to_owned(), description, parameters, is_strict: false }
    }

    /// The same by the rules of OpenAI's strict mode: every member is required, and what need not be given may be `null`.
    /// Calls with such arguments are understood without more.
    #[must_use]
    pub fn strict(mut self) -> Self {
        make_strict(&mut self.parameters);
        self.is_strict = true;
        self
    }

    /// As a member of `tools` in OpenAI's chat completions, which most others take, too.
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

    /// As a member of `tools` in OpenAI's responses. Where it does not say so itself, strict mode is on there, so that it is
    /// always said.
    pub fn openai_responses(&self) -> Value {
        json!({
            "type": "function",
            "name": self.name,
            "description": self.description,
            "parameters": self.parameters,
            "strict": self.is_strict,
        })
    }

    /// As a member of `tools` in Anthropic's messages.
    pub fn anthropic(&self) -> Value {
        json!({"name": self.name, "description": self.description, "input_schema": self.parameters})
    }
}

fn make_strict(schema: &mut Value) {
    let Value::Object(schema) = schema else { return };
    for unknown in ["default", "format"] {
        schema.remove(unknown);
    }
    for inner in ["items", "additionalProperties"] {
        schema.get_mut(inner).into_iter().for_each(make_strict);
    }
    // It knows no other.
    if let Some(of) = schema.remove("oneOf") {
        schema.insert("anyOf".into(), of);
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

fn make_nullable(schema: &mut Value) {
    let is_null = |one: &Value| *one == "null" || one.get("type").is_some_and(|of| of == "null");
    let may_be_null = |of: &Value| of.as_array().is_some_and(|of| of.iter().any(is_null));
    if !["type", "anyOf"].into_iter().filter_map(|name| schema.get(name)).any(may_be_null) {
        *schema = json!({"anyOf": [schema.take(), {"type": "null"}]});
    }
}
