//! One execution, from the hand-over to a worker until its end. Independent of who asked: a session or `eval`.
//!
//! The worker is counted and timed from here, and believed in nothing: what it may cost is checked again on this side.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use prost::Message as _;
use relay_proto::wire::{OutputItem, OutputKind};
use relay_proto::{Code, ErrorCode, LimitName, Limits, ToolName, wire};
use tokio::io::AsyncReadExt;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::sandbox::channel::message::{self, instruction::Kind as Instruction, report::Kind as Report};
use crate::sandbox::channel::{self, ChannelError};
use crate::sandbox::pool::Worker;

/// How many bytes of results may wait for a worker that is busy.
const MAX_WAITING_BYTES: usize = 32 << 20;
/// How much of what a worker says is read at once.
const READ_BYTES: usize = 64 << 10;
/// The most pieces of output in one message.
const MAX_OUTPUT_ITEMS: usize = 1_024;

/// What to run and within what.
#[derive(Debug)]
pub(crate) struct ExecutionRequest {
    pub(crate) source: String,
    pub(crate) input: String,
    pub(crate) bindings: Bindings,
    pub(crate) limits: Limits,
}

/// What an execution has beside `mcp`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Bindings {
    pub(crate) console: bool,
    pub(crate) io: bool,
}

impl Bindings {
    /// The names of all bindings that there are.
    pub(crate) const NAMES: [&'static str; 2] = ["console", "io"];

    /// Asks for one by its name. Gives `false` where there is none of that name.
    #[must_use]
    pub(crate) fn add(&mut self, name: &str) -> bool {
        match name {
            "console" => self.console = true,
            "io" => self.io = true,
            _ => return false,
        }
        true
    }
}

/// What comes in while it runs.
#[derive(Debug)]
pub(crate) enum Command {
    /// The answer to a call.
    Settle { call: WorkerCall, outcome: Result<Bytes, CallFailure> },
    /// Nobody wants the outcome any more.
    Cancel,
}

/// The worker's own number of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct WorkerCall(pub(crate) u64);

/// Why a call failed, as the script reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallFailure {
    pub(crate) code: Code,
    pub(crate) message: String,
}

/// What goes out while it runs.
#[derive(Debug)]
pub(crate) enum Event {
    /// The script calls a tool.
    Call { call: WorkerCall, tool: ToolName, arguments: Bytes, remaining: Duration },
    /// A call was given up: whatever its tool answers is not wanted any more.
    CallGivenUp { call: WorkerCall, reason: &'static str },
    /// The script printed.
    Output(Vec<OutputItem>),
}

impl Event {
    fn weight(&self) -> usize {
        match self {
            Self::Call { arguments, .. } => arguments.len(),
            Self::CallGivenUp { .. } => 0,
            Self::Output(items) => items.iter().map(|item| item.text.len()).sum(),
        }
    }
}

/// Where events go. A sink that is full holds up its own executions and nobody else's.
pub(crate) trait EventSink {
    /// Room for one event.
    type Permit;

    /// Whether a tool can be called, before anybody is asked.
    ///
    /// # Errors
    /// Why not, for the script.
    fn check_tool(&self, tool: &ToolName) -> Result<(), CallFailure>;

    /// Waits for room for an event of `weight` bytes; nothing when nobody listens any more. Safe to drop and ask again.
    fn reserve(&self, weight: usize) -> impl Future<Output = Option<Self::Permit>> + Send;

    /// Sends an event, in the room that was reserved for it.
    fn send(&mut self, permit: Self::Permit, event: Event);
}

/// How an execution ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) result: Result<Bytes, ExecutionError>,
    pub(crate) usage: wire::Usage,
    pub(crate) warnings: Vec<wire::Warning>,
}

/// Why an execution failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExecutionError {
    pub(crate) code: ErrorCode,
    pub(crate) message: String,
    pub(crate) limit: Option<LimitName>,
    pub(crate) line: u32,
    pub(crate) column: u32,
    pub(crate) hint: String,
    pub(crate) tool: String,
    pub(crate) tool_code: String,
}

