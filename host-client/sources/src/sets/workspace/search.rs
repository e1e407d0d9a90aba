//! `grep`: finds lines by a regular expression, in time linear in the length of the text.

use std::io::Read;
use std::ops::ControlFlow;

use regex::bytes::{Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::failure::Failure;
use super::path::{RelPath, paths_or_names};
use super::root::{Root, open_file};
use super::tool::Cancel;
use super::walk::{Found, Walk};

/// Default number of matches in a result.
const DEFAULT_LIMIT: usize = 200;
/// Maximum number of matches in a result.
const MAX_LIMIT: usize = 2000;
/// Maximum number of lines before and after a match.
const MAX_CONTEXT: usize = 20;
/// Maximum size of a file that is searched, in bytes.
const MAX_FILE_BYTES: u64 = 4 << 20;
/// Maximum size of the compiled expression, in bytes.
const MAX_REGEX_BYTES: usize = 512 << 10;
/// Maximum nesting of an expression.
const MAX_REGEX_NESTING: u32 = 50;
/// Number of bytes of a line that are searched. People write no longer lines.
const MAX_LINE_BYTES: usize = 16 << 10;
/// Number of bytes of a line that are shown.
const MAX_SHOWN_BYTES: usize = 500;
/// Maximum size of the text that one call returns, in bytes.
const MAX_TEXT_BYTES: usize = 512 << 10;
/// Number of bytes at the start of a file that are checked for a zero byte, by which binary files are skipped.
const PROBED_BYTES: usize = 8 << 10;
/// Number of bytes that are searched between two checks for cancellation.
const CHUNK_BYTES: usize = 16 << 10;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GrepArguments {
    /// A regular expression in Rust's syntax (no look-around, no back-references), matched against one line at a time.
    pattern: String,
    /// The folder or file to search, relative to the workspace's root. Default: the root.
    #[serde(default)]
    path: Option<String>,
    /// Search only files that this glob matches, such as `*.rs` or `src/**/*.ts`, relative to `path`. Default: all.
    #[serde(default)]
    glob: Option<String>,
    /// Ignore case. Default: false.
    #[serde(default)]
    ignore_case: bool,
    /// Search files that .gitignore excludes, too. Default: false.
    #[serde(default)]
    ignored: bool,
    /// Number of lines to return before and after each match. Default: 0; maximum: 20.
    #[serde(default)]
    context: usize,
    /// Maximum number of matches. Default: 200; maximum: 2000.
    #[serde(default)]
    limit: Option<usize>,
}

/// The lines that match.
#[derive(Serialize, JsonSchema)]
pub(super) struct GrepResult {
    /// The matches, sorted by path and line.
    matches: Vec<GrepMatch>,
    files_searched: u64,
    /// Number of files that were not searched (binary, larger than 4 MiB, not readable) and of folders that could not
    /// be read.
    skipped: u64,
    /// `true`: there may be more matches than are listed.
    truncated: bool,
}

#[derive(Serialize, JsonSchema)]
struct GrepMatch {
    path: String,
    /// Number of the line, from 1.
    line: u64,
    /// Column where the match starts, in characters, from 1.
    column: u64,
    /// The line without its ending; a long line is cut and ends in `…`.
    text: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    before: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    after: Vec<String>,
}

/// State of one search.
struct Search<'a> {
    regex: Regex,
    /// `true`: an expression that matches a line alone matches it among other lines, too.
    fits_in_chunks: bool,
    context: usize,
    limit: usize,
    cancel: &'a Cancel,
    /// Number of bytes that the result may still take.
    room: usize,
    result: GrepResult,
}

/// Searches files line by line.
pub(super) fn grep(root: &Root, arguments: GrepArguments, cancel: &Cancel) -> Result<GrepResult, Failure> {
    let globs = arguments.glob.as_ref().map(|glob| paths_or_names([glob])).transpose()?;
    let start = root.find(&RelPath::parse(arguments.path.as_deref().unwrap_or("."))?)?;
    let mut search = Search {
        regex: compile(&arguments.pattern, arguments.ignore_case)?,
        fits_in_chunks: fits_in_chunks(&arguments.pattern),
        context: arguments.context.min(MAX_CONTEXT),
        limit: arguments.limit.unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT),
        cancel,
        room: MAX_TEXT_BYTES,
        result: GrepResult { matches: Vec::new(), files_searched: 0, skipped: 0, truncated: false },
    };
    let mut walk = Walk::new(root, cancel, arguments.ignored);
    walk.files(&start, &mut |found| match &globs {
        Some(globs) if !globs.is_match(name_or_path(found, &start.path)) => Ok(ControlFlow::Continue(())),
        _ => search.file(found),
    })?;
    let mut result = search.result;
    result.skipped += walk.skipped;
    result.truncated |= walk.cut;
    Ok(result)
}

/// Compiles the expression with bounds.
fn compile(pattern: &str, ignore_case: bool) -> Result<Regex, Failure> {
    RegexBuilder::new(pattern)
        .case_insensitive(ignore_case)
        .multi_line(true)
        .crlf(true)
        .size_limit(MAX_REGEX_BYTES)
        .nest_limit(MAX_REGEX_NESTING)
        .build()
        .map_err(|error| Failure::Regex(error.to_string()))
}

