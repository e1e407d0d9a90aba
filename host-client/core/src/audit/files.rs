//! The files of a log, and reading them: `audit.jsonl`, which is written, and full ones, `audit.jsonl.000001` and so
//! on.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::AuditError;
use super::chain::{Link, unseal};
use super::record::{MAX_TEXT_BYTES, Torn};
use crate::hash::Hash;

/// The most bytes of a record, 32 MiB: 4 MiB of code become at most six times as many bytes in JSON.
const MAX_LINE_BYTES: u64 = 32 << 20;
/// The most bytes of a torn record that are recorded as text.
const MAX_TORN_TEXT_BYTES: usize = 4 << 10;
/// The first bytes of every record.
const RECORD_START: &[u8] = b"{\"seq\":";

/// Returns the files of the log at `path`, the oldest first: its full files, and `path` itself. `path` is left out if
/// it does not exist but full files do.
///
/// # Errors
/// [`AuditError::Read`]: the folder of `path` cannot be read.
pub fn series(path: &Path) -> Result<Vec<PathBuf>, AuditError> {
    let mut files: Vec<PathBuf> = full_files(path)?.into_iter().map(|(_, file)| file).collect();
    // A crash between the two steps of a rotation leaves only full files.
    if files.is_empty() || path.exists() {
        files.push(path.to_owned());
    }
    Ok(files)
}

/// Returns the full files of the log at `path` with their numbers, the oldest first.
///
/// # Errors
/// [`AuditError::Read`]: the folder of `path` cannot be read.
pub(super) fn full_files(path: &Path) -> Result<Vec<(u64, PathBuf)>, AuditError> {
    let failed = |error| AuditError::Read { path: path.to_owned(), error };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder(path)).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if let Some(number) = path.file_name().and_then(|base| file_number(base, &entry.file_name())) {
            files.push((number, folder(path).join(entry.file_name())));
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// Returns the path of the full file with this number.
pub(super) fn full_file(path: &Path, number: u64) -> PathBuf {
    with_suffix(path, &format!(".{number:06}"))
}

/// Returns the path with `suffix` appended to its last component.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// Returns the folder of a file; `.` if the path has none.
pub(super) fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Returns the number of the full file `name` of the log `base`; `None`: it is another file.
fn file_number(base: &OsStr, name: &OsStr) -> Option<u64> {
    let digits = name.to_str()?.strip_prefix(base.to_str()?)?.strip_prefix('.')?;
    (digits.len() >= 6 && digits.bytes().all(|byte| byte.is_ascii_digit())).then(|| digits.parse().ok())?
}

/// The members of a record that are read back.
#[derive(Debug, Deserialize)]
pub(super) struct Entry {
    pub(super) seq: u64,
    pub(super) time: String,
    pub(super) kind: String,
    pub(super) prev: Hash,
    pub(super) reason: Option<String>,
    pub(super) torn: Option<TornEntry>,
    pub(super) subject: Option<String>,
    pub(super) caller: Option<String>,
    pub(super) session: Option<String>,
    pub(super) execution: Option<String>,
    pub(super) call: Option<u64>,
    pub(super) tool: Option<String>,
    pub(super) decision: Option<String>,
    pub(super) verdict: Option<String>,
    pub(super) outcome: Option<String>,
    pub(super) approver: Option<String>,
    pub(super) duration_us: Option<u64>,
}

/// The member `torn` of an `opened` record, whose content is not needed.
#[derive(Debug, Deserialize)]
pub(super) struct TornEntry {}

/// Parses a line. Returns the record and its hash; `None`: the line is not a record, or its hash is not that of its
/// bytes.
pub(super) fn parse_entry(line: &[u8]) -> Option<(Entry, Hash)> {
    let hash = unseal(line)?;
    let entry: Entry = serde_json::from_slice(line).ok()?;
    entry.is_bounded().then_some((entry, hash))
}

impl Entry {
    /// Returns `true` if no text is longer than those that are written. The texts of many records are held in memory at
    /// once, so that forged long ones must not be accepted.
    fn is_bounded(&self) -> bool {
        let Self { time, kind, reason, subject, caller, session, execution, .. } = self;
        let Self { tool, decision, verdict, outcome, approver, .. } = self;
        let optional = [reason, subject, caller, session, execution, tool, decision, verdict, outcome, approver];
        optional.into_iter().flatten().chain([time, kind]).all(|text| text.len() <= MAX_TEXT_BYTES + '…'.len_utf8())
    }
}

/// A reader of a file's lines, which holds one line in memory.
pub(super) struct Lines {
    reader: BufReader<File>,
    line: Vec<u8>,
}

/// One line of a file.
pub(super) enum Line<'a> {
    /// A line, without its newline.
    Whole(&'a [u8]),
    /// The last line of the file, which has no newline.
    Torn(&'a [u8]),
    /// A line over [`MAX_LINE_BYTES`], which was skipped.
    TooLong,
}

impl Lines {
    /// Opens a file for reading.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { reader: BufReader::with_capacity(64 << 10, File::open(path)?), line: Vec::new() })
    }

    /// Reads the next line; `None`: the file is at its end.
    pub(super) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        self.line.clear();
        let read = self.reader.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut self.line)?;
        Ok(match self.line.strip_suffix(b"\n") {
            _ if read == 0 => None,
            Some(line) => Some(Line::Whole(line)),
            None if u64::try_from(read).is_ok_and(|read| read < MAX_LINE_BYTES) => Some(Line::Torn(&self.line)),
            None => {
                self.reader.skip_until(b'\n')?;
                Some(Line::TooLong)
            }
        })
    }
}

