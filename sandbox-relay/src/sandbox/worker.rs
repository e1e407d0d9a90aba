//! The worker: runs one script in this process and ends. It trusts its socket to the relay and nothing else.

use std::cell::Cell;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};

use relay_proto::ErrorCode;
use relay_proto::code::warning;
use relay_script::{Entry, Prepared, References};

use super::bridge::{BridgeLimits, Wait};
use super::channel::message::instruction::Kind as Instruction;
use super::channel::message::report::Kind as Report;
use super::channel::{ChannelError, Port, message};
use super::hints::{self, Has};
use super::isolate::Warm;
use super::jail::{self, Lock};
use super::value::{self, ValueError};
use super::{bridge, clock, globals, inspect, local, make, random, sys, timers};

/// The worker did its work, whatever came of the script.
const EXIT_DONE: i32 = 0;
/// Something that cannot happen did.
pub(super) const EXIT_BROKEN: i32 = 70;
/// The relay went away.
pub(super) const EXIT_ORPHANED: i32 = 71;
/// A step of the lock failed.
const EXIT_NOT_LOCKED: i32 = 72;

/// The most bytes of any text in an error.
const MAX_MESSAGE_BYTES: usize = 8 << 10;

/// The largest result of code that is looked at once more for hints.
const MAX_LOOKED_AT_BYTES: usize = 64 << 10;

/// What the script is called in positions.
pub(super) const SCRIPT_NAME: &str = "script.js";

/// What a worker runs before it says that it is ready.
const TOUCH: &str = "const touch = {a: [1]};\nreturn touch;";

/// Set while the parser runs, which recurses and can overflow the stack.
static PARSING: AtomicBool = AtomicBool::new(false);
static SOCKET: AtomicI32 = AtomicI32::new(-1);
static NESTED_TOO_DEEP: OnceLock<Vec<u8>> = OnceLock::new();
static OUT_OF_MEMORY: OnceLock<Vec<u8>> = OnceLock::new();
/// What came of a script that is looked at once more, in case that look fails.
static DONE_ALREADY: OnceLock<Vec<u8>> = OnceLock::new();
/// The limit of this execution; 0 before it begins.
static MEMORY_BYTES: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// What the code has, for hints.
    static HAS: Cell<Has> = const { Cell::new(Has { console: false, timers: false, servers: false, introspection: false }) };
}

/// What has to be in place before a process becomes a worker; a fork inherits it.
///
/// # Errors
/// The kernel refuses the signal handler.
pub(super) fn prepare_process() -> std::io::Result<()> {
    let prepared = |failed| {
        let mut frame = Vec::new();
        super::channel::put_frame(&message::Report { kind: Some(Report::Failed(failed)) }, &mut frame);
        frame
    };
    NESTED_TOO_DEEP.get_or_init(|| {
        prepared(message::Failed {
            hint: "use fewer nested brackets or operators; build deep values step by step".into(),
            ..failure(ErrorCode::SyntaxError, "the code nests too deeply to be parsed".into())
        })
    });
    OUT_OF_MEMORY.get_or_init(|| prepared(memory_failure("memory_bytes", "the code used up its memory")));
    bridge::prepare_thread();
    clock::prepare_thread();
    globals::prepare_thread();
    sys::on_failed_new(no_memory_for_cpp);
    sys::on_crash(crashed)
}

/// Runs on a stack of its own, possibly anywhere: it only writes what was prepared. Returning repeats the fault, which
/// then ends the process as usual.
///
/// V8, its ICU and the allocator abort where they get no memory and cannot say so. With most of the memory in use, that is
/// what has happened.
extern "C" fn crashed(signal: libc::c_int) {
    let prepared = if signal == libc::SIGSEGV && PARSING.load(Ordering::Relaxed) {
        DONE_ALREADY.get().or(NESTED_TOO_DEEP.get())
    } else if sys::no_room_for(MEMORY_BYTES.load(Ordering::Relaxed) / 2) {
        OUT_OF_MEMORY.get()
    } else {
        None
    };
    if let Some(frame) = prepared {
        sys::write_all(SOCKET.load(Ordering::Relaxed), frame);
        sys::exit_now(EXIT_DONE);
    }
}

