//! Whether a log is as it was written: nothing changed, removed, added or moved.

use std::fmt;
use std::path::{Path, PathBuf};

use super::AuditError;
use super::chain::{Hash, Link};
use super::files::{Entry, Line, Lines, entry};
use super::unfinished::Tracker;

pub use super::unfinished::Unfinished;

/// How many problems are named.
const MAX_NAMED: usize = 1_000;

/// What was found in a log.
#[derive(Debug, Clone, Default)]
pub struct Verified {
    /// How many records there are.
    pub records: u64,
    /// How many executions were begun.
    pub executions: u64,
    /// How many calls were decided on.
    pub calls: u64,
    /// How often a crash left a piece of a record, which the next start cut off and told of.
    pub torn: u64,
    /// The first record.
    pub first: Option<Seen>,
    /// The last record. Its hash stands for the whole log: kept elsewhere, it shows later whether the end was cut off.
    pub last: Option<Seen>,
    /// What was begun and never ended; the first thousand of [`Verified::unfinished_count`].
    pub unfinished: Vec<Unfinished>,
    /// How many there are of them.
    pub unfinished_count: u64,
    /// What is wrong; the first thousand of [`Verified::problem_count`].
    pub problems: Vec<Problem>,
    /// How many problems there are.
    pub problem_count: u64,
    /// Whether the log has the record that was asked for; nothing when none was.
    pub has_kept: Option<bool>,
}

/// A record, as proof of what was before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Its number.
    pub seq: u64,
    /// When it was written, in RFC 3339.
    pub time: String,
    /// Its hash.
    pub hash: Hash,
}

/// Something that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}, line {line}: {kind}", file.display())]
pub struct Problem {
    /// The file.
    pub file: PathBuf,
    /// The line in it, from 1.
    pub line: u64,
    /// What is wrong there.
    pub kind: ProblemKind,
}

/// What is wrong at a place in a log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProblemKind {
    /// The line is no record, or one whose bytes have changed.
    #[error("this line was changed, or was never a record")]
    Changed,
    /// The last line has no end.
    #[error("this line stops after {bytes} bytes: a crash, and the log was not opened since, or the end was cut")]
    CutShort {
        /// How much there is of it.
        bytes: usize,
    },
    /// Records are missing before this one.
    #[error("the records {from} to {to} are missing before this one")]
    Missing {
        /// The first of them.
        from: u64,
        /// The last of them.
        to: u64,
    },
    /// The record belongs before this place: it was moved, copied or put in.
    #[error("the record {seq} stands where {expected} belongs: it was moved, copied or put in")]
    OutOfPlace {
        /// Its number.
        seq: u64,
        /// The number that belongs here.
        expected: u64,
    },
    /// The record's number fits, but it was written after another line than the one before it.
    #[error("the record {seq} follows another record than the one that it was written after")]
    Unchained {
        /// Its number.
        seq: u64,
    },
    /// The file does not begin as every file does.
    #[error("the beginning of the file is missing")]
    NoBeginning,
    /// There is no record in the file.
    #[error("the file has no records")]
    Empty,
    /// An end without its beginning.
    #[error("the record {seq} ends something that was never begun")]
    NotBegun {
        /// Its number.
        seq: u64,
    },
}

impl Verified {
    /// Whether every record is as it was written and where it was written, and the kept one among them. What was never
    /// finished is no matter of this.
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
            writeln!(f, "{} times a crash left a piece of a record, which the next start told of", self.torn)?;
        }
        list(f, "never finished", &self.unfinished, self.unfinished_count)?;
        list(f, "problems", &self.problems, self.problem_count)?;
        match self.has_kept {
            Some(true) => writeln!(f, "the kept record is in it")?,
            Some(false) => writeln!(f, "the kept record is NOT in it: the log was cut or written anew")?,
            None => {}
        }
        f.write_str(if self.is_whole() { "whole" } else { "NOT WHOLE" })
    }
}

