//! The audit log: what was asked, decided, approved, run and answered, as a chain of JSON lines.
//!
//! A line is `{"seq":…,"time":…,"kind":…,…,"prev":…,"hash":…}`. `hash` is the SHA-256 of the line's bytes before
//! `,"hash":`, and `prev` is the `hash` of the line before it, so that a change, a gap and another order are found by
//! [`verify()`]. Whoever can write the file can also write it anew from some line on: only a hash that was kept
//! elsewhere ([`Audit::head`]) tells.
//!
//! | kind | when | says |
//! |---|---|---|
//! | `opened` | a process opens the log; a file is new | host, process, version, what a crash left of a record |
//! | `execution` | before code is sent | client, limits, trace, code |
//! | `decision` | before anything else is done for a call | tool, effect, arguments, decision, rule |
//! | `approval` | a person was asked | verdict, approver, how long it took |
//! | `completion` | a call is over, whether its tool ran or not | outcome, duration, sizes |
//! | `end` | an execution is over | outcome, duration, usage |
//!
//! The map: `record`, what is written; `redact` and `arguments`, what is not; `chain`, the hashes; `writer`, the file
//! that is written; `files`, reading back; [`verify`](mod@verify) and [`show`]; `trail`, the records of one execution.

mod arguments;
mod chain;
mod files;
mod record;
mod redact;
#[cfg_attr(not(feature = "redact"), path = "audit/no_redactions.rs")]
mod redactions;
pub mod show;
mod trail;
mod unfinished;
pub mod verify;
mod writer;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Deserialize;

use self::arguments::RecordedArguments;
use self::record::{DecisionRecord, Record, StartRecord};
use self::redactions::Redactions;
use self::writer::Writer;

pub use self::chain::{Hash, InvalidHash};
pub use self::files::series;
pub use self::record::{
    Arguments, CallApproval, CallCompletion, CallDecision, Decision, ExecutionEnd, ExecutionStart, Origin, Verdict,
};
pub use self::redact::{REDACTED, Redaction};
pub use self::show::records;
pub(crate) use self::trail::{CallTrail, Trail};
pub use self::verify::verify;

/// Code over this size is recorded by its hash alone, in bytes. A relay takes no more.
const MAX_CODE_BYTES: usize = 4 << 20;

/// Where the log is, and what stands in it.
#[derive(Debug, Clone)]
pub struct AuditConfig {
    /// The file that is written. It is created with mode 0600; `.lock` and, for full files, `.000001` and so on are
    /// added to its name.
    pub path: PathBuf,
    /// What is left out of arguments.
    pub redact: Vec<Redaction>,
    /// Whether code is recorded.
    pub code: CodeRecord,
    /// The size at which a file is full, in bytes; 64 MiB unless changed.
    pub rotate_bytes: u64,
    /// How many full files are kept. Without, all: nothing that was recorded is ever removed unless somebody asked for
    /// it.
    pub keep: Option<usize>,
    /// What a crash of the machine may cost.
    pub sync: SyncMode,
}

impl AuditConfig {
    /// A log without redactions and with the code, which loses nothing when this process crashes.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            redact: Vec::new(),
            code: CodeRecord::Full,
            rotate_bytes: 64 << 20,
            keep: None,
            sync: SyncMode::Never,
        }
    }
}

/// What is recorded of an execution's code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CodeRecord {
    /// The code and its hash.
    #[default]
    Full,
    /// Its hash. Redaction does not reach into code: this is for where a model may have written secrets into it.
    HashOnly,
}

/// When records reach the disk itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SyncMode {
    /// When the system writes them. A crash of the process loses nothing, one of the machine the last seconds.
    #[default]
    Never,
    /// Before the call goes on, which costs each record what the disk takes, often milliseconds.
    EveryRecord,
}

