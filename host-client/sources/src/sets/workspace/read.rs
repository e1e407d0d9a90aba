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
    /// Number of bytes of the first line to leave out: to go on within a line that is longer than one call returns.
    /// Default: 0.
    #[serde(default)]
    start_byte: Option<u64>,
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
    /// Number of lines that end in the text: `start_line + lines` is the next line.
    lines: u64,
    /// Size of the whole file.
    bytes: u64,
    /// `true`: the file goes on after the text. One call returns at most 256 KiB, in whole lines.
    truncated: bool,
    /// The `start_byte` to go on with, together with `start_line + lines`; absent: the text does not end within a line.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_byte: Option<u64>,
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
    start_byte: u64,
    lines: u64,
    bytes: usize,
}

/// Reads one file or several.
pub(super) fn read(root: &Root, arguments: ReadArguments, cancel: &Cancel) -> Result<ReadResult, Failure> {
    let start_line = arguments.start_line.unwrap_or(1).max(1);
    let (start_byte, lines) = (arguments.start_byte.unwrap_or(0), arguments.lines.unwrap_or(u64::MAX));
    let mut wanted = Wanted { start_line, start_byte, lines, bytes: MAX_TEXT_BYTES };
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
    let passed = pass_lines(&mut file, wanted.start_line - 1, cancel).map_err(failed)?
        && pass_bytes(&mut file, wanted.start_byte, cancel).map_err(failed)?;
    if !passed {
        cancel.check()?;
        let most = MAX_PASSED_BYTES;
        return Err(Failure::TooLarge { path: path.to_owned(), bytes: metadata.len(), most });
    }
    let Taken { bytes, lines, goes_on, piece } = take_lines(&mut file, wanted).map_err(failed)?;
    let (text, lossy) = match String::from_utf8(bytes) {
        Ok(text) => (text, false),
        Err(error) => (String::from_utf8_lossy(error.as_bytes()).into_owned(), true),
    };
    // Only a text that is a piece of one line ends within a line.
    let next_byte = piece.map(|piece| wanted.start_byte + piece);
    let start_line = wanted.start_line;
    Ok(FileText { text, start_line, lines, bytes: metadata.len(), truncated: goes_on, next_byte, lossy })
}

/// The part of a file that one call returns.
struct Taken {
    bytes: Vec<u8>,
    /// The number of lines that end in it.
    lines: u64,
    /// `true`: the file goes on after it.
    goes_on: bool,
    /// The length of the piece of a line that is all of it; `None`: it has whole lines.
    piece: Option<u64>,
}

/// Takes whole lines, as many as fit; of a first line that does not fit, the piece that does.
fn take_lines(file: &mut impl BufRead, wanted: Wanted) -> io::Result<Taken> {
    let mut taken = Taken { bytes: Vec::new(), lines: 0, goes_on: false, piece: None };
    while taken.lines < wanted.lines {
        let start = taken.bytes.len();
        let room = wanted.bytes - start;
        if file.by_ref().take(room as u64).read_until(b'\n', &mut taken.bytes)? == 0 {
            break;
        }
        if taken.bytes.ends_with(b"\n") || file.fill_buf()?.is_empty() {
            taken.lines += 1;
            continue;
        }
        if taken.lines > 0 {
            taken.bytes.truncate(start);
        } else {
            cut_at_char(&mut taken.bytes);
            taken.piece = Some(taken.bytes.len() as u64);
        }
        taken.goes_on = true;
        return Ok(taken);
    }
    taken.goes_on = !file.fill_buf()?.is_empty();
    Ok(taken)
}

/// Skips bytes of one line. Returns `false` if they are more than 1 GiB, or the call was cancelled. The end of the line is
/// not skipped.
fn pass_bytes(file: &mut impl BufRead, mut bytes: u64, cancel: &Cancel) -> io::Result<bool> {
    let mut passed = 0_u64;
    while bytes > 0 {
        let buffer = file.fill_buf()?;
        let most = usize::try_from(bytes).unwrap_or(usize::MAX).min(buffer.len());
        let line = buffer[..most].iter().position(|byte| *byte == b'\n');
        let used = line.unwrap_or(most);
        if used == 0 {
            break;
        }
        file.consume(used);
        bytes -= used as u64;
        passed += used as u64;
        if passed > MAX_PASSED_BYTES || cancel.check().is_err() {
            return Ok(false);
        }
    }
    Ok(true)
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