/// C++ asked for memory and got none. What it would do next is throw, through frames of ours that know no exceptions.
extern "C" fn no_memory_for_cpp() {
    if let Some(frame) = OUT_OF_MEMORY.get() {
        sys::write_all(SOCKET.load(Ordering::Relaxed), frame);
    }
    sys::exit_now(EXIT_DONE);
}

/// Locks the process, says so, runs the script that comes, reports, and waits for its end.
///
/// A worker that is made `ahead` of need does more before it says so.
pub(super) fn run(mut warm: Warm, socket: OwnedFd, lock: &Lock, ahead: bool) -> ! {
    let Ok(socket) = jail::keep_only(socket) else { sys::exit_now(EXIT_NOT_LOCKED) };
    if let Err(error) = lock.close() {
        // The reason goes where the report would: the relay logs it and does not use this worker.
        let mut port = Port::new(socket);
        port.put(Report::Failed(failure(ErrorCode::Internal, format!("the worker could not be locked: {error}"))));
        let _ = port.flush();
        sys::exit_now(EXIT_NOT_LOCKED);
    }
    SOCKET.store(socket.as_raw_fd(), Ordering::Relaxed);
    if ahead {
        touch(&mut warm);
    }
    let mut port = Port::new(socket);
    port.put(Report::Ready(message::Ready {}));
    let mut start = match port.flush().map_err(ChannelError::from).and_then(|()| port.receive()) {
        Ok(Instruction::Start(start)) => start,
        Ok(Instruction::Settle(_)) => sys::exit_now(EXIT_BROKEN),
        Err(_) => sys::exit_now(EXIT_ORPHANED),
    };
    let size = |limit: u64| usize::try_from(limit).unwrap_or(usize::MAX);
    let limits = BridgeLimits {
        tool_calls: start.tool_calls,
        in_flight: size(start.tool_calls_in_flight),
        arguments_bytes: size(start.arguments_bytes),
        waiting_bytes: size(start.heap_bytes),
        output_bytes: size(start.output_bytes),
        output_count: start.output_count,
    };
    bridge::begin(port, limits);
    clock::begin(start.now_ms);
    if random::begin(start.seed).is_err() {
        sys::exit_now(EXIT_BROKEN);
    }
    MEMORY_BYTES.store(size(start.memory_bytes), Ordering::Relaxed);
    limit_heap(&mut warm.isolate, size(start.heap_bytes));
    warm.isolate.set_promise_reject_callback(promise_rejected);
    warm.isolate.set_host_import_module_dynamically_callback(refuse_import);

    v8::scope!(let scope, &mut warm.isolate);
    let context = v8::Local::new(scope, &warm.context);
    let scope = &mut v8::ContextScope::new(scope, context);
    warm.bindings.bind(scope, context, &mut start);
    let message::Start { console, timers, servers, introspection, .. } = start;
    HAS.set(Has { console, timers, servers, introspection });
    let report = match execute(scope, start) {
        Ok(done) => Report::Done(done),
        Err(failed) => Report::Failed(failed),
    };
    end(report)
}

/// Takes the way of a script once, in a context of its own. A fork shares its parent's memory until it writes: what every
/// script writes to is copied here, before anybody waits for it.
fn touch(warm: &mut Warm) {
    let Some(scratch) = &warm.scratch else { return };
    v8::scope!(let scope, &mut warm.isolate);
    let context = v8::Local::new(scope, scratch);
    let scope = &mut v8::ContextScope::new(scope, context);
    if let Ok(prepared) = relay_script::prepare(TOUCH)
        && let Ok((value, _)) = run_program(scope, &prepared)
    {
        // Nothing is wanted of the text.
        drop(value::to_json(scope, value, "null", TOUCH.len()));
    }
}

/// Writes the last report and waits to be killed. Exiting would take this process's memory apart on the very processor
/// on which the relay waits to pass the report on.
fn end(mut report: Report) -> ! {
    let memory_bytes = sys::peak_resident_bytes();
    match &mut report {
        Report::Done(done) => done.memory_bytes = memory_bytes,
        Report::Failed(failed) => failed.memory_bytes = memory_bytes,
        Report::Ready(_) | Report::Call(_) | Report::Output(_) | Report::Stored(_) => {}
    }
    bridge::finish(report);
    loop {
        std::thread::park();
    }
}

