//! The worker: runs one script in this process and ends. It trusts its socket to the relay and nothing else.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};

use relay_proto::ErrorCode;

use super::bridge::BridgeLimits;
use super::channel::message::instruction::Kind as Instruction;
use super::channel::message::report::Kind as Report;
use super::channel::{ChannelError, Port, message};
use super::isolate::Warm;
use super::jail::{self, Lock};
use super::program::{self, failure, refuse_import};
use super::{bridge, clock, globals, hints, random, sys, value};

/// The worker did its work, whatever came of the script.
const EXIT_DONE: i32 = 0;
/// Something that cannot happen did.
pub(super) const EXIT_BROKEN: i32 = 70;
/// The relay went away.
pub(super) const EXIT_ORPHANED: i32 = 71;
/// A step of the lock failed.
const EXIT_NOT_LOCKED: i32 = 72;

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
/// V8, its ICU and the allocator abort where they get no memory and cannot say so. With most of the memory in use, that
/// is what has happened.
extern "C" fn crashed(signal: libc::c_int) {
    let prepared = if let Some(done) = DONE_ALREADY.get() {
        Some(done)
    } else if signal == libc::SIGSEGV && PARSING.load(Ordering::Relaxed) {
        NESTED_TOO_DEEP.get()
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
    if let Some(frame) = DONE_ALREADY.get().or(OUT_OF_MEMORY.get()) {
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
    hints::set_bindings(&start);
    let report = match program::execute(scope, start) {
        Ok(done) => Report::Done(done),
        Err(failed) => Report::Failed(failed),
    };
    end(report)
}

/// Takes the way of a script once, in a context of its own. A fork shares its parent's memory until it writes: what
/// every script writes to is copied here, before anybody waits for it.
fn touch(warm: &mut Warm) {
    let Some(scratch) = &warm.scratch else { return };
    v8::scope!(let scope, &mut warm.isolate);
    let context = v8::Local::new(scope, scratch);
    let scope = &mut v8::ContextScope::new(scope, context);
    if let Ok(prepared) = relay_script::prepare(TOUCH)
        && let Ok((value, _)) = program::run_program(scope, &prepared)
    {
        // Nothing is wanted of the text.
        drop(value::to_json(scope, value, "null", TOUCH.len()));
    }
}

/// Writes the last report and waits to be killed. Exiting would take this process's memory apart on the very processor
/// on which the relay waits to pass the report on.
fn end(mut report: Report) -> ! {
    let (memory_bytes, local_calls) = (sys::peak_resident_bytes(), bridge::local_calls());
    match &mut report {
        Report::Done(done) => (done.memory_bytes, done.local_calls) = (memory_bytes, local_calls),
        // What was done already does not fail any more.
        Report::Failed(_) if let Some(done) = DONE_ALREADY.get() => {
            sys::write_all(SOCKET.load(Ordering::Relaxed), done);
            park();
        }
        Report::Failed(failed) => (failed.memory_bytes, failed.local_calls) = (memory_bytes, local_calls),
        Report::Ready(_) | Report::Call(_) | Report::Output(_) | Report::Stored(_) => {}
    }
    bridge::finish(report);
    park()
}

fn park() -> ! {
    loop {
        std::thread::park();
    }
}

/// The relay is gone: nobody waits for this execution.
pub(super) fn orphaned() -> ! {
    sys::exit_now(EXIT_ORPHANED)
}

/// Runs a parser. It recurses: should it overflow the stack, that is told as what it is.
pub(super) fn parsing<T>(parse: impl FnOnce() -> T) -> T {
    PARSING.store(true, Ordering::Relaxed);
    let parsed = parse();
    PARSING.store(false, Ordering::Relaxed);
    parsed
}

/// Keeps an outcome, which is reported whatever happens from here on.
pub(super) fn keep_in_any_case(done: &message::Done) {
    DONE_ALREADY.get_or_init(|| {
        let (memory_bytes, local_calls) = (sys::peak_resident_bytes(), bridge::local_calls());
        let done = message::Done { memory_bytes, local_calls, ..done.clone() };
        let mut frame = Vec::new();
        super::channel::put_frame(&message::Report { kind: Some(Report::Done(done)) }, &mut frame);
        frame
    });
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

/// V8 asks when the heap is nearly full, and also as a last resort when a buffer outside of it could not be had. That
/// one is a `RangeError`, once V8 knows that the heap does not grow; what really does not fit ends in
/// [`out_of_memory`].
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

extern "C" fn promise_rejected(event: v8::PromiseRejectMessage<'_>) {
    v8::callback_scope!(unsafe scope, &event);
    bridge::promise_rejected(scope, &event);
}
