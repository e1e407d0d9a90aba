//! Learning of result types, for tools without an output schema: the shapes of their results are observed. Values are
//! never kept.
//!
//! A shape is small for any results: its depth, its keys and the values that are looked at are bounded. Keys that look
//! like data are not kept, either: an object with such keys counts as a map.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value, json};

use crate::hash::Hash;

/// The most bytes of a result's JSON. Longer results are ignored.
const MAX_RESULT_BYTES: usize = 256 << 10;
/// The most values of one result that are looked at, counted at all depths.
const MAX_VALUES: usize = 2_000;
/// The most items of one list, or values of one map, that are looked at.
const MAX_ITEMS: usize = 50;
/// The most levels of a result that are looked at.
const MAX_DEPTH: usize = 6;
/// The most keys of an object. An object with more keys counts as a map.
const MAX_KEYS: usize = 40;
/// The most keys of an object if no key is in all results. With more keys it counts as a map.
const MAX_OPTIONAL_KEYS: usize = 8;
/// The most bytes of a key that is the name of a field. A longer key counts as data.
const MAX_KEY_BYTES: usize = 40;
/// The most digits in a key that is the name of a field. A key with more digits counts as data.
const MAX_KEY_DIGITS: usize = 3;
/// The most types that a shape consists of. A larger one is cut.
const MAX_TYPES: usize = 400;
/// The most results of one tool that are looked at.
const MAX_RESULTS: u64 = 100;
/// The most tools whose results are looked at.
const MAX_TOOLS: usize = 1_000;

/// The shapes of results by the tools' full names.
#[derive(Default)]
pub(crate) struct Learned(Mutex<HashMap<String, Seen>>);

/// The results of one tool.
struct Seen {
    /// The digest of the tool that returned them. Another tool with the same name starts anew.
    tool: Hash,
    /// The number of results.
    results: u64,
    shape: Shape,
}

impl Learned {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Seen>> {
        // A poisoned lock is usable: the code that changes the shapes does not panic midway.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Merges the shape of a result into that of its tool. Does nothing for a result that is too long or not JSON, or
    /// if a limit of this module is reached.
    pub(crate) fn observe(&self, name: &str, tool: Hash, json: &[u8]) {
        let is_enough = |seen: &Seen| seen.tool == tool && seen.results >= MAX_RESULTS;
        if json.len() > MAX_RESULT_BYTES || self.lock().get(name).is_some_and(is_enough) {
            return;
        }
        let Ok(value) = serde_json::from_slice(json) else { return };
        let shape = Shape::from_value(&value, 0, &mut MAX_VALUES.clone());
        let mut tools = self.lock();
        if tools.len() >= MAX_TOOLS && !tools.contains_key(name) {
            return;
        }
        let seen = tools.entry(name.to_owned());
        let seen = seen.or_insert_with(|| Seen { tool, results: 0, shape: Shape::default() });
        if seen.tool != tool {
            *seen = Seen { tool, results: 0, shape: Shape::default() };
        }
        seen.results += 1;
        seen.shape.merge(shape);
        let mut depth = MAX_DEPTH;
        while depth > 0 && seen.shape.count_types() > MAX_TYPES {
            depth -= 1;
            seen.shape.cut_below(depth);
        }
    }

    /// Returns a JSON Schema of a tool's results so far, and their number; `None`: there were none.
    pub(crate) fn observed(&self, name: &str, tool: Hash) -> Option<(Value, u64)> {
        let tools = self.lock();
        let seen = tools.get(name).filter(|seen| seen.tool == tool)?;
        Some((seen.shape.schema(), seen.results))
    }
}

/// The types of all values at one place of the results.
#[derive(Debug, Clone, Default, PartialEq)]
struct Shape {
    /// The scalar types: `null`, `boolean`, `number`, `string`.
    scalars: BTreeSet<&'static str>,
    /// The shape of the items of lists; `None`: no value was a list; `Some(None)`: all lists were empty.
    items: Option<Option<Box<Shape>>>,
    /// The members of objects; `None`: no value was an object.
    object: Option<Members>,
    /// `true` if parts of the values were not looked at, so that any type is possible.
    is_open: bool,
}

/// The members of all objects at one place.
#[derive(Debug, Clone, PartialEq)]
enum Members {
    /// The members of objects whose keys are names of fields.
    Named {
        members: BTreeMap<String, Shape>,
        /// The keys that all objects have.
        always: BTreeSet<String>,
    },
    /// The shape of all values of objects whose keys are data.
    Map(Box<Shape>),
}

impl Shape {
    /// Returns the shape of a value at this depth, of which at most `left` values are looked at. Subtracts their
    /// number.
    fn from_value(value: &Value, depth: usize, left: &mut usize) -> Self {
        let mut shape = Self::default();
        if depth >= MAX_DEPTH || *left == 0 {
            shape.is_open = true;
            return shape;
        }
        *left -= 1;
        match value {
            Value::Null => drop(shape.scalars.insert("null")),
            Value::Bool(_) => drop(shape.scalars.insert("boolean")),
            Value::Number(_) => drop(shape.scalars.insert("number")),
            Value::String(_) => drop(shape.scalars.insert("string")),
            Value::Array(items) => {
                let items = items.iter().take(MAX_ITEMS).map(|item| Self::from_value(item, depth + 1, left));
                shape.items = Some(items.reduce(Self::merged).map(Box::new));
            }
            Value::Object(members) => shape.object = Some(Members::from_object(members, depth, left)),
        }
        shape
    }

