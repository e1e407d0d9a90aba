//! Untrusted texts as HTML: markup is text, and characters that are hidden or change the order of others are spelled out.

use std::fmt;

use askama::filters::{Html, HtmlSafe, escape};
use host_client_core::text::visible;

/// A piece of text as HTML. Hidden characters are escapes such as `\u{202e}` inside of `<mark>`.
#[derive(Debug, Clone)]
pub(crate) struct Shown(Vec<Part>);

/// One line of a text, with its number from 1.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) number: usize,
    pub(crate) text: Shown,
    /// `true`: it makes the call.
    pub(crate) is_marked: bool,
}

#[derive(Debug, Clone)]
enum Part {
    Plain(String),
    Hidden(String),
}

impl Shown {
    /// Makes one line: line breaks and tabs are spelled out, too.
    pub(crate) fn line(text: &str) -> Self {
        Self::new(text, false)
    }

    fn new(text: &str, keeps_tabs: bool) -> Self {
        let mut parts = Vec::new();
        let mut plain = String::new();
        for character in text.chars() {
            let is_plain = character == ' ' || character.is_ascii_graphic() || (keeps_tabs && character == '\t');
            let mut buffer = [0; 4];
            let character: &str = character.encode_utf8(&mut buffer);
            if is_plain {
                plain.push_str(character);
                continue;
            }
            let seen = visible(character);
            if seen == character {
                plain.push_str(character);
                continue;
            }
            if !plain.is_empty() {
                parts.push(Part::Plain(std::mem::take(&mut plain)));
            }
            match parts.last_mut() {
                Some(Part::Hidden(before)) => before.push_str(&seen),
                _ => parts.push(Part::Hidden(seen.into_owned())),
            }
        }
        if !plain.is_empty() {
            parts.push(Part::Plain(plain));
        }
        Self(parts)
    }
}

/// Makes the lines of a text, of which one may be marked.
pub(crate) fn lines(text: &str, marked: Option<usize>) -> Vec<Line> {
    let line = |(index, line): (usize, &str)| {
        let line = line.strip_suffix('\r').unwrap_or(line);
        Line { number: index + 1, text: Shown::new(line, true), is_marked: marked == Some(index + 1) }
    };
    text.split('\n').enumerate().map(line).collect()
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let escaped = |text: &str, f: &mut fmt::Formatter<'_>| match escape(text, Html) {
            Ok(text) => write!(f, "{text}"),
            Err(never) => match never {},
        };
        for part in &self.0 {
            match part {
                Part::Plain(text) => escaped(text, f)?,
                Part::Hidden(text) => {
                    f.write_str("<mark>")?;
                    escaped(text, f)?;
                    f.write_str("</mark>")?;
                }
            }
        }
        Ok(())
    }
}

// What it writes is escaped.
impl HtmlSafe for Shown {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_text_and_nothing_is_hidden() {
        for (text, expected) in [
            ("a < b && c", "a &#60; b &#38;&#38; c"),
            ("<script>alert('1')</script>", "&#60;script&#62;alert(&#39;1&#39;)&#60;/script&#62;"),
            ("pay\u{202e}evil", "pay<mark>\\u{202e}</mark>evil"),
            ("\u{1b}[2Ja\u{200b}\u{feff}b", "<mark>\\u{1b}</mark>[2Ja<mark>\\u{200b}\\u{feff}</mark>b"),
            ("a\nb\tc", "a<mark>\\n</mark>b<mark>\\t</mark>c"),
            ("Zürich 東京 🙂", "Zürich 東京 🙂"),
        ] {
            assert_eq!(Shown::line(text).to_string(), expected, "{text:?}");
        }
    }

    #[test]
    fn lines_keep_their_tabs_and_one_is_marked() {
        let lines = lines("a\r\n\tb\rc\n", Some(2));
        let texts: Vec<_> = lines.iter().map(|line| (line.number, line.text.to_string(), line.is_marked)).collect();
        assert_eq!(
            texts,
            [(1, "a".into(), false), (2, "\tb<mark>\\r</mark>c".into(), true), (3, String::new(), false)]
        );
    }
}
