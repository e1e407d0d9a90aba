//! Verification of a log: finds records that were changed, removed, added or moved since they were written.

use std::fmt;
use std::path::{Path, PathBuf};

use super::AuditError;
use super::chain::Link;
use super::files::{Entry, Line, Lines, parse_entry};
use super::unfinished::Tracker;
use crate::hash::Hash;

pub use super::unfinished::Unfinished;

/// The most problems that are listed; further ones are only counted.
const MAX_LISTED: usize = 1_000;

/// The result of verifying a log.
#[derive(Debug, Clone, Default)]
pub struct Verified {
    /// The number of records.
    pub records: u64,
    /// The number of executions that began.
    pub executions: u64,
    /// The number of calls that were decided on.
    pub calls: u64,
    /// The number of incomplete records that crashes left, and that the next start cut off and recorded.
    pub torn: u64,
    /// The first record; `None`: there are no records.
    pub first: Option<Seen>,
    /// The last record; `None`: there are no records. Its hash identifies the whole log: stored elsewhere, it proves
    /// later that the end was not cut off.
    pub last: Option<Seen>,
    /// The executions and calls that have a beginning and no end, at most 1,000 of [`Verified::unfinished_count`].
    pub unfinished: Vec<Unfinished>,
    /// The number of executions and calls that have a beginning and no end.
    pub unfinished_count: u64,
    /// The first 1,000 of [`Verified::problem_count`] problems.
    pub problems: Vec<Problem>,
    /// The number of problems.
    pub problem_count: u64,
    /// `Some(true)` if the log contains the record whose hash was given to [`verify`], `Some(false)` if it does not;
    /// `None`: no hash was given.
    pub has_kept: Option<bool>,
}

/// A record's number, time and hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The record's number.
    pub seq: u64,
    /// The time at which it was written, in RFC 3339.
    pub time: String,
    /// The record's hash, which depends on all records before it.
    pub hash: Hash,
}

/// A place in a log that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}, line {line}: {kind}", file.display())]
pub struct Problem {
    /// The path of the file.
    pub file: PathBuf,
    /// The line's number in the file, from 1.
    pub line: u64,
    /// The kind of problem.
    pub kind: ProblemKind,
}

/// The kind of a problem in a log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProblemKind {
    /// The line is not a record, or its bytes do not match its hash.
    #[error("this line was changed, or was never a record")]
    Changed,
    /// The last line of the file has no newline.
    #[error("this line stops after {bytes} bytes: a crash, and the log was not opened since, or the end was cut")]
    CutShort {
        /// The length of the line that there is, in bytes.
        bytes: usize,
    },
    /// Records are missing before this one.
    #[error("the records {from} to {to} are missing before this one")]
    Missing {
        /// The number of the first missing record.
        from: u64,
        /// The number of the last missing record.
        to: u64,
    },
    /// The record's number is too small for its place: it was moved, copied or inserted.
    #[error("the record {seq} stands where {expected} belongs: it was moved, copied or put in")]
    OutOfPlace {
        /// The record's number.
        seq: u64,
        /// The number that was expected here.
        expected: u64,
    },
    /// The record's number is right, but its `prev` is not the hash of the previous record.
    #[error("the record {seq} follows another record than the one that it was written after")]
    Unchained {
        /// The record's number.
        seq: u64,
    },
    /// The first line of the file is not an `opened` record.
    #[error("the beginning of the file is missing")]
    NoBeginning,
    /// The file has no lines.
    #[error("the file has no records")]
    Empty,
    /// The record ends an execution or a call that has no beginning.
    #[error("the record {seq} ends something that was never begun")]
    NotBegun {
        /// The record's number.
        seq: u64,
    },
}

impl Verified {
    /// Returns `true` if there are no problems and the log contains the record whose hash was given to [`verify`], if
    /// any. Unfinished executions and calls do not matter here.
    pub fn is_whole(&self) -> bool {
        self.problem_count == 0 && self.has_kept != Some(false)
    }
}

impl fmt::Display for Verified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} records, {} executions, {} calls", self.records, self.executions, self.calls)?;
        if let (Some(first), Some(last)) = (&self.first, &self.last) {
            writeln!(f, "begins with record {} at {}", first.seq, first.time)?;
            writeln!(f, "ends with record {} at {}, hash {}", last.seq, last.time, last.hash)?;
        }
        if self.torn > 0 {
            writeln!(f, "incomplete records that the next start cut off after a crash: {}", self.torn)?;
        }
        write_list(f, "never finished", &self.unfinished, self.unfinished_count)?;
        write_list(f, "problems", &self.problems, self.problem_count)?;
        match self.has_kept {
            Some(true) => writeln!(f, "the kept record is in it")?,
            Some(false) => writeln!(f, "the kept record is NOT in it: the log was cut or written anew")?,
            None => {}
        }
        f.write_str(if self.is_whole() { "whole" } else { "NOT WHOLE" })
    }
}

/// Writes the items of which there are `count`, one on each line.
fn write_list(f: &mut fmt::Formatter<'_>, title: &str, items: &[impl fmt::Display], count: u64) -> fmt::Result {
    if count > 0 {
        writeln!(f, "{count} {title}:")?;
    }
    items.iter().try_for_each(|item| writeln!(f, "  {item}"))?;
    let listed = u64::try_from(items.len()).unwrap_or(u64::MAX);
    if count > listed { writeln!(f, "  and {} more", count - listed) } else { Ok(()) }
}

