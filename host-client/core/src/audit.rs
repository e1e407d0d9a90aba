//! The audit log: a hash chain of JSON lines that records executions, decisions, approvals and results.
//!
//! A line is `{"seq":…,"time":…,"kind":…,…,"prev":…,"hash":…}`. `hash` is the SHA-256 of the line's bytes before
//! `,"hash":`, and `prev` is the `hash` of the previous line, so that [`verify()`] finds changed, missing and reordered
//! lines. Anybody who can write the file can also rewrite all lines from some line to the end. This is detected only
//! with a hash that was stored elsewhere: [`Audit::head`] returns one.
//!
//! | kind | written when | contains |
//! |---|---|---|
//! | `opened` | a process opens the log, or a new file begins | host, process, version, the torn record of a crash |
//! | `execution` | before code is sent | client, limits, trace, code |
//! | `decision` | before anything else is done for a call | tool, effect, arguments, decision, rule |
//! | `approval` | a call needed an approval | verdict, approver, waiting time |
//! | `completion` | a call is over, even if its tool did not run | outcome, duration, sizes |
//! | `end` | an execution is over | outcome, duration, usage |
//!
//! The modules: `record` defines the records, `redact`, `arguments` and `code` what is left out of them, `chain` the hashes;
//! `writer` writes the file, `files` reads it back, [`verify`](mod@verify) checks it, [`show`] prints it; `trail` holds
//! the records of one execution.

mod arguments;
mod chain;
mod code;
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
use self::code::RecordedCode;
use self::record::{DecisionRecord, Record, StartRecord};
use self::redactions::Redactions;
use self::writer::Writer;

pub use self::arguments::Arguments;
pub use self::files::series;
pub use self::record::{
    CallApproval, CallCompletion, CallDecision, Decision, ExecutionEnd, ExecutionStart, Origin, Verdict,
};
pub use self::redact::{REDACTED, Redaction};
pub use self::show::records;
pub(crate) use self::trail::{CallTrail, Trail};
pub use self::verify::verify;
pub use crate::hash::{Hash, InvalidHash};

/// The most bytes of code that a record contains, 4 MiB: of longer code only the hash is recorded. Relays refuse longer
/// code.
const MAX_CODE_BYTES: usize = 4 << 20;

/// The settings of an audit log: its path, redactions, rotation and durability.
///
/// ```
/// use host_client_core::AuditConfig;
/// use host_client_core::audit::{CodeRecord, Redaction, SyncMode};
///
/// let mut config = AuditConfig::new("/var/log/my-agent/audit.jsonl");
/// config.redact.push(Redaction { tools: vec!["bank.*".into()], path: "$..iban".into() });
/// config.code = CodeRecord::HashOnly;
/// config.rotate_bytes = 16 << 20;
/// config.keep = Some(10);
/// config.sync = SyncMode::EveryRecord;
/// ```
#[derive(Debug, Clone)]
pub struct AuditConfig {
    /// The path of the file that is written. It is created with mode 0600. The lock file has the suffix `.lock`, full
    /// files have `.000001`, `.000002` and so on.
    pub path: PathBuf,
    /// The parts of arguments that are replaced by [`REDACTED`]; none by default. They are replaced in the code as well
    /// if it is one call with literal arguments.
    pub redact: Vec<Redaction>,
    /// The part of the code that is recorded; [`CodeRecord::Full`] by default.
    pub code: CodeRecord,
    /// The size at which a file is rotated, in bytes; 64 MiB by default.
    pub rotate_bytes: u64,
    /// The number of full files to keep; older ones are removed after a rotation. `None`, the default, keeps all.
    pub keep: Option<usize>,
    /// The moment at which records are synchronised with the disk; [`SyncMode::Never`] by default.
    pub sync: SyncMode,
}

impl AuditConfig {
    /// Creates the default settings for a log at `path`: no redactions, code recorded in full, files of 64 MiB that are
    /// all kept, and [`SyncMode::Never`].
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

/// The part of an execution's code that is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CodeRecord {
    /// Records the code, up to 4 MiB, and its SHA-256. This is the default.
    #[default]
    Full,
    /// Records the SHA-256 alone. Redactions apply to code that is one call with literal arguments, and to no other
    /// code: use this if a model may write secrets into it.
    HashOnly,
}

/// The moment at which records are synchronised with the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SyncMode {
    /// Leaves it to the operating system. A crash of the process loses no record; a crash of the machine loses those of
    /// the last seconds. This is the default.
    #[default]
    Never,
    /// Synchronises each record before the call goes on (`fdatasync`), which often takes milliseconds.
    EveryRecord,
}

/// An error of opening, writing or reading an audit log.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// A record could not be written: the execution or call that it is about must not run.
    #[error("the audit log {} cannot be written: {error}", path.display())]
    Write {
        /// The path of the log or of its lock file.
        path: PathBuf,
        /// The error of the file system, or of writing the record as JSON.
        error: io::Error,
    },
    /// A file or folder of the log could not be read.
    #[error("the audit log {} cannot be read: {error}", path.display())]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The error of the file system.
        error: io::Error,
    },
    /// Another open log holds the lock: another process, or another [`Audit::open`] in this one.
    #[error("the audit log {} is in use by another process: stop that one, or name another file", path.display())]
    InUse {
        /// The path of the log.
        path: PathBuf,
    },
    /// The existing file does not end with an audit record. Nothing was written to it.
    #[error(
        "{} is no audit log, or its end was changed: nothing was written to it. Verify it, and move it away or \
         name another file", path.display()
    )]
    NotALog {
        /// The path of the file.
        path: PathBuf,
    },
    /// A redaction names no tools, its JSONPath is invalid, or the feature `redact` is off.
    #[error("the redaction {path:?} cannot be used: {reason}")]
    Redaction {
        /// The JSONPath of the redaction.
        path: String,
        /// The reason, as a sentence.
        reason: String,
    },
}

