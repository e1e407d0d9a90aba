//! The members of an object as they are written: on one line where they are few and plain, else one below the other.

use super::text::indented;
use super::text_type::Type;

/// The widest object on one line, in bytes.
pub(super) const MAX_WIDTH: usize = 80;

/// Stands for the comment of a map that can be written as `Record`.
pub(super) const RECORD: &str = "\0record";

/// The members of an object as they are written.
#[derive(Default)]
pub(super) struct Written {
    pub(super) lines: Vec<String>,
    pub(super) types: Vec<Type>,
    has_comments: bool,
    pub(super) has_optional: bool,
    note: Option<String>,
}

impl Written {
    pub(super) fn add(&mut self, name: &str, is_optional: bool, each: Type, comment: String) {
        let mark = if is_optional { "?" } else { "" };
        self.has_optional |= is_optional;
        self.line(format!("{name}{mark}: {}", each.text), &comment);
        self.types.push(each);
    }

    fn line(&mut self, line: String, comment: &str) {
        self.has_comments |= !comment.is_empty();
        self.lines.push(if comment.is_empty() { line } else { format!("/** {comment} */\n{line}") });
    }

    pub(super) fn left_out(&mut self, members: usize) {
        self.note = Some(format!("/* {members} more */"));
    }

    pub(super) fn finish(mut self, rest: Option<(Type, String)>, is_full: bool) -> Type {
        if let Some((each, comment)) = rest {
            if comment == RECORD {
                return Type::tight(format!("Record<string, {}>", each.text));
            }
            self.line(format!("[key: string]: {}", each.text), if is_full { &comment } else { "" });
        }
        if self.lines.is_empty() && self.note.is_none() {
            return Type::tight("{}");
        }
        let note = self.note.as_deref().unwrap_or_default();
        let width: usize = self.lines.iter().map(|line| line.len() + 2).sum();
        let is_short =
            !is_full || (!self.has_comments && width <= MAX_WIDTH && !self.lines.iter().any(|it| it.contains('\n')));
        if is_short {
            let space = if note.is_empty() { "" } else { " " };
            return Type::tight(format!("{{ {}{space}{note} }}", self.lines.join("; ")));
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
        Type::tight(text)
    }
}