    fn merged(mut self, other: Self) -> Self {
        self.merge(other);
        self
    }

    /// Adds the types of another shape.
    fn merge(&mut self, other: Self) {
        self.scalars.extend(other.scalars);
        self.is_open |= other.is_open;
        self.items = match (self.items.take(), other.items) {
            (Some(Some(one)), Some(Some(two))) => Some(Some(Box::new(one.merged(*two)))),
            (Some(one), Some(two)) => Some(one.or(two)),
            (one, two) => one.or(two),
        };
        self.object = match (self.object.take(), other.object) {
            (Some(one), Some(two)) => Some(one.merged(two)),
            (one, two) => one.or(two),
        };
    }

    /// Returns the number of types that the shape consists of.
    fn count_types(&self) -> usize {
        let items = self.items.iter().flatten().map(|items| items.count_types()).sum::<usize>();
        let members = match &self.object {
            Some(Members::Named { members, .. }) => members.values().map(Self::count_types).sum(),
            Some(Members::Map(values)) => values.count_types(),
            None => 0,
        };
        1 + items + members
    }

    /// Removes everything below a depth.
    fn cut_below(&mut self, depth: usize) {
        if depth == 0 && (self.items.is_some() || self.object.is_some()) {
            *self = Self { is_open: true, ..Self::default() };
            return;
        }
        let below = depth.saturating_sub(1);
        if let Some(Some(items)) = &mut self.items {
            items.cut_below(below);
        }
        match &mut self.object {
            Some(Members::Named { members, .. }) => members.values_mut().for_each(|member| member.cut_below(below)),
            Some(Members::Map(values)) => values.cut_below(below),
            None => {}
        }
    }

    /// Returns the shape as a JSON Schema.
    fn schema(&self) -> Value {
        if self.is_open {
            return Value::Bool(true);
        }
        let mut kinds: Vec<&str> = self.scalars.iter().copied().collect();
        let mut schema = Map::new();
        if let Some(items) = &self.items {
            kinds.push("array");
            schema.extend(items.as_ref().map(|items| ("items".to_owned(), items.schema())));
        }
        match &self.object {
            Some(Members::Named { members, always }) => {
                let properties: Map<_, _> =
                    members.iter().map(|(name, member)| (name.clone(), member.schema())).collect();
                schema.insert("properties".into(), properties.into());
                schema.insert("required".into(), json!(always));
                kinds.push("object");
            }
            Some(Members::Map(values)) => {
                schema.insert("additionalProperties".into(), values.schema());
                kinds.push("object");
            }
            None => {}
        }
        schema.insert("type".into(), json!(kinds));
        schema.into()
    }
}

impl Members {
    /// Returns the members of an object at this depth, of which at most `left` values are looked at.
    fn from_object(members: &Map<String, Value>, depth: usize, left: &mut usize) -> Self {
        if members.len() > MAX_KEYS || members.keys().any(|key| is_data(key)) {
            let values = members.values().take(MAX_ITEMS).map(|value| Shape::from_value(value, depth + 1, left));
            return Self::Map(Box::new(values.reduce(Shape::merged).unwrap_or_default()));
        }
        let always = members.keys().cloned().collect();
        let members = members.iter().map(|(key, value)| (key.clone(), Shape::from_value(value, depth + 1, left)));
        Self::Named { members: members.collect(), always }
    }

    /// Returns the members of both, as a map if there are too many keys for an object.
    fn merged(self, other: Self) -> Self {
        match (self, other) {
            (Self::Named { mut members, mut always }, Self::Named { members: others, always: also }) => {
                always.retain(|key| also.contains(key));
                for (key, member) in others {
                    members.entry(key).or_default().merge(member);
                }
                let is_map = members.len() > MAX_KEYS || (members.len() > MAX_OPTIONAL_KEYS && always.is_empty());
                let named = Self::Named { members, always };
                if is_map { Self::Map(Box::new(named.values())) } else { named }
            }
            (one, two) => Self::Map(Box::new(one.values().merged(two.values()))),
        }
    }

