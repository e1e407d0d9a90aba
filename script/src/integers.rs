//! Finds integers of JSON that no number of JavaScript holds: those over 2^53 that change when they are read.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::Range;

use crate::json::number_text;

/// Number of digits from which an integer can be over 2^53.
const MIN_DIGITS: usize = 16;
/// Maximum number of integers of one text that are named.
const MAX_NAMED: usize = 3;
/// Maximum nesting into which is looked.
const MAX_LEVELS: usize = 200;
/// Maximum number of characters of one key, and of one integer, in a text.
const MAX_CHARS: usize = 64;

/// Returns warnings about integers in the result of a tool that change when JavaScript reads them: one for each of the
/// first three, with its path, of which the last says how many more there are.
///
/// ```
/// use relay_script::integers::warnings;
///
/// assert!(warnings("a.b", br#"{"id": 9007199254740992, "text": "9007199254740993"}"#).is_empty());
/// assert_eq!(
///     warnings("a.b", br#"[{"id": 9007199254740993}]"#),
///     ["in the result of a.b, the integer 9007199254740993 at $[0].id became 9007199254740992: a number holds integers \
///       up to 2^53; ask the tool for it as text"]
/// );
/// ```
#[must_use]
pub fn warnings(tool: &str, json: &[u8]) -> Vec<String> {
    if !has_long_digits(json) {
        return Vec::new();
    }
    let (mut named, mut more) = (Vec::new(), 0_usize);
    each_changed(json, |Found { levels, text, became, .. }| {
        if named.len() == MAX_NAMED {
            more += 1;
            return;
        }
        let (path, text) = (path(levels), text.chars().take(MAX_CHARS).collect::<String>());
        named.push(format!(
            "in the result of {tool}, the integer {text} at {path} became {became}: a number holds integers up to \
             2^53; ask the tool for it as text"
        ));
    });
    if more > 0
        && let Some(last) = named.last_mut()
    {
        // Writing to a text cannot fail.
        let _ = write!(last, "; and {more} more integers in it changed");
    }
    named
}

/// Returns JSON with the integers that change as strings of their digits. The text is JSON.
///
/// ```
/// use relay_script::integers::as_texts;
///
/// assert_eq!(&*as_texts(b"[1, 9007199254740993]"), b"[1, \"9007199254740993\"]");
/// ```
#[must_use]
pub fn as_texts(json: &[u8]) -> Cow<'_, [u8]> {
    let mut places = Vec::new();
    if has_long_digits(json) {
        each_changed(json, |found| places.push(found.place));
    }
    if places.is_empty() {
        return Cow::Borrowed(json);
    }
    let (mut quoted, mut copied) = (Vec::with_capacity(json.len() + 2 * places.len()), 0);
    for Range { start, end } in places {
        for part in [&json[copied..start], b"\"", &json[start..end], b"\""] {
            quoted.extend_from_slice(part);
        }
        copied = end;
    }
    quoted.extend_from_slice(&json[copied..]);
    Cow::Owned(quoted)
}

/// Integer that changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Large {
    /// Way to it from the whole value.
    pub path: Vec<Step>,
    /// Its digits, with a sign if it has one.
    pub text: String,
}

/// One step into a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Index in an array.
    Index(usize),
    /// Key of an object, as it is written in the JSON, without its quotes.
    Key(Vec<u8>),
}

/// Returns the integers of JSON that change when JavaScript reads them, in their order. The text is JSON.
#[must_use]
pub fn large(json: &[u8]) -> Vec<Large> {
    let mut all = Vec::new();
    if has_long_digits(json) {
        each_changed(json, |Found { levels, text, .. }| {
            let step = |level: &Level<'_>| match level {
                Level::Array(index) => Step::Index(*index),
                Level::Object(key) => Step::Key(key.to_vec()),
            };
            all.push(Large { path: levels.iter().map(step).collect(), text: text.to_owned() });
        });
    }
    all
}

/// Returns whether there are so many digits behind one another outside of strings that an integer may be too large.
fn has_long_digits(json: &[u8]) -> bool {
    let mut at = 0;
    while let Some(rest) = json.get(at..) {
        let quote = memchr::memchr(b'"', rest).unwrap_or(rest.len());
        let mut run = 0;
        for byte in &rest[..quote] {
            run = if byte.is_ascii_digit() { run + 1 } else { 0 };
            if run >= MIN_DIGITS {
                return true;
            }
        }
        at = end_of_string(json, at + quote);
    }
    false
}

/// Returns the index behind the string that begins at `at`; behind the end, if it does not end.
fn end_of_string(json: &[u8], mut at: usize) -> usize {
    at += 1;
    while let Some(skip) = json.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        at += skip;
        if json[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
    json.len() + 1
}

/// One open array or object: the key or the index of its current part.
enum Level<'j> {
    Array(usize),
    Object(&'j [u8]),
}

/// Integer that changes, where it stands.
struct Found<'l, 'j> {
    levels: &'l [Level<'j>],
    place: Range<usize>,
    text: &'j str,
    /// The integer that it becomes.
    became: String,
}

