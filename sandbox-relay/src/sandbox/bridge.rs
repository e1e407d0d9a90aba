//! `mcp.call`: the one way out of the sandbox. State of the one execution that this process runs.
//!
//! JavaScript sees a frozen object with one native function. The promise is made, resolved and rejected natively, so
//! that a patched `Promise` or `JSON` changes nothing that crosses.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;
use relay_proto::{ErrorCode, ToolName};

use super::channel::message::report::Kind as Report;
use super::channel::message::{self, instruction::Kind as Instruction};
use super::channel::{ChannelError, Port};
use super::value::{self, ValueError};
use super::{clock, inspect, local, make};

/// How long collected reports may wait while the script does not yield.
const FLUSH_AFTER: Duration = Duration::from_millis(2);
/// How much may be collected before it is written out.
const FLUSH_BYTES: usize = 64 << 10;
/// How many rejected promises are remembered for the warning.
const MAX_REJECTIONS: usize = 100;

thread_local! {
    static BRIDGE: RefCell<Option<Bridge>> = const { RefCell::new(None) };
}

/// What the relay granted this execution; it counts again on its side.
#[derive(Debug, Clone, Copy)]
pub(super) struct BridgeLimits {
    pub(super) tool_calls: u64,
    pub(super) in_flight: usize,
    pub(super) arguments_bytes: usize,
    /// What the arguments of calls that wait may hold together.
    pub(super) waiting_bytes: usize,
    pub(super) output_bytes: usize,
    pub(super) output_count: u64,
}

/// The state behind `mcp.call`, `console` and `emit`.
pub(super) struct Bridge {
    port: Port,
    limits: BridgeLimits,
    /// Calls that were sent; the last one's number.
    calls: u64,
    /// Calls that the code made of functions that run here.
    local_calls: u64,
    /// Calls whose answers the code has not seen, in the order in which they were sent.
    open: BTreeMap<u64, OpenCall>,
    /// How many of them the relay has not answered.
    unanswered: usize,
    /// Answers that came and that the code has not seen.
    arrived: BTreeMap<u64, message::Settle>,
    waiting: VecDeque<WaitingCall>,
    waiting_bytes: usize,
    output_bytes: usize,
    output_count: u64,
    rejections: Vec<v8::Global<v8::Promise>>,
    flushed_at: Instant,
}

pub(super) struct OpenCall {
    pub(super) resolver: v8::Global<v8::PromiseResolver>,
    pub(super) tool: String,
}

/// A call that was made and not yet sent: it waits for its turn, or for the script to yield.
struct WaitingCall {
    call: OpenCall,
    arguments: Bytes,
}

/// There is no more room for output; what fits was taken.
#[derive(Debug)]
pub(super) struct OutputFull {
    pub(super) limit: &'static str,
}

/// Runs `f` on the bridge. `f` must not run JavaScript, which could come back here.
fn with<R>(f: impl FnOnce(&mut Bridge) -> R) -> R {
    BRIDGE.with_borrow_mut(|bridge| match bridge {
        Some(bridge) => f(bridge),
        // Scripts run only after `begin`, and nothing takes the bridge away.
        None => super::sys::exit_now(super::worker::EXIT_BROKEN),
    })
}

/// Makes room for the state in this thread. A fork inherits it and need not look for it any more.
pub(super) fn prepare_thread() {
    BRIDGE.set(None);
}

/// Hands the port to the bridge, before any code runs.
pub(super) fn begin(port: Port, limits: BridgeLimits) {
    let bridge = Bridge {
        port,
        limits,
        calls: 0,
        local_calls: 0,
        open: BTreeMap::new(),
        unanswered: 0,
        arrived: BTreeMap::new(),
        waiting: VecDeque::new(),
        waiting_bytes: 0,
        output_bytes: 0,
        output_count: 0,
        rejections: Vec::new(),
        flushed_at: Instant::now(),
    };
    BRIDGE.set(Some(bridge));
}

/// How many calls were made of functions that run here.
pub(super) fn local_calls() -> u64 {
    BRIDGE.with(|bridge| bridge.try_borrow().map_or(0, |bridge| bridge.as_ref().map_or(0, |it| it.local_calls)))
}

