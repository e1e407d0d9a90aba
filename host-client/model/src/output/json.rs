//! Reads JSON as slices of its text, without building values.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Member of an array or an object.
#[derive(Debug, Clone, Copy)]
pub(super) struct Member<'a> {
    pub(super) index: usize,
    /// Key as written, in quotes; `None` in an array.
    pub(super) key: Option<&'a str>,
    /// Value as JSON.
    pub(super) value: &'a str,
}

impl<'a> Member<'a> {
    /// Returns the slice with which the member begins.
    pub(super) fn start(&self) -> &'a str {
        self.key.unwrap_or(self.value)
    }
}

/// Returns `true` if the whole text is one array or object.
pub(super) fn is_container(text: &str) -> bool {
    text.trim_start().starts_with(['{', '[']) && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// Calls `look` with each member of an array or object, and returns their number; `None` for other values. Nested
/// values are skipped without recursion.
pub(super) fn each_member<'a>(json: &'a str, look: impl FnMut(Member<'a>)) -> Option<usize> {
    serde_json::Deserializer::from_str(json).deserialize_any(Each(look)).ok()
}

/// Returns the text from the start of one of its slices to the end of another.
pub(super) fn between<'a>(text: &'a str, first: &str, last: &str) -> &'a str {
    let start = offset(text, first);
    let end = offset(text, last) + last.len();
    text.get(start..end).unwrap_or_default()
}

/// Returns the offset of a slice in its text, in bytes.
pub(super) fn offset(text: &str, slice: &str) -> usize {
    slice.as_ptr().addr().saturating_sub(text.as_ptr().addr())
}

/// Returns the text of a JSON string, such as a key.
pub(super) fn unquoted(json: &str) -> Cow<'_, str> {
    let inner = json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(json);
    if !inner.contains('\\') {
        return inner.into();
    }
    // A string with half a surrogate pair stays as written.
    serde_json::from_str::<String>(json).map_or(inner.into(), Cow::from)
}

/// Visitor of the members of a value.
struct Each<F>(F);

impl<'de, F: FnMut(Member<'de>)> Visitor<'de> for Each<F> {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array or an object")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<usize, A::Error> {
        let mut count = 0;
        while let Some(value) = items.next_element::<&RawValue>()? {
            self.0(Member { index: count, key: None, value: value.get() });
            count += 1;
        }
        Ok(count)
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<usize, A::Error> {
        let mut count = 0;
        while let Some((key, value)) = members.next_entry::<&RawValue, &RawValue>()? {
            self.0(Member { index: count, key: Some(key.get()), value: value.get() });
            count += 1;
        }
        Ok(count)
    }
}

/// Target of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place<'a> {
    /// The value, as JSON.
    Value(&'a str),
    /// There is no value. Holds the number of steps that exist.
    Nowhere(usize),
}

/// Finds the value at a path, in one pass over the text.
pub(super) fn follow<'a>(json: &'a str, path: &[String]) -> Place<'a> {
    let walk = Walk { path, taken: 0 };
    walk.deserialize(&mut serde_json::Deserializer::from_str(json)).unwrap_or(Place::Nowhere(0))
}

/// Rest of a path, and the number of steps taken.
#[derive(Clone, Copy)]
struct Walk<'p> {
    path: &'p [String],
    taken: usize,
}

impl Walk<'_> {
    /// Returns the path without its first step.
    fn step(self) -> Self {
        Self { path: self.path.get(1..).unwrap_or_default(), taken: self.taken + 1 }
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = Place<'de>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Place<'de>, D::Error> {
        if self.path.is_empty() {
            return serde::Deserialize::deserialize(json).map(|value: &RawValue| Place::Value(value.get()));
        }
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = Place<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Place<'de>, A::Error> {
        let mut found = Place::Nowhere(self.taken);
        while let Some(key) = members.next_key::<&RawValue>()? {
            if self.path.first().is_some_and(|step| *step == unquoted(key.get())) {
                // The last of duplicate keys counts, as in JavaScript.
                found = members.next_value_seed(self.step())?;
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Place<'de>, A::Error> {
        let wanted = self.path.first().and_then(|step| step.parse::<usize>().ok());
        let mut found = Place::Nowhere(self.taken);
        for index in 0.. {
            if Some(index) == wanted {
                match items.next_element_seed(self.step())? {
                    Some(place) => found = place,
                    None => break,
                }
            } else if items.next_element::<IgnoredAny>()?.is_none() {
                break;
            }
        }
        Ok(found)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Place<'de>, E> {
        Ok(Place::Nowhere(self.taken))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Place<'de>, E> {
        Ok(Place::Nowhere(self.taken))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Place<'de>, E> {
        Ok(Place::Nowhere(self.taken))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Place<'de>, E> {
        Ok(Place::Nowhere(self.taken))
    }

    fn visit_str<E>(self, _: &str) -> Result<Place<'de>, E> {
        Ok(Place::Nowhere(self.taken))
    }

    fn visit_unit<E>(self) -> Result<Place<'de>, E> {
        Ok(Place::Nowhere(self.taken))
    }
}
