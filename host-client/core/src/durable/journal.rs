//! The journal of durable runs: the interface of its storage.
//!
//! A storage keeps runs and their entries as texts and knows nothing of their meaning. It promises four things: what it
//! has acknowledged is there after the process is killed; a batch of entries is there whole or not at all; entries have
//! the numbers 1, 2, 3 … without gaps; and only the holder of a run appends to it.

use std::fmt;
use std::str::FromStr;

use futures_util::future::BoxFuture;

use crate::random::random_key;

/// The maximum length of a run's id, in bytes.
const MAX_RUN_ID_BYTES: usize = 64;

/// The id of a durable run: 1 to 64 ASCII letters, digits, `-` and `_`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunId(String);

/// A text that is not the id of a run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the id of a run: it has 1 to 64 ASCII letters, digits, `-` and `_`")]
pub struct InvalidRunId(String);

impl RunId {
    /// Makes a random id.
    pub fn random() -> Self {
        Self(random_key())
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for RunId {
    type Err = InvalidRunId;

    fn from_str(text: &str) -> Result<Self, InvalidRunId> {
        let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if (1..=MAX_RUN_ID_BYTES).contains(&text.len()) && text.bytes().all(is_valid) {
            return Ok(Self(text.to_owned()));
        }
        Err(InvalidRunId(text.chars().take(MAX_RUN_ID_BYTES).collect()))
    }
}

/// The status of a run, for lists; the entries tell it exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunStatus {
    /// It runs, or would run if its process had not died.
    Running,
    /// It waits for a person or a timer.
    Waiting,
    /// It has an outcome.
    Ended,
}

impl RunStatus {
    /// Returns the status as the journal stores it: `running`, `waiting` or `ended`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Ended => "ended",
        }
    }
}

impl FromStr for RunStatus {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::Running, Self::Waiting, Self::Ended];
        all.into_iter().find(|it| it.as_str() == text).ok_or_else(|| format!("{text:?} is not the status of a run"))
    }
}

/// The right of a process to append to the runs that it holds, so that one process at a time goes on with a run. All
/// that a process holds, it holds until the same time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The random name of the process.
    pub holder: String,
    /// The time until which it holds its runs, in ms since 1970. Another process may take them after that.
    pub until_ms: i64,
}

/// A run that is added to the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRun {
    /// Its id.
    pub id: RunId,
    /// The time at which it began, in ms since 1970.
    pub created_ms: i64,
    /// Everything that running it again needs, as JSON.
    pub plan: String,
}

/// A run as the journal lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunHead {
    /// Its id.
    pub id: RunId,
    /// The time at which it began, in ms since 1970.
    pub created_ms: i64,
    /// The time of its last entry, in ms since 1970; that of its beginning if it has none.
    pub changed_ms: i64,
    /// Its status.
    pub status: RunStatus,
    /// The number of its entries.
    pub entries: u64,
    /// The claim of the process that holds it; `None`: nobody holds it.
    pub claim: Option<Claim>,
}

/// One entry of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalEntry {
    /// Its kind, such as `called`: ASCII letters, at most 32.
    pub kind: String,
    /// The call that it is about; `None`: it is about the run.
    pub call: Option<u64>,
    /// Its content as JSON. It may have 12 MiB: a tool's result stands in it.
    pub json: String,
    /// The SHA-256 of the entry and of the one before, in hexadecimal, by which a damaged entry is found.
    pub chain: String,
}

/// Entries that are appended together. There may be none, where only the status changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// The number of the first entry: one more than the run has.
    pub first: u64,
    /// The entries, in their order.
    pub entries: Vec<JournalEntry>,
    /// The run's status from now on; `None`: it stays.
    pub status: Option<RunStatus>,
    /// The time of the entries, in ms since 1970.
    pub at_ms: i64,
}

/// An instruction of another process to the one that holds a run: the decision on a call, or to cancel the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instruction {
    /// The call that it is about; 0: the run.
    pub call: u64,
    /// Its content as JSON.
    pub json: String,
}

/// An instruction with its place among those of all runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberedInstruction {
    /// Its number. Whatever is left later has a higher one; not every number is there.
    pub number: u64,
    /// The run that it is for.
    pub run: RunId,
    /// The instruction.
    pub instruction: Instruction,
}

/// The choice of runs in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFilter {
    /// `true`: without the runs that have ended.
    pub unfinished: bool,
    /// The maximum number of runs.
    pub limit: usize,
    /// The beginning ([`RunHead::created_ms`]) and the id of the last run of the list before, after which this one
    /// begins;
    /// `None`: it is the first list. The run itself may be gone by now.
    pub after: Option<(i64, RunId)>,
    /// `true`: in reverse order, the newest run first.
    pub newest_first: bool,
}

/// The future of a journal's answer.
pub type JournalFuture<'a, T> = BoxFuture<'a, Result<T, JournalError>>;

