//! Parses both formats of patches strictly: every line that is not understood is an error.

use super::text::{End, Hunk, Line, Mark};
use super::{PatchError, cut};

mod envelope;
mod unified;

/// Maximum number of files in a patch.
const MAX_FILES: usize = 500;
/// Maximum number of hunks in a patch.
const MAX_HUNKS: usize = 10_000;

/// Change of one file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change<'a> {
    Create {
        path: &'a str,
        text: String,
        added: usize,
        is_executable: bool,
    },
    /// `text`: the content that the file must have; `None` if the patch does not give it.
    Delete {
        path: &'a str,
        text: Option<String>,
    },
    Update {
        path: &'a str,
        new_path: Option<&'a str>,
        hunks: Vec<Hunk<'a>>,
    },
}

impl Change<'_> {
    /// Returns the paths of the files that the change reads or writes.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        let (path, new_path) = match self {
            Self::Create { path, .. } | Self::Delete { path, .. } => (*path, None),
            Self::Update { path, new_path, .. } => (*path, *new_path),
        };
        [path].into_iter().chain(new_path)
    }
}

/// Parses a patch in either format.
pub(super) fn parse(patch: &str) -> Result<Vec<Change<'_>>, PatchError> {
    let mut reader = Reader::new(patch);
    reader.skip_blank();
    let changes = match reader.peek() {
        None => return Err(PatchError::Empty),
        Some("*** Begin Patch") => envelope::parse(&mut reader)?,
        Some(_) => unified::parse(&mut reader)?,
    };
    if changes.is_empty() { Err(PatchError::Empty) } else { Ok(changes) }
}

/// Reader of the lines of a patch.
struct Reader<'a> {
    lines: Vec<&'a str>,
    at: usize,
    hunks: usize,
    /// `true`: the format of `*** Begin Patch`, in which `--- ` and `+++ ` are not headers.
    is_envelope: bool,
    /// Set after the last old line and the last new line of a hunk, which has no newline at its end.
    ended: (bool, bool),
}

impl<'a> Reader<'a> {
    fn new(patch: &'a str) -> Self {
        let text = patch.strip_suffix('\n').unwrap_or(patch);
        let mut lines: Vec<_> = text.split('\n').collect();
        // A patch whose headers end in CRLF was converted as a whole: its lines were meant to end in LF.
        if lines.iter().find(|line| !line.trim().is_empty()).is_some_and(|line| line.ends_with('\r')) {
            lines.iter_mut().for_each(|line| *line = line.strip_suffix('\r').unwrap_or(line));
        }
        Self { lines, at: 0, hunks: 0, is_envelope: false, ended: (false, false) }
    }

