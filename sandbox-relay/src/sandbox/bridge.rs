//! `mcp.call`: the one way out of the sandbox, for the one execution that this process runs.
//!
//! JavaScript sees a frozen object with one native function. Promises are made and settled natively (`promise`), and
//! what crosses is JSON (`value`), so that a patched `Promise` or `JSON` changes nothing. The queue of calls is in
//! `calls`.

use std::cell::RefCell;
use std::time::Duration;

use relay_proto::steps::Source;
use relay_proto::{ErrorCode, ToolName};

use super::calls::CallQueue;
use super::channel::ChannelError;
use super::channel::message::report::Kind as Report;
use super::channel::message::{self, instruction::Kind as Instruction};
use super::promise::{ToolPromise, tool_error};
use super::value::{self, ValueError};
use super::{clock, ending, inspect, link, local, record, results, sys, tools};

/// Maximum length in bytes of the text of a value that is no tool's name.
const MAX_GOT_BYTES: usize = 80;

thread_local! {
    static BRIDGE: RefCell<Option<Bridge>> = const { RefCell::new(None) };
}

/// Limits of the execution's calls; the relay counts again on its side.
#[derive(Debug, Clone, Copy)]
pub(super) struct BridgeLimits {
    pub(super) tool_calls: u64,
    pub(super) in_flight: usize,
    pub(super) arguments_bytes: usize,
    /// Bytes that the arguments of waiting calls may hold together.
    pub(super) waiting_bytes: usize,
}

/// State behind `mcp.call`.
struct Bridge {
    limits: BridgeLimits,
    queue: CallQueue<ToolPromise>,
}

impl Bridge {
    /// Sends the calls whose turn it is, and everything that is collected.
    fn send(&mut self) {
        self.queue.send(|call| link::put(Report::Call(message::Call { steps: record::take_unreported(), ..call })));
        link::flush();
    }

    /// Keeps the answer in an instruction.
    fn take(&mut self, instruction: Instruction) {
        if let Instruction::Settle(settle) = instruction {
            self.queue.arrive(settle);
        }
    }
}

/// Runs `f` on the bridge. `f` must not run JavaScript, which could come back here.
fn with<R>(f: impl FnOnce(&mut Bridge) -> R) -> R {
    BRIDGE.with_borrow_mut(|bridge| match bridge {
        Some(bridge) => f(bridge),
        // Scripts run only after `begin`, and nothing takes the bridge away.
        None => sys::exit_now(sys::EXIT_BROKEN),
    })
}

/// Makes room for the state in this thread. A fork inherits it and need not look for it any more.
pub(super) fn prepare_thread() {
    BRIDGE.set(None);
}

/// Sets the limits of the execution, before any code runs.
pub(super) fn begin(limits: BridgeLimits) {
    BRIDGE.set(Some(Bridge { limits, queue: CallQueue::new(limits.in_flight) }));
}

/// Implements `mcp.call(name, args = {})`.
pub(super) fn call<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    arguments: v8::FunctionCallbackArguments<'s>,
    returned: v8::ReturnValue<v8::Value>,
) {
    let tool = tool_name(scope, arguments.get(0));
    call_tool(scope, tool, arguments.get(1), returned);
}

/// Calls a tool and returns the promise of its result. With an error in place of a name, the promise is rejected at
/// once.
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
    let promise = ToolPromise::new(scope, resolver, tool.clone());
    if local::is_one(&tool) {
        local::call(scope, promise, &arguments);
        return Ok(());
    }
    let (waiting_bytes, most) = with(|bridge| {
        let line = promise.line;
        let waiting_bytes = bridge.queue.push(promise, tool, arguments.into(), line);
        // While the script yields often, calls go out together; one that computes on does not hold them back.
        if link::is_overdue() {
            bridge.send();
        }
        (waiting_bytes, bridge.limits.waiting_bytes)
    });
    if waiting_bytes > most {
        ending::fail_memory_limit("heap_bytes", "the arguments of waiting calls used up the memory");
    }
    Ok(())
}

fn arguments_json<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    tool: &str,
    arguments: v8::Local<'s, v8::Value>,
) -> Result<Vec<u8>, v8::Local<'s, v8::Value>> {
    let limit = with(|bridge| bridge.limits.arguments_bytes);
    let json = value::to_json(scope, arguments, "{}", limit);
    value::warn_of_losses(&format!("the arguments of {tool}"));
    json.map_err(|error| match error {
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

/// Checks that the execution has a call left.
fn check_count<'s>(scope: &mut v8::PinScope<'s, '_>, tool: &str) -> Result<(), v8::Local<'s, v8::Value>> {
    let (made, most) = with(|bridge| (bridge.queue.made() + local::calls(), bridge.limits.tool_calls));
    if made < most {
        return Ok(());
    }
    let message = format!("{tool} was not called: this execution has used its {most} tool calls");
    Err(tool_error(scope, ErrorCode::ToolCallLimit.as_str(), &message, tool))
}

/// Calls a tool and waits for its answer while the script stands still.
///
/// # Errors
/// The error that the script gets.
pub(super) fn ask<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    tool: &str,
    arguments: Vec<u8>,
) -> Result<v8::Local<'s, v8::Value>, v8::Local<'s, v8::Value>> {
    check_count(scope, tool)?;
    let answer = with(|bridge| {
        bridge.send();
        // The relay ends workers that have more calls open than they may.
        while bridge.queue.is_full() {
            bridge.take(link::receive()?);
        }
        let call = bridge.queue.next_call(tool.to_owned(), arguments.into());
        let number = call.call;
        link::put(Report::Call(message::Call { steps: record::take_unreported(), ..call }));
        link::flush();
        loop {
            match link::receive()? {
                Instruction::Settle(settle) if settle.call == number => {
                    bridge.queue.answered();
                    return Ok(settle);
                }
                other => bridge.take(other),
            }
        }
    });
    match answer {
        Ok(settle) => {
            record::reach(Source::Call(settle.call));
            settled_value(scope, settle, tool).map_err(|(code, message)| tool_error(scope, &code, &message, tool))
        }
        Err(ChannelError::Socket(_) | ChannelError::TooLong(_) | ChannelError::Undecodable(_)) => ending::orphaned(),
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
            // Nothing is read of an object: no code of the script's runs here.
            let got = if name.is_object() { "an object".into() } else { inspect::excerpt(scope, name, 80) };
            let name = v8::Local::<v8::String>::try_from(name).ok().filter(|name| name.length() <= MAX_GOT_BYTES);
            // The code can read the message, which must not depend on the tools that there are when it runs again.
            let name = name.filter(|_| !record::is_on());
            let meant = name.map(|name| tools::suggest(&name.to_rust_string_lossy(scope))).unwrap_or_default();
            let message = format!("{error}; mcp.call got {got}{meant}");
            Err(tool_error(scope, ErrorCode::InvalidToolName.as_str(), &message, ""))
        }
    }
}