/// Writes the last report. Works in the middle of anything, a garbage collection included.
pub(super) fn finish(report: Report) {
    BRIDGE.with(|bridge| {
        if let Ok(mut bridge) = bridge.try_borrow_mut()
            && let Some(bridge) = bridge.as_mut()
        {
            bridge.port.put(report);
            // A relay that is gone needs no report.
            let _ = bridge.port.flush();
        }
    });
}

/// `mcp.call(name, args = {})`.
pub(super) fn call<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    arguments: v8::FunctionCallbackArguments<'s>,
    returned: v8::ReturnValue<v8::Value>,
) {
    let tool = tool_name(scope, arguments.get(0));
    call_tool(scope, tool, arguments.get(1), returned);
}

/// Calls a tool and returns the promise of its result, rejected at once where it has no name that can be called.
pub(super) fn call_tool<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    tool: Result<String, v8::Local<'s, v8::Value>>,
    arguments: v8::Local<'s, v8::Value>,
    mut returned: v8::ReturnValue<v8::Value>,
) {
    let Some(resolver) = v8::PromiseResolver::new(scope) else { return };
    returned.set(resolver.get_promise(scope).into());
    if let Err(error) = tool.and_then(|tool| begin_call(scope, resolver, tool, arguments)) {
        resolver.reject(scope, error);
    }
}

fn begin_call<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    resolver: v8::Local<'s, v8::PromiseResolver>,
    tool: String,
    arguments: v8::Local<'s, v8::Value>,
) -> Result<(), v8::Local<'s, v8::Value>> {
    if let Some(message) = local::unknown(&tool) {
        return Err(tool_error(scope, ErrorCode::UnknownTool.as_str(), &message, &tool));
    }
    let arguments = arguments_json(scope, &tool, arguments)?;
    check_count(scope, &tool)?;
    let call = OpenCall { resolver: v8::Global::new(scope, resolver), tool };
    if local::is_one(&call.tool) {
        with(|bridge| bridge.local_calls += 1);
        local::call(scope, call, &arguments);
        return Ok(());
    }
    let waiting_bytes = with(|bridge| {
        bridge.waiting_bytes += arguments.len();
        bridge.waiting.push_back(WaitingCall { call, arguments: arguments.into() });
        // While the script yields often, calls go out together; one that computes on does not hold them back.
        if bridge.flushed_at.elapsed() > FLUSH_AFTER {
            bridge.send();
        }
        bridge.waiting_bytes
    });
    if waiting_bytes > with(|bridge| bridge.limits.waiting_bytes) {
        super::worker::fail_memory_limit("heap_bytes", "the arguments of waiting calls used up the memory");
    }
    Ok(())
}

fn arguments_json<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    tool: &str,
    arguments: v8::Local<'s, v8::Value>,
) -> Result<Vec<u8>, v8::Local<'s, v8::Value>> {
    let limit = with(|bridge| bridge.limits.arguments_bytes);
    value::to_json(scope, arguments, "{}", limit).map_err(|error| match error {
        ValueError::Thrown(thrown) => thrown,
        ValueError::NotSerializable { path, reason } => {
            let message = format!("the arguments of {tool} cannot be sent as JSON: at {path}, {reason}");
            tool_error(scope, ErrorCode::NotSerializable.as_str(), &message, tool)
        }
        ValueError::TooLarge { bytes } => {
            let message = format!("the arguments of {tool} have {bytes} bytes or more; the limit is {limit}");
            tool_error(scope, ErrorCode::ArgumentsLimit.as_str(), &message, tool)
        }
    })
}

/// One more call, if the execution has one left.
fn check_count<'s>(scope: &mut v8::PinScope<'s, '_>, tool: &str) -> Result<(), v8::Local<'s, v8::Value>> {
    let (made, most) =
        with(|bridge| (bridge.calls + bridge.local_calls + bridge.waiting.len() as u64, bridge.limits.tool_calls));
    if made < most {
        return Ok(());
    }
    let message = format!("{tool} was not called: this execution has used its {most} tool calls");
    Err(tool_error(scope, ErrorCode::ToolCallLimit.as_str(), &message, tool))
}

