//! The records, as the pipeline gives them and as they are written.

use std::time::{Duration, SystemTime};

use relay_proto::{CallId, Code, ExecutionId, LimitOverrides, TraceContext};
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::arguments::RecordedArguments;
use super::chain::Hash;
use crate::outcome::Usage;
use crate::tool::Effect;

/// The longest text of a record that is neither code nor arguments, in bytes; what is longer is cut.
pub(super) const MAX_TEXT_BYTES: usize = 1 << 10;

/// Whose execution a record belongs to. It stands in each, so that each can be read alone.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Origin<'a> {
    /// The subject of the token: who acts.
    #[serde(serialize_with = "text")]
    pub subject: &'a str,
    /// The session with the relay.
    #[serde(serialize_with = "text")]
    pub session: &'a str,
    /// The execution.
    #[serde(serialize_with = "execution_id")]
    pub execution: &'a ExecutionId,
    /// The SHA-256 of its code.
    pub code_sha256: Hash,
}

/// Code is about to be sent to the relay.
#[derive(Debug, Clone, Copy)]
pub struct ExecutionStart<'a> {
    /// Whose it is.
    pub origin: Origin<'a>,
    /// The name of the application.
    pub client: &'a str,
    /// The source.
    pub code: &'a str,
    /// The limits that it asks for.
    pub limits: &'a LimitOverrides,
    /// The trace that it belongs to.
    pub trace: Option<TraceContext>,
}

/// An execution has ended.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct ExecutionEnd<'a> {
    /// Whose it is.
    #[serde(flatten)]
    pub origin: Origin<'a>,
    /// Its error code; nothing where it succeeded.
    #[serde(rename = "outcome", serialize_with = "outcome")]
    pub error: Option<&'a Code>,
    /// From the start to the end, as the host saw it.
    #[serde(rename = "duration_us", serialize_with = "micros")]
    pub duration: Duration,
    /// Bytes of the returned value's JSON.
    pub result_bytes: usize,
    /// What the relay says was used.
    #[serde(serialize_with = "usage")]
    pub usage: Usage,
}

/// What the policy says to a call. It opens the call: one [`CallCompletion`] has to follow, whatever comes of it.
#[derive(Debug, Clone, Copy)]
pub struct CallDecision<'a> {
    /// Whose it is.
    pub origin: Origin<'a>,
    /// The call's id.
    pub call: CallId,
    /// The tool's full name, as it was called.
    pub tool: &'a str,
    /// What calling it does, if somebody said.
    pub effect: Option<Effect>,
    /// What it is called with. Redacted before anything is written.
    pub arguments: Arguments<'a>,
    /// The verdict.
    pub decision: Decision,
    /// The rule that it comes from, as it stands in the policy.
    pub rule: &'a str,
    /// Why, where the rule alone does not say. It is not redacted: it must not quote arguments.
    pub reason: Option<&'a str>,
}

/// What a tool is called with.
#[derive(Debug, Clone, Copy)]
pub enum Arguments<'a> {
    /// JSON that was read.
    Value {
        /// The value.
        value: &'a Value,
        /// How many bytes it came in.
        bytes: usize,
    },
    /// Bytes that are no JSON, or that nobody read. They are not recorded: they could not be redacted.
    Unread {
        /// How many.
        bytes: usize,
    },
}

/// A policy's verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The tool may run.
    Allow,
    /// It may not.
    Deny,
    /// A person decides.
    Ask,
}

/// What a person says to a call, or that nobody did.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct CallApproval<'a> {
    /// Whose it is.
    #[serde(flatten)]
    pub origin: Origin<'a>,
    /// The call's id.
    #[serde(serialize_with = "call_id")]
    pub call: CallId,
    /// The tool's full name.
    #[serde(serialize_with = "text")]
    pub tool: &'a str,
    /// What was said.
    pub verdict: Verdict,
    /// Who said it, if anybody did.
    #[serde(serialize_with = "optional_text", skip_serializing_if = "Option::is_none")]
    pub approver: Option<&'a str>,
    /// How long it took.
    #[serde(rename = "waited_us", serialize_with = "micros")]
    pub waited: Duration,
}

/// A person's verdict, or the lack of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// This call may run.
    Once,
    /// Calls of this tool may, in this execution.
    Execution,
    /// Calls of this tool may, in this session.
    Session,
    /// It may not.
    Denied,
    /// Nobody answered in time.
    TimedOut,
    /// Nobody could be asked.
    Failed,
}

/// A call is over, whether or not its tool ran.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct CallCompletion<'a> {
    /// Whose it is.
    #[serde(flatten)]
    pub origin: Origin<'a>,
    /// The call's id.
    #[serde(serialize_with = "call_id")]
    pub call: CallId,
    /// The tool's full name, as it was called.
    #[serde(serialize_with = "text")]
    pub tool: &'a str,
    /// Its error code; nothing where the tool gave a result.
    #[serde(rename = "outcome", serialize_with = "outcome")]
    pub error: Option<&'a Code>,
    /// From the call's arrival to its answer.
    #[serde(rename = "duration_us", serialize_with = "micros")]
    pub duration: Duration,
    /// Bytes of the arguments' JSON.
    pub arguments_bytes: usize,
    /// Bytes of the result's JSON.
    pub result_bytes: usize,
}

