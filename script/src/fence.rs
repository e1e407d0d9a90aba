//! Finds the code inside Markdown: its fence, its first line, and the language that it is marked as.

mod prose;

use crate::lines;

/// Mark at the start of a file that some editors write. JavaScript takes it for white space.
pub(crate) const BYTE_ORDER_MARK: char = '\u{FEFF}';

/// Language that the code is marked as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marked {
    /// None, or JavaScript. TypeScript that is marked so is accepted, too.
    JavaScript,
    /// TypeScript. Code that both languages can read, such as `f<T>(x)`, is read as TypeScript.
    TypeScript,
}

/// Code, and the number of lines of the author's text before it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Code<'a> {
    pub(crate) text: &'a str,
    pub(crate) first_line: u32,
    pub(crate) marked: Marked,
}

/// Beginning of a text.
pub(crate) enum Fence<'a> {
    /// Without a fence.
    None,
    /// With a fence; holds the first fence of JavaScript or TypeScript.
    Code(Code<'a>),
    /// With a fence; all fences are of other languages.
    OtherLanguage { line: u32 },
}

/// Finds the fence of a text whose first line that is not blank opens one. As JavaScript it would begin with an empty
/// template that is called, which no program does.
pub(crate) fn fenced(source: &str) -> Fence<'_> {
    let is_blank = |line: &str| line.trim_start_matches(BYTE_ORDER_MARK).trim().is_empty();
    let Some((line, first)) = (0_u32..).zip(source.lines()).find(|(_, line)| !is_blank(line)) else {
        return Fence::None;
    };
    if opening(first).is_none() {
        return Fence::None;
    }
    match first_fence(source) {
        Some(code) => Fence::Code(code),
        None => Fence::OtherLanguage { line: line + 1 },
    }
}

/// Returns the content of the first fence of JavaScript or TypeScript, else of the first fence without a language;
/// `None`: there is neither.
pub(crate) fn first_fence(source: &str) -> Option<Code<'_>> {
    let mut unmarked = None;
    let mut open: Option<(&str, &str, usize, u32)> = None;
    let mut offset = 0;
    for line in source.split_inclusive('\n') {
        let end = offset + line.len();
        match open {
            None => {
                let first_line = || lines::count_breaks(&source[..offset]) + 1;
                open = opening(line).map(|(marker, language)| (marker, language, end, first_line()));
            }
            Some((marker, language, start, first_line)) if closes(line, marker) => {
                open = None;
                let found = pick(&source[start..offset], language, first_line, &mut unmarked);
                if found.is_some() {
                    return found;
                }
            }
            Some(_) => {}
        }
        offset = end;
    }
    // A fence that is not closed runs to the end, as in Markdown.
    let last =
        open.and_then(|(_, language, start, first_line)| pick(&source[start..], language, first_line, &mut unmarked));
    last.or(unmarked)
}

/// Returns what [`first_fence`] does, and the number of the line that opens the first fence of all, counted from 1. The
/// first is `None` if the text before the first fence is not surely prose: the fence may be part of a program then, in a
/// comment or a template.
pub(crate) fn fence_after_prose(source: &str) -> (Option<Code<'_>>, u32) {
    let mut offset = 0;
    for line in source.split_inclusive('\n') {
        if opening(line).is_some() {
            let before = &source[..offset];
            let code = if prose::is_prose(before) { first_fence(source) } else { None };
            return (code, lines::count_breaks(before) + 1);
        }
        offset += line.len();
    }
    (None, 0)
}

/// Returns the code before a closing fence whose opening was lost; `None`: there is none.
pub(crate) fn before_closing_fence(source: &str) -> Option<&str> {
    let text = source.trim_end();
    let start = text.rfind('\n')? + 1;
    let (before, last) = text.split_at(start);
    let (_, language) = opening(last)?;
    (language.is_empty() && !before.lines().any(|line| opening(line).is_some())).then_some(before)
}

fn pick<'a>(text: &'a str, language: &str, first_line: u32, unmarked: &mut Option<Code<'a>>) -> Option<Code<'a>> {
    const JAVASCRIPT: [&str; 5] = ["js", "javascript", "mjs", "jsx", "ecmascript"];
    const TYPESCRIPT: [&str; 4] = ["ts", "typescript", "mts", "tsx"];
    let is_one_of = |names: &[&str]| names.iter().any(|known| known.eq_ignore_ascii_case(language));
    if is_one_of(&JAVASCRIPT) {
        return Some(Code { text, first_line, marked: Marked::JavaScript });
    }
    if is_one_of(&TYPESCRIPT) {
        return Some(Code { text, first_line, marked: Marked::TypeScript });
    }
    if language.is_empty() && unmarked.is_none() {
        *unmarked = Some(Code { text, first_line, marked: Marked::JavaScript });
    }
    None
}

/// Returns the marker and the language of a line that opens a fence; `None`: it opens none.
fn opening(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start_matches(BYTE_ORDER_MARK);
    let indented = line.trim_end().trim_start_matches(' ');
    if line.len() - line.trim_start_matches(' ').len() > 3 {
        return None;
    }
    let mark = indented.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
    let length = indented.len() - indented.trim_start_matches(mark).len();
    let (marker, info) = indented.split_at(length);
    let closed_in_line = mark == '`' && info.contains('`');
    if length < 3 || closed_in_line {
        return None;
    }
    let language = info.split([' ', '\t', ',', '{']).find(|word| !word.is_empty()).unwrap_or("");
    Some((marker, language))
}

fn closes(line: &str, marker: &str) -> bool {
    let text = line.trim();
    text.len() >= marker.len() && marker.chars().next().is_some_and(|mark| text.chars().all(|c| c == mark))
}
