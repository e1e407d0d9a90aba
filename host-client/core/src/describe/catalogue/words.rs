//! The words that tools are found by.

use crate::text::short_name;
use crate::tool::ToolSpec;

/// How much of a tool's description is searched, in bytes, and how many of its fields.
const MAX_DESCRIPTION_BYTES: usize = 4_000;
const MAX_FIELDS: usize = 200;
/// The most bytes of a description in one line.
const MAX_LINE_BYTES: usize = 120;

/// The start of a description, in one line.
pub fn first_line(text: &str) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    let short = &line[..line.floor_char_boundary(MAX_LINE_BYTES)];
    if short.len() < line.len() { format!("{short}…") } else { short.to_owned() }
}

/// What a tool is found by, in a bounded length. Its name counts twice.
pub(super) fn text(spec: &ToolSpec) -> String {
    let name = split(&spec.name);
    let fields = spec.input_schema.get("properties").and_then(|fields| fields.as_object());
    let fields: Vec<_> =
        fields.into_iter().flatten().take(MAX_FIELDS).map(|(field, _)| split(short_name(field))).collect();
    let description = &spec.description[..spec.description.floor_char_boundary(MAX_DESCRIPTION_BYTES)];
    format!("{name} {name} {description} {}", fields.join(" "))
}

/// The words of a text in small letters, each that says something.
pub(super) fn words(text: &str) -> impl Iterator<Item = String> {
    let words: Vec<_> = split(text).split_whitespace().map(str::to_lowercase).collect();
    words.into_iter().filter(|word| word.len() > 1)
}

/// The words of an identifier: `listOpen_issues` is three.
pub(super) fn split(text: &str) -> String {
    let mut words = String::with_capacity(text.len() + 8);
    let mut was_lower = false;
    for character in text.chars() {
        let is_word = character.is_alphanumeric();
        if !is_word || (was_lower && character.is_uppercase()) {
            words.push(' ');
        }
        if is_word {
            words.push(character);
        }
        was_lower = character.is_lowercase();
    }
    words
}