/// Calls a tool and waits for its answer, while the script stands still.
///
/// # Errors
/// The call failed, as the script reads it.
pub(super) fn ask<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    tool: &str,
    arguments: Vec<u8>,
) -> Result<v8::Local<'s, v8::Value>, v8::Local<'s, v8::Value>> {
    check_count(scope, tool)?;
    let answer = with(|bridge| {
        bridge.send();
        // The relay ends workers that have more calls open than they may.
        while bridge.unanswered >= bridge.limits.in_flight {
            let Instruction::Settle(settle) = bridge.port.receive()? else { continue };
            bridge.arrive(settle);
        }
        let number = bridge.put_call(tool.to_owned(), arguments.into());
        bridge.flush();
        loop {
            let Instruction::Settle(settle) = bridge.port.receive()? else { continue };
            if settle.call == number {
                bridge.unanswered -= 1;
                return Ok(settle);
            }
            bridge.arrive(settle);
        }
    });
    match answer {
        Ok(settle) => settled_value(scope, settle, tool),
        Err(ChannelError::Socket(_) | ChannelError::TooLong(_) | ChannelError::Undecodable(_)) => {
            super::sys::exit_now(super::worker::EXIT_ORPHANED)
        }
    }
}

fn tool_name<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    name: v8::Local<'s, v8::Value>,
) -> Result<String, v8::Local<'s, v8::Value>> {
    let found = match v8::Local::<v8::String>::try_from(name) {
        Ok(name) if name.length() <= relay_proto::id::MAX_TOOL_NAME_BYTES => name.to_rust_string_lossy(scope),
        Ok(name) => format!("{} characters", name.length()),
        Err(_) => String::new(),
    };
    match ToolName::try_from(found) {
        Ok(name) => Ok(name.as_str().to_owned()),
        Err(error) => {
            // Of an object nothing is read: no code of the script's runs here.
            let got = if name.is_object() { "an object".into() } else { inspect::inspect(scope, name, 80) };
            let message = format!("{error}; mcp.call got {got}");
            Err(tool_error(scope, ErrorCode::InvalidToolName.as_str(), &message, ""))
        }
    }
}

/// The `Error` that a failed call rejects with. It carries a mark that the script can neither see nor forge, by which
/// an uncaught one is known to be ours.
pub(super) fn tool_error<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    code: &str,
    message: &str,
    tool: &str,
) -> v8::Local<'s, v8::Value> {
    let text = make::string(scope, message);
    let error = v8::Exception::error(scope, text);
    if let Ok(object) = v8::Local::<v8::Object>::try_from(error) {
        for (key, text) in [("code", code), ("tool", tool)] {
            if let (Some(key), Some(text)) = (v8::String::new(scope, key), v8::String::new(scope, text)) {
                object.create_data_property(scope, key.into(), text.into());
                let mark = v8::Private::for_api(scope, Some(key));
                object.set_private(scope, mark, text.into());
            }
        }
    }
    error
}

/// The code and the tool of an error that [`tool_error`] made.
pub(super) fn tool_error_marks<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    error: v8::Local<'s, v8::Value>,
) -> Option<(String, String)> {
    let object = v8::Local::<v8::Object>::try_from(error).ok()?;
    let mark = |key: &str| {
        let key = v8::String::new(scope, key)?;
        let mark = v8::Private::for_api(scope, Some(key));
        let value = object.get_private(scope, mark)?;
        value.is_string().then(|| value.to_rust_string_lossy(scope))
    };
    Some((mark("code")?, mark("tool")?))
}

/// What came of waiting.
pub(super) enum Wait {
    /// At least one call was settled; the script can go on.
    Settled,
    /// The time is over, and nothing came.
    Elapsed,
    /// No call is open and no time was given: nothing can ever come.
    NothingOpen,
}

