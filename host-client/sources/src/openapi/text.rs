//! Texts of a document: names made of them, excerpts, and the percent-encoding of values.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

/// The longest tool's own name, in bytes.
const MAX_NAME: usize = 100;
/// What a value does not need to have encoded. Everything else is.
const VALUE: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

pub(super) fn string_member<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The first characters of a document's text, without control characters.
pub(super) fn shortened(text: &str, characters: usize) -> String {
    text.chars().filter(|character| !character.is_control() || *character == '\n').take(characters).collect()
}

/// A name of letters, digits and `_`, other characters in runs as one `_`.
pub(super) fn identifier(text: &str) -> String {
    let mut word = String::new();
    for character in text.chars() {
        if word.len() >= MAX_NAME {
            break;
        }
        if character.is_ascii_alphanumeric() {
            word.push(character);
        } else if !word.is_empty() && !word.ends_with('_') {
            word.push('_');
        }
    }
    word.trim_end_matches('_').to_owned()
}

/// This name, or the first with a number after it that is not taken.
pub(super) fn unique_name(name: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let mut candidate = name.to_owned();
    let mut number = 1_usize;
    while candidate.is_empty() || is_taken(&candidate) {
        number += 1;
        candidate = format!("{name}_{number}");
    }
    candidate
}

/// A text in which nothing means anything but itself.
pub(super) fn percent_encoded(text: &str) -> String {
    utf8_percent_encode(text, VALUE).to_string()
}
