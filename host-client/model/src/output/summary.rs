//! Summarizes large JSON in a few lines: its parts and their paths.
//!
//! An array is uniform if all its items are objects with the same keys; some may be missing, as long as three quarters
//! of the table are filled. Its summary is the number of items, the keys, the first items and the names of the others.
//! The summary of any other value has one line for each part.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write as _;

use serde_json::Value;

use super::chunk::{Chunk, Kind, Sizes, chunks};
use super::footer::kilobytes;
use super::json::{Member, each_member, unquoted};
use host_client_core::text::{clipped, shortened};

/// Keys whose values identify an object.
const IDENTITY: [&str; 6] = ["id", "name", "title", "slug", "key", "label"];
/// Maximum length of the value of such a key, in bytes.
const MAX_IDENTITY_BYTES: usize = 80;
/// Maximum number of keys of a uniform array.
const MAX_KEYS: usize = 64;
/// Maximum length of the list of these keys, in bytes.
const MAX_KEYS_BYTES: usize = 1_000;
/// Minimum share of keys that the items of a uniform array have, in percent.
const MIN_FILLED_PERCENT: usize = 75;
/// Maximum size of a value that is parsed to shorten it, in bytes. Of larger ones the beginning is shown.
const MAX_SHORTENED_BYTES: usize = 64 << 10;
/// Minimum size of a part, in bytes.
const MIN_PART_BYTES: usize = 1_000;
/// Approximate numbers of parts. The next is tried if not all parts fit into the summary.
const PARTS: [usize; 4] = [40, 20, 10, 5];
/// Number of bytes that are shown of a part without names.
const PREVIEW_BYTES: usize = 120;
/// Number of bytes that are shown of the first item of an array.
const FIRST_BYTES: usize = 300;
/// Maximum number of items of a part that are named.
const NAMED: usize = 5;
/// Maximum length of the last line, in bytes.
const LAST_LINE_BYTES: usize = 100;

/// Condition and size of a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SummaryConfig {
    /// JSON of at most this number of bytes is not summarized. Default: 10,240.
    pub over_bytes: usize,
    /// Approximate maximum size of a summary, in bytes. Default: 6,000.
    pub bytes: usize,
    /// Number of items of a uniform array that are shown in full if there is room. Default: 3.
    pub first_items: usize,
}

impl Default for SummaryConfig {
    fn default() -> Self {
        Self { over_bytes: 10_240, bytes: 6_000, first_items: 3 }
    }
}

/// Summarizes a large value. Returns `None` if it is small, or the summary would not be shorter.
pub(super) fn summary(json: &str, config: SummaryConfig) -> Option<String> {
    let json = json.trim();
    if json.len() <= config.over_bytes {
        return None;
    }
    let summary = table(json, config).or_else(|| outline(json, config))?;
    (summary.len() < json.len()).then_some(summary)
}

/// Summary under construction.
struct Lines {
    text: String,
    most_bytes: usize,
}

impl Lines {
    /// Adds a line if there is room. Returns `false` if there is none.
    fn add(&mut self, line: &str) -> bool {
        let fits = self.text.len() + line.len() < self.most_bytes.saturating_sub(LAST_LINE_BYTES);
        if fits {
            self.text.push('\n');
            self.text.push_str(line);
        }
        fits
    }

    /// Returns the summary, with a last line if anything was left out.
    fn finish(mut self, left_out: usize, what: &str) -> String {
        if left_out > 0 {
            // Writing to a String cannot fail.
            let _ = write!(self.text, "\n({left_out} more {what} are not listed)");
        }
        self.text
    }
}

/// Summarizes a uniform array. Returns `None` for other values.
fn table(json: &str, config: SummaryConfig) -> Option<String> {
    let (count, keys) = columns(json)?;
    let text =
        format!("[Summary: an array of {count} items, {}; each item has the keys {keys}]", kilobytes(json.len()));
    let mut lines = Lines { text, most_bytes: config.bytes };
    let room = config.bytes / 2 / config.first_items.max(1);
    let (mut unlisted, mut has_heading) = (0, false);
    each_member(json, |Member { index, value, .. }| {
        if index < config.first_items {
            let heading = if index == 0 { "The first:\n" } else { "" };
            unlisted += usize::from(!lines.add(&format!("{heading}[{index}] {}", shorten(value, room))));
            return;
        }
        if unlisted > 0 {
            unlisted += 1;
            return;
        }
        let line = identity(value).map(|identity| format!("[{index}] {identity}"));
        let heading = if has_heading { "" } else { "The others:\n" };
        match line {
            Some(line) if lines.add(&format!("{heading}{line}")) => has_heading = true,
            _ => unlisted += 1,
        }
    });
    Some(lines.finish(unlisted, "items"))
}

/// Returns the number of items of a uniform array and its keys, with a question mark after those that some items lack;
/// `None` for other values.
fn columns(json: &str) -> Option<(usize, String)> {
    if !json.strip_prefix('[')?.trim_start().starts_with('{') {
        return None;
    }
    let mut keys: HashMap<&str, (usize, usize)> = HashMap::new();
    let mut is_uniform = true;
    let items = each_member(json, |item| {
        if !is_uniform {
            return;
        }
        is_uniform = item.value.starts_with('{');
        each_member(item.value, |member| {
            if let Some(key) = member.key.filter(|_| is_uniform) {
                let order = keys.len();
                keys.entry(key).or_insert((order, 0)).1 += 1;
                is_uniform = keys.len() <= MAX_KEYS;
            }
        });
    })?;
    let filled: usize = keys.values().map(|(_, count)| count).sum();
    if !is_uniform || items < 2 || filled * 100 < MIN_FILLED_PERCENT * keys.len() * items || keys.is_empty() {
        return None;
    }
    let mut keys: Vec<_> = keys.into_iter().collect();
    keys.sort_unstable_by_key(|(_, (order, _))| *order);
    let names = keys.iter().map(|(key, (_, count))| {
        let mark = if *count < items { "?" } else { "" };
        format!("{}{mark}", clipped(key, MAX_IDENTITY_BYTES))
    });
    Some((items, clipped(&names.collect::<Vec<_>>().join(", "), MAX_KEYS_BYTES)))
}