/// The end of a file.
#[derive(Default)]
pub(super) struct Tail {
    /// The last complete record; `None`: there is none.
    pub(super) link: Option<Link>,
    /// The offset at which the last complete record ends, in bytes.
    pub(super) end: u64,
    /// The incomplete record after it; `None`: there is none.
    pub(super) torn: Option<Torn>,
}

impl Tail {
    /// Reads the end of a file. `path` is the name for errors.
    ///
    /// # Errors
    /// - [`AuditError::Read`]: the file cannot be read.
    /// - [`AuditError::NotALog`]: it does not end with a record, or with a record and the beginning of another one.
    pub(super) fn read(file: &File, path: &Path) -> Result<Self, AuditError> {
        let failed = |error| AuditError::Read { path: path.to_owned(), error };
        let not_a_log = || AuditError::NotALog { path: path.to_owned() };
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(not_a_log());
        }
        let end = line_start(file, metadata.len()).map_err(failed)?.ok_or_else(not_a_log)?;
        let torn = read_range(file, end, metadata.len()).map_err(failed)?;
        let link = match end.checked_sub(1) {
            // Without any newline, the file is a torn first record or no log at all.
            None if !torn.iter().zip(RECORD_START).all(|(found, expected)| found == expected) => {
                return Err(not_a_log());
            }
            None => None,
            Some(newline) => {
                let start = line_start(file, newline).map_err(failed)?.ok_or_else(not_a_log)?;
                let line = read_range(file, start, newline).map_err(failed)?;
                let (entry, hash) = parse_entry(&line).ok_or_else(not_a_log)?;
                Some(Link { seq: entry.seq, hash })
            }
        };
        let torn = (!torn.is_empty()).then(|| Torn {
            bytes: metadata.len() - end,
            sha256: Hash::of(&torn),
            text: String::from_utf8_lossy(&torn[..torn.len().min(MAX_TORN_TEXT_BYTES)]).into_owned(),
        });
        Ok(Self { link, end, torn })
    }
}

/// Returns the offset of the first byte after the last newline before `end`, 0 if there is no newline; `None`: the line
/// is longer than [`MAX_LINE_BYTES`].
fn line_start(file: &File, end: u64) -> io::Result<Option<u64>> {
    const BLOCK: u64 = 64 << 10;
    let mut block_end = end;
    while block_end > 0 && end - block_end < MAX_LINE_BYTES {
        let start = block_end.saturating_sub(BLOCK);
        let block = read_range(file, start, block_end)?;
        if let Some(at) = block.iter().rposition(|&byte| byte == b'\n') {
            return Ok(u64::try_from(at).ok().map(|at| start + at + 1));
        }
        block_end = start;
    }
    Ok((block_end == 0).then_some(0))
}

/// Reads the bytes from `start` to `end`.
fn read_range(file: &File, start: u64, end: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(end - start).map_err(io::Error::other)?];
    file.read_exact_at(&mut bytes, start)?;
    Ok(bytes)
}