/// An open audit log. Clones share it; it is closed when the last clone is dropped.
///
/// A [`Host`](crate::Host) with an audit writes all records itself:
///
/// ```
/// use host_client_core::audit::{series, verify};
/// use host_client_core::{Audit, AuditConfig, Host, Tools};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("audit.jsonl");
/// let audit = Audit::open(AuditConfig::new(&path))?;
/// let host = Host::new(Tools::new()).audit(audit.clone());
///
/// // Store this pair elsewhere: it proves later that nobody rewrote the log up to this record.
/// let (seq, hash) = audit.head();
/// assert_eq!(seq, 1);
/// assert!(verify(&series(&path)?, Some(hash))?.is_whole());
/// # Ok(()) }
/// ```
///
/// Each method returns when its record is in the file, and with [`SyncMode::EveryRecord`] on the disk. After an error
/// the record is not in the log, and the execution or call that it is about must not go on. The methods block for one
/// `write`: microseconds, unless the disk is slow.
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
    /// Creates a log, or continues an existing one. A record that a crash left incomplete is cut off, and its beginning
    /// is kept in the new `opened` record.
    ///
    /// # Errors
    /// - [`AuditError::Redaction`]: a redaction is not usable.
    /// - [`AuditError::InUse`]: the log is already open.
    /// - [`AuditError::NotALog`]: the file is not an audit log, or its end was changed.
    /// - [`AuditError::Read`], [`AuditError::Write`]: a file cannot be read or written.
    pub fn open(config: AuditConfig) -> Result<Self, AuditError> {
        let redactions = Redactions::parse(&config.redact)?;
        let (code, sync) = (config.code, config.sync);
        Ok(Self(Arc::new(Inner { redactions, code, sync, writer: Mutex::new(Writer::open(config)?) })))
    }

    /// Returns the number and the hash of the last record. Stored elsewhere, the hash proves later that no record up to
    /// this one was rewritten or cut off: pass it to [`verify()`].
    pub fn head(&self) -> (u64, Hash) {
        let link = self.writer().link();
        (link.seq, link.hash)
    }

    /// Records that code is about to run. One [`Audit::end`] must follow.
    ///
    /// # Errors
    /// [`AuditError::Write`]: the record could not be written, and the code must not run.
    pub fn execution(&self, start: &ExecutionStart<'_>) -> Result<(), AuditError> {
        self.start(start, self.recorded_code(start.code))
    }

    /// Records that code is about to run, with the form of the code that `recorded_code` returned for it.
    ///
    /// # Errors
    /// As [`Audit::execution`].
    fn start(&self, start: &ExecutionStart<'_>, recorded: RecordedCode<'_>) -> Result<(), AuditError> {
        self.append(&StartRecord {
            origin: start.origin,
            client: start.client,
            limits: start.limits,
            trace: start.trace,
            code_bytes: start.code.len(),
            code_note: recorded.note,
            code: recorded.text(),
        })
    }

    /// Returns the hash that stands for this code in all records of its execution, as [`Origin::code_sha256`]: the
    /// SHA-256 of the code, or of its redacted form if it is one call whose literal arguments are redacted.
    pub fn code_hash(&self, code: &str) -> Hash {
        self.recorded_code(code).hash()
    }

    /// Tells whether arguments of a tool are redacted.
    pub(crate) fn redacts(&self, tool: &str) -> bool {
        self.0.redactions.apply_to(tool)
    }

    /// Applies the redactions to code.
    fn recorded_code<'a>(&self, code: &'a str) -> RecordedCode<'a> {
        RecordedCode::new(code, self.0.code, &self.0.redactions)
    }

    /// Records the policy's decision on a call. One [`Audit::completion`] must follow, also if the call is denied; none
    /// after an error.
    ///
    /// # Errors
    /// [`AuditError::Write`]: the record could not be written, and the tool must not run.
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

    /// Records a person's verdict on a call, or that there was none.
    ///
    /// # Errors
    /// [`AuditError::Write`]: the record could not be written, and the tool must not run.
    pub fn approval(&self, approval: &CallApproval<'_>) -> Result<(), AuditError> {
        self.append(approval)
    }

    /// Records that a call is over.
    ///
    /// # Errors
    /// [`AuditError::Write`]: the record could not be written. The call has happened: [`verify()`] will list it as
    /// unfinished.
    pub fn completion(&self, completion: &CallCompletion<'_>) -> Result<(), AuditError> {
        self.append(completion)
    }

    /// Records that an execution is over.
    ///
    /// # Errors
    /// [`AuditError::Write`]: the record could not be written. [`verify()`] will list the execution as unfinished.
    pub fn end(&self, end: &ExecutionEnd<'_>) -> Result<(), AuditError> {
        self.append(end)
    }

    fn append<R: Record>(&self, record: &R) -> Result<(), AuditError> {
        let append = || self.writer().append(record);
        // Synchronising takes milliseconds, or hangs: other tasks of this worker thread must not wait for it.
        // `block_in_place` panics on a current-thread runtime.
        let can_block_in_place = || {
            use tokio::runtime::{Handle, RuntimeFlavor};
            Handle::try_current().is_ok_and(|it| it.runtime_flavor() == RuntimeFlavor::MultiThread)
        };
        let is_slow = self.0.sync == SyncMode::EveryRecord;
        if is_slow && can_block_in_place() { tokio::task::block_in_place(append) } else { append() }
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        // A panic while the lock is held leaves the writer consistent: a record counts as written only at the end.
        self.0.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