/// Why there is no audit log, or no record.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The record could not be written: what it is about must not happen.
    #[error("the audit log {} cannot be written: {error}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A file could not be read.
    #[error("the audit log {} cannot be read: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Another process writes it.
    #[error("the audit log {} is in use by another process: stop that one, or name another file", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// What is there does not end with an audit record.
    #[error(
        "{} is no audit log, or its end was changed: nothing was written to it. Verify it, and move it away or \
         name another file", path.display()
    )]
    NotALog {
        /// The file.
        path: PathBuf,
    },
    /// A redaction cannot be used.
    #[error("the redaction {path:?} cannot be used: {reason}")]
    Redaction {
        /// Its path.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// An audit log that is open. Clones share it; it is closed when the last is dropped.
///
/// Each method returns when its record is in the file (with [`SyncMode::EveryRecord`], on the disk). After an error it
/// is not, and what it is about must not be done. They block for one `write`: microseconds, unless the disk is slow.
#[derive(Clone)]
pub struct Audit(Arc<Inner>);

struct Inner {
    redactions: Redactions,
    code: CodeRecord,
    sync: SyncMode,
    writer: Mutex<Writer>,
}

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Audit").finish_non_exhaustive()
    }
}

impl Audit {
    /// Opens a log: a new one, or one that goes on where it ended. What a crash left of a last record is cut off and
    /// told of in the first record.
    ///
    /// # Errors
    /// A redaction is wrong; another process has the log open; the file is something else; it cannot be written.
    pub fn open(config: AuditConfig) -> Result<Self, AuditError> {
        let redactions = Redactions::parse(&config.redact)?;
        let (code, sync) = (config.code, config.sync);
        Ok(Self(Arc::new(Inner { redactions, code, sync, writer: Mutex::new(Writer::open(config)?) })))
    }

    /// The number and the hash of the last record. Whoever keeps them elsewhere can prove later what the log was.
    pub fn head(&self) -> (u64, Hash) {
        let link = self.writer().link();
        (link.seq, link.hash)
    }

    /// Records that code is about to run. Afterwards one [`Audit::end`] has to follow.
    ///
    /// # Errors
    /// The record could not be written: the code must not run.
    pub fn execution(&self, start: &ExecutionStart<'_>) -> Result<(), AuditError> {
        let is_recorded = self.0.code == CodeRecord::Full && start.code.len() <= MAX_CODE_BYTES;
        self.append(&StartRecord {
            origin: start.origin,
            client: start.client,
            limits: start.limits,
            trace: start.trace,
            code_bytes: start.code.len(),
            code: is_recorded.then_some(start.code),
        })
    }

    /// Records what the policy says to a call. Afterwards one [`Audit::completion`] has to follow, for a call that is
    /// denied, too; after an error none does.
    ///
    /// # Errors
    /// The record could not be written: the tool must not run.
    pub fn decision(&self, decision: &CallDecision<'_>) -> Result<(), AuditError> {
        let arguments = RecordedArguments::new(decision.tool, decision.arguments, &self.0.redactions);
        self.append(&DecisionRecord {
            origin: decision.origin,
            call: decision.call,
            tool: decision.tool,
            effect: decision.effect,
            decision: decision.decision,
            rule: decision.rule,
            reason: decision.reason,
            arguments: arguments.map_err(|error| self.writer().failed(error))?,
        })
    }

    /// Records what a person said to a call.
    ///
    /// # Errors
    /// The record could not be written: the tool must not run.
    pub fn approval(&self, approval: &CallApproval<'_>) -> Result<(), AuditError> {
        self.append(approval)
    }

    /// Records that a call is over.
    ///
    /// # Errors
    /// The record could not be written. The call has happened: [`verify()`] will show it as one that nobody knows the
    /// end of.
    pub fn completion(&self, completion: &CallCompletion<'_>) -> Result<(), AuditError> {
        self.append(completion)
    }

    /// Records that an execution is over.
    ///
    /// # Errors
    /// The record could not be written.
    pub fn end(&self, end: &ExecutionEnd<'_>) -> Result<(), AuditError> {
        self.append(end)
    }

    fn append<R: Record>(&self, record: &R) -> Result<(), AuditError> {
        let append = || self.writer().append(record);
        // A disk that is waited for takes milliseconds, or hangs: others of this thread must not wait with us.
        let is_shared = || {
            use tokio::runtime::{Handle, RuntimeFlavor};
            Handle::try_current().is_ok_and(|it| it.runtime_flavor() == RuntimeFlavor::MultiThread)
        };
        if self.0.sync == SyncMode::EveryRecord && is_shared() { tokio::task::block_in_place(append) } else { append() }
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        // A record counts as written only after all that could panic.
        self.0.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