/// Result of waiting.
pub(super) enum Wait {
    /// At least one call was settled; the script can go on.
    Settled,
    /// The time is over, and no answer came.
    Elapsed,
    /// No call is open and no time was given: nothing can ever come.
    NothingOpen,
}

/// Sends what is collected and waits until a call is answered, or the time is over.
///
/// # Errors
/// [`ChannelError`]: the relay is gone or sent what is no instruction.
pub(super) fn wait(scope: &mut v8::PinScope<'_, '_>, within: Option<Duration>) -> Result<Wait, ChannelError> {
    with(Bridge::send);
    if clock::is_given() {
        return wait_in_order(scope, within);
    }
    let settles = with(|bridge| {
        if bridge.queue.first_open().is_none() && within.is_none() {
            return Ok(None);
        }
        if !bridge.queue.has_arrived()
            && let Some(instruction) = link::receive_within(within)?
        {
            bridge.take(instruction);
        }
        // Answers that arrived together are settled together, in the order of their calls.
        while let Some(instruction) = link::try_receive()? {
            bridge.take(instruction);
        }
        Ok::<_, ChannelError>(Some(bridge.queue.take_arrived()))
    })?;
    let Some(settles) = settles else { return Ok(Wait::NothingOpen) };
    if settles.is_empty() {
        return Ok(Wait::Elapsed);
    }
    for settle in settles {
        settle_call(scope, settle);
    }
    Ok(Wait::Settled)
}

/// Waits in a repeatable execution: the first open call is settled before the second, and timers, which take no time,
/// elapse when no call is open.
fn wait_in_order(scope: &mut v8::PinScope<'_, '_>, timer: Option<Duration>) -> Result<Wait, ChannelError> {
    let settle = with(|bridge| {
        let Some(first) = bridge.queue.first_open() else { return Ok(None) };
        loop {
            if let Some(settle) = bridge.queue.take_answer(first) {
                return Ok::<_, ChannelError>(Some(settle));
            }
            bridge.take(link::receive()?);
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

/// Sends the calls whose turn it is, and everything that is collected.
pub(super) fn send() {
    with(Bridge::send);
}

/// Waits for an instruction, for at most the time `within`, and keeps the answer in it.
///
/// # Errors
/// [`ChannelError`]: the relay is gone or sent what is no instruction.
pub(super) fn receive(within: Option<Duration>) -> Result<(), ChannelError> {
    if let Some(instruction) = link::receive_within(within)? {
        with(|bridge| bridge.take(instruction));
    }
    Ok(())
}

/// Keeps the answers that have arrived whole, without waiting.
///
/// # Errors
/// [`ChannelError`]: the relay is gone or sent what is no instruction.
pub(super) fn receive_all() -> Result<(), ChannelError> {
    while let Some(instruction) = link::try_receive()? {
        with(|bridge| bridge.take(instruction));
    }
    Ok(())
}

/// Returns what `f` reads of the queue of calls.
pub(super) fn queue<R>(f: impl FnOnce(&CallQueue<ToolPromise>) -> R) -> R {
    with(|bridge| f(&bridge.queue))
}

/// Settles a call whose answer has arrived.
pub(super) fn settle(scope: &mut v8::PinScope<'_, '_>, call: u64) {
    if let Some(settle) = with(|bridge| bridge.queue.take_answer(call)) {
        settle_call(scope, settle);
    }
}

fn settle_call(scope: &mut v8::PinScope<'_, '_>, settle: message::Settle) {
    let Some(promise) = with(|bridge| bridge.queue.close(settle.call)) else { return };
    v8::scope!(let scope, scope);
    if settle.failure.is_none() {
        results::keep(&promise.tool, promise.line, &settle.result);
    }
    match settled_value(scope, settle, &promise.tool) {
        Ok(result) => promise.resolve(scope, result),
        Err((code, message)) => drop(promise.reject(scope, &code, &message)),
    }
}

/// Returns the result of a call, or the code and the message of the error that it failed with.
fn settled_value<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    settle: message::Settle,
    tool: &str,
) -> Result<v8::Local<'s, v8::Value>, (String, String)> {
    if let Some(failure) = settle.failure {
        return Err((failure.code, failure.message));
    }
    value::from_tool(scope, tool, &settle.result)
        .ok_or_else(|| (ErrorCode::InvalidResult.as_str().into(), format!("the result of {tool} is not JSON")))
}

/// Returns the tools of the calls that are not settled.
pub(super) fn unsettled() -> Vec<String> {
    with(|bridge| bridge.queue.unsettled().map(|promise| promise.tool.clone()).collect())
}
