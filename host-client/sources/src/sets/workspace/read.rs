//! `read`: returns the text of files, or a part of it.

use std::io::{self, BufRead, BufReader, Read};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::failure::Failure;
use super::path::RelPath;
use super::root::Root;
use super::tool::Cancel;

/// Maximum size of the text that one call returns, in bytes.
const MAX_TEXT_BYTES: usize = 256 << 10;
/// Maximum number of bytes that are skipped to reach a line.
const MAX_PASSED_BYTES: u64 = 1 << 30;
/// Maximum number of files that one call reads.
const MAX_FILES: usize = 100;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadArguments {
    /// A file, relative to the workspace's root. Give this or `paths`.
    #[serde(default)]
    path: Option<String>,
    /// Several files, at most 100. Give this or `path`.
    #[serde(default)]
    paths: Option<Vec<String>>,
    /// The first line to read, from 1. Default: 1.
    #[serde(default)]
    start_line: Option<u64>,
    /// Maximum number of lines. Default: all.
    #[serde(default)]
    lines: Option<u64>,
}

/// The text of one file, or of several.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum ReadResult {
    /// The file of `path`.
    One(FileText),
    /// The files of `paths`.
    Several {
        /// The files, in the order of `paths`.
        files: Vec<NamedText>,
    },
}

#[derive(Serialize, JsonSchema)]
pub(super) struct FileText {
    /// The text, with its line endings.
    text: String,
    /// The first line of the text, from 1.
    start_line: u64,
    /// Number of lines in the text.
    lines: u64,
    /// Size of the whole file.
    bytes: u64,
    /// `true`: the file goes on after the text. One call returns at most 256 KiB.
    truncated: bool,
    /// `true`: the file is not UTF-8, and invalid bytes became U+FFFD.
    lossy: bool,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct NamedText {
    path: String,
    /// The text; absent if the file could not be read.
    #[serde(flatten)]
    text: Option<FileText>,
    /// The reason why the file could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Requested lines, and the maximum size of their text in bytes.
#[derive(Clone, Copy)]
struct Wanted {
    start_line: u64,
    lines: u64,
    bytes: usize,
}

/// Reads one file or several.
pub(super) fn read(root: &Root, arguments: ReadArguments, cancel: &Cancel) -> Result<ReadResult, Failure> {
    let start_line = arguments.start_line.unwrap_or(1).max(1);
    let mut wanted = Wanted { start_line, lines: arguments.lines.unwrap_or(u64::MAX), bytes: MAX_TEXT_BYTES };
    match (arguments.path, arguments.paths) {
        (Some(path), None) => Ok(ReadResult::One(read_file(root, &path, wanted, cancel)?)),
        (None, Some(paths)) if paths.len() <= MAX_FILES => {
            let mut files = Vec::new();
            for path in paths {
                cancel.check()?;
                let (text, error) = match read_file(root, &path, wanted, cancel) {
                    Ok(text) => (Some(text), None),
                    Err(Failure::Cancelled) => return Err(Failure::Cancelled),
                    Err(failure) => (None, Some(failure.into_tool_error().to_string())),
                };
                wanted.bytes -= text.as_ref().map_or(0, |text| text.text.len().min(wanted.bytes));
                files.push(NamedText { path, text, error });
            }
            Ok(ReadResult::Several { files })
        }
        _ => Err(Failure::PathOrPaths { most: MAX_FILES }),
    }
}

/// Reads the requested lines of one file.
fn read_file(root: &Root, path: &str, wanted: Wanted, cancel: &Cancel) -> Result<FileText, Failure> {
    let place = root.find(&RelPath::parse(path)?)?;
    let (file, metadata) = place.open_file()?;
    let failed = |error| Failure::io(path, "read", error);
    let mut file = BufReader::with_capacity(64 << 10, file);
    if !pass_lines(&mut file, wanted.start_line - 1, cancel).map_err(failed)? {
        cancel.check()?;
        let most = MAX_PASSED_BYTES;
        return Err(Failure::TooLarge { path: path.to_owned(), bytes: metadata.len(), most });
    }
    let mut bytes = Vec::new();
    let mut lines = 0;
    while lines < wanted.lines {
        let room = (wanted.bytes - bytes.len()) as u64;
        let read = file.by_ref().take(room).read_until(b'\n', &mut bytes).map_err(failed)?;
        if read == 0 {
            break;
        }
        lines += 1;
    }
    let truncated = !file.fill_buf().map_err(failed)?.is_empty();
    if truncated && bytes.len() == wanted.bytes {
        cut_at_char(&mut bytes);
    }
    let (text, lossy) = match String::from_utf8(bytes) {
        Ok(text) => (text, false),
        Err(error) => (String::from_utf8_lossy(error.as_bytes()).into_owned(), true),
    };
    Ok(FileText { text, start_line: wanted.start_line, lines, bytes: metadata.len(), truncated, lossy })
}

/// Skips lines. Returns `false` if they have more than 1 GiB, or the call was cancelled.
fn pass_lines(file: &mut impl BufRead, mut lines: u64, cancel: &Cancel) -> io::Result<bool> {
    let mut passed = 0_u64;
    while lines > 0 {
        let buffer = file.fill_buf()?;
        if buffer.is_empty() {
            break;
        }
        let mut used = buffer.len();
        for (at, _) in buffer.iter().enumerate().filter(|(_, byte)| **byte == b'\n') {
            lines -= 1;
            if lines == 0 {
                used = at + 1;
                break;
            }
        }
        file.consume(used);
        passed += used as u64;
        if passed > MAX_PASSED_BYTES || cancel.check().is_err() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Removes an incomplete character from the end.
fn cut_at_char(bytes: &mut Vec<u8>) {
    if let Err(error) = std::str::from_utf8(bytes)
        && error.error_len().is_none()
    {
        bytes.truncate(error.valid_up_to());
    }
}
