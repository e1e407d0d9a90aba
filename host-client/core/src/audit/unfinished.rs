//! Search for executions and calls of a log that have a beginning and no end.

use std::collections::HashMap;
use std::fmt;

use super::files::Entry;

/// The most executions and calls that are followed at once, 65,536. Those that begin while so many are open are not
/// followed, and an end without a beginning is no longer reported.
const MAX_OPEN: usize = 1 << 16;
/// The most unfinished executions and calls that are listed; further ones are only counted.
const MAX_LISTED: usize = 1_000;

/// An execution or a call that has a beginning and no end: it still runs, a crash ended it, or its end was not
/// recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    /// The number of the record that it begins with.
    pub seq: u64,
    /// The time of that record, in RFC 3339.
    pub time: String,
    /// The id of the session.
    pub session: String,
    /// The id of the execution.
    pub execution: String,
    /// The id of the call and the tool's full name; `None`: the execution itself is unfinished.
    pub call: Option<(u64, String)>,
    /// `true` if it may have had effects: the code may have been sent, or the tool was allowed to run.
    pub may_have_run: bool,
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seq, time, session, execution, call, may_have_run } = self;
        let ran = if *may_have_run { "may have run" } else { "has not run" };
        match call {
            Some((call, tool)) => write!(f, "record {seq} ({time}): call {call} of {tool:?}")?,
            None => write!(f, "record {seq} ({time}): the code")?,
        }
        write!(f, " in the execution {execution:?} of the session {session:?} {ran}")
    }
}

/// The ids of a session, of an execution in it, and of a call; `None`: the execution itself.
type Key = (String, String, Option<u64>);

/// A set of the executions and calls that are open, updated with each record of a log.
#[derive(Default)]
pub(super) struct Tracker {
    open: HashMap<Key, Unfinished>,
    /// The first [`MAX_LISTED`] that were found to be unfinished.
    listed: Vec<Unfinished>,
    /// The number of all that were found to be unfinished.
    count: u64,
    /// `true` if every record since the start of a process was read: then an end without a beginning is a problem.
    is_complete: bool,
}

impl Tracker {
    /// Updates the set with the next record. Returns `false` if the record ends something that has no beginning.
    pub(super) fn follow(&mut self, entry: &Entry) -> bool {
        let key = || -> Key {
            (entry.session.clone().unwrap_or_default(), entry.execution.clone().unwrap_or_default(), entry.call)
        };
        match entry.kind.as_str() {
            "opened" if entry.reason.as_deref() == Some("start") => {
                // Only the process that began them could have ended them, and it has closed the log.
                let open = std::mem::take(&mut self.open);
                open.into_values().for_each(|unfinished| self.list(unfinished));
                self.is_complete = true;
            }
            "execution" | "decision" => self.begin(key(), entry),
            "approval" => {
                if let Some(open) = self.open.get_mut(&key()) {
                    open.may_have_run = matches!(entry.verdict.as_deref(), Some("once" | "execution" | "session"));
                }
            }
            "completion" | "end" => return self.open.remove(&key()).is_some() || !self.is_complete,
            _ => {}
        }
        true
    }

    /// Notes that records are missing, so that an end without a beginning is not a problem.
    pub(super) fn mark_incomplete(&mut self) {
        self.is_complete = false;
    }

    /// Returns at most [`MAX_LISTED`] unfinished executions and calls in the order of their records, and their number.
    pub(super) fn finish(mut self) -> (Vec<Unfinished>, u64) {
        let open = std::mem::take(&mut self.open);
        open.into_values().for_each(|unfinished| self.list(unfinished));
        self.listed.sort_unstable_by_key(|unfinished| unfinished.seq);
        (self.listed, self.count)
    }

    /// Adds the execution or call that a record begins.
    fn begin(&mut self, key: Key, entry: &Entry) {
        if self.open.len() >= MAX_OPEN {
            return self.mark_incomplete();
        }
        let unfinished = Unfinished {
            seq: entry.seq,
            time: entry.time.clone(),
            session: key.0.clone(),
            execution: key.1.clone(),
            call: key.2.map(|call| (call, entry.tool.clone().unwrap_or_default())),
            may_have_run: entry.decision.as_deref().is_none_or(|decision| decision == "allow"),
        };
        if let Some(before) = self.open.insert(key, unfinished) {
            self.list(before);
        }
    }

    /// Counts an unfinished execution or call, and lists it if there is room.
    fn list(&mut self, unfinished: Unfinished) {
        self.count += 1;
        if self.listed.len() < MAX_LISTED {
            self.listed.push(unfinished);
        }
    }
}
