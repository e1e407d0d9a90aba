//! A JSON value in pieces of some size, each with the path of its keys.

use super::json::{Member, between, each_member, unquoted};
use super::path::{BELOW, TO};
use host_client_core::text::clipped;

/// The most levels of arrays and objects that are taken apart. What lies deeper stays in one piece.
const MAX_DEPTH: usize = 8;
/// The longest part of a title, in bytes.
const MAX_PART_BYTES: usize = 60;

/// How large pieces are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    /// Neighbours are put together up to so many bytes.
    pub(super) group: usize,
    /// What has more than so many bytes is taken apart.
    pub(super) whole: usize,
}

/// What a piece is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// One value.
    Value,
    /// Some neighbours in an array.
    Items,
    /// Some neighbours in an object.
    Members,
}

/// A piece of a JSON value.
#[derive(Debug)]
pub(super) struct Chunk<'a> {
    /// A path, such as `results > items > [0-4]`; empty for all of a value. Only a very long key is none.
    pub(super) title: String,
    pub(super) kind: Kind,
    /// The text of the value, or of the neighbours with the commas between them.
    pub(super) body: &'a str,
    /// How many neighbours there are.
    pub(super) count: usize,
    /// Whether it is the first of its array or object.
    pub(super) is_first: bool,
}

/// Takes a value apart. The work is linear in its length.
pub(super) fn chunks(json: &str, sizes: Sizes) -> Vec<Chunk<'_>> {
    let mut splitter = Splitter { sizes, chunks: Vec::new() };
    splitter.split(json.trim(), String::new(), 0);
    splitter.chunks
}

struct Splitter<'a> {
    sizes: Sizes,
    chunks: Vec<Chunk<'a>>,
}

/// Neighbours that are small.
struct Group<'a> {
    first: Member<'a>,
    last: Member<'a>,
}

impl<'a> Splitter<'a> {
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
        // What was not read to its end is no JSON that was ever a result.
        debug_assert!(split.is_some(), "only JSON is taken apart");
    }

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

fn joined(title: &str, part: &str) -> String {
    if title.is_empty() { part.to_owned() } else { format!("{title}{BELOW}{part}") }
}

/// What a member is called in a title.
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
