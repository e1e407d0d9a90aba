//! Texts of a document: names made of them, excerpts, and the percent-encoding of values.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

/// Maximum length of a tool's name without its server, in bytes.
const MAX_NAME_BYTES: usize = 100;
/// Characters that are percent-encoded in a value: all but the unreserved ones.
const VALUE: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Returns a member of an object that is a string; empty if it is missing or of another type.
pub(super) fn string_member<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the first characters of a text, without control characters other than line feeds.
pub(super) fn shortened(text: &str, characters: usize) -> String {
    text.chars().filter(|character| !character.is_control() || *character == '\n').take(characters).collect()
}

/// Makes an identifier of a text: each run of characters other than letters and digits becomes one `_`.
pub(super) fn identifier(text: &str) -> String {
    let mut word = String::new();
    for character in text.chars() {
        if word.len() >= MAX_NAME_BYTES {
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

/// Returns the name, with the first free number after it if it is taken.
pub(super) fn unique_name(name: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let mut candidate = name.to_owned();
    let mut number = 1_usize;
    while candidate.is_empty() || is_taken(&candidate) {
        number += 1;
        candidate = format!("{name}_{number}");
    }
    candidate
}

/// Percent-encodes all but the unreserved characters.
pub(super) fn percent_encoded(text: &str) -> String {
    utf8_percent_encode(text, VALUE).to_string()
}
