//! A log for people: one line for each record, of those that somebody wants to see.

use std::fmt;
use std::path::PathBuf;

use relay_proto::{ToolName, ToolPatterns};

use super::AuditError;
use super::files::{Entry, Line, Lines, entry};
use crate::text::visible;

/// Which records are shown; what is absent does not matter.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only this execution's.
    pub execution: Option<String>,
    /// Only those of this subject's executions.
    pub subject: Option<String>,
    /// Only those of this kind, such as `decision`.
    pub kind: Option<String>,
    /// Only those about these tools.
    pub tools: Option<ToolPatterns>,
}

impl Filter {
    fn fits(&self, entry: &Entry) -> bool {
        let is =
            |wanted: &Option<String>, found: Option<&str>| wanted.as_ref().is_none_or(|it| Some(it.as_str()) == found);
        let tools_fit = |patterns: &ToolPatterns| {
            let name = entry.tool.clone().and_then(|tool| ToolName::try_from(tool).ok());
            name.is_some_and(|name| patterns.allow(&name))
        };
        is(&self.execution, entry.execution.as_deref())
            && is(&self.subject, entry.subject.as_deref())
            && is(&self.kind, Some(&entry.kind))
            && self.tools.as_ref().is_none_or(tools_fit)
    }
}

/// Something in a log that is to be shown. Its `Display` is one line that a terminal can take.
#[derive(Debug)]
pub enum Shown {
    /// A record.
    Record(Box<ShownRecord>),
    /// A line that is none; [`super::verify()`] says more.
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The line in it, from 1.
        line: u64,
    },
}

/// A record that is to be shown.
#[derive(Debug)]
pub struct ShownRecord {
    entry: Entry,
    json: String,
}

impl ShownRecord {
    /// The record as it stands in the file.
    pub fn json(&self) -> &str {
        &self.json
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Record(record) => record.fmt(f),
            Self::Unreadable { file, line } => write!(f, "{}, line {line}: no record", file.display()),
        }
    }
}

impl fmt::Display for ShownRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Entry { time, kind, execution, call, tool, duration_us, .. } = &self.entry;
        write!(f, "{:<27} {:<10} {}", visible(time), visible(kind), visible(execution.as_deref().unwrap_or("-")))?;
        if let Some(call) = call {
            write!(f, "/{call}")?;
        }
        let (decision, verdict) = (&self.entry.decision, &self.entry.verdict);
        let texts = [tool, decision, verdict, &self.entry.approver, &self.entry.outcome, &self.entry.reason];
        texts.into_iter().flatten().try_for_each(|text| write!(f, " {}", visible(text)))?;
        match duration_us {
            Some(duration) => write!(f, " {duration} µs"),
            None => Ok(()),
        }
    }
}

/// The records of a log's files (see [`super::series`]) that fit, in order.
pub fn records(files: Vec<PathBuf>, filter: Filter) -> Records {
    Records { files: files.into_iter(), open: None, filter }
}

/// The records of a log, one at a time.
pub struct Records {
    files: std::vec::IntoIter<PathBuf>,
    open: Option<(PathBuf, Lines, u64)>,
    filter: Filter,
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Records").field("filter", &self.filter).finish_non_exhaustive()
    }
}

impl Iterator for Records {
    type Item = Result<Shown, AuditError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.open.is_none() {
                let path = self.files.next()?;
                match Lines::open(&path) {
                    Ok(lines) => self.open = Some((path, lines, 0)),
                    Err(error) => return Some(Err(AuditError::Read { path, error })),
                }
            }
            let (path, lines, number) = self.open.as_mut()?;
            *number += 1;
            let found = match lines.next() {
                Ok(Some(Line::Whole(line))) => entry(line).map(|(entry, _)| (entry, line)),
                Ok(Some(Line::Torn(_) | Line::TooLong)) => None,
                Ok(None) => {
                    self.open = None;
                    continue;
                }
                Err(error) => {
                    let path = path.clone();
                    self.open = None;
                    return Some(Err(AuditError::Read { path, error }));
                }
            };
            match found {
                Some((entry, line)) if self.filter.fits(&entry) => {
                    let json = String::from_utf8_lossy(line).into_owned();
                    return Some(Ok(Shown::Record(Box::new(ShownRecord { entry, json }))));
                }
                Some(_) => {}
                None => return Some(Ok(Shown::Unreadable { file: path.clone(), line: *number })),
            }
        }
    }
}