/// Sends what is collected and waits until a call is answered, or the time is over.
///
/// # Errors
/// The relay is gone or sent what it must not.
pub(super) fn wait(scope: &mut v8::PinScope<'_, '_>, within: Option<Duration>) -> Result<Wait, ChannelError> {
    with(Bridge::send);
    if clock::is_given() {
        return wait_in_order(scope, within);
    }
    let settles = with(|bridge| {
        if bridge.open.is_empty() && within.is_none() {
            return Ok(None);
        }
        if bridge.arrived.is_empty() {
            match bridge.port.receive_within(within)? {
                Some(Instruction::Settle(settle)) => bridge.arrive(settle),
                Some(Instruction::Start(_)) | None => {}
            }
        }
        // Answers that arrived together are settled together, in the order of their calls.
        while let Some(instruction) = bridge.port.try_receive()? {
            if let Instruction::Settle(settle) = instruction {
                bridge.arrive(settle);
            }
        }
        Ok::<_, ChannelError>(Some(std::mem::take(&mut bridge.arrived)))
    })?;
    let Some(settles) = settles else { return Ok(Wait::NothingOpen) };
    if settles.is_empty() {
        return Ok(Wait::Elapsed);
    }
    for settle in settles.into_values() {
        settle_call(scope, settle);
    }
    Ok(Wait::Settled)
}

/// The same where the outcome must not depend on who is faster: the first open call is settled before the second, and
/// timers take no time, so that they come when nothing else is open.
fn wait_in_order(scope: &mut v8::PinScope<'_, '_>, timer: Option<Duration>) -> Result<Wait, ChannelError> {
    let settle = with(|bridge| {
        let Some((&first, _)) = bridge.open.first_key_value() else { return Ok(None) };
        loop {
            if let Some(settle) = bridge.arrived.remove(&first) {
                return Ok::<_, ChannelError>(Some(settle));
            }
            if let Instruction::Settle(settle) = bridge.port.receive()? {
                bridge.arrive(settle);
            }
        }
    })?;
    match settle {
        Some(settle) => {
            settle_call(scope, settle);
            Ok(Wait::Settled)
        }
        None if timer.is_some() => Ok(Wait::Elapsed),
        None => Ok(Wait::NothingOpen),
    }
}

fn settle_call(scope: &mut v8::PinScope<'_, '_>, settle: message::Settle) {
    let Some(OpenCall { resolver, tool }) = with(|bridge| bridge.open.remove(&settle.call)) else { return };
    v8::scope!(let scope, scope);
    let resolver = v8::Local::new(scope, resolver);
    match settled_value(scope, settle, &tool) {
        Ok(result) => resolver.resolve(scope, result),
        Err(error) => resolver.reject(scope, error),
    };
}

/// The result of a call, or the error that it failed with.
fn settled_value<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    settle: message::Settle,
    tool: &str,
) -> Result<v8::Local<'s, v8::Value>, v8::Local<'s, v8::Value>> {
    if let Some(failure) = settle.failure {
        return Err(tool_error(scope, &failure.code, &failure.message, tool));
    }
    value::from_json(scope, &settle.result).ok_or_else(|| {
        let message = format!("the result of {tool} is not JSON");
        tool_error(scope, ErrorCode::InvalidResult.as_str(), &message, tool)
    })
}

impl Bridge {
    /// Sends the calls whose turn it is, and everything collected.
    fn send(&mut self) {
        while self.unanswered < self.limits.in_flight
            && let Some(WaitingCall { call, arguments }) = self.waiting.pop_front()
        {
            self.waiting_bytes -= arguments.len();
            let number = self.put_call(call.tool.clone(), arguments);
            self.open.insert(number, call);
        }
        self.flush();
    }

    fn put_call(&mut self, tool: String, arguments: Bytes) -> u64 {
        self.calls += 1;
        self.unanswered += 1;
        self.port.put(Report::Call(message::Call { call: self.calls, tool, arguments }));
        self.calls
    }

    /// Keeps an answer until it is its turn.
    fn arrive(&mut self, settle: message::Settle) {
        self.unanswered = self.unanswered.saturating_sub(1);
        self.arrived.insert(settle.call, settle);
    }

