//! Ends a worker: writes its last report, from wherever the end comes, a crash included.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};

use relay_proto::ErrorCode;

use super::channel::message;
use super::channel::message::report::Kind as Report;
use super::{channel, inspect, link, local, sys};

/// Maximum length in bytes of any text in an error.
const MAX_MESSAGE_BYTES: usize = 8 << 10;

/// Set while the parser runs, which recurses and can overflow the stack.
static PARSING: AtomicBool = AtomicBool::new(false);
/// Descriptor of the socket to the relay; -1 before it is known.
static SOCKET: AtomicI32 = AtomicI32::new(-1);
/// Report of an overflow in the parser, made before it is needed.
static NESTED_TOO_DEEP: OnceLock<Vec<u8>> = OnceLock::new();
/// Report of memory that is used up, made before it is needed.
static OUT_OF_MEMORY: OnceLock<Vec<u8>> = OnceLock::new();
/// Report of an outcome that is certain: whatever happens while [`IS_CERTAIN`] is set, it is the last.
static CERTAIN: OnceLock<Vec<u8>> = OnceLock::new();
static IS_CERTAIN: AtomicBool = AtomicBool::new(false);
/// Limit `memory_bytes` of this execution; 0 before it begins.
static MEMORY_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Prepares the reports that a crash writes, and the handler that writes them. A fork inherits both.
///
/// # Errors
/// [`std::io::Error`]: the kernel refuses the signal handler.
pub(super) fn prepare_process() -> std::io::Result<()> {
    NESTED_TOO_DEEP.get_or_init(|| {
        frame(Report::Failed(message::Failed {
            hint: "use fewer nested brackets or operators; build deep values step by step".into(),
            ..failure(ErrorCode::SyntaxError, "the code nests too deeply to be parsed".into())
        }))
    });
    OUT_OF_MEMORY.get_or_init(|| frame(Report::Failed(memory_failure("memory_bytes", "the code used up its memory"))));
    sys::on_failed_new(no_memory_for_cpp);
    sys::on_crash(crashed)
}

/// Sets the socket that a crash writes its report to.
pub(super) fn set_socket(socket: BorrowedFd<'_>) {
    SOCKET.store(socket.as_raw_fd(), Ordering::Relaxed);
}

/// Sets the execution's limit `memory_bytes`, by which a crash is told from memory that is used up.
pub(super) fn set_memory_limit(bytes: usize) {
    MEMORY_BYTES.store(bytes, Ordering::Relaxed);
}

fn frame(report: Report) -> Vec<u8> {
    let mut frame = Vec::new();
    channel::put_frame(&message::Report { kind: Some(report) }, &mut frame);
    frame
}

/// Handles a crash, on a stack of its own: it only writes what was prepared. Returning repeats the fault, which then
/// ends the process as usual.
///
/// V8, its ICU and the allocator abort if they get no memory and cannot report it. With most of the memory in use, that
/// is what has happened.
extern "C" fn crashed(signal: libc::c_int) {
    let prepared = if let Some(outcome) = certain() {
        Some(outcome)
    } else if signal == libc::SIGSEGV && PARSING.load(Ordering::Relaxed) {
        NESTED_TOO_DEEP.get()
    } else if sys::no_room_for(MEMORY_BYTES.load(Ordering::Relaxed) / 2) {
        OUT_OF_MEMORY.get()
    } else {
        None
    };
    if let Some(frame) = prepared {
        sys::write_all(SOCKET.load(Ordering::Relaxed), frame);
        sys::exit_now(sys::EXIT_DONE);
    }
}

/// Handles C++'s `new` without memory. C++ would throw next, through frames of ours that know no exceptions.
extern "C" fn no_memory_for_cpp() {
    if let Some(frame) = certain().or(OUT_OF_MEMORY.get()) {
        sys::write_all(SOCKET.load(Ordering::Relaxed), frame);
    }
    sys::exit_now(sys::EXIT_DONE);
}

/// Makes the report of an error, with its message cut to the maximum. A message that is cut ends with `…`.
pub(super) fn failure(code: ErrorCode, mut message: String) -> message::Failed {
    inspect::shorten(&mut message, MAX_MESSAGE_BYTES);
    message::Failed { code: code.as_str().into(), message, ..message::Failed::default() }
}

/// Writes the last report and waits to be killed. Exiting would take this process's memory apart on the very processor
/// on which the relay waits to pass the report on.
pub(super) fn end(mut report: Report) -> ! {
    // An outcome that is certain does not fail any more.
    if let (Report::Failed(_), Some(outcome)) = (&report, certain()) {
        sys::write_all(SOCKET.load(Ordering::Relaxed), outcome);
        park();
    }
    count(&mut report);
    link::finish(report);
    park()
}

fn park() -> ! {
    loop {
        std::thread::park();
    }
}

/// Ends a worker whose relay is gone: nobody waits for its execution.
pub(super) fn orphaned() -> ! {
    sys::exit_now(sys::EXIT_ORPHANED)
}

/// Runs a parser. It recurses: an overflow of the stack in it is reported as code that nests too deeply.
pub(super) fn parsing<T>(parse: impl FnOnce() -> T) -> T {
    PARSING.store(true, Ordering::Relaxed);
    let parsed = parse();
    PARSING.store(false, Ordering::Relaxed);
    parsed
}

/// Runs `work`, which may fail in any way: if it does not come back, the outcome is reported as it is.
pub(super) fn whatever_happens<T>(mut outcome: Report, work: impl FnOnce() -> T) -> T {
    CERTAIN.get_or_init(|| {
        count(&mut outcome);
        frame(outcome)
    });
    IS_CERTAIN.store(true, Ordering::Relaxed);
    let done = work();
    IS_CERTAIN.store(false, Ordering::Relaxed);
    done
}

/// Returns the report of the outcome that is certain; `None`: none is.
fn certain() -> Option<&'static Vec<u8>> {
    if IS_CERTAIN.load(Ordering::Relaxed) { CERTAIN.get() } else { None }
}

/// Writes into an outcome what was used until now.
fn count(outcome: &mut Report) {
    let (memory_bytes, local_calls) = (sys::peak_resident_bytes(), local::calls());
    match outcome {
        Report::Done(done) => (done.memory_bytes, done.local_calls) = (memory_bytes, local_calls),
        Report::Failed(failed) => (failed.memory_bytes, failed.local_calls) = (memory_bytes, local_calls),
        _ => {}
    }
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

/// Ends the execution because a limit on memory was hit.
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