/// Gives `found` each integer that changes. The text is JSON.
fn each_changed<'j>(json: &'j [u8], mut found: impl FnMut(Found<'_, 'j>)) {
    let mut levels: Vec<Level<'j>> = Vec::new();
    let mut at = 0;
    while let Some(byte) = json.get(at) {
        match byte {
            b'{' | b'[' if levels.len() == MAX_LEVELS => return,
            b'{' => levels.push(Level::Object(b"")),
            b'[' => levels.push(Level::Array(0)),
            b'}' | b']' => drop(levels.pop()),
            b',' => {
                if let Some(Level::Array(index)) = levels.last_mut() {
                    *index += 1;
                }
            }
            b'"' => {
                let end = end_of_string(json, at);
                let is_key = json.get(end..).is_some_and(|rest| rest.trim_ascii_start().starts_with(b":"));
                if is_key && let Some(Level::Object(key)) = levels.last_mut() {
                    *key = json.get(at + 1..end - 1).unwrap_or_default();
                }
                at = end;
                continue;
            }
            b'-' | b'0'..=b'9' => {
                let is_part = |byte: &&u8| matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9');
                let end = at + json[at..].iter().take_while(is_part).count();
                if let Some((text, became)) = changed(&json[at..end]) {
                    found(Found { levels: &levels, place: at..end, text, became });
                }
                at = end;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
}

/// Returns the text of a number and what it becomes, if it is an integer that changes.
fn changed(number: &[u8]) -> Option<(&str, String)> {
    let text = std::str::from_utf8(number).ok().filter(|text| text.len() >= MIN_DIGITS)?;
    if text.contains(['.', 'e', 'E']) {
        return None;
    }
    let read: f64 = text.parse().ok()?;
    let became = number_text(read);
    (became != text && format!("{read:.0}") != text).then_some((text, became))
}

fn path(levels: &[Level<'_>]) -> String {
    let mut path = String::from("$");
    for level in levels {
        // Writing to a text cannot fail.
        let _ = match level {
            Level::Array(index) => write!(path, "[{index}]"),
            Level::Object(key) => {
                let key = String::from_utf8_lossy(key);
                write!(path, ".{}", key.chars().take(MAX_CHARS).collect::<String>())
            }
        };
    }
    path
}

#[cfg(test)]
mod tests {
    use super::{Found, Large, Step, as_texts, each_changed, large, path, warnings};

    fn changed(json: &str) -> Vec<(String, String, String)> {
        let mut all = Vec::new();
        let mut add = |Found { levels, text, became, .. }: Found<'_, '_>| {
            all.push((path(levels), text.to_owned(), became));
        };
        each_changed(json.as_bytes(), &mut add);
        all
    }

    #[test]
    fn integers_that_change_are_found_with_their_paths() {
        let found = |path: &str, text: &str, became: &str| (path.to_owned(), text.to_owned(), became.to_owned());
        assert_eq!(
            changed(r#" {"a":[0,{"b" : -9007199254740993}],"s":"[9007199254740993]","c\"":12345678901234567890} "#),
            [
                found("$.a[1].b", "-9007199254740993", "-9007199254740992"),
                found("$.c\\\"", "12345678901234567890", "12345678901234567000"),
            ]
        );
        assert_eq!(changed("9007199254740993")[0].0, "$");
        for unchanged in [
            "9007199254740992",
            "9007199254740994",
            "100000000000000000000",
            "1000000000000000000000",
            "123456789012345680000",
            "9007199254740993.0",
            "9007199254740993e0",
            "[1,-2]",
            "\"",
            "[[[",
            "{\"a",
            "",
        ] {
            assert_eq!(changed(unchanged), [], "{unchanged}");
        }
    }

    #[test]
    fn they_are_given_as_texts_and_with_their_way() {
        let json = br#"{"a":[0,-9007199254740993],"k\"":12345678901234567890,"s":"9007199254740993"}"#;
        let texts = br#"{"a":[0,"-9007199254740993"],"k\"":"12345678901234567890","s":"9007199254740993"}"#;
        assert_eq!(&*as_texts(json), &texts[..]);
        let way = |path: &[Step], text: &str| Large { path: path.to_vec(), text: text.into() };
        let key = |key: &str| Step::Key(key.into());
        assert_eq!(
            large(json),
            [way(&[key("a"), Step::Index(1)], "-9007199254740993"), way(&[key("k\\\"")], "12345678901234567890")]
        );
        assert_eq!((&*as_texts(b"[1]"), large(b"[1]")), (&b"[1]"[..], Vec::new()));
    }

    #[test]
    fn many_are_counted_and_large_texts_are_bounded() {
        let many = format!("[{}]", vec!["9007199254740993"; 100].join(","));
        let warned = warnings("a.b", many.as_bytes());
        assert_eq!(warned.len(), 3);
        assert!(warned[2].ends_with("; and 97 more integers in it changed"), "{warned:?}");
        let deep = "[".repeat(100_000) + "9007199254740993";
        assert!(warnings("a.b", deep.as_bytes()).is_empty());
        let long = "9".repeat(1_000_000);
        assert!(warnings("a.b", long.as_bytes())[0].len() < 500);
        let text = format!("\"{}\"", "9".repeat(1_000));
        assert!(warnings("a.b", text.as_bytes()).is_empty());
    }
}
