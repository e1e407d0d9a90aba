//! The layout of a question: rows of limited width, and the lines of the code around the call.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::Space;
use crate::text::visible;

/// The start of a row of arguments.
pub(super) const ARGUMENTS: &str = "  | ";

/// A part of the code, ready to be shown.
pub(super) struct Excerpt {
    pub(super) rows: String,
    /// The line with the call; `None`: it is not known.
    pub(super) line: Option<usize>,
    pub(super) is_whole: bool,
    /// The number of lines of the whole code.
    pub(super) lines: usize,
}

/// Returns the code, or its lines around line `at` without those that are only comments. Without a line, or with one
/// that the code does not have, it is the first lines.
pub(super) fn code_excerpt(code: &str, at: Option<usize>, space: Space) -> Excerpt {
    let lines: Vec<(usize, &str)> = (1..).zip(code.lines()).collect();
    let line = at.filter(|at| (1..=lines.len()).contains(at));
    let shown = |lines: &[(usize, &str)]| {
        let rows = lines.iter().map(|(number, text)| numbered(*number, line == Some(*number), text, space.columns));
        rows.collect::<String>()
    };
    let most = space.code_rows();
    if lines.len() <= most {
        let rows = shown(&lines);
        if rows.matches('\n').count() <= most {
            return Excerpt { rows, line, is_whole: true, lines: lines.len() };
        }
    }
    let around = (most - 1) / 2;
    let is_told = |(number, text): &&(usize, &str)| line == Some(*number) || !is_comment(text);
    let (before, rest) = lines.split_at(line.unwrap_or(1) - 1);
    let mut chosen: Vec<_> = before.iter().rev().filter(is_told).take(around).copied().collect();
    chosen.reverse();
    chosen.extend(rest.iter().filter(is_told).take(most - chosen.len()));
    let mut is_whole = chosen.len() == lines.len();
    let mut rows = String::new();
    for (number, text) in chosen {
        // Of a line that takes many rows, the start is shown; the line that calls gets the most.
        let limit = if line == Some(number) { most } else { 1 };
        let row = numbered(number, line == Some(number), text, space.columns);
        let end = row.match_indices('\n').nth(limit - 1).map_or(row.len(), |(end, _)| end + 1);
        rows += &row[..end];
        if end < row.len() {
            rows.pop();
            rows.push_str("…\n");
            is_whole = false;
        }
    }
    Excerpt { rows, line, is_whole, lines: lines.len() }
}

/// Returns `true` for a line that is blank or looks like a comment: it is the last to be shown where there is no room.
fn is_comment(line: &str) -> bool {
    let line = line.trim_start();
    line.is_empty()
        || line.starts_with("//")
        || line.starts_with('*')
        || (line.starts_with("/*") && !line.contains("*/"))
}

/// Returns a line of the code in rows, with its number, and a mark if it is the one that calls.
pub(super) fn numbered(number: usize, is_marked: bool, line: &str, columns: usize) -> String {
    let mark = if is_marked { '>' } else { ' ' };
    // A column is left for the `…` of a line that is cut.
    wrapped(&format!("{mark}{number:>5} | "), &visible(line), columns - 1)
}

/// Returns a text without line feeds in rows of at most `columns` columns. The first row begins with `prefix`, the others with
/// a plus in the place of its last sign.
pub(super) fn wrapped(prefix: &str, text: &str, columns: usize) -> String {
    let further = format!("{:>width$}+ ", "", width = prefix.width().max(4) - 2);
    let (mut rows, mut taken) = (prefix.to_owned(), prefix.width());
    for character in text.chars() {
        let width = character.width().unwrap_or_default();
        if taken + width > columns {
            rows.push('\n');
            rows.push_str(&further);
            taken = further.width();
        }
        rows.push(character);
        taken += width;
    }
    rows.push('\n');
    rows
}

/// Returns a text of at most `columns` unchanged, and of a wider one the start that fits, and `…`.
pub(super) fn cut(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut taken = 0;
    let fits = |character: &char| {
        taken += character.width().unwrap_or_default();
        taken < columns
    };
    format!("{}…", text.chars().take_while(fits).collect::<String>())
}