    fn flush(&mut self) {
        self.flushed_at = Instant::now();
        if self.port.pending_bytes() > 0 && self.port.flush().is_err() {
            // The relay closed the socket: nobody waits for this execution any more.
            super::sys::exit_now(super::worker::EXIT_ORPHANED);
        }
    }
}

/// Takes one piece of output and streams it.
///
/// # Errors
/// A limit is reached; what fits was taken.
pub(super) fn output(kind: i32, mut text: String) -> Result<(), OutputFull> {
    with(|bridge| {
        if bridge.output_count >= bridge.limits.output_count {
            return Err(OutputFull { limit: "output_count" });
        }
        let room = bridge.limits.output_bytes - bridge.output_bytes;
        let fits = text.len() <= room;
        inspect::cut(&mut text, room);
        bridge.output_count += 1;
        bridge.output_bytes += text.len();
        bridge.port.put(Report::Output(message::Output { kind: kind.unsigned_abs(), text }));
        if bridge.port.pending_bytes() > FLUSH_BYTES || bridge.flushed_at.elapsed() > FLUSH_AFTER {
            bridge.flush();
        }
        if fits { Ok(()) } else { Err(OutputFull { limit: "output_bytes" }) }
    })
}

/// Writes out everything that is collected.
pub(super) fn flush() {
    with(Bridge::flush);
}

/// Tells the relay what the script put into the store, or took out of it.
pub(super) fn put_stored(stored: message::StoredValue) {
    with(|bridge| {
        bridge.port.put(Report::Stored(stored));
        if bridge.port.pending_bytes() > FLUSH_BYTES {
            bridge.flush();
        }
    });
}

/// The room that output has left, in bytes.
pub(super) fn output_room() -> usize {
    with(|bridge| bridge.limits.output_bytes - bridge.output_bytes)
}

/// V8 tells of promises that are rejected with nobody waiting, and of those that somebody waits for after all.
pub(super) fn promise_rejected(scope: &mut v8::PinScope<'_, '_>, event: &v8::PromiseRejectMessage<'_>) {
    let promise = v8::Global::new(scope, event.get_promise());
    with(|bridge| match event.get_event() {
        v8::PromiseRejectEvent::PromiseRejectWithNoHandler if bridge.rejections.len() < MAX_REJECTIONS => {
            bridge.rejections.push(promise);
        }
        v8::PromiseRejectEvent::PromiseHandlerAddedAfterReject => bridge.rejections.retain(|known| *known != promise),
        _ => {}
    });
}

/// What the code left behind, as warnings: calls that are open, rejections that nobody looked at but `own`, the
/// program's.
pub(super) fn leftovers<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    own: Option<v8::Local<'s, v8::Promise>>,
) -> Vec<message::Warning> {
    const NAMED: usize = 5;
    let mut warnings = Vec::new();
    let (mut names, rejections) = with(|bridge| {
        let open = bridge.open.values().map(|call| call.tool.clone());
        let waiting = bridge.waiting.iter().map(|it| it.call.tool.clone());
        let names: Vec<_> = open.chain(waiting).chain(local::open()).collect();
        (names, std::mem::take(&mut bridge.rejections))
    });
    if !names.is_empty() {
        let count = names.len();
        names.sort();
        names.dedup();
        let more = if names.len() > NAMED { ", …" } else { "" };
        names.truncate(NAMED);
        warnings.push(message::Warning {
            code: relay_proto::code::warning::TOOL_CALLS_CANCELLED.into(),
            message: format!(
                "{count} tool call(s) were open when the code ended and were cancelled: {}{more}; await every call",
                names.join(", ")
            ),
        });
    }
    let mut texts = Vec::new();
    for promise in rejections {
        let promise = v8::Local::new(scope, promise);
        if own.is_some_and(|own| own == promise) {
            continue;
        }
        let reason = promise.result(scope);
        texts.push(inspect::inspect(scope, reason, 300));
    }
    if let Some(first) = texts.first() {
        let count = texts.len();
        warnings.push(message::Warning {
            code: relay_proto::code::warning::UNHANDLED_REJECTION.into(),
            message: format!("{count} promise(s) were rejected and nobody looked, the first with: {first}"),
        });
    }
    warnings
}