    fn peek(&self) -> Option<&'a str> {
        self.lines.get(self.at).copied()
    }

    fn next(&mut self) -> Option<&'a str> {
        let line = self.peek()?;
        self.at += 1;
        Some(line)
    }

    /// Consumes the next line if it begins with `prefix`, and returns the rest of it.
    fn take_after(&mut self, prefix: &str) -> Option<&'a str> {
        let rest = self.peek()?.strip_prefix(prefix)?;
        self.at += 1;
        Some(rest)
    }

    fn skip_blank(&mut self) {
        while self.peek().is_some_and(|line| line.trim().is_empty()) {
            self.at += 1;
        }
    }

    /// Returns the number of the next line, from 1.
    fn line(&self) -> usize {
        self.at + 1
    }

    /// Returns a syntax error at the next line.
    fn expected<T>(&self, expected: &'static str) -> Result<T, PatchError> {
        let found = self.peek().map_or_else(|| "the end of the patch".to_owned(), cut);
        Err(PatchError::Syntax { line: self.line(), expected, found })
    }

    /// Returns `true` if the next line is the `--- ` header of a file, and not the removal of a line `-- …`.
    fn is_at_file(&self) -> bool {
        let next = self.lines.get(self.at + 1);
        !self.is_envelope
            && self.peek().is_some_and(|line| line.starts_with("--- "))
            && next.is_some_and(|line| line.starts_with("+++ "))
    }

    /// Returns `true` if the next line may belong to a hunk.
    fn is_at_body(&self) -> bool {
        let is_marked = self.peek().is_some_and(|line| matches!(line.bytes().next(), None | Some(b' ' | b'+' | b'-')));
        is_marked && !self.is_at_file()
    }

    /// Reads the hunks of a file. Without `needs_header`, the `@@` of the first one may be missing.
    fn hunks(&mut self, needs_header: bool) -> Result<Vec<Hunk<'a>>, PatchError> {
        let mut hunks = Vec::new();
        loop {
            let is_headless = hunks.is_empty() && !needs_header && self.is_at_body();
            if !is_headless && !self.peek().is_some_and(|line| line.starts_with("@@")) {
                return Ok(hunks);
            }
            self.hunks += 1;
            if self.hunks > MAX_HUNKS {
                return Err(PatchError::TooMany { what: "hunks", most: MAX_HUNKS });
            }
            hunks.push(self.hunk()?);
        }
    }

    /// Reads one hunk with its `@@` lines.
    fn hunk(&mut self) -> Result<Hunk<'a>, PatchError> {
        let mut hunk = Hunk { line: self.line(), ..Hunk::default() };
        self.ended = (false, false);
        let mut counts = None;
        while let Some(header) = self.peek().and_then(|line| line.strip_prefix("@@")) {
            if counts.is_some() {
                return self.expected("the lines of the hunk");
            }
            if header
                .trim_start()
                .strip_prefix('-')
                .is_some_and(|rest| rest.starts_with(|char: char| char.is_ascii_digit()))
            {
                let Some(ranges) = ranges(header) else { return self.expected("`@@ -1,2 +3,4 @@`, or `@@` alone") };
                let ((at, old), new) = ranges;
                // The header of an empty range names the line before it.
                hunk.at = Some(if old == 0 { at } else { at.saturating_sub(1) });
                counts = Some((old, new));
            } else {
                let anchor = header.trim().trim_end_matches("@@").trim();
                hunk.anchors.extend((!matches!(anchor, "" | "..." | "…")).then_some(anchor));
            }
            self.at += 1;
        }
        match counts {
            Some((old, new)) => self.counted(&mut hunk, old, new)?,
            None => self.uncounted(&mut hunk)?,
        }
        if self.take_after("*** End of File").is_some() {
            hunk.at_end = true;
        }
        self.skip_blank();
        Ok(hunk)
    }

    /// Reads as many lines as the header states.
    fn counted(&mut self, hunk: &mut Hunk<'a>, old: usize, new: usize) -> Result<(), PatchError> {
        let (mut found_old, mut found_new) = (0, 0);
        while (found_old < old || found_new < new) && self.is_at_body_of(old - found_old.min(old)) {
            let mark = self.body_line(hunk)?;
            found_old += usize::from(mark != Mark::Comes);
            found_new += usize::from(mark != Mark::Goes);
        }
        // Further lines of the hunk are counted for the error.
        while self.is_at_body() && !self.peek().is_some_and(str::is_empty) {
            let mark = self.body_line(hunk)?;
            found_old += usize::from(mark != Mark::Comes);
            found_new += usize::from(mark != Mark::Goes);
        }
        if (found_old, found_new) != (old, new) {
            return Err(PatchError::Counts { line: hunk.line, old, new, found_old, found_new });
        }
        Ok(())
    }

    /// Returns `true` if the next line belongs to a counted hunk: a `--- ` line does while old lines are due.
    fn is_at_body_of(&self, old_due: usize) -> bool {
        self.is_at_body() || (old_due > 0 && self.is_at_file())
    }

    /// Reads the lines up to the next header.
    fn uncounted(&mut self, hunk: &mut Hunk<'a>) -> Result<(), PatchError> {
        while self.is_at_body() {
            self.body_line(hunk)?;
        }
        // Empty lines before the next header are layout of the patch; an empty line of the file is written as a space.
        while hunk.lines.last().is_some_and(|(_, line)| line.text.is_empty())
            && self.lines.get(self.at - 1).is_some_and(|line| line.is_empty())
        {
            hunk.lines.pop();
            self.at -= 1;
        }
        if hunk.lines.is_empty() {
            return self.expected("lines that begin with ` `, `-` or `+`");
        }
        Ok(())
    }

    /// Reads one line of a hunk, and the `\ No newline` line after it.
    fn body_line(&mut self, hunk: &mut Hunk<'a>) -> Result<Mark, PatchError> {
        let (mark, text) = match self.next().map(|line| (line.bytes().next(), line)) {
            Some((Some(b'+'), line)) => (Mark::Comes, &line[1..]),
            Some((Some(b'-'), line)) => (Mark::Goes, &line[1..]),
            Some((Some(b' '), line)) => (Mark::Stays, &line[1..]),
            Some((_, line)) => (Mark::Stays, line),
            None => return self.expected("a line of the hunk"),
        };
        let (old, new) = (mark != Mark::Comes, mark != Mark::Goes);
        if (old && self.ended.0) || (new && self.ended.1) {
            self.at -= 1;
            return self.expected("nothing after the line that has no newline at its end");
        }
        let mut line = Line::new(text);
        if self.peek().is_some_and(|line| line.starts_with('\\')) {
            self.at += 1;
            line = Line { text, end: End::None };
            self.ended = (self.ended.0 || old, self.ended.1 || new);
        }
        hunk.lines.push((mark, line));
        Ok(mark)
    }
}

/// Parses the ranges of a header: start and count of the old lines, count of the new ones.
fn ranges(header: &str) -> Option<((usize, usize), usize)> {
    let (ranges, _) = header.trim_start().split_once("@@")?;
    let (old, new) = ranges.trim().split_once(' ')?;
    let range = |text: &str| -> Option<(usize, usize)> {
        let (start, count) = text.split_once(',').unwrap_or((text, "1"));
        let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
        Some((number(start)?, number(count)?))
    };
    let (_, new_count) = range(new.trim().strip_prefix('+')?)?;
    Some((range(old.strip_prefix('-')?)?, new_count))
}

/// Checks the number of files.
fn check_files(changes: &[Change<'_>]) -> Result<(), PatchError> {
    if changes.len() > MAX_FILES {
        return Err(PatchError::TooMany { what: "files", most: MAX_FILES });
    }
    Ok(())
}