/// Summarizes any value by a list of its parts, fewer and larger ones if there are many. Returns `None` if it has no
/// parts.
fn outline(json: &str, config: SummaryConfig) -> Option<String> {
    let mut outline = None;
    for parts in PARTS {
        let part = (json.len() / parts).max(MIN_PART_BYTES);
        let chunks = chunks(json, Sizes { group: part, whole: part });
        if chunks.iter().all(|chunk| chunk.title.is_empty()) {
            break;
        }
        let preview = (config.bytes / 2 / chunks.len()).max(PREVIEW_BYTES);
        let what = if json.starts_with('[') { "an array" } else { "an object" };
        let text = format!("[Summary: {what}, {}, in {}]", kilobytes(json.len()), counted(chunks.len()));
        let mut lines = Lines { text, most_bytes: config.bytes };
        let listed = chunks.iter().take_while(|chunk| lines.add(&line(chunk, preview))).count();
        let left_out = chunks.len() - listed;
        outline = Some(lines.finish(left_out, "parts"));
        if left_out == 0 {
            break;
        }
    }
    outline
}

/// Formats a number of parts.
fn counted(parts: usize) -> String {
    if parts == 1 { "1 part".to_owned() } else { format!("{parts} parts") }
}

/// Describes one part in a line. A long value without parts is shown with its head and tail, in about `preview` bytes.
fn line(chunk: &Chunk, preview: usize) -> String {
    let (title, size) = (&chunk.title, kilobytes(chunk.body.len()));
    match chunk.kind {
        Kind::Value if preview > PREVIEW_BYTES && chunk.body.len() > preview && identity(chunk.body).is_none() => {
            format!("{title} ({size}):\n{}", ends(&unquoted(chunk.body), preview))
        }
        Kind::Value => match identity(chunk.body) {
            Some(identity) if chunk.body.len() > PREVIEW_BYTES => format!("{title} ({size}): {identity}"),
            _ => format!("{title} ({size}): {}", shorten(chunk.body, PREVIEW_BYTES)),
        },
        Kind::Members => {
            let object = format!("{{{}}}", chunk.body);
            let preview = identity(&object).unwrap_or_else(|| start(chunk.body));
            format!("{title} ({} members, {size}): {preview}", chunk.count)
        }
        Kind::Items => {
            let (mut names, mut first) = (Vec::new(), None);
            each_member(&format!("[{}]", chunk.body), |item| {
                if item.index == 0 && chunk.is_first {
                    first = Some(shorten(item.value, FIRST_BYTES));
                }
                if item.index < NAMED {
                    names.extend(identity(item.value));
                }
            });
            if chunk.count > NAMED && !names.is_empty() {
                names.push("…".to_owned());
            }
            let what = match (names.is_empty(), first) {
                (true, _) => start(chunk.body),
                (false, Some(first)) => format!("{}; the first is {first}", names.join(", ")),
                (false, None) => names.join(", "),
            };
            format!("{title} ({} items, {size}): {what}", chunk.count)
        }
    }
}

/// Returns the members that identify an object, as JSON; `None` if it has none.
fn identity(json: &str) -> Option<String> {
    let mut fields = Vec::new();
    each_member(json, |Member { key, value, .. }| {
        let is_scalar = !value.starts_with(['{', '[', 'n']);
        if let Some(key) = key
            && is_scalar
            && fields.len() < IDENTITY.len()
            && IDENTITY.contains(&&*unquoted(key))
        {
            fields.push(format!("{key}: {}", scalar(value)));
        }
    });
    (!fields.is_empty()).then(|| format!("{{{}}}", fields.join(", ")))
}

/// Returns a scalar as JSON, cut if it is long.
fn scalar(json: &str) -> String {
    if json.len() <= MAX_IDENTITY_BYTES {
        return json.to_owned();
    }
    Value::from(clipped(&unquoted(json), MAX_IDENTITY_BYTES)).to_string()
}

/// Shortens a value to about `room` bytes.
fn shorten(json: &str, room: usize) -> String {
    if json.len() <= room && !json.contains('\n') {
        return json.to_owned();
    }
    if json.len() > MAX_SHORTENED_BYTES {
        return start(json);
    }
    match serde_json::from_str::<Value>(json) {
        Ok(value) => shortened(&value, room).to_string(),
        Err(_) => start(json),
    }
}

/// Returns the head and the tail of a text, in about `room` bytes.
fn ends(text: &str, room: usize) -> Cow<'_, str> {
    let (head, tail) =
        (text.floor_char_boundary(room * 3 / 5), text.ceil_char_boundary(text.len().saturating_sub(room * 2 / 5)));
    if head >= tail {
        return text.into();
    }
    format!("{}\n… [{} are not shown] …\n{}", &text[..head], kilobytes(tail - head), &text[tail..]).into()
}

/// Returns the beginning of a text on one line.
fn start(text: &str) -> String {
    clipped(text, PREVIEW_BYTES).replace(['\n', '\r'], " ")
}