/// Verifies a log: reads its files, the oldest first (see [`super::series`]), and checks each record and its place.
/// `kept` is the hash of a record that the log must contain, stored elsewhere before; `None` if there is none.
///
/// ```
/// use host_client_core::audit::{Audit, AuditConfig, series, verify};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("audit.jsonl");
/// let (_, kept) = Audit::open(AuditConfig::new(&path))?.head();
/// let verified = verify(&series(&path)?, Some(kept))?;
/// assert!(verified.is_whole());
/// assert_eq!(verified.has_kept, Some(true));
///
/// let changed = std::fs::read_to_string(&path)?.replacen("start", "stars", 1);
/// std::fs::write(&path, changed)?;
/// let verified = verify(&series(&path)?, Some(kept))?;
/// assert!(!verified.is_whole());
/// println!("{verified}");
/// # Ok(()) }
/// ```
///
/// # Errors
/// [`AuditError::Read`]: a file cannot be read. Problems in the files are part of the result.
pub fn verify(files: &[PathBuf], kept: Option<Hash>) -> Result<Verified, AuditError> {
    let mut verifier = Verifier::default();
    verifier.verified.has_kept = kept.map(|_| false);
    for file in files {
        verifier.check_file(file, kept).map_err(|error| AuditError::Read { path: file.clone(), error })?;
    }
    let Verifier { mut verified, tracker, .. } = verifier;
    (verified.unfinished, verified.unfinished_count) = tracker.finish();
    Ok(verified)
}

/// The state of a verification between two lines.
#[derive(Default)]
struct Verifier {
    verified: Verified,
    /// The last valid record.
    link: Link,
    /// The number of lines since the last valid record, all of them invalid.
    invalid_lines: u64,
    tracker: Tracker,
}

impl Verifier {
    /// Checks all lines of a file.
    fn check_file(&mut self, path: &Path, kept: Option<Hash>) -> std::io::Result<()> {
        let mut lines = Lines::open(path)?;
        let mut number = 0;
        while let Some(line) = lines.next()? {
            number += 1;
            let found = match line {
                Line::Whole(line) => parse_entry(line).ok_or(ProblemKind::Changed),
                Line::Torn(line) => Err(ProblemKind::CutShort { bytes: line.len() }),
                Line::TooLong => Err(ProblemKind::Changed),
            };
            let problem = match found {
                Ok((entry, hash)) => {
                    if kept == Some(hash) {
                        self.verified.has_kept = Some(true);
                    }
                    if number == 1 && entry.kind != "opened" {
                        self.add_problem(path, number, ProblemKind::NoBeginning);
                    }
                    self.check_record(entry, hash)
                }
                Err(problem) => {
                    self.invalid_lines += 1;
                    self.tracker.mark_incomplete();
                    Some(problem)
                }
            };
            if let Some(problem) = problem {
                self.add_problem(path, number, problem);
            }
        }
        if number == 0 {
            self.add_problem(path, 1, ProblemKind::Empty);
        }
        Ok(())
    }

    /// Counts a valid record and checks its place; `None`: there is no problem.
    fn check_record(&mut self, entry: Entry, hash: Hash) -> Option<ProblemKind> {
        let misplaced = self.check_place(&entry);
        if misplaced.is_some() {
            self.tracker.mark_incomplete();
        }
        let has_begun = self.tracker.follow(&entry);
        self.link = Link { seq: entry.seq, hash };
        self.invalid_lines = 0;
        let verified = &mut self.verified;
        verified.records += 1;
        verified.executions += u64::from(entry.kind == "execution");
        verified.calls += u64::from(entry.kind == "decision");
        verified.torn += u64::from(entry.torn.is_some());
        let seen = Seen { seq: entry.seq, time: entry.time, hash };
        verified.first.get_or_insert_with(|| seen.clone());
        verified.last = Some(seen);
        misplaced.or_else(|| (!has_begun).then_some(ProblemKind::NotBegun { seq: entry.seq }))
    }

    /// Compares a record's number and `prev` with the previous record; `None`: the record is in its place.
    fn check_place(&self, entry: &Entry) -> Option<ProblemKind> {
        let seq = entry.seq;
        let is_first = self.verified.records == 0;
        if seq == self.link.seq.saturating_add(1) && entry.prev == self.link.hash {
            return None;
        }
        if is_first && seq > 1 && self.invalid_lines == 0 {
            // Older files were removed, or are not among those given: the log is verified from here on.
            return None;
        }
        let expected = self.link.seq.saturating_add(1).saturating_add(self.invalid_lines);
        match seq.cmp(&expected) {
            std::cmp::Ordering::Greater if is_first => None,
            std::cmp::Ordering::Greater => Some(ProblemKind::Missing { from: expected, to: seq - 1 }),
            std::cmp::Ordering::Less => Some(ProblemKind::OutOfPlace { seq, expected }),
            // The line before is invalid, which was reported there: its hash is unknown.
            std::cmp::Ordering::Equal if self.invalid_lines > 0 => None,
            std::cmp::Ordering::Equal => Some(ProblemKind::Unchained { seq }),
        }
    }

    /// Counts a problem, and lists it if there is room.
    fn add_problem(&mut self, path: &Path, line: u64, kind: ProblemKind) {
        self.verified.problem_count += 1;
        if self.verified.problems.len() < MAX_LISTED {
            self.verified.problems.push(Problem { file: path.to_owned(), line, kind });
        }
    }
}
