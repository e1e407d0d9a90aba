//! Splits a JSON value into pieces, each with the path of its keys.

use super::json::{Member, between, each_member, unquoted};
use super::path::{BELOW, TO};
use host_client_core::text::clipped;

/// Maximum number of levels that are split. Deeper values stay in one piece.
const MAX_DEPTH: usize = 8;
/// Maximum length of one key in a title, in bytes.
const MAX_PART_BYTES: usize = 60;

/// Sizes of pieces.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    /// Maximum size of a group of neighbours, in bytes.
    pub(super) group: usize,
    /// Maximum size of a value that is not split, in bytes.
    pub(super) whole: usize,
}

/// Content of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// One value.
    Value,
    /// Neighbouring items of an array.
    Items,
    /// Neighbouring members of an object.
    Members,
}

/// Piece of a JSON value.
#[derive(Debug)]
pub(super) struct Chunk<'a> {
    /// Path such as `results > items > [0-4]`; empty for the whole value. Very long keys are cut, so that it cannot be
    /// read back.
    pub(super) title: String,
    pub(super) kind: Kind,
    /// Text of the value, or of the neighbours with the commas between them.
    pub(super) body: &'a str,
    /// Number of neighbours.
    pub(super) count: usize,
    /// `true`: it begins with the first member of its array or object.
    pub(super) is_first: bool,
}

/// Splits a value, in time linear in its length.
pub(super) fn chunks(json: &str, sizes: Sizes) -> Vec<Chunk<'_>> {
    let mut splitter = Splitter { sizes, chunks: Vec::new() };
    splitter.split(json.trim(), String::new(), 0);
    splitter.chunks
}

/// State of the split.
struct Splitter<'a> {
    sizes: Sizes,
    chunks: Vec<Chunk<'a>>,
}

/// Group of small neighbours.
struct Group<'a> {
    first: Member<'a>,
    last: Member<'a>,
}

impl<'a> Splitter<'a> {
    /// Splits one value.
    fn split(&mut self, json: &'a str, title: String, depth: usize) {
        let is_split = json.len() > self.sizes.whole && depth < MAX_DEPTH && json.starts_with(['[', '{']);
        if !is_split {
            self.chunks.push(Chunk { title, kind: Kind::Value, body: json, count: 1, is_first: false });
            return;
        }
        let mut group: Option<Group<'a>> = None;
        let split = each_member(json, |member| {
            let is_large = member.value.len() > self.sizes.whole;
            let fits = |group: &Group| between(json, group.first.start(), member.value).len() <= self.sizes.group;
            match &mut group {
                Some(group) if !is_large && fits(group) => {
                    group.last = member;
                    return;
                }
                _ => {
                    if let Some(group) = group.take() {
                        self.push(json, &title, &group);
                    }
                }
            }
            if is_large {
                self.split(member.value, joined(&title, &part(&member)), depth + 1);
            } else {
                group = Some(Group { first: member, last: member });
            }
        });
        if let Some(group) = group {
            self.push(json, &title, &group);
        }
        // Only valid JSON is split, so that every member is visited.
        debug_assert!(split.is_some(), "only JSON is taken apart");
    }

    /// Adds a group as a piece.
    fn push(&mut self, json: &'a str, title: &str, group: &Group<'a>) {
        let Group { first, last } = group;
        let (kind, last_part) = match first.key {
            None => (Kind::Items, last.index.to_string()),
            Some(_) => (Kind::Members, part(last)),
        };
        let (kind, part) = match (kind, first.index == last.index) {
            (_, true) => (Kind::Value, part(first)),
            (Kind::Items, false) => (kind, format!("[{}-{last_part}]", first.index)),
            (_, false) => (kind, format!("{}{TO}{last_part}", part(first))),
        };
        let body = match kind {
            Kind::Value => first.value,
            Kind::Items | Kind::Members => between(json, first.start(), last.value),
        };
        let count = last.index - first.index + 1;
        self.chunks.push(Chunk { title: joined(title, &part), kind, body, count, is_first: first.index == 0 });
    }
}

/// Appends a part to a title.
fn joined(title: &str, part: &str) -> String {
    if title.is_empty() { part.to_owned() } else { format!("{title}{BELOW}{part}") }
}

/// Returns the part of a title for a member: its key, quoted if needed, or its index.
fn part(member: &Member) -> String {
    let Some(key) = member.key else { return format!("[{}]", member.index) };
    let plain = unquoted(key);
    let is_plain = !plain.contains(|it: char| it.is_control() || matches!(it, '.' | '[' | ']' | '"' | '>' | '…'))
        && !plain.starts_with('/')
        && !matches!(&*plain, "" | "$");
    match (is_plain, key.len() > MAX_PART_BYTES) {
        (true, _) => clipped(&plain, MAX_PART_BYTES),
        (false, true) => clipped(key, MAX_PART_BYTES),
        (false, false) => format!("[{key}]"),
    }
}