fn failure(code: ErrorCode, mut message: String) -> message::Failed {
    inspect::cut(&mut message, MAX_MESSAGE_BYTES);
    message::Failed { code: code.as_str().into(), message, ..message::Failed::default() }
}

/// Ends the execution because a limit on output was hit.
pub(super) fn fail_output_limit(limit: &str) -> ! {
    let failed = message::Failed {
        limit: limit.into(),
        hint: "return the data, or print less of it".into(),
        ..failure(ErrorCode::OutputLimit, format!("the output reached its limit, {limit}"))
    };
    end(Report::Failed(failed))
}

/// Lowers the heap's limit from the most that any execution can have to what this one has.
fn limit_heap(isolate: &mut v8::Isolate, heap_bytes: usize) {
    isolate.add_near_heap_limit_callback(heap_is_full, std::ptr::null_mut());
    #[expect(unsafe_code, reason = "the callback has no other way to the isolate, which lives as long as the process")]
    // SAFETY: nothing is done with the pointer but in the callback.
    let own = Box::leak(Box::new(unsafe { isolate.as_raw_isolate_ptr() }));
    // V8 has no call that sets the limit; taking a callback away sets it.
    isolate.remove_near_heap_limit_callback(heap_is_full, heap_bytes);
    isolate.add_near_heap_limit_callback(heap_is_full, std::ptr::from_mut(own).cast());
    isolate.set_oom_error_handler(out_of_memory);
}

/// V8 asks when the heap is nearly full, and also as a last resort when a buffer outside of it could not be had. That one is
/// a `RangeError`, once V8 knows that the heap does not grow; what really does not fit ends in [`out_of_memory`].
extern "C" fn heap_is_full(data: *mut std::ffi::c_void, current: usize, _initial: usize) -> usize {
    #[expect(unsafe_code, reason = "the callback has no other way to the isolate")]
    // SAFETY: `limit_heap` gave this pointer, which lives as long as the process; V8 calls on the isolate's thread, and
    // reading statistics is what it allows here.
    let used = unsafe {
        let own = &*data.cast::<v8::UnsafeRawIsolatePtr>();
        v8::Isolate::from_raw_isolate_ptr(*own).get_heap_statistics().used_heap_size()
    };
    if used < current / 4 * 3 {
        return current;
    }
    fail_memory_limit("heap_bytes", "the code used up its heap")
}

extern "C" fn out_of_memory(_location: *const std::ffi::c_char, details: &v8::OomDetails) {
    if details.is_heap_oom {
        fail_memory_limit("heap_bytes", "the code used up its heap")
    }
    fail_memory_limit("memory_bytes", "the code used up its memory")
}

pub(super) fn fail_memory_limit(limit: &str, message: &str) -> ! {
    end(Report::Failed(memory_failure(limit, message)))
}

fn memory_failure(limit: &str, message: &str) -> message::Failed {
    message::Failed {
        limit: limit.into(),
        hint: "keep less at once: work in parts and return a summary".into(),
        ..failure(ErrorCode::MemoryLimit, message.into())
    }
}

fn execute(scope: &mut v8::PinScope<'_, '_>, start: message::Start) -> Result<message::Done, message::Failed> {
    let message::Start { source, local_tools, result_bytes, .. } = start;
    let result_bytes = usize::try_from(result_bytes).unwrap_or(usize::MAX);
    for (tool, source) in local_tools {
        let named = |failed: message::Failed| {
            let message = format!("the local tool {tool}: {}", failed.message);
            message::Failed { message, ..failed }
        };
        let function = local_function(scope, &tool, &source).map_err(named)?;
        local::add(tool, v8::Global::new(scope, function));
    }
    let (value, own) = run_program(scope, &prepare(&source)?)?;
    let json = value::to_json(scope, value, "null", result_bytes);
    let json = json.map_err(|error| value_failure(scope, error, result_bytes))?;
    let warnings = bridge::leftovers(scope, own);
    let mut done = message::Done { result: json.into(), warnings, memory_bytes: 0 };
    let may_have_caught = hints::may_catch(&source);
    if (may_have_caught || value.is_undefined()) && done.result.len() <= MAX_LOOKED_AT_BYTES {
        let references = look_again(&source, &done);
        if may_have_caught {
            let names = hints::caught(&references, |name| has_global(scope, name), HAS.get());
            done.warnings.extend(names.into_iter().map(hint));
        }
        if value.is_undefined() && references.missing_return {
            done.warnings
                .push(hint("nothing was returned; the last statement has a value: write return before it".into()));
        }
    }
    Ok(done)
}