/// A storage of durable runs. Its futures may be dropped: what they began is then done or not, as a whole. The same
/// holds for a change that ends with [`JournalError::Unavailable`].
pub trait Journal: fmt::Debug + Send + Sync + 'static {
    /// Adds a run with the status [`RunStatus::Running`], which the holder of `claim` holds. What it holds, it holds
    /// until the claim's time from now on.
    ///
    /// # Errors
    /// [`JournalError::Exists`], and the errors of every storage: [`JournalError::Full`], [`JournalError::ReadOnly`],
    /// [`JournalError::Busy`], [`JournalError::Damaged`], [`JournalError::Unavailable`].
    fn create(&self, run: NewRun, claim: Claim) -> JournalFuture<'_, ()>;

    /// Appends entries to a run that `holder` holds, all or none. A holder whose time is over still holds what nobody
    /// has taken since.
    ///
    /// # Errors
    /// [`JournalError::Unknown`]; [`JournalError::Claimed`]: another process holds the run;
    /// [`JournalError::Unclaimed`]: nobody does; [`JournalError::Conflict`]: the first number is not the next one; and
    /// those of every storage.
    fn append(&self, run: RunId, holder: String, batch: Batch) -> JournalFuture<'_, ()>;

    /// Returns a run; `None`: there is none with this id.
    ///
    /// # Errors
    /// Those of every storage.
    fn run(&self, id: RunId) -> JournalFuture<'_, Option<RunHead>>;

    /// Returns the plan of a run; `None`: there is none with this id.
    ///
    /// # Errors
    /// Those of every storage.
    fn plan(&self, id: RunId) -> JournalFuture<'_, Option<String>>;

    /// Returns the entries of a run after the first `after`, in their order.
    ///
    /// # Errors
    /// [`JournalError::Unknown`], and those of every storage.
    fn entries(&self, run: RunId, after: u64) -> JournalFuture<'_, Vec<JournalEntry>>;

    /// Returns runs in the order in which they began, those of the same ms by their ids; in reverse order with
    /// [`RunFilter::newest_first`].
    ///
    /// # Errors
    /// Those of every storage.
    fn runs(&self, filter: RunFilter) -> JournalFuture<'_, Vec<RunHead>>;

    /// Lets the holder of `claim` hold a run, and all that it holds until the claim's time. `now_ms` is the present, by
    /// which another holder's time is over or is not.
    ///
    /// # Errors
    /// [`JournalError::Unknown`]; [`JournalError::Claimed`]: another process holds it; and those of every storage.
    fn claim(&self, run: RunId, claim: Claim, now_ms: i64) -> JournalFuture<'_, ()>;

    /// Sets the time until which the holder of `claim` holds what it holds, be it nothing.
    ///
    /// # Errors
    /// Those of every storage.
    fn renew(&self, claim: Claim) -> JournalFuture<'_, ()>;

    /// Gives a run back; does nothing if `holder` does not hold it.
    ///
    /// # Errors
    /// [`JournalError::Unknown`], and those of every storage.
    fn release(&self, run: RunId, holder: String) -> JournalFuture<'_, ()>;

    /// Leaves an instruction for the process that holds the run. Anybody may, without a claim; the first one about a
    /// call counts.
    ///
    /// # Errors
    /// [`JournalError::Unknown`]; [`JournalError::Instructed`]: there is one about this call; and those of every
    /// storage.
    fn instruct(&self, run: RunId, instruction: Instruction) -> JournalFuture<'_, ()>;

    /// Returns the instructions for all runs with numbers above `after`, in the order of their numbers: at most 1,000,
    /// so that an empty answer alone says that there are no more.
    ///
    /// # Errors
    /// Those of every storage.
    fn instructions(&self, after: u64) -> JournalFuture<'_, Vec<NumberedInstruction>>;

    /// Returns the instructions for a run, in the order in which they came.
    ///
    /// # Errors
    /// [`JournalError::Unknown`], and those of every storage.
    fn instructions_of(&self, run: RunId) -> JournalFuture<'_, Vec<Instruction>>;

    /// Removes a run with all that the journal has of it. Returns whether there was one.
    ///
    /// # Errors
    /// [`JournalError::Claimed`]: another process than `holder` holds it at `now_ms`; and those of every storage.
    fn forget(&self, run: RunId, holder: String, now_ms: i64) -> JournalFuture<'_, bool>;
}

/// The reason why a journal did not do what was asked of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// There is a run with this id.
    #[error("the journal has a run {0} already")]
    Exists(RunId),
    /// There is no run with this id.
    #[error("the journal has no run {0}")]
    Unknown(RunId),
    /// Another process goes on with the run.
    #[error(
        "another process goes on with the run {run}; stop it, or wait until its claim expires (at {until_ms} ms since 1970)"
    )]
    Claimed {
        /// The run.
        run: RunId,
        /// The time until which it is claimed, in ms since 1970.
        until_ms: i64,
    },
    /// Nobody holds the run.
    #[error("no process holds the run {0}: it was given back; claim it first")]
    Unclaimed(RunId),
    /// Entries were appended by somebody else.
    #[error("the run {run} has {found} entries, where {expected} were expected: another process has written to it")]
    Conflict {
        /// The run.
        run: RunId,
        /// The number of entries that the writer knew of.
        expected: u64,
        /// The number of entries in the journal.
        found: u64,
    },
    /// There is an instruction about this call.
    #[error("there is a decision on call {call} of the run {run} already")]
    Instructed {
        /// The run.
        run: RunId,
        /// The call; 0: the run itself.
        call: u64,
    },
    /// The entries of a run, or the journal itself, are not as they were written.
    #[error("the journal is damaged: {0}; restore it from a backup")]
    Damaged(String),
    /// There is no room on the disk.
    #[error("the journal's disk is full: {0}; make room and try again, nothing is lost")]
    Full(String),
    /// It cannot be written to.
    #[error("the journal cannot be written to: {0}")]
    ReadOnly(String),
    /// Other processes have kept it busy for too long.
    #[error("the journal is busy: {0}; try again")]
    Busy(String),
    /// A newer version of this software has written it.
    #[error("the journal has version {found}; this program knows versions up to {known}: update it")]
    Version {
        /// The journal's version.
        found: i64,
        /// The newest version that this program knows.
        known: i64,
    },
    /// It cannot be reached or opened.
    #[error("the journal cannot be used: {0}")]
    Unavailable(String),
}
