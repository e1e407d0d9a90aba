//! The records of the audit log: the form in which the pipeline gives them, and the form in which they are written.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use relay_proto::{CallId, Code, ExecutionId, LimitOverrides, TraceContext};
use serde::{Serialize, Serializer};

use super::arguments::{Arguments, RecordedArguments};
use super::code::CodeNote;
use crate::hash::Hash;
use crate::outcome::Usage;
use crate::tool::Effect;

/// The most bytes of a text in a record, 1 KiB: longer texts are cut and end with `…`. Code, arguments and torn records
/// have their own limits.
pub(super) const MAX_TEXT_BYTES: usize = 1 << 10;

/// The execution that a record belongs to. Every record contains it, so that each can be read alone.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Origin<'a> {
    /// The subject of the token that the session was opened with: the user or service that acts.
    #[serde(serialize_with = "text")]
    pub subject: &'a str,
    /// The name of the program on whose behalf the code runs, as that program says, such as an MCP client; `None`: the
    /// application itself. It is left out of the record then.
    #[serde(serialize_with = "optional_text", skip_serializing_if = "Option::is_none")]
    pub caller: Option<&'a str>,
    /// The id of the session with the relay.
    #[serde(serialize_with = "text")]
    pub session: &'a str,
    /// The id of the execution.
    #[serde(serialize_with = "execution_id")]
    pub execution: &'a ExecutionId,
    /// The SHA-256 of the execution's code, as [`Audit::code_hash`](super::Audit::code_hash) returns it.
    pub code_sha256: Hash,
}

/// The start of an execution: its code is about to be sent to the relay.
#[derive(Debug, Clone, Copy)]
pub struct ExecutionStart<'a> {
    /// The execution.
    pub origin: Origin<'a>,
    /// The name and version of the client library, such as `host-client/0.1.0`.
    pub client: &'a str,
    /// The source code.
    pub code: &'a str,
    /// The limits that the request asks for.
    pub limits: &'a LimitOverrides,
    /// The trace that the execution belongs to; `None`: no trace.
    pub trace: Option<TraceContext>,
}

/// The end of an execution.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct ExecutionEnd<'a> {
    /// The execution.
    #[serde(flatten)]
    pub origin: Origin<'a>,
    /// The execution's error code; `None`: it succeeded.
    #[serde(rename = "outcome", serialize_with = "outcome")]
    pub error: Option<&'a Code>,
    /// The time from the start to the end, as measured by the host.
    #[serde(rename = "duration_us", serialize_with = "micros")]
    pub duration: Duration,
    /// The length of the returned value's JSON, in bytes.
    pub result_bytes: usize,
    /// The usage that the relay reported.
    #[serde(serialize_with = "usage")]
    pub usage: Usage,
}

/// The policy's decision on a call. It begins the call in the log: one [`CallCompletion`] must follow, also if the call
/// is denied or fails.
#[derive(Debug, Clone, Copy)]
pub struct CallDecision<'a> {
    /// The execution whose code calls.
    pub origin: Origin<'a>,
    /// The call's id.
    pub call: CallId,
    /// The tool's full name as the code wrote it; there may be no such tool.
    pub tool: &'a str,
    /// The tool's declared effect; `None`: undeclared, or there is no such tool.
    pub effect: Option<Effect>,
    /// The arguments of the call. They are redacted before anything is written.
    pub arguments: Arguments<'a>,
    /// The decision.
    pub decision: Decision,
    /// The rule that decided, as the policy writes it.
    pub rule: &'a str,
    /// An explanation beyond the rule; `None`: the rule says enough. It is not redacted: it must not quote arguments.
    pub reason: Option<&'a str>,
}

/// A policy's decision on a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The tool may run.
    Allow,
    /// The tool must not run.
    Deny,
    /// A person decides: a [`CallApproval`] follows.
    Ask,
}

/// The verdict on a call that needed an approval.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct CallApproval<'a> {
    /// The execution whose code calls.
    #[serde(flatten)]
    pub origin: Origin<'a>,
    /// The call's id.
    #[serde(serialize_with = "call_id")]
    pub call: CallId,
    /// The tool's full name.
    #[serde(serialize_with = "text")]
    pub tool: &'a str,
    /// The verdict.
    pub verdict: Verdict,
    /// The name of the approver that was asked; `None`: nobody was asked for this call.
    #[serde(serialize_with = "optional_text", skip_serializing_if = "Option::is_none")]
    pub approver: Option<&'a str>,
    /// The time that the call waited for the verdict.
    #[serde(rename = "waited_us", serialize_with = "micros")]
    pub waited: Duration,
}

/// A person's verdict on a call, or the reason why there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Allowed: this call.
    Once,
    /// Allowed: all calls of this tool in this execution.
    Execution,
    /// Allowed: all calls of this tool in this session.
    Session,
    /// Denied by the person.
    Denied,
    /// Denied, because nobody answered in time.
    TimedOut,
    /// Denied, because nobody could be asked: there is no approver, it failed, or three calls of the execution were
    /// denied before.
    Failed,
}

/// The end of a call, also if its tool did not run.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct CallCompletion<'a> {
    /// The execution whose code called.
    #[serde(flatten)]
    pub origin: Origin<'a>,
    /// The call's id.
    #[serde(serialize_with = "call_id")]
    pub call: CallId,
    /// The tool's full name as the code wrote it.
    #[serde(serialize_with = "text")]
    pub tool: &'a str,
    /// The call's error code; `None`: the tool returned a result.
    #[serde(rename = "outcome", serialize_with = "outcome")]
    pub error: Option<&'a Code>,
    /// The time from the call's arrival to its answer.
    #[serde(rename = "duration_us", serialize_with = "micros")]
    pub duration: Duration,
    /// The length of the arguments' JSON, in bytes.
    pub arguments_bytes: usize,
    /// The length of the result's JSON, in bytes; 0 after an error.
    pub result_bytes: usize,
}

/// A record that is written as one line.
pub(super) trait Record: Serialize {
    /// The member `kind` of the line.
    const KIND: &'static str;
}

/// One line of the log without its hash.
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

/// The record `opened`: the first of every file, and the first that a process writes.
#[derive(Serialize)]
pub(super) struct Opened {
    pub(super) reason: Reason,
    pub(super) host: String,
    pub(super) process: u32,
    pub(super) version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) torn: Option<Torn>,
}

/// The reason why an `opened` record was written.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reason {
    /// A process opened the log.
    Start,
    /// The file before was full.
    Rotation,
}

/// An incomplete record that a crash left at the end of the file. It was cut off, and this record written in its place.
#[derive(Serialize)]
pub(super) struct Torn {
    /// Its length in bytes.
    pub(super) bytes: u64,
    /// The SHA-256 of its bytes.
    pub(super) sha256: Hash,
    /// Its first 4 KiB as text.
    pub(super) text: String,
}

/// An [`ExecutionStart`] as it is written.
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
    /// The code; `None`: it is too large, or only its hash is to be recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) code: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) code_note: Option<CodeNote>,
}

/// A [`CallDecision`] as it is written: its arguments are redacted and bounded.
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
    /// Creates the record of this process on this machine.
    pub(super) fn new(reason: Reason, torn: Option<Torn>) -> Self {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Self { reason, host, process: std::process::id(), version: env!("CARGO_PKG_VERSION"), torn }
    }
}

/// Writes a text of at most [`MAX_TEXT_BYTES`], and cuts a longer one.
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

/// Writes an error code, or `ok` for `None`.
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
    // `humantime` cannot format times before 1970.
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
