//! Escaping of texts from a tool's author for TypeScript: whatever they contain, they stay a literal, a name or a
//! comment.

use std::borrow::Cow;
use std::fmt::Write as _;

use relay_proto::sanitize;

/// The most bytes of a comment's line.
const MAX_LINE_BYTES: usize = 300;
/// The most bytes of a line of a tool's description.
const MAX_DESCRIPTION_LINE_BYTES: usize = 800;
/// The most spaces that a line of a tool's description begins with.
const MAX_INDENT_BYTES: usize = 16;
/// The most characters that the name of a type is made from.
const MAX_TYPE_NAME_CHARS: usize = 60;

/// Returns `true` for a character that is invisible, or that changes how others are displayed.
fn is_hidden(character: char) -> bool {
    matches!(
        character,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}'
    )
}

/// Returns a text as one line of at most about 300 bytes that cannot end the comment that it stands in.
pub(crate) fn comment_line(text: &str) -> String {
    comment_line_within(text, MAX_LINE_BYTES)
}

/// Returns the lines of a tool's description that are not blank, each as [`comment_line`] does, but of at most about 800
/// bytes, and indented as in the description: that means something in examples.
pub(super) fn description_lines(description: &str) -> impl Iterator<Item = String> {
    let indent = |line: &str| line.bytes().take_while(|byte| *byte == b' ').count();
    let is_filled = |line: &&str| !line.trim().is_empty();
    // Texts in source code are often indented as a whole, but for their first line.
    let margin = description.lines().skip(1).filter(is_filled).map(indent).min().unwrap_or_default();
    description.lines().filter_map(move |line| {
        let text = comment_line_within(line, MAX_DESCRIPTION_LINE_BYTES);
        let spaces = indent(line).saturating_sub(margin).min(MAX_INDENT_BYTES);
        (!text.is_empty()).then(|| " ".repeat(spaces) + &text)
    })
}

/// Returns a text as one line of a comment, without hidden characters, cut after about `most_bytes`.
fn comment_line_within(text: &str, most_bytes: usize) -> String {
    let mut line = String::new();
    for character in text.chars().filter(|character| !is_hidden(*character)) {
        let is_blank = character.is_whitespace() || character.is_control();
        match character {
            _ if is_blank && (line.is_empty() || line.ends_with(' ')) => {}
            _ if is_blank => line.push(' '),
            '/' if line.ends_with('*') => line.push_str("\\/"),
            _ => line.push(character),
        }
        if line.len() > most_bytes {
            line.push('…');
            break;
        }
    }
    line.truncate(line.trim_end().len());
    line
}

/// Returns a text as a string literal.
pub(super) fn quoted(text: &str) -> String {
    let mut literal = String::with_capacity(text.len() + 2);
    literal.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => literal.extend(['\\', character]),
            '\n' => literal.push_str("\\n"),
            _ if character.is_control() || is_hidden(character) => {
                let mut units = [0; 2];
                for unit in character.encode_utf16(&mut units) {
                    // Writing to a String cannot fail.
                    let _ = write!(literal, "\\u{unit:04x}");
                }
            }
            _ => literal.push(character),
        }
    }
    literal.push('"');
    literal
}

/// Returns a property's name, quoted unless it is an identifier of ASCII characters.
pub(super) fn property(name: &str) -> Cow<'_, str> {
    let is_start = |it: &u8| it.is_ascii_alphabetic() || matches!(it, b'_' | b'$');
    let is_plain = name.as_bytes().first().is_some_and(is_start)
        && name.bytes().all(|it| it.is_ascii_alphanumeric() || matches!(it, b'_' | b'$'));
    if is_plain { name.into() } else { quoted(name).into() }
}

/// Returns the words of a text as the name of a type: `list-open_issues` becomes `ListOpenIssues`. It is empty if the
/// text has no ASCII letters or digits.
pub(super) fn type_name(text: &str) -> String {
    let mut name = String::new();
    let mut is_first = true;
    for character in text.chars().take(MAX_TYPE_NAME_CHARS) {
        match character {
            _ if !character.is_ascii_alphanumeric() => is_first = true,
            _ if std::mem::take(&mut is_first) => name.push(character.to_ascii_uppercase()),
            _ => name.push(character),
        }
    }
    if name.is_empty() { name } else { sanitize(&name) }
}

/// Returns a text with its lines after the first indented by two spaces.
pub(super) fn indented(text: &str) -> Cow<'_, str> {
    if text.contains('\n') { text.replace('\n', "\n  ").into() } else { text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_gets_out_of_a_comment_or_a_literal() {
        for (text, expected) in [
            ("a */ b **/ c", "a *\\/ b **\\/ c"),
            ("*\u{200b}/ x", "*\\/ x"),
            ("*\u{0}/", "* /"),
            ("one\r\n\u{2028} two\t", "one two"),
            (" \n", ""),
        ] {
            assert_eq!(comment_line(text), expected, "{text:?}");
        }
        assert!(comment_line(&"é".repeat(1_000)).len() < MAX_LINE_BYTES + 8);
        assert_eq!(quoted("a\"b\\\n\u{2028}\u{e0041}é"), "\"a\\\"b\\\\\\n\\u2028\\udb40\\udc41é\"");
        assert_eq!(property("$a_1"), "$a_1");
        assert_eq!(property("a-b"), "\"a-b\"");
        assert_eq!(property(""), "\"\"");
        assert_eq!((&*type_name("list-open_issues"), &*type_name("#/$defs/1")), ("ListOpenIssues", "Defs1"));
        assert_eq!(type_name("map"), "_Map");
    }
}
