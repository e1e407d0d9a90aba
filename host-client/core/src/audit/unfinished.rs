//! Which executions and calls of a log were begun and never ended.

use std::collections::HashMap;
use std::fmt;

use super::files::Entry;

/// How many may be open at once before the log is no longer looked at for it.
const MAX_OPEN: usize = 1 << 16;
/// How many that never ended are named.
const MAX_NAMED: usize = 1_000;

/// An execution or a call that has a beginning and no end: it still runs, or a crash ended it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    /// The number of the record that it begins with.
    pub seq: u64,
    /// When that was written, in RFC 3339.
    pub time: String,
    /// The session.
    pub session: String,
    /// The execution.
    pub execution: String,
    /// The call and its tool; nothing for an execution.
    pub call: Option<(u64, String)>,
    /// Whether it can have done something: the code was sent, or the tool was allowed to run.
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

/// A session, an execution in it, and a call of that.
type Key = (String, String, Option<u64>);

/// Follows a log from record to record.
#[derive(Default)]
pub(super) struct Tracker {
    open: HashMap<Key, Unfinished>,
    named: Vec<Unfinished>,
    count: u64,
    /// Since the start of a process, every record was seen: what ends must have begun.
    is_complete: bool,
}

impl Tracker {
    /// Takes the next record. Says no when it is the end of something that has no beginning.
    pub(super) fn follow(&mut self, entry: &Entry) -> bool {
        let key = || -> Key {
            (entry.session.clone().unwrap_or_default(), entry.execution.clone().unwrap_or_default(), entry.call)
        };
        match entry.kind.as_str() {
            "opened" if entry.reason.as_deref() == Some("start") => {
                // What another process began, nobody ends any more.
                let open = std::mem::take(&mut self.open);
                open.into_values().for_each(|unfinished| self.name(unfinished));
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

    /// Records are missing: among them may be beginnings.
    pub(super) fn miss(&mut self) {
        self.is_complete = false;
    }

    /// What never ended, the first of them named in order, and how many there are.
    pub(super) fn finish(mut self) -> (Vec<Unfinished>, u64) {
        let open = std::mem::take(&mut self.open);
        open.into_values().for_each(|unfinished| self.name(unfinished));
        self.named.sort_unstable_by_key(|unfinished| unfinished.seq);
        (self.named, self.count)
    }

    fn begin(&mut self, key: Key, entry: &Entry) {
        if self.open.len() >= MAX_OPEN {
            return self.miss();
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
            self.name(before);
        }
    }

    fn name(&mut self, unfinished: Unfinished) {
        self.count += 1;
        if self.named.len() < MAX_NAMED {
            self.named.push(unfinished);
        }
    }
}
