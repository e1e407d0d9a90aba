//! One execution, from the hand-over to a worker until its end. Independent of who asked: a session or `eval`.
//!
//! The worker is counted and timed from here, and believed in nothing: what it may cost is checked again on this side.

#[cfg(test)]
mod hostile_worker;
mod link;
mod run;
mod states;

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use relay_proto::wire::OutputItem;
use relay_proto::{Code, ErrorCode, LimitName, Limits, ToolName, wire};
use tokio::sync::mpsc;
use tokio::time::sleep_until;

use crate::sandbox::channel::message::{self, instruction::Kind as Instruction};
use crate::sandbox::pool::Worker;
use link::{Reader, Writer, put_instruction};
use run::{Run, cancelled};
pub(crate) use states::{CallStates, Wait};

/// What to run and within what.
#[derive(Debug)]
pub(crate) struct ExecutionRequest {
    pub(crate) source: String,
    pub(crate) input: String,
    pub(crate) bindings: Bindings,
    pub(crate) limits: Limits,
    /// The full names of the tools that it can call, for bindings that show them.
    pub(crate) tools: Vec<String>,
    /// What the session's store holds, for the binding.
    pub(crate) stored: Vec<(String, Bytes)>,
    /// Sources of the host's own functions, by full name.
    pub(crate) local_tools: BTreeMap<String, String>,
    /// What `Math.random` begins with.
    pub(crate) seed: Option<u64>,
    /// The time that the code begins at, in ms since 1970.
    pub(crate) now_ms: Option<i64>,
}

impl ExecutionRequest {
    /// A source with its limits, and nothing beside `mcp`.
    pub(crate) fn new(source: String, limits: Limits) -> Self {
        Self {
            source,
            input: String::new(),
            bindings: Bindings::default(),
            limits,
            tools: Vec::new(),
            stored: Vec::new(),
            local_tools: BTreeMap::new(),
            seed: None,
            now_ms: None,
        }
    }

    /// What it takes to hold it, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        let local: usize = self.local_tools.iter().map(|(name, source)| name.len() + source.len()).sum();
        self.source.len() + self.input.len() + local
    }
}

/// What an execution has beside `mcp`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Bindings {
    pub(crate) console: bool,
    pub(crate) timers: bool,
    pub(crate) io: bool,
    pub(crate) servers: bool,
    pub(crate) introspection: bool,
    pub(crate) store: bool,
}

impl Bindings {
    /// The names of all bindings that there are.
    pub(crate) const NAMES: [&'static str; 6] = ["console", "timers", "io", "servers", "introspection", "store"];

    /// Asks for one by its name. Gives `false` where there is none of that name.
    #[must_use]
    pub(crate) fn add(&mut self, name: &str) -> bool {
        match name {
            "console" => self.console = true,
            "timers" => self.timers = true,
            "io" => self.io = true,
            "servers" => self.servers = true,
            "introspection" => self.introspection = true,
            "store" => self.store = true,
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

/// What an execution is told while it runs.
#[derive(Debug)]
pub(crate) struct Control {
    pub(crate) commands: mpsc::Receiver<Command>,
    pub(crate) states: Arc<CallStates>,
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

    /// Puts a value into the session's store; no value takes it out. Gives whether there was room.
    #[must_use]
    fn store(&self, key: String, json: Option<Bytes>) -> bool;
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
    control: Control,
    sink: &mut impl EventSink,
) -> (Outcome, Worker) {
    let Control { mut commands, states } = control;
    let (limits, has_store) = (request.limits, request.bindings.store);
    let begun = worker.take_socket().ok_or_else(|| io::Error::other("no socket")).and_then(|mut socket| {
        worker.limit_memory(limits.get(LimitName::MemoryBytes))?;
        let mut first = BytesMut::new();
        put_instruction(start(request), &mut first);
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
    let writer = Writer { socket: writer, pending: first };
    let mut run = Run::new(worker, limits, writer, Arc::clone(&states), has_store);
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
                let mut ended = run.command(command);
                // Answers that came together go to the worker together.
                while ended.is_none() && let Ok(command) = commands.try_recv() {
                    ended = run.command(Some(command));
                }
                if let Some(ended) = ended {
                    break ended;
                }
            }
            () = deadline.as_mut() => match run.check_time() {
                Some(ended) => break ended,
                None => pending = pending.or_else(|| run.given_up()),
            },
            () = states.changed() => run.look_at_states(),
            // The next round writes.
            () = run.writer.writable(), if run.writer.is_pending() => {}
            permit = sink.reserve(weight), if pending.is_some() => match (permit, pending.take()) {
                (Some(permit), Some(event)) => {
                    sink.send(permit, event);
                    pending = run.given_up();
                }
                _ => break cancelled(),
            },
            report = reader.next(), if pending.is_none() && run.writer.has_room() => match report {
                Ok(report) => {
                    // However much a worker has said at once: the others on this thread have their turn.
                    tokio::task::coop::consume_budget().await;
                    match run.report(report, &mut reader, sink) {
                        Ok(event) => pending = event,
                        Err(ended) => break ended,
                    }
                }
                Err(error) => break run.lost(&error).await,
            },
        }
    };
    drop(commands);
    // What was printed before the end is still delivered.
    if let Some(event @ Event::Output(_)) = pending
        && let Ok(Some(permit)) = tokio::time::timeout(Duration::from_secs(1), sink.reserve(event.weight())).await
    {
        sink.send(permit, event);
    }
    run.outcome(ended)
}

fn start(request: ExecutionRequest) -> Instruction {
    let ExecutionRequest { limits, bindings, .. } = request;
    let limit = |name| limits.get(name);
    let stored = request.stored.into_iter().map(|(key, json)| message::StoredValue { key, json });
    Instruction::Start(message::Start {
        source: request.source,
        input: request.input,
        console: bindings.console,
        timers: bindings.timers,
        io: bindings.io,
        servers: bindings.servers,
        introspection: bindings.introspection,
        store: bindings.store,
        tools: request.tools,
        stored: stored.collect(),
        local_tools: request.local_tools,
        seed: request.seed,
        now_ms: request.now_ms,
        heap_bytes: limit(LimitName::HeapBytes),
        tool_calls: limit(LimitName::ToolCalls),
        tool_calls_in_flight: limit(LimitName::ToolCallsInFlight),
        arguments_bytes: limit(LimitName::ArgumentsBytes),
        result_bytes: limit(LimitName::ResultBytes),
        output_bytes: limit(LimitName::OutputBytes),
        output_count: limit(LimitName::OutputCount),
        memory_bytes: limit(LimitName::MemoryBytes),
    })
}
