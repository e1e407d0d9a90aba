//! Records of a log for people: one line for each record that a filter selects.

use std::fmt;
use std::path::PathBuf;

use relay_proto::{ToolName, ToolPatterns};

use super::AuditError;
use super::files::{Entry, Line, Lines, parse_entry};
use crate::text::visible;

/// The bytes of a session's id that are shown.
const SESSION_BYTES: usize = 8;

/// A selection of records. A record is selected if it matches all fields that are not `None`; the default selects all.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// The id of the execution.
    pub execution: Option<String>,
    /// The start of the id of the session. Executions of different sessions may have the same id.
    pub session: Option<String>,
    /// The subject of the session's token.
    pub subject: Option<String>,
    /// The kind of record, such as `decision`.
    pub kind: Option<String>,
    /// Patterns of the tool's full name. Records that name no tool do not match.
    pub tools: Option<ToolPatterns>,
}

impl Filter {
    /// Returns `true` if the filter selects the record.
    fn selects(&self, entry: &Entry) -> bool {
        let is =
            |wanted: &Option<String>, found: Option<&str>| wanted.as_ref().is_none_or(|it| Some(it.as_str()) == found);
        let names_tool = |patterns: &ToolPatterns| {
            let name = entry.tool.clone().and_then(|tool| ToolName::try_from(tool).ok());
            name.is_some_and(|name| patterns.allow(&name))
        };
        is(&self.execution, entry.execution.as_deref())
            && self.session.as_ref().is_none_or(|it| entry.session.as_ref().is_some_and(|id| id.starts_with(it)))
            && is(&self.subject, entry.subject.as_deref())
            && is(&self.kind, Some(&entry.kind))
            && self.tools.as_ref().is_none_or(names_tool)
    }
}

/// A line of a log. Its `Display` is one line without control characters, safe to print on a terminal.
#[derive(Debug)]
pub enum Shown {
    /// A record.
    Record(Box<ShownRecord>),
    /// A line that is not a record, or was changed; [`super::verify()`] tells more.
    Unreadable {
        /// The path of the file.
        file: PathBuf,
        /// The line's number in the file, from 1.
        line: u64,
    },
}

/// A record of a log.
#[derive(Debug)]
pub struct ShownRecord {
    entry: Entry,
    json: String,
}

impl ShownRecord {
    /// Returns the record's JSON as it stands in the file, without the newline.
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
        write!(f, "{:<27} {:<10} ", visible(time), visible(kind))?;
        match (&self.entry.session, execution) {
            (Some(session), Some(execution)) => {
                let start = &session[..session.floor_char_boundary(SESSION_BYTES)];
                write!(f, "{}/{}", visible(start), visible(execution))?;
            }
            (_, execution) => write!(f, "{}", visible(execution.as_deref().unwrap_or("-")))?,
        }
        if let Some(call) = call {
            write!(f, "/{call}")?;
        }
        let (decision, verdict) = (&self.entry.decision, &self.entry.verdict);
        let texts = [tool, decision, verdict, &self.entry.approver, &self.entry.outcome, &self.entry.reason];
        texts.into_iter().flatten().try_for_each(|text| write!(f, " {}", visible(text)))?;
        if kind == "execution" {
            let who = [&self.entry.subject, &self.entry.caller].into_iter().flatten();
            let who: Vec<_> = who.map(|name| visible(name)).collect();
            write!(f, " by {}", who.join(", "))?;
        }
        match duration_us {
            Some(duration) => write!(f, " {duration} µs"),
            None => Ok(()),
        }
    }
}

/// Returns the records of a log's files (see [`super::series`]) that the filter selects, in the order of the files.
pub fn records(files: Vec<PathBuf>, filter: Filter) -> Records {
    Records { files: files.into_iter(), open: None, filter }
}

/// An iterator over the selected records of a log, which holds one record in memory. It yields unreadable lines, too,
/// and [`AuditError::Read`] for a file that cannot be read.
pub struct Records {
    files: std::vec::IntoIter<PathBuf>,
    /// The file that is being read: its path, its lines, and the number of lines read so far.
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
                Ok(Some(Line::Whole(line))) => parse_entry(line).map(|(entry, _)| (entry, line)),
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
                Some((entry, line)) if self.filter.selects(&entry) => {
                    let json = String::from_utf8_lossy(line).into_owned();
                    return Some(Ok(Shown::Record(Box::new(ShownRecord { entry, json }))));
                }
                Some(_) => {}
                None => return Some(Ok(Shown::Unreadable { file: path.clone(), line: *number })),
            }
        }
    }
}
