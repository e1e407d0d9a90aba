//! Applies hunks to the text of a file: finds the position of each, and makes the new text.

use super::{HunkFault, cut};

/// Maximum number of line comparisons for one patch.
const MAX_COMPARED_LINES: usize = 20_000_000;

/// Line and its ending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line<'a> {
    pub(super) text: &'a str,
    pub(super) end: End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// No newline, as the last line of a file may have it.
    None,
    Lf,
    CrLf,
}

/// Kind of a line in a hunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    Stays,
    Goes,
    Comes,
}

/// Group of lines that change together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Hunk<'a> {
    /// Line of the patch where it starts, from 1.
    pub(super) line: usize,
    /// Line of the old file where it starts according to its header, from 0; `None` without line numbers.
    pub(super) at: Option<usize>,
    /// Lines of the file after which the hunk is searched, each after the one before.
    pub(super) anchors: Vec<&'a str>,
    /// `true`: the hunk must end at the end of the file.
    pub(super) at_end: bool,
    pub(super) lines: Vec<(Mark, Line<'a>)>,
}

/// Number of comparisons that are left.
pub(super) struct Work(usize);

/// New text of a file, with the numbers of its added and removed lines.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Changed {
    pub(super) text: String,
    pub(super) added: usize,
    pub(super) removed: usize,
}

/// Comparison of lines.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fit {
    /// By text and ending.
    Exact,
    /// By text alone, for a patch that ignores the line endings of the file. Those of the file are kept.
    Text,
}

/// Position of a hunk in the file.
struct Position {
    index: usize,
    fit: Fit,
}

impl<'a> Line<'a> {
    /// Makes a line of its text without `\n`.
    pub(super) fn new(raw: &'a str) -> Self {
        match raw.strip_suffix('\r') {
            Some(text) => Self { text, end: End::CrLf },
            None => Self { text: raw, end: End::Lf },
        }
    }

    /// Returns `true` if both lines are equal in this comparison.
    fn fits(self, other: Self, fit: Fit) -> bool {
        self.text == other.text && (fit == Fit::Text || self.end == other.end)
    }

    pub(super) fn write_to(self, text: &mut String) {
        text.push_str(self.text);
        text.push_str(match self.end {
            End::None => "",
            End::Lf => "\n",
            End::CrLf => "\r\n",
        });
    }
}

impl Default for Work {
    fn default() -> Self {
        Self(MAX_COMPARED_LINES)
    }
}

impl Work {
    /// Counts one comparison.
    fn take(&mut self) -> Result<(), HunkFault> {
        self.0 = self.0.checked_sub(1).ok_or(HunkFault::TooMuchWork)?;
        Ok(())
    }
}

impl<'a> Hunk<'a> {
    /// Returns the lines that must be in the file.
    fn old(&self) -> Vec<Line<'a>> {
        self.lines.iter().filter(|(mark, _)| *mark != Mark::Comes).map(|(_, line)| *line).collect()
    }
}

/// Splits a text into lines.
pub(super) fn lines(text: &str) -> Vec<Line<'_>> {
    let mut lines = Vec::new();
    for raw in text.split_inclusive('\n') {
        lines.push(match raw.strip_suffix('\n') {
            Some(raw) => Line::new(raw),
            None => Line { text: raw, end: End::None },
        });
    }
    lines
}