fn list(f: &mut fmt::Formatter<'_>, title: &str, items: &[impl fmt::Display], count: u64) -> fmt::Result {
    if count > 0 {
        writeln!(f, "{count} {title}:")?;
    }
    items.iter().try_for_each(|item| writeln!(f, "  {item}"))?;
    let named = u64::try_from(items.len()).unwrap_or(u64::MAX);
    if count > named { writeln!(f, "  and {} more", count - named) } else { Ok(()) }
}

/// Reads the files of a log in order (see [`super::series`]) and looks whether it is whole. `kept` is a hash that was
/// kept elsewhere: a record that has to be there.
///
/// # Errors
/// A file cannot be read. What is wrong in the files stands in the result.
pub fn verify(files: &[PathBuf], kept: Option<Hash>) -> Result<Verified, AuditError> {
    let mut verifier = Verifier::default();
    verifier.verified.has_kept = kept.map(|_| false);
    for file in files {
        verifier.file(file, kept).map_err(|error| AuditError::Read { path: file.clone(), error })?;
    }
    let Verifier { mut verified, tracker, .. } = verifier;
    (verified.unfinished, verified.unfinished_count) = tracker.finish();
    Ok(verified)
}

#[derive(Default)]
struct Verifier {
    verified: Verified,
    link: Link,
    /// Lines since the last record that are none.
    changed: u64,
    tracker: Tracker,
}

impl Verifier {
    fn file(&mut self, path: &Path, kept: Option<Hash>) -> std::io::Result<()> {
        let mut lines = Lines::open(path)?;
        let mut number = 0;
        while let Some(line) = lines.next()? {
            number += 1;
            let found = match line {
                Line::Whole(line) => entry(line).ok_or(ProblemKind::Changed),
                Line::Torn(line) => Err(ProblemKind::CutShort { bytes: line.len() }),
                Line::TooLong => Err(ProblemKind::Changed),
            };
            let problem = match found {
                Ok((entry, hash)) => {
                    if kept == Some(hash) {
                        self.verified.has_kept = Some(true);
                    }
                    if number == 1 && entry.kind != "opened" {
                        self.problem(path, number, ProblemKind::NoBeginning);
                    }
                    self.record(entry, hash)
                }
                Err(problem) => {
                    self.changed += 1;
                    self.tracker.miss();
                    Some(problem)
                }
            };
            if let Some(problem) = problem {
                self.problem(path, number, problem);
            }
        }
        if number == 0 {
            self.problem(path, 1, ProblemKind::Empty);
        }
        Ok(())
    }

    fn record(&mut self, entry: Entry, hash: Hash) -> Option<ProblemKind> {
        let misplaced = self.misplaced(&entry);
        if misplaced.is_some() {
            self.tracker.miss();
        }
        let has_begun = self.tracker.follow(&entry);
        self.link = Link { seq: entry.seq, hash };
        self.changed = 0;
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

    /// What is wrong with a record's place.
    fn misplaced(&self, entry: &Entry) -> Option<ProblemKind> {
        let seq = entry.seq;
        let is_first = self.verified.records == 0;
        if seq == self.link.seq.saturating_add(1) && entry.prev == self.link.hash {
            return None;
        }
        if is_first && seq > 1 && self.changed == 0 {
            // Older files were removed or not named: the log is looked at from here.
            return None;
        }
        let expected = self.link.seq.saturating_add(1).saturating_add(self.changed);
        match seq.cmp(&expected) {
            std::cmp::Ordering::Greater if is_first => None,
            std::cmp::Ordering::Greater => Some(ProblemKind::Missing { from: expected, to: seq - 1 }),
            std::cmp::Ordering::Less => Some(ProblemKind::OutOfPlace { seq, expected }),
            // What it was written after can no longer be read; that was said there.
            std::cmp::Ordering::Equal if self.changed > 0 => None,
            std::cmp::Ordering::Equal => Some(ProblemKind::Unchained { seq }),
        }
    }

    fn problem(&mut self, path: &Path, line: u64, kind: ProblemKind) {
        self.verified.problem_count += 1;
        if self.verified.problems.len() < MAX_NAMED {
            self.verified.problems.push(Problem { file: path.to_owned(), line, kind });
        }
    }
}
