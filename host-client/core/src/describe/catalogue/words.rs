//! The words by which a search finds tools.

use crate::text::short_name;
use crate::tool::ToolSpec;

/// The most bytes of a tool's description that are searched.
const MAX_DESCRIPTION_BYTES: usize = 4_000;
/// The most fields of a tool's arguments that are searched.
const MAX_FIELDS: usize = 200;
/// The most bytes of the first line of a description.
const MAX_LINE_BYTES: usize = 120;

/// Returns the first line of a description that is not blank, cut to 120 bytes and `…` if it is longer.
pub fn first_line(text: &str) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    let short = &line[..line.floor_char_boundary(MAX_LINE_BYTES)];
    if short.len() < line.len() { format!("{short}…") } else { short.to_owned() }
}

/// Returns the text by which a tool is found: its name twice, so that it counts more, and the starts of its description
/// and of its list of fields.
pub(super) fn text(spec: &ToolSpec) -> String {
    let name = split(&spec.name);
    let fields = spec.input_schema.get("properties").and_then(|fields| fields.as_object());
    let fields: Vec<_> =
        fields.into_iter().flatten().take(MAX_FIELDS).map(|(field, _)| split(short_name(field))).collect();
    let description = &spec.description[..spec.description.floor_char_boundary(MAX_DESCRIPTION_BYTES)];
    format!("{name} {name} {description} {}", fields.join(" "))
}

/// Returns the words of a text in lowercase, without those of a single byte.
pub(super) fn words(text: &str) -> impl Iterator<Item = String> {
    let words: Vec<_> = split(text).split_whitespace().map(str::to_lowercase).collect();
    words.into_iter().filter(|word| word.len() > 1)
}

/// Returns a text with its words separated by spaces: `listOpen_issues` becomes `list Open issues`.
fn split(text: &str) -> String {
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