/// Applies hunks to a text, in their order.
///
/// # Errors
/// The line of the first hunk that fails, and the reason.
pub(super) fn apply(hunks: &[Hunk<'_>], text: &str, work: &mut Work) -> Result<Changed, (usize, HunkFault)> {
    let file = lines(text);
    let usual = usual_end(&file);
    let is_open = file.last().is_some_and(|line| line.end == End::None);
    let mut out: Vec<Line<'_>> = Vec::with_capacity(file.len());
    let (mut done, mut added, mut removed) = (0, 0, 0);
    let mut shift = 0_isize;
    // `true`: the last line still has no newline at its end.
    let mut stays_open = is_open;
    for hunk in hunks {
        let old = hunk.old();
        let Position { index, fit } =
            locate(hunk, &old, &file, done, shift, work).map_err(|fault| (hunk.line, fault))?;
        if let Some(at) = hunk.at {
            shift = index.cast_signed() - at.cast_signed();
        }
        out.extend_from_slice(&file[done..index]);
        done = index;
        let end = file[index..index + old.len()].iter().map(|line| line.end).find(|end| *end != End::None);
        let end = end.unwrap_or(usual);
        for (mark, line) in &hunk.lines {
            match mark {
                Mark::Stays => out.push(file[done]),
                Mark::Goes => removed += 1,
                Mark::Comes => {
                    added += 1;
                    let adapts = line.end == End::Lf && (fit == Fit::Text || old.is_empty());
                    out.push(if adapts { Line { end, ..*line } } else { *line });
                }
            }
            done += usize::from(*mark != Mark::Comes);
        }
        if done == file.len() {
            stays_open = is_open && (fit == Fit::Text || old.is_empty());
        }
        // A line of the patch without newline must be the last one of the file.
        let says_open = |(mark, line): &(Mark, Line<'_>)| *mark == Mark::Comes && line.end == End::None;
        if hunk.lines.iter().any(says_open) && done < file.len() {
            return Err((hunk.line, HunkFault::NotLast));
        }
    }
    out.extend_from_slice(&file[done..]);
    Ok(Changed { text: join(&out, usual, stays_open), added, removed })
}

/// Joins lines, each with a newline unless the last one stays without.
fn join(lines: &[Line<'_>], usual: End, stays_open: bool) -> String {
    let mut text = String::with_capacity(lines.iter().map(|line| line.text.len() + 2).sum());
    for (number, line) in lines.iter().enumerate() {
        let is_last = number + 1 == lines.len();
        let end = match line.end {
            End::None if !is_last => usual,
            _ if is_last && stays_open => End::None,
            end => end,
        };
        Line { end, ..*line }.write_to(&mut text);
    }
    text
}

/// Returns the ending of most lines.
fn usual_end(file: &[Line<'_>]) -> End {
    let count = |end| file.iter().filter(|line| line.end == end).count();
    if count(End::CrLf) > count(End::Lf) { End::CrLf } else { End::Lf }
}

/// Finds the position of a hunk: the one of its header if the lines match there, else the only one where they match.
fn locate(
    hunk: &Hunk<'_>,
    old: &[Line<'_>],
    file: &[Line<'_>],
    from: usize,
    shift: isize,
    work: &mut Work,
) -> Result<Position, HunkFault> {
    let start = after_anchors(hunk, file, from, work)?;
    let stated = hunk.at.and_then(|at| at.checked_add_signed(shift)).filter(|at| (from..=file.len()).contains(at));
    if old.is_empty() {
        let end = (hunk.at_end || file.is_empty()).then_some(file.len());
        let anchored = (!hunk.anchors.is_empty()).then_some(start + 1);
        let index = stated.or(end).or(anchored).ok_or(HunkFault::NoPlace)?;
        return Ok(Position { index, fit: Fit::Exact });
    }
    let is_plain = old.iter().all(|line| line.end == End::Lf);
    for fit in if is_plain { &[Fit::Exact, Fit::Text][..] } else { &[Fit::Exact] } {
        let mut is_at = |index: usize| -> Result<bool, HunkFault> {
            let ends = index + old.len() == file.len();
            Ok(matched(old, file, index, *fit, work)? == old.len() && (ends || !hunk.at_end))
        };
        if let Some(index) = stated
            && is_at(index)?
        {
            return Ok(Position { index, fit: *fit });
        }
        let mut first = None;
        for index in start..=file.len().saturating_sub(old.len()) {
            match (is_at(index)?, first) {
                (false, _) => {}
                (true, None) if hunk.anchors.is_empty() => first = Some(index),
                // With an anchor, the first match is meant.
                (true, None) => return Ok(Position { index, fit: *fit }),
                (true, Some(first)) => return Err(HunkFault::Ambiguous { first: first + 1, second: index + 1 }),
            }
        }
        if let Some(index) = first {
            return Ok(Position { index, fit: *fit });
        }
    }
    Err(nearest(old, file, start, stated, work))
}

/// Returns the index of the last anchor's line. The first anchor must match one line only; each further one matches the
/// first line after it.
fn after_anchors(hunk: &Hunk<'_>, file: &[Line<'_>], from: usize, work: &mut Work) -> Result<usize, HunkFault> {
    let mut start = from;
    for (number, anchor) in hunk.anchors.iter().enumerate() {
        let mut found = None;
        let skip = if number == 0 { from } else { start + 1 };
        for (index, line) in file.iter().enumerate().skip(skip) {
            work.take()?;
            if line.text.trim() != anchor.trim() {
                continue;
            }
            if number == 0 && found.is_some() {
                return Err(HunkFault::AmbiguousAnchor { anchor: cut(anchor) });
            }
            found = Some(index);
            if number > 0 {
                break;
            }
        }
        start = found.ok_or_else(|| HunkFault::NoAnchor { after: after(from), anchor: cut(anchor) })?;
    }
    Ok(start)
}

/// Counts the lines that match at a position, up to the first that does not.
fn matched(old: &[Line<'_>], file: &[Line<'_>], index: usize, fit: Fit, work: &mut Work) -> Result<usize, HunkFault> {
    for (number, line) in old.iter().enumerate() {
        work.take()?;
        if !file.get(index + number).is_some_and(|found| line.fits(*found, fit)) {
            return Ok(number);
        }
    }
    Ok(old.len())
}

/// Describes the position where most lines of a hunk match, if no position matches all.
fn nearest(old: &[Line<'_>], file: &[Line<'_>], start: usize, stated: Option<usize>, work: &mut Work) -> HunkFault {
    let after = after(start);
    let mut best = (0, stated.unwrap_or(start));
    for index in stated.into_iter().chain(start..file.len()) {
        match matched(old, file, index, Fit::Text, work) {
            Ok(count) if count > best.0 => best = (count, index),
            Ok(_) => {}
            Err(fault) => return fault,
        }
    }
    let (count, index) = best;
    match old.get(count) {
        Some(expected) if count > 0 || stated.is_some() => {
            let found = file.get(index + count).map_or("the end of the file", |line| line.text);
            HunkFault::Mismatch { after, at: index + count + 1, expected: cut(expected.text), found: cut(found) }
        }
        // All texts match: only a line ending differs.
        None => {
            let ends = |line: &Line<'_>| format!("{:?} and a line end of {:?}", cut(line.text), line.end);
            let differs = old.iter().zip(&file[index..]).enumerate().find(|(_, (old, found))| old.end != found.end);
            let (number, (old, found)) = match differs {
                Some(differs) => differs,
                None => return HunkFault::NotAtEnd,
            };
            HunkFault::Mismatch { after, at: index + number + 1, expected: ends(old), found: ends(found) }
        }
        Some(expected) => HunkFault::Nowhere { after, expected: cut(expected.text) },
    }
}

/// Returns the words that say that the search began after an earlier hunk.
fn after(from: usize) -> &'static str {
    if from == 0 { "" } else { " after the hunk or `@@` line before" }
}
