//! Changes a text and keeps its lines and columns: removed text becomes spaces.

use std::borrow::Cow;

use memchr::memmem;

use crate::lines::is_break;

/// One change of the bytes `start..end`.
#[derive(Debug)]
struct Edit {
    start: usize,
    end: usize,
    change: Change,
}

#[derive(Debug)]
enum Change {
    /// Spaces that begin with `first` and end with `last`, each in place of as many characters.
    Blank { first: &'static str, last: &'static str },
    /// Another text, which may be longer.
    Text(String),
}

/// Changes to one text, in any order, none of which overlap.
#[derive(Debug)]
pub(super) struct Edits<'s> {
    text: &'s str,
    list: Vec<Edit>,
}

impl<'s> Edits<'s> {
    pub(super) fn new(text: &'s str) -> Self {
        Self { text, list: Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn blank(&mut self, start: usize, end: usize) {
        self.blank_between(start, end, "", "");
    }

    /// Blanks a range but for `first`, which replaces as many characters at its start.
    pub(super) fn blank_after(&mut self, first: &'static str, start: usize, end: usize) {
        self.blank_between(start, end, first, "");
    }

    /// Blanks a range but for `last`, which replaces as many characters at its end.
    pub(super) fn blank_before(&mut self, start: usize, end: usize, last: &'static str) {
        self.blank_between(start, end, "", last);
    }

    fn blank_between(&mut self, start: usize, end: usize, first: &'static str, last: &'static str) {
        if start < end {
            self.list.push(Edit { start, end, change: Change::Blank { first, last } });
        }
    }

    pub(super) fn replace(&mut self, start: usize, end: usize, text: String) {
        self.list.push(Edit { start, end, change: Change::Text(text) });
    }

    /// Lets the latest change begin with a semicolon, if it ends here.
    pub(super) fn end_statement(&mut self, end: usize) {
        if let Some(Edit { end: at, change: Change::Blank { first, .. }, .. }) = self.list.last_mut()
            && *at == end
            && first.is_empty()
        {
            *first = ";";
        }
    }

    /// Returns whether the latest change ends here.
    pub(super) fn ends_at(&self, end: usize) -> bool {
        self.list.last().is_some_and(|last| last.end == end)
    }

    /// Returns the text with all changes.
    pub(super) fn apply(mut self) -> Cow<'s, str> {
        if self.list.is_empty() {
            return Cow::Borrowed(self.text);
        }
        self.list.sort_by_key(|edit| (edit.start, edit.end));
        let mut changed = String::with_capacity(self.text.len() + 64);
        let mut copied = 0;
        for edit in &self.list {
            let Some(old) = self.text.get(edit.start.max(copied)..edit.end) else { continue };
            changed.push_str(self.text.get(copied..edit.start).unwrap_or(""));
            match &edit.change {
                Change::Text(text) => changed.push_str(text),
                Change::Blank { first, last } => {
                    changed.push_str(first);
                    push_blank(&mut changed, without_ends(old, first.len(), last.len()));
                    changed.push_str(last);
                }
            }
            copied = edit.end;
        }
        changed.push_str(self.text.get(copied..).unwrap_or(""));
        Cow::Owned(changed)
    }
}

/// Removes a number of characters at both ends of a text.
fn without_ends(text: &str, first: usize, last: usize) -> &str {
    let mut chars = text.chars();
    chars.by_ref().take(first).for_each(drop);
    chars.by_ref().rev().take(last).for_each(drop);
    chars.as_str()
}

/// Appends as many spaces as V8 counts columns in the text, with its line breaks.
pub(crate) fn push_blank(to: &mut String, text: &str) {
    if text.is_ascii() {
        // Mostly ASCII: a line at a time.
        let mut rest = text;
        while let Some(at) = memchr::memchr2(b'\n', b'\r', rest.as_bytes()) {
            push_spaces(to, at);
            to.push(if rest.as_bytes()[at] == b'\n' { '\n' } else { '\r' });
            rest = &rest[at + 1..];
        }
        push_spaces(to, rest.len());
        return;
    }
    for c in text.chars() {
        if is_break(c) { to.push(c) } else { push_spaces(to, c.len_utf16()) }
    }
}

fn push_spaces(to: &mut String, mut count: usize) {
    const SPACES: &str = "                                                                ";
    while count > 0 {
        let some = count.min(SPACES.len());
        to.push_str(&SPACES[..some]);
        count -= some;
    }
}

/// Returns the start of the first token at or after `from`, past white space and comments.
pub(super) fn next_token(text: &str, from: usize) -> usize {
    let mut at = from;
    loop {
        let rest = text.get(at..).unwrap_or("");
        let trimmed = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{FEFF}');
        at += rest.len() - trimmed.len();
        let comment = if trimmed.starts_with("//") {
            trimmed.find(is_break)
        } else if trimmed.starts_with("/*") {
            memmem::find(trimmed.as_bytes(), b"*/").map(|end| end + 2)
        } else {
            return at;
        };
        match comment {
            Some(length) => at += length,
            None => return text.len(),
        }
    }
}

/// Returns the identifier that begins at `at`; empty: none does.
pub(super) fn word_at(text: &str, at: usize) -> &str {
    let rest = text.get(at..).unwrap_or("");
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '$').unwrap_or(rest.len());
    &rest[..end]
}
