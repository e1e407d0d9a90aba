//! The worker: locks its process, runs one script and ends. It trusts its socket to the relay and nothing else.

use std::os::fd::{AsFd as _, OwnedFd};

use relay_proto::ErrorCode;
use relay_proto::wire::LargeIntegers;

use super::bridge::BridgeLimits;
use super::channel::message::instruction::Kind as Instruction;
use super::channel::message::report::Kind as Report;
use super::channel::{ChannelError, Port, message};
use super::ending::{self, failure};
use super::isolate::Warm;
use super::jail::{self, Lock};
use super::output::OutputLeft;
use super::program::{self, refuse_import};
use super::{bridge, clock, globals, hints, leftovers, link, notes, output, random, record, results, sys, value};

/// Code that a worker runs before it reports that it is ready.
const TOUCH: &str = "const touch = {a: [1]};\nreturn touch;";

/// Prepares what has to be in place before a process becomes a worker; a fork inherits it.
///
/// # Errors
/// [`std::io::Error`]: the kernel refuses the signal handler.
pub(super) fn prepare_process() -> std::io::Result<()> {
    link::prepare_thread();
    bridge::prepare_thread();
    output::prepare_thread();
    leftovers::prepare_thread();
    clock::prepare_thread();
    record::prepare_thread();
    value::prepare_thread();
    notes::prepare_thread();
    results::prepare_thread();
    globals::prepare_thread();
    ending::prepare_process()
}

/// Locks the process, reports that it is ready, runs the script that comes, reports its outcome, and waits to be
/// killed.
///
/// A worker that is made `ahead` of need does more before it reports that it is ready.
pub(super) fn run(mut warm: Warm, socket: OwnedFd, lock: &Lock, ahead: bool) -> ! {
    let Ok(socket) = jail::keep_only(socket) else { sys::exit_now(sys::EXIT_NOT_LOCKED) };
    if let Err(error) = lock.close() {
        // The relay logs the reason and does not use this worker.
        let mut port = Port::new(socket);
        port.put(Report::Failed(failure(ErrorCode::Internal, format!("the worker could not be locked: {error}"))));
        let _ = port.flush();
        sys::exit_now(sys::EXIT_NOT_LOCKED);
    }
    ending::set_socket(socket.as_fd());
    if ahead {
        touch(&mut warm);
    }
    let mut port = Port::new(socket);
    port.put(Report::Ready(message::Ready {}));
    let mut start = match port.flush().map_err(ChannelError::from).and_then(|()| port.receive()) {
        Ok(Instruction::Start(start)) => start,
        Ok(Instruction::Settle(_)) => sys::exit_now(sys::EXIT_BROKEN),
        Err(_) => ending::orphaned(),
    };
    let size = |limit: u64| usize::try_from(limit).unwrap_or(usize::MAX);
    link::begin(port);
    bridge::begin(BridgeLimits {
        tool_calls: start.tool_calls,
        in_flight: size(start.tool_calls_in_flight),
        arguments_bytes: size(start.arguments_bytes),
        waiting_bytes: size(start.heap_bytes),
    });
    output::begin(OutputLeft { bytes: size(start.output_bytes), count: start.output_count });
    match &start.durable {
        Some(durable) => record::begin(durable, start.now_ms.unwrap_or_default()),
        None => clock::begin(start.now_ms),
    }
    let form = i32::try_from(start.large_integers).ok().and_then(|form| LargeIntegers::try_from(form).ok());
    value::begin(form.unwrap_or_default());
    if random::begin(start.seed).is_err() {
        sys::exit_now(sys::EXIT_BROKEN);
    }
    ending::set_memory_limit(size(start.memory_bytes));
    limit_heap(&mut warm.isolate, size(start.heap_bytes));
    warm.isolate.set_promise_reject_callback(leftovers::promise_rejected);
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
    ending::end(report)
}

/// Runs a script once in a context of its own. A fork shares its parent's memory until it writes: what every script
/// writes to is copied here, before anybody waits for it.
fn touch(warm: &mut Warm) {
    let Some(scratch) = &warm.scratch else { return };
    v8::scope!(let scope, &mut warm.isolate);
    let context = v8::Local::new(scope, scratch);
    let scope = &mut v8::ContextScope::new(scope, context);
    if let Ok(prepared) = relay_script::prepare(TOUCH)
        && let Ok((value, _)) = program::run_program(scope, &prepared)
    {
        // Only the work matters, not the text.
        drop(value::to_json(scope, value, "null", TOUCH.len()));
    }
}

/// Lowers the heap's limit from the most that any execution can have to that of this one.
fn limit_heap(isolate: &mut v8::Isolate, heap_bytes: usize) {
    isolate.add_near_heap_limit_callback(heap_is_full, std::ptr::null_mut());
    #[expect(unsafe_code, reason = "the callback has no other way to the isolate, which lives as long as the process")]
    // SAFETY: nothing is done with the pointer but in the callback.
    let own = Box::leak(Box::new(unsafe { isolate.as_raw_isolate_ptr() }));
    // V8 has no call that sets the limit; removing a callback sets it.
    isolate.remove_near_heap_limit_callback(heap_is_full, heap_bytes);
    isolate.add_near_heap_limit_callback(heap_is_full, std::ptr::from_mut(own).cast());
    isolate.set_oom_error_handler(out_of_memory);
}

/// Handles a heap that is nearly full. V8 also asks as a last resort when a buffer outside of the heap could not be
/// had: that becomes a `RangeError` once V8 knows that the heap does not grow, or ends in [`out_of_memory`].
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
    ending::fail_memory_limit("heap_bytes", "the code used up its heap")
}

extern "C" fn out_of_memory(_location: *const std::ffi::c_char, details: &v8::OomDetails) {
    if details.is_heap_oom {
        ending::fail_memory_limit("heap_bytes", "the code used up its heap")
    }
    ending::fail_memory_limit("memory_bytes", "the code used up its memory")
}
