//! The types of lists, tuples and literals.

use serde_json::{Map, Value};

use super::super::keywords::is_small;
use super::super::text::{property, quoted};
use super::super::text_type::{Precedence, Type, broad_type};
use super::{MAX_LITERAL_BYTES, MAX_TUPLE, Types};

impl<'a> Types<'a> {
    /// Returns the type of a list, or of a tuple if the schema describes items by their place.
    pub(super) fn type_of_list(&mut self, keywords: &'a Map<String, Value>, level: usize) -> Type {
        // A list of strings or numbers is no deeper than what it stands beside.
        let is_plain_list = !keywords.contains_key("prefixItems") && keywords.get("items").is_some_and(is_small);
        if level >= self.style.levels && !is_plain_list {
            return self.cut();
        }
        let enclosing = std::mem::take(&mut self.enclosing);
        let list = |keyword: &str| keywords.get(keyword).and_then(Value::as_array);
        // Before JSON Schema 2020-12, `items` held the schemas by place, and `additionalItems` that of all other items.
        let (places, rest) = match (list("prefixItems"), list("items")) {
            (Some(places), _) => (Some(places), keywords.get("items")),
            (None, Some(places)) => (Some(places), keywords.get("additionalItems")),
            (None, None) => (None, keywords.get("items")),
        };
        let number = |keyword: &str| keywords.get(keyword).and_then(Value::as_u64);
        let type_of_rest = |this: &mut Self| rest.map_or_else(Type::unknown, |rest| this.type_of(rest, level + 1));
        let result = match places {
            Some(places) if !places.is_empty() && places.len() <= MAX_TUPLE => {
                let mut texts = Vec::new();
                for (place, schema) in (0_u64..).zip(places) {
                    let each = self.type_of(schema, level + 1);
                    let is_optional = place >= number("minItems").unwrap_or_default();
                    texts.push(if is_optional { format!("{}?", each.inside(Precedence::Atom)) } else { each.text });
                }
                let is_closed = rest == Some(&Value::Bool(false))
                    || number("maxItems").is_some_and(|most| most <= texts.len() as u64);
                if !is_closed {
                    texts.push(format!("...{}[]", type_of_rest(self).inside(Precedence::Atom)));
                }
                Type::atom(format!("[{}]", texts.join(", ")))
            }
            Some(places) if !places.is_empty() => Type::atom("unknown[]"),
            _ => Type::atom(format!("{}[]", type_of_rest(self).inside(Precedence::Atom))),
        };
        self.enclosing = enclosing;
        result
    }

    /// Returns the type of exactly this value, or that of its kind if it is too large.
    pub(super) fn type_of_literal(&mut self, value: &'a Value, level: usize) -> Type {
        let bytes = value.as_str().map_or(8, str::len);
        let is_deep = level >= self.style.levels && (value.is_array() || value.is_object());
        if is_deep || bytes > MAX_LITERAL_BYTES || !self.spend(bytes) {
            self.is_cut = true;
            return broad_type(value);
        }
        match value {
            Value::Null => Type::atom("null"),
            Value::Bool(value) => Type::atom(value.to_string()),
            Value::Number(number) => Type::atom(number.to_string()),
            Value::String(text) => Type::atom(quoted(text)),
            Value::Array(items) if items.len() <= MAX_TUPLE => {
                let items: Vec<_> = items.iter().map(|item| self.type_of_literal(item, level + 1).text).collect();
                Type::atom(format!("[{}]", items.join(", ")))
            }
            Value::Object(members) if members.len() <= MAX_TUPLE => {
                let members: Vec<_> = members
                    .iter()
                    .map(|(name, value)| format!("{}: {}", property(name), self.type_of_literal(value, level + 1).text))
                    .collect();
                Type::atom(if members.is_empty() { "{}".into() } else { format!("{{ {} }}", members.join("; ")) })
            }
            Value::Array(_) | Value::Object(_) => {
                self.is_cut = true;
                broad_type(value)
            }
        }
    }
}