/// What the code refers to. The look recurses; should it overflow the stack, the outcome is what it was before.
fn look_again(source: &str, done: &message::Done) -> References {
    bridge::flush();
    DONE_ALREADY.get_or_init(|| {
        let done = message::Done { memory_bytes: sys::peak_resident_bytes(), ..done.clone() };
        let mut frame = Vec::new();
        super::channel::put_frame(&message::Report { kind: Some(Report::Done(done)) }, &mut frame);
        frame
    });
    PARSING.store(true, Ordering::Relaxed);
    let references = relay_script::references(source);
    PARSING.store(false, Ordering::Relaxed);
    references
}

fn has_global(scope: &mut v8::PinScope<'_, '_>, name: &str) -> bool {
    let key = make::string(scope, name);
    let global = scope.get_current_context().global(scope);
    global.has(scope, key.into()) != Some(false)
}

fn hint(message: String) -> message::Warning {
    message::Warning { code: warning::HINT.into(), message }
}

/// The form of a source.
fn prepare(source: &str) -> Result<Prepared, message::Failed> {
    PARSING.store(true, Ordering::Relaxed);
    let prepared = relay_script::prepare(source);
    PARSING.store(false, Ordering::Relaxed);
    prepared.map_err(|error| message::Failed {
        line: error.line,
        column: error.column,
        hint: error.hint.into(),
        ..failure(ErrorCode::SyntaxError, error.message)
    })
}

/// The function that the source of a local tool is.
fn local_function<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    tool: &str,
    source: &str,
) -> Result<v8::Local<'s, v8::Function>, message::Failed> {
    let prepared = prepare(source)?;
    let exported = load(scope, &prepared, tool)?;
    let value = match prepared.entry {
        Entry::WrapperOfFunction => call_if_function(scope, exported)?.0,
        Entry::Default | Entry::Main => exported,
        Entry::Wrapper => v8::undefined(scope).into(),
    };
    value.try_into().map_err(|_| message::Failed {
        hint: "write one function, such as `(args) => args.a + args.b`".into(),
        ..failure(ErrorCode::SyntaxError, "it is no function".into())
    })
}

fn value_failure<'s>(scope: &mut v8::PinScope<'s, '_>, error: ValueError<'s>, limit: usize) -> message::Failed {
    match error {
        ValueError::NotSerializable { path, reason } => {
            failure(ErrorCode::NotSerializable, format!("the result cannot be returned as JSON: at {path}, {reason}"))
        }
        ValueError::TooLarge { bytes } => message::Failed {
            limit: "result_bytes".into(),
            hint: "return only what is needed: filter, count or summarize in the code".into(),
            ..failure(
                ErrorCode::ResultLimit,
                format!("the result has {bytes} bytes or more; the limit result_bytes is {limit}"),
            )
        },
        ValueError::Thrown(thrown) => thrown_failure(scope, thrown, None),
    }
}

type Program<'s> = (v8::Local<'s, v8::Value>, Option<v8::Local<'s, v8::Promise>>);

/// Compiles, runs and waits: gives the program's value.
fn run_program<'s>(scope: &mut v8::PinScope<'s, '_>, prepared: &Prepared) -> Result<Program<'s>, message::Failed> {
    let exported = load(scope, prepared, SCRIPT_NAME)?;
    let (value, own) = call_if_function(scope, exported)?;
    if prepared.entry == Entry::WrapperOfFunction {
        return call_if_function(scope, value);
    }
    Ok((value, own))
}

