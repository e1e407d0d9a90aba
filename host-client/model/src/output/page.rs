//! Reads a part of a result, one page at a time.

use super::footer::kilobytes;
use super::json::{Member, Place, each_member, follow, unquoted};
use super::path::{Path, Range};
use host_client_core::text::clipped;

/// Maximum number of keys that an error message lists.
const NAMED: usize = 20;
/// Maximum length of a key in an error message, in bytes.
const MAX_NAME_BYTES: usize = 60;

/// One page of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Text of the page. If it is not all of the value at the path, its first line says which part it is, and the last
    /// one gives the next offset.
    pub text: String,
    /// Offset of the next page; `None` on the last one.
    pub next_offset: Option<usize>,
}

/// Error of reading a kept result, worded for the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The handle does not belong to this store, or its result is no longer kept.
    #[error(
        "there is no output with this handle: a handle is good in the session that it was given in, until it is unread \
         for long or newer outputs need the room; run the code again, and return less"
    )]
    UnknownHandle,
    /// The path is malformed. Holds the reason.
    #[error(
        "the path cannot be read: {0}; write it as results.items[3].name, as [\"a.b\"].c, or as a JSON Pointer: \
         /results/items/3"
    )]
    InvalidPath(&'static str),
    /// There is no value at the path.
    #[error("there is no {missing:?} at {at:?}; {there}")]
    NotThere {
        /// The first step that does not exist.
        missing: String,
        /// The path before that step.
        at: String,
        /// The keys or items that exist there, in words.
        there: String,
    },
}

/// Reads one page of the value at a path, at most about `most_bytes` long.
///
/// # Errors
/// [`ReadError::NotThere`].
pub(super) fn page(
    text: &str,
    is_json: bool,
    path: &Path,
    offset: usize,
    limit: Option<usize>,
    most_bytes: usize,
) -> Result<Page, ReadError> {
    let steps = &*path.steps;
    let not_there = |taken: usize, missing: &str| not_there(text, is_json, steps, taken, missing);
    let value = match follow_in(text, is_json, steps) {
        Place::Value(value) => value,
        Place::Nowhere(taken) => {
            let missing = steps.get(taken).map(String::as_str).unwrap_or_default();
            return Err(not_there(taken, missing));
        }
    };
    let (first, last) = match &path.range {
        None => (0, usize::MAX),
        Some(Range::Items(first, last)) => (*first, *last),
        Some(Range::Keys(first, last)) => {
            let index = |key: &str| index_of(value, key).ok_or_else(|| not_there(steps.len(), key));
            (index(first)?, index(last)?)
        }
    };
    // An offset behind the range reads on to the end.
    let offset = offset.max(first);
    let in_range = last.checked_sub(offset).map_or(usize::MAX, |more| more.saturating_add(1));
    let limit = limit.unwrap_or(usize::MAX).max(1).min(in_range);
    Ok(match value.as_bytes().first() {
        Some(b'[' | b'{') if is_json => members(value, offset, limit, most_bytes),
        Some(b'"') if is_json => characters(&unquoted(value), offset, limit, most_bytes),
        _ => characters(value, offset, limit, most_bytes),
    })
}

/// Finds the value at a path. A text that is not JSON has no parts.
fn follow_in<'a>(text: &'a str, is_json: bool, steps: &[String]) -> Place<'a> {
    match (is_json, steps.is_empty()) {
        (true, _) => follow(text, steps),
        (false, true) => Place::Value(text),
        (false, false) => Place::Nowhere(0),
    }
}

/// Returns the index of the member with a key.
fn index_of(value: &str, key: &str) -> Option<usize> {
    let mut found = None;
    each_member(value, |member| {
        if member.key.is_some_and(|it| unquoted(it) == key) {
            found = Some(member.index);
        }
    })?;
    found
}

