//! Cuts the middle out of a long text, at line boundaries if possible.

use super::footer::kilobytes;

/// Maximum length of the marker that replaces the middle, in characters.
const MAX_MARKER_CHARS: usize = 160;

/// Length of a text, and the share of its head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CutConfig {
    /// Number of characters (Unicode scalar values) that stay, without the marker. Default: 200,000.
    pub characters: usize,
    /// Share of the head in percent; the rest is the tail. Default: 60.
    pub head_percent: usize,
}

impl Default for CutConfig {
    fn default() -> Self {
        Self { characters: 200_000, head_percent: 60 }
    }
}

/// Cuts the middle out of a text. Returns `None` if it is short enough, or was already cut.
pub(crate) fn cut(text: &str, config: CutConfig) -> Option<String> {
    if text.len() <= config.characters {
        return None;
    }
    let over = text.chars().count().checked_sub(config.characters).filter(|over| *over > 0)?;
    if over <= MAX_MARKER_CHARS && text.lines().any(|line| line.starts_with("… [") && line.ends_with("] …")) {
        return None;
    }
    let head = config.characters.saturating_mul(config.head_percent.min(100)) / 100;
    let tail = config.characters - head;
    let most_head = text.char_indices().nth(head).map_or(text.len(), |(at, _)| at);
    let least_tail = match tail.checked_sub(1) {
        Some(last) => text.char_indices().rev().nth(last).map_or(0, |(at, _)| at),
        None => text.len(),
    };
    Some(at_lines(text, most_head, least_tail).unwrap_or_else(|| within_lines(text, most_head, least_tail)))
}

/// Cuts at line boundaries. Returns `None` if that would lose more than half of the head or the tail.
fn at_lines(text: &str, most_head: usize, least_tail: usize) -> Option<String> {
    let head = text[..most_head].rfind('\n').map_or(0, |at| at + 1);
    let tail = match text[..least_tail].ends_with('\n') {
        true => least_tail,
        false => text[least_tail..].find('\n').map_or(text.len(), |at| least_tail + at + 1),
    };
    let is_nothing = head == 0 && tail == text.len();
    if is_nothing || head < most_head.div_ceil(2) || text.len() - tail < (text.len() - least_tail).div_ceil(2) {
        return None;
    }
    let lines = |part: &str| part.lines().count();
    let (head, middle, tail) = (&text[..head], &text[head..tail], &text[tail..]);
    Some(format!(
        "{head}… [{} lines / {} truncated — showing first {} + last {} lines] …\n{tail}",
        lines(middle),
        kilobytes(middle.len()),
        lines(head),
        lines(tail),
    ))
}

/// Cuts within lines. A line ending of two characters is not split.
fn within_lines(text: &str, mut head: usize, mut tail: usize) -> String {
    let splits_line_end = |at: usize| text[..at].ends_with('\r') && text[at..].starts_with('\n');
    if splits_line_end(head) {
        head -= 1;
    }
    if splits_line_end(tail) {
        tail += 1;
    }
    let omitted = kilobytes(tail - head);
    format!("{}\n… [truncated middle — {omitted} omitted] …\n{}", &text[..head], &text[tail..])
}
