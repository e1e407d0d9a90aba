//! `grep`: lines that a regular expression fits. Matching takes time that grows with the text alone, never
//! exponentially.

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

const DEFAULT_LIMIT: usize = 200;
const MAX_LIMIT: usize = 2000;
const MAX_CONTEXT: usize = 20;
/// The largest file that is searched, in bytes.
const MAX_FILE_BYTES: u64 = 4 << 20;
/// The most memory of the compiled expression, in bytes.
const MAX_REGEX_BYTES: usize = 512 << 10;
/// How deeply an expression may nest.
const MAX_REGEX_NESTING: u32 = 50;
/// How much of a line is searched, in bytes. What is longer was not written by people.
const MAX_LINE_BYTES: usize = 16 << 10;
/// How much of a line is shown, in bytes.
const MAX_SHOWN_BYTES: usize = 500;
/// How much text one call gives, in bytes.
const MAX_TEXT_BYTES: usize = 512 << 10;
/// A file with a zero byte in this many first bytes is no text.
const PROBED_BYTES: usize = 8 << 10;
/// How much is searched between two looks at whether somebody still waits, in bytes.
const CHUNK_BYTES: usize = 16 << 10;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GrepArguments {
    /// A regular expression in Rust's syntax (no look-around, no back-references), matched against one line at a time.
    pattern: String,
    /// The folder or file to search, from the workspace's root; the root if absent.
    #[serde(default)]
    path: Option<String>,
    /// Only files that this fits, such as `*.rs` or `src/**/*.ts`, seen from `path`.
    #[serde(default)]
    glob: Option<String>,
    #[serde(default)]
    ignore_case: bool,
    /// Whether to search what .gitignore leaves out, too.
    #[serde(default)]
    ignored: bool,
    /// How many lines around each match to give, at most 20.
    #[serde(default)]
    context: usize,
    /// How many matches at most: 200 if absent, 2000 at most.
    #[serde(default)]
    limit: Option<usize>,
}

/// The lines that fit.
#[derive(Serialize, JsonSchema)]
pub(super) struct GrepResult {
    /// By path and line.
    matches: Vec<GrepMatch>,
    files_searched: u64,
    /// How many files were not searched (no text, larger than 4 MiB, not readable) and folders not looked at.
    skipped: u64,
    /// There may be more matches than are shown.
    truncated: bool,
}

#[derive(Serialize, JsonSchema)]
struct GrepMatch {
    path: String,
    /// From 1.
    line: u64,
    /// Where the match starts in the line, in characters, from 1.
    column: u64,
    /// The line, without its ending; a long one is cut and ends in `…`.
    text: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    before: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    after: Vec<String>,
}

/// One search.
struct Search<'a> {
    regex: Regex,
    /// What fits a line fits within the lines around it, too.
    fits_in_chunks: bool,
    context: usize,
    limit: usize,
    cancel: &'a Cancel,
    /// How much text there is still room for.
    room: usize,
    result: GrepResult,
}

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

/// Whether a line that fits does so among other lines as well: not with `\A` and `\z`, nor where flags are turned off,
/// such as that `^` is the beginning of a line.
fn fits_in_chunks(pattern: &str) -> bool {
    let is_flag = |char: &char| char.is_ascii_alphabetic() || *char == '-';
    let turns_off = |group: &str| group.chars().take_while(is_flag).any(|flag| flag == '-');
    !pattern.contains(r"\A") && !pattern.contains(r"\z") && !pattern.split("(?").skip(1).any(turns_off)
}

/// The path as the glob sees it: from the start, or, of the start itself, its name.
fn name_or_path<'a>(found: &'a Found<'_>, start: &RelPath) -> &'a str {
    if found.path == *start { found.name } else { found.path.seen_from(start) }
}

impl Search<'_> {
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

    /// Whether a line may fit: most files are done with by this, which is far faster than looking at each line.
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

    /// How many lines to look at before asking again whether somebody waits; at least one.
    fn chunk(&self, lines: &[&[u8]]) -> usize {
        let mut bytes = 0;
        let fits = |line: &&&[u8]| {
            bytes += searched(line).len();
            bytes <= CHUNK_BYTES
        };
        lines.iter().take_while(fits).count().max(1)
    }
}

/// A file's text; nothing if it is none, too large, or cannot be read.
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

/// The lines of a text without their endings.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let text = text.strip_suffix(b"\n").map_or_else(|| (!text.is_empty()).then_some(text), Some);
    let lines = text.into_iter().flat_map(|text| text.split(|byte| *byte == b'\n'));
    lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}

fn searched(line: &[u8]) -> &[u8] {
    &line[..line.len().min(MAX_LINE_BYTES)]
}

fn shown(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(searched(line));
    let end = text.floor_char_boundary(MAX_SHOWN_BYTES);
    if end == text.len() { text.into_owned() } else { format!("{}…", &text[..end]) }
}
