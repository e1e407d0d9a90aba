//! Writes to standard output and standard error. A closed pipe is no error, and control characters of others never
//! reach a terminal: what is written for people is escaped wherever it goes, for a pipe often ends at a terminal. The
//! values of code are escaped on a terminal alone, so that programs get them as they are.

use std::borrow::Cow;
use std::io::{self, IsTerminal as _, Write};

use host_client::prompt::visible;

use crate::exit::Failure;

/// Maximum size of JSON that is indented for a terminal, in bytes.
const MAX_INDENTED_BYTES: usize = 64 << 10;

/// Prints text for people to standard output, and ends the line. Control characters other than line feeds and tabs are
/// escaped. What others wrote within a line has to pass [`inline`] first.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    write_line(&plain(text))
}

/// Prints a value to standard output, and ends the line. On a terminal, control characters are escaped.
pub(crate) fn print_value(value: &str) -> Result<(), Failure> {
    if io::stdout().is_terminal() { print(value) } else { write_line(value) }
}

fn write_line(line: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let printed = writeln!(out, "{line}").and_then(|()| out.flush());
    printed.or_else(unprinted)
}

/// Prints JSON to standard output: indented on a terminal, else unchanged.
pub(crate) fn print_json(json: &str) -> Result<(), Failure> {
    if io::stdout().is_terminal() && json.len() <= MAX_INDENTED_BYTES {
        print_indented(json)
    } else {
        print_plain(json)
    }
}

/// Prints indented JSON to standard output.
pub(crate) fn print_indented(json: &str) -> Result<(), Failure> {
    print_plain(&indented(json))
}

/// Prints JSON to standard output. On a terminal, control characters in it are escaped as in JSON.
fn print_plain(json: &str) -> Result<(), Failure> {
    if io::stdout().is_terminal() { write_line(&escaped(json)) } else { write_line(json) }
}

/// Converts an error of writing to standard output: a closed pipe is success.
pub(crate) fn unprinted(error: io::Error) -> Result<(), Failure> {
    match error.kind() {
        // The reader of the pipe has seen enough.
        io::ErrorKind::BrokenPipe => Ok(()),
        _ => Err(Failure::failed(format!("standard output cannot be written: {error}"))),
    }
}

/// Prints text for people to standard error, and ends the line. Control characters other than line feeds and tabs are
/// escaped. What others wrote within a line has to pass [`inline`] first.
pub(crate) fn note(text: &str) {
    // A failure cannot be reported anywhere.
    let _ = writeln!(io::stderr().lock(), "{}", plain(text));
}

/// Returns what a stranger wrote as one line: a tool's name, a description, the reason of a server. Line feeds and all
/// control characters are escaped, so that it cannot forge a line of its own.
pub(crate) fn inline(text: &str) -> Cow<'_, str> {
    visible(text)
}

/// Escapes control and invisible characters in a text, other than line feeds and tabs.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte| byte.is_ascii_graphic() || matches!(byte, b' ' | b'\n' | b'\t')) {
        return text.into();
    }
    let mut plain = String::with_capacity(text.len());
    for piece in text.split_inclusive(['\n', '\t']) {
        let inner = piece.trim_end_matches(['\n', '\t']);
        plain.push_str(&visible(inner.strip_suffix('\r').unwrap_or(inner)));
        plain.push_str(&piece[inner.len()..]);
    }
    plain.into()
}

/// Escapes control and invisible characters in JSON by `\u` sequences.
fn escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        if character == '\n' || is_shown(character) {
            text.push(character);
        } else {
            let units =
                character.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect::<String>();
            text.push_str(&units);
        }
    }
    text
}

/// Returns `true` for characters that a terminal shows as themselves.
fn is_shown(character: char) -> bool {
    visible(character.encode_utf8(&mut [0; 4])).chars().eq([character])
}

/// Indents JSON, with a line for each member. The text is not parsed, so that the order of keys and numbers stay.
pub(crate) fn indented(json: &str) -> String {
    let mut text = String::with_capacity(2 * json.len());
    let (mut depth, mut in_string, mut is_escaped) = (0_usize, false, false);
    let mut characters = json.chars().filter(|it| *it != '\n').peekable();
    while let Some(character) = characters.next() {
        if in_string {
            text.push(character);
            in_string = is_escaped || character != '"';
            is_escaped = !is_escaped && character == '\\';
            continue;
        }
        let new_line =
            |text: &mut String, depth: usize| text.extend(std::iter::once("\n").chain((0..depth).map(|_| "  ")));
        match character {
            '{' | '[' => {
                text.push(character);
                while characters.next_if(|it| it.is_ascii_whitespace()).is_some() {}
                match characters.next_if(|it| matches!(it, '}' | ']')) {
                    Some(end) => text.push(end),
                    None => {
                        depth += 1;
                        new_line(&mut text, depth);
                    }
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut text, depth);
                text.push(character);
            }
            ',' => {
                text.push(character);
                new_line(&mut text, depth);
            }
            ':' => text.push_str(": "),
            _ if character.is_ascii_whitespace() => {}
            _ => {
                in_string = character == '"';
                text.push(character);
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_keeps_its_order_and_numbers() {
        let json = r#"{"b":[1.50,{}, [ ],"a\"b,{:"],"a":{"x":null}}"#;
        let expected =
            "{\n  \"b\": [\n    1.50,\n    {},\n    [],\n    \"a\\\"b,{:\"\n  ],\n  \"a\": {\n    \"x\": null\n  }\n}";
        assert_eq!(indented(json), expected);
        assert_eq!(indented("\"\\\\\""), "\"\\\\\"");
        assert_eq!(indented("12"), "12");
    }

    #[test]
    fn a_terminal_obeys_nothing_and_json_stays_json() {
        assert_eq!(escaped("\"é 🙂 \u{9b}2J\u{202e}\u{7f}\u{e0041}\""), r#""é 🙂 \u009b2J\u202e\u007f\udb40\udc41""#);
        assert_eq!(plain("a\tb\r\n\u{1b}[2J\n"), "a\tb\n\\u{1b}[2J\n");
        assert_eq!(plain("two\n\nlines"), "two\n\nlines");
    }
}
