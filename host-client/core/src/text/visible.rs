//! Escaping of untrusted texts for terminals: control characters and invisible ones are spelled out.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Characters that are blank although Unicode classes them as letters or symbols: Hangul fillers, and the empty Braille
/// pattern.
const BLANKS: [char; 5] = ['\u{115f}', '\u{1160}', '\u{2800}', '\u{3164}', '\u{ffa0}'];

/// Returns the text on one line, with each control, format, invisible and combining character as an escape such as `\n`
/// or `\u{…}`: a terminal shows all of it, and executes none of it.
pub fn visible(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ') {
        return text.into();
    }
    let mut visible = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' | '\'' | '\\' => visible.push(character),
            _ if BLANKS.contains(&character) => {
                // Writing to a String cannot fail.
                let _ = write!(visible, "{}", character.escape_unicode());
            }
            _ => visible.extend(character.escape_debug()),
        }
    }
    visible.into()
}

#[cfg(test)]
mod tests {
    use super::visible;

    #[test]
    fn nothing_is_left_that_a_terminal_obeys_or_hides() {
        for (text, expected) in [
            ("plain 'text' \\n", "plain 'text' \\n"),
            ("Zürich 東京 Ω ✓ 🙂", "Zürich 東京 Ω ✓ 🙂"),
            ("a\nb\r\tc", "a\\nb\\r\\tc"),
            ("\u{1b}[2J\u{7}\u{7f}\u{9b}1m", "\\u{1b}[2J\\u{7}\\u{7f}\\u{9b}1m"),
            ("a\u{202e}b\u{2066}c\u{200f}", "a\\u{202e}b\\u{2066}c\\u{200f}"),
            ("a\u{200b}\u{200d}\u{feff}\u{ad}\u{2060}", "a\\u{200b}\\u{200d}\\u{feff}\\u{ad}\\u{2060}"),
            ("\u{2028}\u{2029}\u{85}\u{a0}\u{3000}", "\\u{2028}\\u{2029}\\u{85}\\u{a0}\\u{3000}"),
            ("e\u{301}\u{fe0f}\u{e0041}", "e\\u{301}\\u{fe0f}\\u{e0041}"),
            ("\u{3164}\u{2800}\u{e000}\u{fffe}", "\\u{3164}\\u{2800}\\u{e000}\\u{fffe}"),
        ] {
            assert_eq!(visible(text), expected, "{text:?}");
        }
    }
}