/// Returns `true` if an expression that matches a line alone matches it among other lines, too. `\A`, `\z` and flags
/// that are turned off, such as that `^` is the beginning of a line, prevent that.
fn fits_in_chunks(pattern: &str) -> bool {
    let is_flag = |char: &char| char.is_ascii_alphabetic() || *char == '-';
    let turns_off = |group: &str| group.chars().take_while(is_flag).any(|flag| flag == '-');
    !pattern.contains(r"\A") && !pattern.contains(r"\z") && !pattern.split("(?").skip(1).any(turns_off)
}

/// Returns the path that the glob is matched against: relative to the start, or the name of the start itself.
fn name_or_path<'a>(found: &'a Found<'_>, start: &RelPath) -> &'a str {
    if found.path == *start { found.name } else { found.path.seen_from(start) }
}

impl Search<'_> {
    /// Searches one file. Returns `Break` at the limit of the result.
    fn file(&mut self, found: &Found<'_>) -> Result<ControlFlow<()>, Failure> {
        let Some(text) = read_text(found) else {
            self.result.skipped += 1;
            return Ok(ControlFlow::Continue(()));
        };
        self.result.files_searched += 1;
        if self.fits_in_chunks && !self.fits_anywhere(&text)? {
            return Ok(ControlFlow::Continue(()));
        }
        let lines: Vec<&[u8]> = lines(&text).collect();
        let mut at = 0;
        while at < lines.len() {
            self.cancel.check()?;
            let chunk = self.chunk(&lines[at..]);
            for number in at..at + chunk {
                let line = searched(lines[number]);
                let Some(matched) = self.regex.find(line) else { continue };
                if self.result.matches.len() == self.limit || self.room == 0 {
                    self.result.truncated = true;
                    return Ok(ControlFlow::Break(()));
                }
                let column = String::from_utf8_lossy(&line[..matched.start()]).chars().count() as u64 + 1;
                let before = &lines[number.saturating_sub(self.context)..number];
                let after = &lines[number + 1..(number + 1 + self.context).min(lines.len())];
                let matched = GrepMatch {
                    path: found.path.as_str().to_owned(),
                    line: number as u64 + 1,
                    column,
                    text: shown(line),
                    before: before.iter().map(|line| shown(line)).collect(),
                    after: after.iter().map(|line| shown(line)).collect(),
                };
                let around: usize = matched.before.iter().chain(&matched.after).map(String::len).sum();
                self.room = self.room.saturating_sub(matched.path.len() + matched.text.len() + around);
                self.result.matches.push(matched);
            }
            at += chunk;
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Returns `false` if no line can match. This decides most files, and is far faster than a search of each line.
    fn fits_anywhere(&self, text: &[u8]) -> Result<bool, Failure> {
        let mut rest = text;
        while !rest.is_empty() {
            self.cancel.check()?;
            let end = match rest.iter().skip(CHUNK_BYTES).position(|byte| *byte == b'\n') {
                Some(newline) if newline > MAX_LINE_BYTES => return Ok(true),
                Some(newline) => CHUNK_BYTES + newline + 1,
                None if rest.len() > CHUNK_BYTES + MAX_LINE_BYTES => return Ok(true),
                None => rest.len(),
            };
            if self.regex.is_match(&rest[..end]) {
                return Ok(true);
            }
            rest = &rest[end..];
        }
        Ok(false)
    }

    /// Returns the number of lines to search before the next check for cancellation; at least one.
    fn chunk(&self, lines: &[&[u8]]) -> usize {
        let mut bytes = 0;
        let fits = |line: &&&[u8]| {
            bytes += searched(line).len();
            bytes <= CHUNK_BYTES
        };
        lines.iter().take_while(fits).count().max(1)
    }
}

/// Reads a file. Returns `None` if it is binary, too large or not readable.
fn read_text(found: &Found<'_>) -> Option<Vec<u8>> {
    let (file, metadata) = open_file(found.folder, found.name, &found.path).ok()?;
    if metadata.len() > MAX_FILE_BYTES {
        return None;
    }
    let mut text = Vec::new();
    let read = file.take(MAX_FILE_BYTES + 1).read_to_end(&mut text).ok()?;
    let is_text = !text.iter().take(PROBED_BYTES).any(|byte| *byte == 0);
    (is_text && read as u64 <= MAX_FILE_BYTES).then_some(text)
}

/// Splits a text into lines without their endings.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let text = text.strip_suffix(b"\n").map_or_else(|| (!text.is_empty()).then_some(text), Some);
    let lines = text.into_iter().flat_map(|text| text.split(|byte| *byte == b'\n'));
    lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}

/// Returns the part of a line that is searched.
fn searched(line: &[u8]) -> &[u8] {
    &line[..line.len().min(MAX_LINE_BYTES)]
}

/// Returns a line for the result.
fn shown(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(searched(line));
    let end = text.floor_char_boundary(MAX_SHOWN_BYTES);
    if end == text.len() { text.into_owned() } else { format!("{}…", &text[..end]) }
}