    /// Returns the shape of all values.
    fn values(self) -> Shape {
        match self {
            Self::Named { members, .. } => members.into_values().reduce(Shape::merged).unwrap_or_default(),
            Self::Map(values) => *values,
        }
    }
}

/// Returns `true` if a key is more likely data, such as an id or an address, than the name of a field.
fn is_data(key: &str) -> bool {
    let may_be_in_name = |it: char| it.is_alphanumeric() || matches!(it, '_' | '-' | '$');
    !key.starts_with(|it: char| it.is_alphabetic() || matches!(it, '_' | '$'))
        || key.len() > MAX_KEY_BYTES
        || !key.chars().all(may_be_in_name)
        || key.chars().filter(char::is_ascii_digit).count() > MAX_KEY_DIGITS
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn tool(number: u8) -> Hash {
        Hash::of(&[number])
    }

    fn learned(results: &[Value]) -> Value {
        let learned = Learned::default();
        results.iter().for_each(|result| learned.observe("a.b", tool(1), result.to_string().as_bytes()));
        let (schema, seen) = learned.observed("a.b", tool(1)).unwrap();
        assert_eq!(seen, results.len().min(100) as u64);
        schema
    }

    #[test]
    fn shapes_are_merged_over_results() {
        let schema = learned(&[
            json!({"id": 1, "tags": [], "note": null}),
            json!({"id": 2, "tags": ["a", 1], "name": "secret-value"}),
        ]);
        assert_eq!(
            schema,
            json!({"type": ["object"], "required": ["id", "tags"], "properties": {
                "id": {"type": ["number"]}, "name": {"type": ["string"]}, "note": {"type": ["null"]},
                "tags": {"type": ["array"], "items": {"type": ["number", "string"]}},
            }})
        );
        assert_eq!(learned(&[json!("x"), json!([])]), json!({"type": ["string", "array"]}));
    }

    #[test]
    fn keys_that_look_like_data_are_not_kept() {
        for key in ["user@example.com", "sk-a1b2c3d4e5", "2026-01-01", "", "a b", "/etc/passwd", &"k".repeat(41)] {
            let schema = learned(&[json!({key: 1, "ok": 2})]);
            assert_eq!(schema, json!({"type": ["object"], "additionalProperties": {"type": ["number"]}}), "{key}");
        }
        let names = |from: usize, to: usize| -> Value {
            (from..to).map(|it| (format!("k{}", "x".repeat(it)), json!(true))).collect::<Map<_, _>>().into()
        };
        let map = json!({"type": ["object"], "additionalProperties": {"type": ["boolean"]}});
        assert_eq!(learned(&[names(0, 30), names(10, 39)])["properties"].as_object().unwrap().len(), 39);
        assert_eq!(learned(&[names(0, 5), names(5, 10)]), map, "none of them is always there");
        let many: Map<_, _> = (0..50_u8)
            .map(|it| {
                (format!("k{}", "ab".repeat(usize::from(it) % 19) + &"c".repeat(usize::from(it) / 19)), json!(true))
            })
            .collect();
        assert_eq!(learned(&[many.into()]), map);
    }

    #[test]
    fn a_shape_stays_small_whatever_comes() {
        let deep = (0..100).fold(json!(1), |inner, _| json!({"a": inner}));
        assert!(learned(&[deep]).to_string().len() < 600);
        let alphabet = "abcdefghijklmnopqrstuvwxyz";
        let letter = |number: usize| &alphabet[number % 26..=number % 26];
        let letters = |number: usize| format!("k{}{}", letter(number), letter(number / 26));
        let wide = |seed: usize| -> Value {
            let inner: Map<_, _> = (0..30).map(|it| (letters(it + seed), json!({"x": 1, "y": [it]}))).collect();
            (0..30).map(|it| (letters(it), Value::Object(inner.clone()))).collect::<Map<_, _>>().into()
        };
        let results: Vec<_> = (0..150).map(wide).collect();
        assert!(learned(&results).to_string().len() < 20_000);
        let learned = Learned::default();
        learned.observe("a.b", tool(1), &vec![b'1'; MAX_RESULT_BYTES + 1]);
        learned.observe("a.b", tool(1), b"no JSON");
        assert_eq!(learned.observed("a.b", tool(1)), None);
        learned.observe("a.b", tool(1), b"1");
        learned.observe("a.b", tool(2), b"true");
        assert_eq!(learned.observed("a.b", tool(1)), None, "another tool took its place");
        assert_eq!(learned.observed("a.b", tool(2)), Some((json!({"type": ["boolean"]}), 1)));
    }
}
