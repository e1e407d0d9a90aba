//! The members of an object as TypeScript: on one line if they are few and plain, else on a line each.

use super::text::indented;
use super::text_type::Type;

/// The most bytes of an object on one line.
pub(super) const MAX_WIDTH_BYTES: usize = 80;

/// The members of an object type, which are added one after the other.
#[derive(Default)]
pub(super) struct Members {
    /// The members as text, each with its comment.
    pub(super) lines: Vec<String>,
    /// The types of the members.
    pub(super) types: Vec<Type>,
    has_comments: bool,
    /// `true` if a member is optional.
    pub(super) has_optional: bool,
    /// The comment that members were left out.
    note: Option<String>,
}

/// The type of the members that an object type does not name.
pub(super) enum OtherMembers {
    /// There are none, or nothing is known about them.
    Unspecified,
    /// The object has no named members: `Record<string, …>`.
    Record(Type),
    /// An index signature with a comment, which may be empty: `[key: string]: …`.
    Index(Type, String),
}

impl Members {
    /// Adds a member. `comment` may be empty.
    pub(super) fn add(&mut self, name: &str, is_optional: bool, each: Type, comment: String) {
        let mark = if is_optional { "?" } else { "" };
        self.has_optional |= is_optional;
        self.add_line(format!("{name}{mark}: {}", each.text), &comment);
        self.types.push(each);
    }

    /// Adds a line with its comment, unless that is empty.
    fn add_line(&mut self, line: String, comment: &str) {
        self.has_comments |= !comment.is_empty();
        self.lines.push(if comment.is_empty() { line } else { format!("/** {comment} */\n{line}") });
    }

    /// Notes that this number of members was left out.
    pub(super) fn set_left_out(&mut self, members: usize) {
        self.note = Some(format!("/* {members} more */"));
    }

    /// Returns the object type. With `is_full`, it may have comments and several lines.
    pub(super) fn finish(mut self, others: OtherMembers, is_full: bool) -> Type {
        match others {
            OtherMembers::Unspecified => {}
            OtherMembers::Record(each) => return Type::atom(format!("Record<string, {}>", each.text)),
            OtherMembers::Index(each, comment) => {
                self.add_line(format!("[key: string]: {}", each.text), if is_full { &comment } else { "" });
            }
        }
        if self.lines.is_empty() && self.note.is_none() {
            return Type::atom("{}");
        }
        let note = self.note.as_deref().unwrap_or_default();
        let width: usize = self.lines.iter().map(|line| line.len() + 2).sum();
        let has_many_lines = self.lines.iter().any(|line| line.contains('\n'));
        let is_short = !self.has_comments && width <= MAX_WIDTH_BYTES && !has_many_lines;
        if is_short || !is_full {
            let space = if note.is_empty() { "" } else { " " };
            return Type::atom(format!("{{ {}{space}{note} }}", self.lines.join("; ")));
        }
        let mut text = String::from("{");
        for line in &self.lines {
            text.push_str("\n  ");
            text.push_str(&indented(line));
            text.push(';');
        }
        if !note.is_empty() {
            text.push_str("\n  ");
            text.push_str(note);
        }
        text.push_str("\n}");
        Type::atom(text)
    }
}
