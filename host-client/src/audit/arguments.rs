//! What of a call's arguments is recorded: redacted, and shortened where they are large.

use std::borrow::Cow;
use std::io::{self, BufWriter};

use serde::Serialize;
use serde_json::{Map, Value};

use super::chain::{Hash, HashWriter};
use super::record::Arguments;
use super::redact::{Redactions, redact};

/// Arguments over this size are shortened to about as much, in bytes of JSON.
const WHOLE_BYTES: usize = 64 << 10;
/// Arguments over this size are left out where something has to be redacted in them: looking for it takes too long.
const REDACTABLE_BYTES: usize = 1 << 20;
/// The least share of the room that a member of a shortened list or object gets, in bytes.
const LEAST_SHARE: usize = 64;

/// What a decision says of the arguments.
#[derive(Serialize)]
pub(super) struct RecordedArguments<'a> {
    arguments_bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<Cow<'a, Value>>,
    /// Of the JSON as it would have stood here, where it does not stand here whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments_sha256: Option<Hash>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments_note: Option<Note>,
}

/// Why the arguments do not stand there whole.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Note {
    Shortened,
    Unread,
    TooLargeToRedact,
}

impl<'a> RecordedArguments<'a> {
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
        let paths = redactions.of(tool);
        if bytes > REDACTABLE_BYTES && !paths.is_empty() {
            return Ok(without(bytes, Note::TooLargeToRedact));
        }
        let redacted = redact(value, &paths);
        if bytes <= WHOLE_BYTES {
            let arguments = Some(redacted);
            return Ok(Self { arguments_bytes: bytes, arguments, arguments_sha256: None, arguments_note: None });
        }
        Ok(Self {
            arguments_bytes: bytes,
            arguments_sha256: Some(hash(&redacted)?),
            arguments: Some(Cow::Owned(shortened(&redacted, WHOLE_BYTES))),
            arguments_note: Some(Note::Shortened),
        })
    }
}

fn hash(value: &Value) -> io::Result<Hash> {
    let mut writer = BufWriter::new(HashWriter::default());
    serde_json::to_writer(&mut writer, value)?;
    Ok(writer.into_inner().map_err(io::IntoInnerError::into_error)?.finish())
}

/// The value in about so many bytes. Each member gets the same share, so that a large one cannot push a small one out.
fn shortened(value: &Value, room: usize) -> Value {
    match value {
        Value::String(text) if text.len() > room => Value::String(shortened_text(text, room)),
        Value::Array(items) => {
            let (shown, share) = shares(items.len(), room);
            let mut kept: Vec<Value> = items.iter().take(shown).map(|item| shortened(item, share)).collect();
            if shown < items.len() {
                kept.push(format!("[{} more items]", items.len() - shown).into());
            }
            Value::Array(kept)
        }
        Value::Object(members) => {
            let (shown, share) = shares(members.len(), room);
            let mut kept: Map<String, Value> = members
                .iter()
                .take(shown)
                .map(|(name, member)| (shortened_text(name, share), shortened(member, share)))
                .collect();
            if shown < members.len() {
                kept.insert("…".into(), format!("[{} more members]", members.len() - shown).into());
            }
            Value::Object(kept)
        }
        other => other.clone(),
    }
}

/// How many of so many members there is room for, and how much for each.
fn shares(members: usize, room: usize) -> (usize, usize) {
    let shown = members.min(room / LEAST_SHARE);
    (shown, room / shown.max(1))
}

fn shortened_text(text: &str, room: usize) -> String {
    if text.len() <= room {
        return text.to_owned();
    }
    format!("{}… [{} bytes]", &text[..text.floor_char_boundary(room)], text.len())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use serde_json::json;

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
        for value in [nested, wide.into(), bushy, json!("\u{1}".repeat(1 << 20)), json!(vec![json!({}); 100_000])] {
            let size = recorded(&value).to_string().len();
            assert!(size < 8 * WHOLE_BYTES, "{size}");
        }
    }

    #[test]
    fn small_arguments_are_recorded_as_they_are() {
        let value = json!({"a": ["b", null, 1.5]});
        assert_eq!(recorded(&value), json!({"arguments_bytes": 20, "arguments": value}));
    }
}