impl ExecutionError {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            limit: None,
            line: 0,
            column: 0,
            hint: String::new(),
            tool: String::new(),
            tool_code: String::new(),
        }
    }

    /// The error as its message on the wire.
    pub(crate) fn into_wire(self, usage: wire::Usage, warnings: Vec<wire::Warning>) -> wire::Error {
        wire::Error {
            error: self.message,
            code: self.code.as_str().into(),
            limit: self.limit.map(|limit| limit.as_str().into()).unwrap_or_default(),
            line: self.line,
            column: self.column,
            hint: self.hint,
            tool: self.tool,
            tool_code: self.tool_code,
            usage: Some(usage),
            warnings,
            ..wire::Error::default()
        }
    }
}

/// Runs a script in a worker until it ends, by itself or at a limit. Gives the worker back: it is of no use any more, but
/// ending it can wait until the outcome is on its way.
pub(crate) async fn run(
    mut worker: Worker,
    request: ExecutionRequest,
    mut commands: mpsc::Receiver<Command>,
    sink: &mut impl EventSink,
) -> (Outcome, Worker) {
    let begun = worker.take_socket().ok_or_else(|| io::Error::other("no socket")).and_then(|mut socket| {
        worker.limit_memory(request.limits.get(LimitName::MemoryBytes))?;
        let mut first = BytesMut::new();
        put_instruction(start(&request), &mut first);
        // The worker has it before the runtime knows the socket; what is too long for the socket's buffer follows.
        match io::Write::write(&mut socket, &first) {
            Ok(written) => bytes::Buf::advance(&mut first, written),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        Ok((tokio::net::UnixStream::from_std(socket)?.into_split(), first))
    });
    let ((reader, writer), first) = match begun {
        Ok(begun) => begun,
        Err(error) => {
            let result = Err(ExecutionError::new(ErrorCode::WorkerLost, format!("the worker was lost: {error}")));
            return (Outcome { result, usage: wire::Usage::default(), warnings: Vec::new() }, worker);
        }
    };
    let mut run = Run::new(worker, request.limits, Writer { socket: writer, pending: first });
    drop(request);
    let mut reader = Reader { socket: reader, buffer: BytesMut::new() };
    let mut pending: Option<Event> = None;
    let deadline = sleep_until(run.next_check());
    tokio::pin!(deadline);
    let ended = loop {
        run.writer.try_write();
        if deadline.deadline() != run.next_check() {
            deadline.as_mut().reset(run.next_check());
        }
        let weight = pending.as_ref().map_or(0, Event::weight);
        tokio::select! {
            biased;
            command = commands.recv() => {
                if let Some(ended) = run.command(command) {
                    break ended;
                }
                // Answers that came together go to the worker together.
                while let Ok(command) = commands.try_recv() {
                    run.command(Some(command));
                }
            }
            () = deadline.as_mut() => match run.check_time() {
                Some(ended) => break ended,
                None => pending = pending.or_else(|| run.given_up()),
            },
            written = run.writer.write(), if run.writer.is_pending() => {
                if let Err(error) = written {
                    break lost(&error);
                }
            }
            permit = sink.reserve(weight), if pending.is_some() => match (permit, pending.take()) {
                (Some(permit), Some(event)) => {
                    sink.send(permit, event);
                    pending = run.given_up();
                }
                _ => break cancelled(),
            },
            report = reader.next(), if pending.is_none() && run.writer.has_room() => match report {
                Ok(report) => match run.report(report, &mut reader, sink) {
                    Ok(event) => pending = event,
                    Err(ended) => break ended,
                },
                Err(error) => break lost(&error),
            },
        }
    };
    // What was printed before the end is still delivered.
    if let Some(event @ Event::Output(_)) = pending
        && let Ok(Some(permit)) = tokio::time::timeout(Duration::from_secs(1), sink.reserve(event.weight())).await
    {
        sink.send(permit, event);
    }
    run.outcome(ended)
}

fn start(request: &ExecutionRequest) -> Instruction {
    let limit = |name| request.limits.get(name);
    Instruction::Start(message::Start {
        source: request.source.clone(),
        input: request.input.clone(),
        console: request.bindings.console,
        io: request.bindings.io,
        heap_bytes: limit(LimitName::HeapBytes),
        tool_calls: limit(LimitName::ToolCalls),
        tool_calls_in_flight: limit(LimitName::ToolCallsInFlight),
        arguments_bytes: limit(LimitName::ArgumentsBytes),
        result_bytes: limit(LimitName::ResultBytes),
        output_bytes: limit(LimitName::OutputBytes),
        output_count: limit(LimitName::OutputCount),
    })
}

/// What ended a run: the worker's word, or ours.
enum Ended {
    Done(message::Done),
    Failed(message::Failed),
    Stopped(ExecutionError),
}

fn lost(error: &ChannelError) -> Ended {
    Ended::Stopped(match error {
        ChannelError::Socket(_) => {
            ExecutionError::new(ErrorCode::WorkerLost, "the worker process ended without an answer")
        }
        ChannelError::TooLong(_) | ChannelError::Undecodable(_) => {
            ExecutionError::new(ErrorCode::WorkerLost, format!("the worker was stopped: {error}"))
        }
    })
}

fn broken(what: &str) -> Ended {
    Ended::Stopped(ExecutionError::new(ErrorCode::WorkerLost, format!("the worker was stopped: {what}")))
}

fn cancelled() -> Ended {
    Ended::Stopped(ExecutionError::new(ErrorCode::Cancelled, "the execution was cancelled"))
}

struct OpenCall {
    deadline: Instant,
    tool: ToolName,
}

/// The state of a run, and what it has used.
struct Run {
    worker: Worker,
    writer: Writer,
    limits: Limits,
    started: Instant,
    wall_deadline: Instant,
    cpu_before: Duration,
    cpu_check: Instant,
    open: HashMap<WorkerCall, OpenCall>,
    first_call_deadline: Option<Instant>,
    given_up: Vec<WorkerCall>,
    tool_calls: u64,
    output_bytes: usize,
    output_count: u64,
}

impl Run {
    fn new(worker: Worker, limits: Limits, writer: Writer) -> Self {
        let started = Instant::now();
        let after = |name| started + Duration::from_millis(limits.get(name));
        Self {
            cpu_before: worker.cpu_time(),
            writer,
            started,
            wall_deadline: after(LimitName::WallMs),
            cpu_check: after(LimitName::CpuMs),
            open: HashMap::new(),
            first_call_deadline: None,
            given_up: Vec::new(),
            tool_calls: 0,
            output_bytes: 0,
            output_count: 0,
            worker,
            limits,
        }
    }

    fn next_check(&self) -> Instant {
        let check = self.wall_deadline.min(self.cpu_check);
        self.first_call_deadline.map_or(check, |call| check.min(call))
    }

    fn cpu_time(&self) -> Duration {
        self.worker.cpu_time().saturating_sub(self.cpu_before)
    }

    fn command(&mut self, command: Option<Command>) -> Option<Ended> {
        match command {
            Some(Command::Settle { call, outcome }) => {
                // A call that was given up meanwhile is settled already.
                if let Some(OpenCall { tool, .. }) = self.open.remove(&call) {
                    let outcome = self.bounded(&tool, outcome);
                    self.writer.put(settle(call, outcome));
                }
                None
            }
            Some(Command::Cancel) | None => Some(cancelled()),
        }
    }

    fn bounded(&self, tool: &ToolName, outcome: Result<Bytes, CallFailure>) -> Result<Bytes, CallFailure> {
        let result = outcome?;
        let limit = self.limits.size(LimitName::ToolResultBytes);
        if result.len() > limit {
            let message =
                format!("the result of {tool} has {} bytes; the limit tool_result_bytes is {limit}", result.len());
            return Err(CallFailure { code: ErrorCode::ToolResultLimit.into(), message });
        }
        if self.writer.pending.len() + result.len() > MAX_WAITING_BYTES {
            let message =
                format!("the result of {tool} was dropped: the code is busy and too many results wait for it");
            return Err(CallFailure { code: ErrorCode::ToolResultLimit.into(), message });
        }
        Ok(result)
    }

    /// Looks at the clocks: the wall's, the CPU's, and those of the open calls.
    fn check_time(&mut self) -> Option<Ended> {
        let now = Instant::now();
        if now >= self.wall_deadline {
            return Some(Ended::Stopped(self.limit_hit(ErrorCode::Timeout, LimitName::WallMs)));
        }
        if now >= self.cpu_check {
            let limit = Duration::from_millis(self.limits.get(LimitName::CpuMs));
            let left = limit.saturating_sub(self.cpu_time());
            if left.is_zero() {
                return Some(Ended::Stopped(self.limit_hit(ErrorCode::CpuLimit, LimitName::CpuMs)));
            }
            // One thread cannot use more CPU than time passes.
            self.cpu_check = now + left.max(Duration::from_millis(1));
        }
        if self.first_call_deadline.is_some_and(|deadline| now >= deadline) {
            self.give_up_calls(now);
        }
        None
    }

    fn give_up_calls(&mut self, now: Instant) {
        let limit = self.limits.get(LimitName::ToolCallMs);
        let expired: Vec<_> =
            self.open.iter().filter(|(_, open)| open.deadline <= now).map(|(call, _)| *call).collect();
        for call in expired {
            if let Some(OpenCall { tool, .. }) = self.open.remove(&call) {
                let message = format!("{tool} did not answer within {limit} ms");
                self.writer.put(settle(call, Err(CallFailure { code: ErrorCode::ToolTimeout.into(), message })));
                self.given_up.push(call);
            }
        }
        self.first_call_deadline = self.open.values().map(|open| open.deadline).min();
    }

    fn given_up(&mut self) -> Option<Event> {
        self.given_up.pop().map(|call| Event::CallGivenUp { call, reason: "tool_call_ms is used up" })
    }

    /// Takes what the worker said, and what it said right after it where that can go together.
    fn report(&mut self, report: Report, reader: &mut Reader, sink: &impl EventSink) -> Result<Option<Event>, Ended> {
        match report {
            Report::Call(call) => self.call(call, sink),
            Report::Output(output) => {
                let mut items = vec![self.output(output)?];
                while items.len() < MAX_OUTPUT_ITEMS
                    && let Some(output) = reader.try_output().map_err(|error| lost(&error))?
                {
                    items.push(self.output(output)?);
                }
                Ok(Some(Event::Output(items)))
            }
            Report::Done(done) => Err(Ended::Done(done)),
            Report::Failed(failed) => Err(Ended::Failed(failed)),
            Report::Ready(_) => Err(broken("it said twice that it is ready")),
        }
    }

    fn call(&mut self, call: message::Call, sink: &impl EventSink) -> Result<Option<Event>, Ended> {
        let number = WorkerCall(call.call);
        if self.open.contains_key(&number) || self.open.len() >= self.limits.size(LimitName::ToolCallsInFlight) {
            return Err(broken("it sent calls that its limits do not allow"));
        }
        let checked = ToolName::try_from(call.tool)
            .map_err(|error| CallFailure { code: ErrorCode::InvalidToolName.into(), message: error.to_string() })
            .and_then(|tool| self.check_call(tool, &call.arguments, sink));
        let tool = match checked {
            Ok(tool) => tool,
            Err(failure) => {
                self.writer.put(settle(number, Err(failure)));
                return Ok(None);
            }
        };
        self.tool_calls += 1;
        let now = Instant::now();
        let remaining = Duration::from_millis(self.limits.get(LimitName::ToolCallMs)).min(self.wall_deadline - now);
        // A call has its own limit; where the execution ends before it, that ends the call too.
        let deadline = now + Duration::from_millis(self.limits.get(LimitName::ToolCallMs));
        self.open.insert(number, OpenCall { deadline, tool: tool.clone() });
        // All calls have the same limit, so the first is the first to expire; a later look corrects what was answered.
        self.first_call_deadline.get_or_insert(deadline);
        Ok(Some(Event::Call { call: number, tool, arguments: call.arguments, remaining }))
    }

    fn check_call(&self, tool: ToolName, arguments: &[u8], sink: &impl EventSink) -> Result<ToolName, CallFailure> {
        let most = self.limits.get(LimitName::ToolCalls);
        if self.tool_calls >= most {
            let message = format!("{tool} was not called: this execution has used its {most} tool calls");
            return Err(CallFailure { code: ErrorCode::ToolCallLimit.into(), message });
        }
        let limit = self.limits.size(LimitName::ArgumentsBytes);
        if arguments.len() > limit {
            let message = format!("the arguments of {tool} have {} bytes; the limit is {limit}", arguments.len());
            return Err(CallFailure { code: ErrorCode::ArgumentsLimit.into(), message });
        }
        sink.check_tool(&tool)?;
        Ok(tool)
    }

    fn output(&mut self, output: message::Output) -> Result<OutputItem, Ended> {
        self.output_count += 1;
        self.output_bytes += output.text.len();
        if self.output_count > self.limits.get(LimitName::OutputCount) {
            return Err(Ended::Stopped(self.limit_hit(ErrorCode::OutputLimit, LimitName::OutputCount)));
        }
        if self.output_bytes > self.limits.size(LimitName::OutputBytes) {
            return Err(Ended::Stopped(self.limit_hit(ErrorCode::OutputLimit, LimitName::OutputBytes)));
        }
        let kind = i32::try_from(output.kind).ok().and_then(|kind| OutputKind::try_from(kind).ok());
        Ok(OutputItem { kind: kind.unwrap_or(OutputKind::Log).into(), text: output.text })
    }

    fn limit_hit(&self, code: ErrorCode, limit: LimitName) -> ExecutionError {
        let value = self.limits.get(limit);
        let hint = match limit {
            LimitName::WallMs => "await independent calls together with Promise.all, or ask for a higher limit",
            LimitName::CpuMs => "do less work in the code, or look for a loop that does not end",
            _ => "",
        };
        ExecutionError {
            limit: Some(limit),
            hint: hint.into(),
            ..ExecutionError::new(code, format!("the limit {limit} of {value} is used up ({})", self.standing()))
        }
    }

    /// How near each limit is.
    fn standing(&self) -> String {
        let used = [
            (LimitName::WallMs, self.started.elapsed().as_millis()),
            (LimitName::CpuMs, self.cpu_time().as_millis()),
            (LimitName::ToolCalls, self.tool_calls.into()),
            (LimitName::OutputBytes, self.output_bytes as u128),
        ];
        let parts = used.map(|(name, used)| format!("{name} {used} of {}", self.limits.get(name)));
        format!("used: {}", parts.join(", "))
    }

    fn outcome(self, ended: Ended) -> (Outcome, Worker) {
        let (result, warnings, memory_bytes) = match ended {
            Ended::Done(done) => (self.checked_result(done.result), done.warnings, done.memory_bytes),
            Ended::Failed(mut failed) => {
                let warnings = std::mem::take(&mut failed.warnings);
                let memory_bytes = failed.memory_bytes;
                (Err(self.reported_error(failed)), warnings, memory_bytes)
            }
            Ended::Stopped(error) => (Err(error), Vec::new(), 0),
        };
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let usage = wire::Usage {
            queue_us: 0,
            wall_us: micros(self.started.elapsed()),
            cpu_us: micros(self.cpu_time()),
            tool_calls: self.tool_calls,
            output_bytes: self.output_bytes as u64,
            memory_bytes,
        };
        let warnings =
            warnings.into_iter().take(16).map(|it| wire::Warning { code: it.code, message: short(it.message) });
        (Outcome { result, usage, warnings: warnings.collect() }, self.worker)
    }

    fn checked_result(&self, result: Bytes) -> Result<Bytes, ExecutionError> {
        if result.len() > self.limits.size(LimitName::ResultBytes) {
            return Err(self.limit_hit(ErrorCode::ResultLimit, LimitName::ResultBytes));
        }
        Ok(result)
    }

    /// What the worker reports, as far as it is a worker's to report.
    fn reported_error(&self, failed: message::Failed) -> ExecutionError {
        let code = match failed.code.parse() {
            Ok(
                code @ (ErrorCode::SyntaxError
                | ErrorCode::EvalError
                | ErrorCode::MemoryLimit
                | ErrorCode::OutputLimit
                | ErrorCode::ResultLimit
                | ErrorCode::NotSerializable
                | ErrorCode::Unsettled
                | ErrorCode::Internal),
            ) => code,
            _ => return ExecutionError::new(ErrorCode::WorkerLost, "the worker ended with an answer of no meaning"),
        };
        let limit: Option<LimitName> = failed.limit.parse().ok();
        let message = match limit {
            Some(_) => format!("{} ({})", short(failed.message), self.standing()),
            None => short(failed.message),
        };
        ExecutionError {
            code,
            message,
            limit,
            line: failed.line,
            column: failed.column,
            hint: short(failed.hint),
            tool: short(failed.tool),
            tool_code: short(failed.tool_code),
        }
    }
}

/// A text from a worker, no longer than an error may be.
fn short(mut text: String) -> String {
    const MOST: usize = 8 << 10;
    text.truncate(text.floor_char_boundary(MOST));
    text
}

fn settle(call: WorkerCall, outcome: Result<Bytes, CallFailure>) -> Instruction {
    let (result, failure) = match outcome {
        Ok(result) => (result, None),
        Err(CallFailure { code, message }) => {
            (Bytes::new(), Some(message::CallFailure { code: code.as_str().into(), message: short(message) }))
        }
    };
    Instruction::Settle(message::Settle { call: call.0, result, failure })
}

fn put_instruction(instruction: Instruction, buffer: &mut BytesMut) {
    channel::put_frame(&message::Instruction { kind: Some(instruction) }, buffer);
}

/// What is on its way to the worker.
struct Writer {
    socket: OwnedWriteHalf,
    pending: BytesMut,
}

impl Writer {
    fn put(&mut self, instruction: Instruction) {
        put_instruction(instruction, &mut self.pending);
    }

    /// Writes what the socket has room for, which most often is everything; the rest waits for its turn.
    fn try_write(&mut self) {
        if !self.pending.is_empty()
            && let Ok(written) = self.socket.try_write(&self.pending)
        {
            bytes::Buf::advance(&mut self.pending, written);
        }
    }

    fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// A worker that does not read gets no more answers to hold, by not being heard.
    fn has_room(&self) -> bool {
        self.pending.len() < MAX_WAITING_BYTES
    }

    async fn write(&mut self) -> Result<(), ChannelError> {
        self.socket.writable().await?;
        match self.socket.try_write(&self.pending) {
            Ok(written) => bytes::Buf::advance(&mut self.pending, written),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

/// What comes from the worker.
struct Reader {
    socket: OwnedReadHalf,
    buffer: BytesMut,
}

impl Reader {
    /// The next report. Safe to drop and ask again.
    async fn next(&mut self) -> Result<Report, ChannelError> {
        loop {
            if let Some(frame) = channel::take_frame(&mut self.buffer)?
                && let Some(kind) = message::Report::decode(frame)?.kind
            {
                return Ok(kind);
            }
            self.buffer.reserve(READ_BYTES);
            if self.socket.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
        }
    }

    /// The next report, if it has arrived and is output.
    fn try_output(&mut self) -> Result<Option<message::Output>, ChannelError> {
        /// The key of `Report.output`: field 3, length-delimited.
        const OUTPUT_KEY: u8 = 3 << 3 | 2;
        // A look at the first byte after the length, so that nothing else is taken out of its turn.
        if self.buffer.get(4) != Some(&OUTPUT_KEY) {
            return Ok(None);
        }
        match channel::take_frame(&mut self.buffer)? {
            Some(frame) => match message::Report::decode(frame)?.kind {
                Some(Report::Output(output)) => Ok(Some(output)),
                _ => Err(io::Error::from(io::ErrorKind::InvalidData).into()),
            },
            None => Ok(None),
        }
    }
}
