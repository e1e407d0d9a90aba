//! Untrusted texts as HTML: markup is text, and characters that are hidden or change the order of others are spelled out.

use std::collections::BTreeMap;
use std::fmt;

use askama::filters::{Html, HtmlSafe, escape};
use host_client_core::text::{indented, visible};
use serde_json::Value;

/// The maximum length of a text that a page shows, in bytes.
const MAX_BYTES: usize = 2 << 20;
/// The maximum number of its lines.
const MAX_LINES: usize = 20_000;
/// The maximum number of calls that are named beside a line.
const MAX_NAMED: usize = 8;
/// The last second of the year 9999, in s since 1970. No later time can be written.
const LAST_SECOND: u64 = 253_402_300_799;

/// A piece of text as HTML. Hidden characters are escapes such as `\u{202e}` inside of `<mark>`.
#[derive(Debug, Clone)]
pub(crate) struct Shown(Vec<Part>);

/// One line of a text, with its number from 1.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) number: usize,
    pub(crate) text: Shown,
    /// The calls that it makes, as people read them; empty: it makes none.
    pub(crate) calls: String,
}

/// A text of a bounded length, in lines.
#[derive(Debug, Clone)]
pub(crate) struct Text {
    pub(crate) lines: Vec<Line>,
    /// `true`: it is the start alone.
    pub(crate) is_shortened: bool,
}

impl Text {
    /// Makes the lines of a text.
    pub(crate) fn new(text: &str) -> Self {
        Self::code(text, [])
    }

    /// Makes the lines of code, with the lines and numbers of its calls.
    pub(crate) fn code(text: &str, calls: impl IntoIterator<Item = (usize, u64)>) -> Self {
        let mut by_line: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        calls.into_iter().for_each(|(line, call)| by_line.entry(line).or_default().push(call));
        let marks = |line: usize| by_line.get(&line).map(|calls| named(calls)).unwrap_or_default();
        let start = &text[..text.floor_char_boundary(MAX_BYTES)];
        let mut is_shortened = start.len() < text.len();
        let line = |(index, line): (usize, &str)| {
            let line = line.strip_suffix('\r').unwrap_or(line);
            Line { number: index + 1, text: Shown::new(line, true), calls: marks(index + 1) }
        };
        let mut found = start.split('\n').enumerate();
        let lines = found.by_ref().take(MAX_LINES).map(line).collect();
        is_shortened |= found.next().is_some();
        Self { lines, is_shortened }
    }

    /// Makes the lines of a value as indented JSON. No more than what is shown is ever made of it.
    pub(crate) fn json(value: &Value) -> Self {
        Self::json_within(value, MAX_BYTES)
    }

    /// Does the same with at most so many bytes.
    pub(crate) fn json_within(value: &Value, max_bytes: usize) -> Self {
        let json = indented(value, max_bytes, MAX_LINES);
        let text = Self::new(&json.text);
        Self { is_shortened: json.is_shortened || text.is_shortened, ..text }
    }

    /// Makes the lines of a text that was shortened before.
    pub(crate) fn shortened(self, is_shortened: bool) -> Self {
        Self { is_shortened: self.is_shortened || is_shortened, ..self }
    }
}

/// Names the calls of a line.
fn named(calls: &[u64]) -> String {
    let numbers: Vec<_> = calls.iter().take(MAX_NAMED).map(u64::to_string).collect();
    let word = if calls.len() == 1 { "call" } else { "calls" };
    let more = if calls.len() > MAX_NAMED { ", …" } else { "" };
    format!("{word} {}{more}", numbers.join(", "))
}

/// Formats a time in ms since 1970, in UTC. One that no date has is shown as the nearest that has.
pub(crate) fn time(ms: i64) -> String {
    seconds(u64::try_from(ms).unwrap_or_default() / 1_000)
}

/// Formats a time in s since 1970, in UTC.
pub(crate) fn seconds(seconds: u64) -> String {
    let at = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds.min(LAST_SECOND));
    humantime::format_rfc3339_seconds(at).to_string()
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
        let text = Text::code("a\r\n\tb\rc\n", [(2, 1), (2, 4), (9, 5)]);
        assert!(!text.is_shortened);
        let texts: Vec<_> =
            text.lines.iter().map(|line| (line.number, line.text.to_string(), line.calls.as_str())).collect();
        assert_eq!(
            texts,
            [(1, "a".into(), ""), (2, "\tb<mark>\\r</mark>c".into(), "calls 1, 4"), (3, String::new(), "")]
        );
    }

    #[test]
    fn a_text_is_shown_in_part_if_it_is_very_long() {
        let lines = "x\n".repeat(MAX_LINES);
        assert!(Text::new(&lines).is_shortened && !Text::new(&lines[..lines.len() - 1]).is_shortened);
        assert_eq!(Text::new(&lines).lines.len(), MAX_LINES);
        assert!(Text::new(&"é".repeat(MAX_BYTES)).is_shortened);
        assert!(!Text::json(&"w".repeat(MAX_BYTES - 2).into()).is_shortened);
        assert!(Text::json(&"w".repeat(MAX_BYTES).into()).is_shortened);
        let mut deep = serde_json::json!(vec![0; 900]);
        for _ in 0..120 {
            deep = serde_json::json!([deep.clone()]);
        }
        // Its JSON has 2 kB, and 220 kB if it is indented.
        assert!(!Text::json(&deep).is_shortened);
        let wide = serde_json::json!(vec![deep; 100]);
        let Text { lines, is_shortened } = Text::json(&wide);
        assert!(is_shortened && lines.len() < MAX_LINES, "{}", lines.len());
    }

    #[test]
    fn every_time_is_written() {
        assert_eq!(time(0), "1970-01-01T00:00:00Z");
        assert_eq!(time(i64::MIN), "1970-01-01T00:00:00Z");
        assert_eq!(time(253_402_300_799_999), "9999-12-31T23:59:59Z");
        assert_eq!(time(i64::MAX), "9999-12-31T23:59:59Z");
    }
}