/// Makes the error of a step that does not exist.
fn not_there(text: &str, is_json: bool, steps: &[String], taken: usize, missing: &str) -> ReadError {
    let before = steps.get(..taken).unwrap_or_default();
    let there = match follow_in(text, is_json, before) {
        Place::Value(value) if is_json => contents(value),
        Place::Value(_) | Place::Nowhere(_) => "the output is a text, which has no parts".to_owned(),
    };
    ReadError::NotThere {
        missing: clipped(missing, MAX_NAME_BYTES),
        at: before.iter().map(|step| clipped(step, MAX_NAME_BYTES)).collect::<Vec<_>>().join("."),
        there,
    }
}

/// Describes the keys or items of a value for an error message.
fn contents(value: &str) -> String {
    let mut keys = Vec::new();
    let count = each_member(value, |Member { key, .. }| {
        if keys.len() < NAMED {
            keys.extend(key.map(|key| clipped(key, MAX_NAME_BYTES)));
        }
    });
    match count {
        None => "there is a single value there".to_owned(),
        Some(0) => "nothing is in there".to_owned(),
        Some(count) if keys.is_empty() => format!("there are the items 0 to {}", count - 1),
        Some(count) if count > keys.len() => {
            format!("there are {} and {} more keys", keys.join(", "), count - keys.len())
        }
        Some(_) => format!("there are the keys {}", keys.join(", ")),
    }
}

/// Reads a page of members of an array or object.
fn members(json: &str, offset: usize, limit: usize, most_bytes: usize) -> Page {
    if offset == 0 && limit == usize::MAX && json.len() <= most_bytes {
        return Page { text: json.to_owned(), next_offset: None };
    }
    let (mut body, mut next, mut is_full) = (String::new(), offset, false);
    let count = each_member(json, |Member { index, key, value }| {
        if index < offset || is_full {
            return;
        }
        is_full = index - offset >= limit;
        let member = match key {
            _ if is_full => return,
            Some(key) => format!("{}: {}", small(key, most_bytes), small(value, most_bytes)),
            None => small(value, most_bytes),
        };
        is_full = !body.is_empty() && body.len() + member.len() > most_bytes;
        if !is_full {
            body.push_str(if body.is_empty() { "" } else { ",\n" });
            body.push_str(&member);
            next = index + 1;
        }
    });
    let count = count.unwrap_or_default();
    let (what, open, close) = if json.starts_with('[') { ("items", '[', ']') } else { ("members", '{', '}') };
    part(what, offset..next, count, &format!("{open}{body}{close}"))
}

/// Returns a value or a key; a note of its size if it is larger than half a page.
fn small(value: &str, most_bytes: usize) -> String {
    if value.len() <= most_bytes / 2 {
        return value.to_owned();
    }
    let what = match value.as_bytes().first() {
        Some(b'[') => "array",
        Some(b'{') => "object",
        _ => "string",
    };
    format!("\"[{what} of {}: read it by its own path]\"", kilobytes(value.len()))
}

/// Reads a page of characters of a text.
fn characters(text: &str, offset: usize, limit: usize, most_bytes: usize) -> Page {
    let start = text.char_indices().nth(offset).map_or(text.len(), |(at, _)| at);
    let end = text[start..].char_indices().nth(limit).map_or(text.len(), |(at, _)| start + at);
    let fits = text.floor_char_boundary(start.saturating_add(most_bytes.max(4)));
    let shown = &text[start..end.min(fits)];
    if shown.len() == text.len() {
        return Page { text: text.to_owned(), next_offset: None };
    }
    let next = offset.saturating_add(shown.chars().count());
    part("characters", offset..next, text.chars().count(), shown)
}

/// Makes a page with its first and last line.
fn part(what: &str, shown: std::ops::Range<usize>, count: usize, body: &str) -> Page {
    let next_offset = (shown.end < count).then_some(shown.end);
    let head = match shown.is_empty() {
        true => format!("[no {what} from {} on; there are {count}]", shown.start),
        false => format!("[{what} {} to {} of {count}]", shown.start, shown.end - 1),
    };
    let text = match next_offset {
        Some(next) => format!("{head}\n{body}\n[go on with offset {next}]"),
        None => format!("{head}\n{body}"),
    };
    Page { text, next_offset }
}
