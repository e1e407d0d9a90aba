//! The arguments of a call as they are recorded: redacted, and shortened if they are large.

use std::borrow::Cow;
use std::io::{self, BufWriter};

use serde::Serialize;
use serde_json::Value;

use super::redactions::Redactions;
use crate::hash::{Hash, HashWriter};
use crate::text::shortened;

/// The most bytes of JSON that arguments are recorded in whole, 64 KiB. Larger ones are shortened to about this size.
const MAX_WHOLE_BYTES: usize = 64 << 10;
/// The most bytes of JSON that are searched for redactions, 1 MiB: a search in more takes too long. If redactions apply
/// to larger arguments, the arguments are left out.
pub(super) const MAX_REDACTABLE_BYTES: usize = 1 << 20;

/// The arguments of a call, as they are given to the audit.
#[derive(Debug, Clone, Copy)]
pub enum Arguments<'a> {
    /// Arguments that were parsed as JSON. They are redacted before they are written, and shortened over 64 KiB.
    Value {
        /// The value.
        value: &'a Value,
        /// The length of its JSON as it was received, in bytes.
        bytes: usize,
    },
    /// Arguments that are not valid JSON, or that were not parsed. They cannot be redacted: only their length is
    /// recorded.
    Unread {
        /// Their length in bytes.
        bytes: usize,
    },
}

/// The members of a `decision` record that describe the call's arguments.
#[derive(Serialize)]
pub(super) struct RecordedArguments<'a> {
    arguments_bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<Cow<'a, Value>>,
    /// The SHA-256 of the redacted arguments' JSON, if `arguments` holds a shortened form of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments_sha256: Option<Hash>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments_note: Option<Note>,
}

/// The reason why a record does not contain the arguments in whole.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Note {
    /// They are over [`MAX_WHOLE_BYTES`].
    Shortened,
    /// They are not valid JSON, or were not parsed.
    Unread,
    /// They are over [`MAX_REDACTABLE_BYTES`], and redactions apply to them.
    TooLargeToRedact,
}

impl<'a> RecordedArguments<'a> {
    /// Redacts and shortens the arguments of a call of `tool`.
    ///
    /// # Errors
    /// The arguments cannot be written as JSON.
    pub(super) fn new(tool: &str, arguments: Arguments<'a>, redactions: &Redactions) -> io::Result<Self> {
        let without = |arguments_bytes, note| Self {
            arguments_bytes,
            arguments: None,
            arguments_sha256: None,
            arguments_note: Some(note),
        };
        let (value, bytes) = match arguments {
            Arguments::Value { value, bytes } => (value, bytes),
            Arguments::Unread { bytes } => return Ok(without(bytes, Note::Unread)),
        };
        if bytes > MAX_REDACTABLE_BYTES && redactions.apply_to(tool) {
            return Ok(without(bytes, Note::TooLargeToRedact));
        }
        let redacted = redactions.redact(tool, value);
        if bytes <= MAX_WHOLE_BYTES {
            let arguments = Some(redacted);
            return Ok(Self { arguments_bytes: bytes, arguments, arguments_sha256: None, arguments_note: None });
        }
        Ok(Self {
            arguments_bytes: bytes,
            arguments_sha256: Some(json_hash(&redacted)?),
            arguments: Some(Cow::Owned(shortened(&redacted, MAX_WHOLE_BYTES))),
            arguments_note: Some(Note::Shortened),
        })
    }
}

/// Returns the SHA-256 of a value's JSON, without holding the JSON in memory.
fn json_hash(value: &Value) -> io::Result<Hash> {
    let mut writer = BufWriter::new(HashWriter::default());
    serde_json::to_writer(&mut writer, value)?;
    Ok(writer.into_inner().map_err(io::IntoInnerError::into_error)?.finish())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    fn recorded(value: &Value) -> Value {
        let bytes = value.to_string().len();
        let arguments = Arguments::Value { value, bytes };
        let none = Redactions::parse(&[]).unwrap();
        serde_json::to_value(RecordedArguments::new("a.b", arguments, &none).unwrap()).unwrap()
    }

    #[test]
    fn small_members_of_large_arguments_are_kept() {
        let value = json!({"aa": "x".repeat(1 << 20), "amount": 12, "to": {"iban": "DE1"}, "zeros": vec![0; 100_000]});
        let record = recorded(&value);
        let arguments = &record["arguments"];
        assert_eq!((&arguments["amount"], &arguments["to"]), (&json!(12), &json!({"iban": "DE1"})));
        assert!(arguments["aa"].as_str().unwrap().ends_with("… [1048576 bytes]"));
        assert!(arguments["zeros"].as_array().unwrap().last().unwrap().as_str().unwrap().ends_with("more items]"));
        assert_eq!(record["arguments_note"], "shortened");
        assert_eq!(record["arguments_sha256"], Hash::of(value.to_string().as_bytes()).to_string());
    }

    #[test]
    fn whatever_the_shape_of_large_arguments_little_is_recorded() {
        let nested = (0..100).fold(json!("x".repeat(1 << 20)), |inner, _| json!([inner, 1, 2, 3]));
        let wide: Map<String, Value> = (0..100_000).map(|n| (format!("{n}-{}", "k".repeat(100)), json!(n))).collect();
        let bushy = json!(vec![vec![vec!["abcdefgh"; 30]; 30]; 30]);
        let deep = json!(vec![(0..100).fold(json!(1), |inner, _| json!([inner, "abcdefgh"])); 1_000]);
        for value in [nested, wide.into(), bushy, deep, json!("x".repeat(1 << 20)), json!(vec![json!({}); 100_000])] {
            let size = recorded(&value).to_string().len();
            assert!(size < 2 * MAX_WHOLE_BYTES, "{size}");
        }
    }

    #[test]
    fn small_arguments_are_recorded_as_they_are() {
        let value = json!({"a": ["b", null, 1.5]});
        assert_eq!(recorded(&value), json!({"arguments_bytes": 20, "arguments": value}));
    }
}