/// Something that is written as one line.
pub(super) trait Record: Serialize {
    const KIND: &'static str;
}

/// One line, up to its hash.
#[derive(Serialize)]
pub(super) struct Line<'a, R> {
    pub(super) seq: u64,
    #[serde(serialize_with = "rfc3339")]
    pub(super) time: SystemTime,
    pub(super) kind: &'static str,
    #[serde(flatten)]
    pub(super) record: &'a R,
    pub(super) prev: Hash,
}

/// The first record of every file and of every process.
#[derive(Serialize)]
pub(super) struct Opened {
    pub(super) reason: Reason,
    pub(super) host: String,
    pub(super) process: u32,
    pub(super) version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) torn: Option<Torn>,
}

/// Why a file was opened.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reason {
    Start,
    Rotation,
}

/// The piece of a record that a crash left at the end of the file, where this record stands now.
#[derive(Serialize)]
pub(super) struct Torn {
    pub(super) bytes: u64,
    pub(super) sha256: Hash,
    /// Its first part; the whole of it but for a large record.
    pub(super) text: String,
}

/// A start as it is written: with the code or without it.
#[derive(Serialize)]
pub(super) struct StartRecord<'a> {
    #[serde(flatten)]
    pub(super) origin: Origin<'a>,
    #[serde(serialize_with = "text")]
    pub(super) client: &'a str,
    #[serde(serialize_with = "limits")]
    pub(super) limits: &'a LimitOverrides,
    #[serde(serialize_with = "trace", skip_serializing_if = "Option::is_none")]
    pub(super) trace: Option<TraceContext>,
    pub(super) code_bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) code: Option<&'a str>,
}

/// A decision as it is written: with what of the arguments may be.
#[derive(Serialize)]
pub(super) struct DecisionRecord<'a> {
    #[serde(flatten)]
    pub(super) origin: Origin<'a>,
    #[serde(serialize_with = "call_id")]
    pub(super) call: CallId,
    #[serde(serialize_with = "text")]
    pub(super) tool: &'a str,
    pub(super) effect: Option<Effect>,
    pub(super) decision: Decision,
    #[serde(serialize_with = "text")]
    pub(super) rule: &'a str,
    #[serde(serialize_with = "optional_text", skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<&'a str>,
    #[serde(flatten)]
    pub(super) arguments: RecordedArguments<'a>,
}

impl Record for Opened {
    const KIND: &'static str = "opened";
}

impl Record for StartRecord<'_> {
    const KIND: &'static str = "execution";
}

impl Record for ExecutionEnd<'_> {
    const KIND: &'static str = "end";
}

impl Record for DecisionRecord<'_> {
    const KIND: &'static str = "decision";
}

impl Record for CallApproval<'_> {
    const KIND: &'static str = "approval";
}

impl Record for CallCompletion<'_> {
    const KIND: &'static str = "completion";
}

impl Opened {
    pub(super) fn new(reason: Reason, torn: Option<Torn>) -> Self {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Self { reason, host, process: std::process::id(), version: env!("CARGO_PKG_VERSION"), torn }
    }
}

fn text<S: Serializer>(text: &&str, serializer: S) -> Result<S::Ok, S::Error> {
    if text.len() <= MAX_TEXT_BYTES {
        return serializer.serialize_str(text);
    }
    serializer.collect_str(&format_args!("{}…", &text[..text.floor_char_boundary(MAX_TEXT_BYTES)]))
}

fn optional_text<S: Serializer>(optional: &Option<&str>, serializer: S) -> Result<S::Ok, S::Error> {
    text(&optional.unwrap_or_default(), serializer)
}

fn execution_id<S: Serializer>(id: &&ExecutionId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(id.as_str())
}

fn call_id<S: Serializer>(id: &CallId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(id.0)
}

fn outcome<S: Serializer>(error: &Option<&Code>, serializer: S) -> Result<S::Ok, S::Error> {
    text(&error.map_or("ok", Code::as_str), serializer)
}

fn trace<S: Serializer>(trace: &Option<TraceContext>, serializer: S) -> Result<S::Ok, S::Error> {
    trace.map(TraceContext::trace_id).serialize(serializer)
}

fn limits<S: Serializer>(limits: &&LimitOverrides, serializer: S) -> Result<S::Ok, S::Error> {
    limits.to_wire().serialize(serializer)
}

fn rfc3339<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    // A clock that stands before 1970 could not be formatted.
    serializer.collect_str(&humantime::format_rfc3339_micros((*time).max(SystemTime::UNIX_EPOCH)))
}

fn micros<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(whole_micros(*duration))
}

fn usage<S: Serializer>(usage: &Usage, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct UsageRecord {
        queue_us: u64,
        wall_us: u64,
        cpu_us: u64,
        tool_calls: u64,
        output_bytes: u64,
        memory_bytes: u64,
    }
    let record = UsageRecord {
        queue_us: whole_micros(usage.queue),
        wall_us: whole_micros(usage.wall),
        cpu_us: whole_micros(usage.cpu),
        tool_calls: usage.tool_calls,
        output_bytes: usage.output_bytes,
        memory_bytes: usage.memory_bytes,
    };
    record.serialize(serializer)
}

fn whole_micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