/// Compiles and evaluates the module: gives what it exports.
fn load<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    prepared: &Prepared,
    name: &str,
) -> Result<v8::Local<'s, v8::Value>, message::Failed> {
    let module = compile(scope, prepared, name)?;
    {
        v8::tc_scope!(let scope, scope);
        if module.instantiate_module(scope, refuse_static_import) != Some(true) {
            return Err(caught_failure(scope, ErrorCode::SyntaxError));
        }
    }
    let evaluated = match module.evaluate(scope) {
        Some(value) => value,
        None => return Err(failure(ErrorCode::Internal, "the module was not evaluated".into())),
    };
    settled(scope, evaluated)?;

    let namespace = module.get_module_namespace();
    let key = if prepared.entry == Entry::Main { "main" } else { "default" };
    v8::String::new(scope, key)
        .and_then(|key| v8::Local::<v8::Object>::try_from(namespace).ok()?.get(scope, key.into()))
        .ok_or_else(|| failure(ErrorCode::Internal, format!("the module has no export {key}")))
}

fn compile<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    prepared: &Prepared,
    name: &str,
) -> Result<v8::Local<'s, v8::Module>, message::Failed> {
    v8::tc_scope!(let scope, scope);
    let too_large = || failure(ErrorCode::SyntaxError, "the source is too large".into());
    let name = v8::String::new(scope, name).ok_or_else(too_large)?;
    let text = v8::String::new(scope, &prepared.module).ok_or_else(too_large)?;
    let line = prepared.line_offset;
    let origin = v8::ScriptOrigin::new(scope, name.into(), line, 0, false, -1, None, false, false, true, None);
    let mut source = v8::script_compiler::Source::new(text, Some(&origin));
    match v8::script_compiler::compile_module(scope, &mut source) {
        Some(module) => Ok(module),
        None => Err(caught_failure(scope, ErrorCode::SyntaxError)),
    }
}

/// The value itself, or what it returns when it is a function, when that has settled.
fn call_if_function<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    value: v8::Local<'s, v8::Value>,
) -> Result<Program<'s>, message::Failed> {
    let Ok(function) = v8::Local::<v8::Function>::try_from(value) else { return settled(scope, value) };
    let returned = {
        v8::tc_scope!(let scope, scope);
        let receiver = v8::undefined(scope).into();
        match function.call(scope, receiver, &[]) {
            Some(returned) => returned,
            None => return Err(caught_failure(scope, ErrorCode::EvalError)),
        }
    };
    settled(scope, returned)
}

/// Runs the script until `value`, if it is a promise or has a `then`, is settled.
fn settled<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    value: v8::Local<'s, v8::Value>,
) -> Result<Program<'s>, message::Failed> {
    let promise = match v8::Local::<v8::Promise>::try_from(value) {
        Ok(promise) => promise,
        Err(_) => {
            // Whatever has a `then` is asked by a resolver, which also takes what has none.
            let internal = || failure(ErrorCode::Internal, "no promise could be made".into());
            let resolver = v8::PromiseResolver::new(scope).ok_or_else(internal)?;
            resolver.resolve(scope, value);
            resolver.get_promise(scope)
        }
    };
    loop {
        scope.perform_microtask_checkpoint();
        match promise.state() {
            v8::PromiseState::Fulfilled => return Ok((promise.result(scope), Some(promise))),
            v8::PromiseState::Rejected => {
                let thrown = promise.result(scope);
                return Err(thrown_failure(scope, thrown, Some(promise)));
            }
            v8::PromiseState::Pending => {}
        }
        match bridge::wait(scope, timers::next()) {
            Ok(Wait::Settled) => {}
            Ok(Wait::Elapsed) => fire_timers(scope)?,
            Ok(Wait::NothingOpen) => {
                return Err(message::Failed {
                    hint: "a promise is awaited that nothing will ever resolve; await tool calls instead".into(),
                    warnings: bridge::leftovers(scope, Some(promise)),
                    ..failure(ErrorCode::Unsettled, "the code waits for something that can never happen".into())
                });
            }
            Err(_) => sys::exit_now(EXIT_ORPHANED),
        }
    }
}

