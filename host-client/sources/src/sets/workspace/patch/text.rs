//! Hunks on the text of a file: where each belongs, and what comes of it.

use super::{HunkFault, cut};

/// How many lines may be compared for one patch.
const MAX_WORK: usize = 20_000_000;

/// A line and how it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line<'a> {
    pub(super) text: &'a str,
    pub(super) end: End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// Without a newline: the last line of a file may be so.
    None,
    Lf,
    CrLf,
}

/// What a line of a hunk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    Stays,
    Goes,
    Comes,
}

/// Lines that change together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Hunk<'a> {
    /// Where it starts in the patch, from 1.
    pub(super) line: usize,
    /// Where it starts in the old file, from 0, as its header says.
    pub(super) at: Option<usize>,
    /// Lines of the file from which on it is searched, each after the one before.
    pub(super) anchors: Vec<&'a str>,
    /// Whether it ends where the file does.
    pub(super) at_end: bool,
    pub(super) lines: Vec<(Mark, Line<'a>)>,
}

/// What there is left to compare.
pub(super) struct Work(usize);

/// What came of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Changed {
    pub(super) text: String,
    pub(super) added: usize,
    pub(super) removed: usize,
}

/// How lines are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fit {
    /// With how they end.
    Exact,
    /// By their text: the patch was written without an eye on how lines end in the file, and theirs are kept.
    Text,
}

/// Where a hunk belongs.
struct Position {
    index: usize,
    fit: Fit,
}

impl<'a> Line<'a> {
    /// A line from its text without `\n`.
    pub(super) fn new(raw: &'a str) -> Self {
        match raw.strip_suffix('\r') {
            Some(text) => Self { text, end: End::CrLf },
            None => Self { text: raw, end: End::Lf },
        }
    }

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
        Self(MAX_WORK)
    }
}

impl Work {
    fn take(&mut self) -> Result<(), HunkFault> {
        self.0 = self.0.checked_sub(1).ok_or(HunkFault::TooMuchWork)?;
        Ok(())
    }
}

impl<'a> Hunk<'a> {
    /// What has to be in the file.
    fn old(&self) -> Vec<Line<'a>> {
        self.lines.iter().filter(|(mark, _)| *mark != Mark::Comes).map(|(_, line)| *line).collect()
    }
}

/// The lines of a text.
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

/// Applies hunks to a text, in their order. What fails is named by the line of the hunk in the patch.
pub(super) fn apply(hunks: &[Hunk<'_>], text: &str, work: &mut Work) -> Result<Changed, (usize, HunkFault)> {
    let file = lines(text);
    let usual = usual_end(&file);
    let is_open = file.last().is_some_and(|line| line.end == End::None);
    let mut out: Vec<Line<'_>> = Vec::with_capacity(file.len());
    let (mut done, mut added, mut removed) = (0, 0, 0);
    let mut shift = 0_isize;
    // Whether the file goes on to end without a newline.
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
        // The file's own last line may have got others after it; one of the patch that says so is wrong.
        let says_open = |(mark, line): &(Mark, Line<'_>)| *mark == Mark::Comes && line.end == End::None;
        if hunk.lines.iter().any(says_open) && done < file.len() {
            return Err((hunk.line, HunkFault::NotLast));
        }
    }
    out.extend_from_slice(&file[done..]);
    Ok(Changed { text: join(&out, usual, stays_open), added, removed })
}

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

/// How most lines end.
fn usual_end(file: &[Line<'_>]) -> End {
    let count = |end| file.iter().filter(|line| line.end == end).count();
    if count(End::CrLf) > count(End::Lf) { End::CrLf } else { End::Lf }
}

/// Finds where a hunk belongs: where its header says, if its lines are there; otherwise in the one place where they
/// are.
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
                // An anchor says that the first one is meant.
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

/// The line of the last anchor. The first anchor has to be in one place; each next one is the first after.
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

/// How many lines fit at a place, up to the first that does not.
fn matched(old: &[Line<'_>], file: &[Line<'_>], index: usize, fit: Fit, work: &mut Work) -> Result<usize, HunkFault> {
    for (number, line) in old.iter().enumerate() {
        work.take()?;
        if !file.get(index + number).is_some_and(|found| line.fits(*found, fit)) {
            return Ok(number);
        }
    }
    Ok(old.len())
}

/// Says where most lines of a hunk are that is nowhere wholly.
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
        // All texts fit: only how lines end differs.
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

fn after(from: usize) -> &'static str {
    if from == 0 { "" } else { " after the hunk or `@@` line before" }
}
