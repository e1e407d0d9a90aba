//! Literal values, and their JSON.

use std::collections::HashMap;

use crate::json;

/// Value that is written out in code, so that it is known without running anything.
#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number; `Infinity` is `null` in JSON.
    Number(f64),
    /// A string.
    String(String),
    /// An array.
    Array(Vec<Literal>),
    /// An object: its members in JavaScript's order, each key once.
    Object(Vec<(String, Literal)>),
}

impl Literal {
    /// Makes an object of members in the order of the code. `None` is `undefined`, which JSON leaves out.
    pub(crate) fn object(members: Vec<(String, Option<Self>)>) -> Self {
        let mut places: HashMap<String, usize> = HashMap::with_capacity(members.len());
        let mut ordered: Vec<(String, Option<Self>)> = Vec::with_capacity(members.len());
        for (key, value) in members {
            match places.get(&key).and_then(|place| ordered.get_mut(*place)) {
                // Of equal keys the last value counts, in the place of the first.
                Some(earlier) => earlier.1 = value,
                None => {
                    places.insert(key.clone(), ordered.len());
                    ordered.push((key, value));
                }
            }
        }
        // The sort is stable: names keep their order.
        ordered.sort_by_key(|(key, _)| json::array_index(key.as_bytes()).map_or((true, 0), |index| (false, index)));
        Self::Object(ordered.into_iter().filter_map(|(key, value)| Some((key, value?))).collect())
    }

    /// Writes the value as V8's `JSON.stringify` does.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        let mut json = String::new();
        self.push_json(&mut json);
        json.into_bytes()
    }

    fn push_json(&self, json: &mut String) {
        match self {
            Self::Null => json.push_str("null"),
            Self::Bool(true) => json.push_str("true"),
            Self::Bool(false) => json.push_str("false"),
            Self::Number(number) => json::push_number(json, *number),
            Self::String(string) => json::push_string(json, string),
            Self::Array(values) => {
                json.push('[');
                for (n, value) in values.iter().enumerate() {
                    if n > 0 {
                        json.push(',');
                    }
                    value.push_json(json);
                }
                json.push(']');
            }
            Self::Object(members) => {
                json.push('{');
                for (n, (key, value)) in members.iter().enumerate() {
                    if n > 0 {
                        json.push(',');
                    }
                    json::push_string(json, key);
                    json.push(':');
                    value.push_json(json);
                }
                json.push('}');
            }
        }
    }
}