/// Calls what is due. What a timer's function throws nobody can catch: it ends the execution.
fn fire_timers(scope: &mut v8::PinScope<'_, '_>) -> Result<(), message::Failed> {
    for timer in timers::due() {
        v8::tc_scope!(let scope, scope);
        if timers::fire(scope, timer).is_none() {
            return Err(caught_failure(scope, ErrorCode::EvalError));
        }
        scope.perform_microtask_checkpoint();
    }
    Ok(())
}

/// What a `TryCatch` caught, with the position that V8 noted.
fn caught_failure<'s>(
    scope: &mut v8::PinnedRef<'_, v8::TryCatch<'_, 's, v8::HandleScope<'_>>>,
    code: ErrorCode,
) -> message::Failed {
    let message = scope.message();
    let exception = scope.exception();
    scope.reset();
    let Some(exception) = exception else {
        return failure(code, "the code was stopped".into());
    };
    let mut failed = thrown_failure(scope, exception, None);
    failed.code = code.as_str().into();
    if let Some(message) = message {
        (failed.line, failed.column) = position(scope, message);
    }
    failed
}

/// An error for what the script threw: any value at all.
fn thrown_failure<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    thrown: v8::Local<'s, v8::Value>,
    own: Option<v8::Local<'s, v8::Promise>>,
) -> message::Failed {
    let text = inspect::inspect(scope, thrown, MAX_MESSAGE_BYTES);
    let mut failed = failure(ErrorCode::EvalError, text);
    if thrown.is_native_error() {
        let message = v8::Exception::create_message(scope, thrown);
        (failed.line, failed.column) = position(scope, message);
    }
    if let Some((code, tool)) = bridge::tool_error_marks(scope, thrown) {
        failed.tool_code = code;
        failed.tool = tool;
    } else if thrown.is_native_error() {
        failed.hint = hints::of_error(&failed.message, HAS.get()).unwrap_or_default();
    }
    failed.warnings = bridge::leftovers(scope, own);
    failed
}

/// Line and column, both from 1; 0 where V8 knows none.
fn position(scope: &v8::PinScope<'_, '_>, message: v8::Local<'_, v8::Message>) -> (u32, u32) {
    let number = |n: usize| u32::try_from(n).unwrap_or(0);
    match message.get_line_number(scope) {
        // What lies before the author's first line or in no script at all has no position to show.
        Some(line) if (1..1 << 30).contains(&line) => (number(line), number(message.get_start_column() + 1)),
        _ => (0, 0),
    }
}

extern "C" fn promise_rejected(event: v8::PromiseRejectMessage<'_>) {
    v8::callback_scope!(unsafe scope, &event);
    bridge::promise_rejected(scope, &event);
}

fn refuse_static_import<'s>(
    context: v8::Local<'s, v8::Context>,
    _specifier: v8::Local<'s, v8::String>,
    _attributes: v8::Local<'s, v8::FixedArray>,
    _referrer: v8::Local<'s, v8::Module>,
) -> Option<v8::Local<'s, v8::Module>> {
    v8::callback_scope!(unsafe scope, context);
    let error = import_error(scope);
    scope.throw_exception(error);
    None
}

fn refuse_import<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    _options: v8::Local<'s, v8::Data>,
    _name: v8::Local<'s, v8::Value>,
    _specifier: v8::Local<'s, v8::String>,
    _attributes: v8::Local<'s, v8::FixedArray>,
) -> Option<v8::Local<'s, v8::Promise>> {
    let resolver = v8::PromiseResolver::new(scope)?;
    let error = import_error(scope);
    resolver.reject(scope, error);
    Some(resolver.get_promise(scope))
}

fn import_error<'s>(scope: &mut v8::PinScope<'s, '_>) -> v8::Local<'s, v8::Value> {
    let text = "imports are not available; call tools with mcp.call(\"server.tool\", args)";
    let text = v8::String::new(scope, text).unwrap_or_else(|| v8::String::empty(scope));
    v8::Exception::type_error(scope, text)
}
