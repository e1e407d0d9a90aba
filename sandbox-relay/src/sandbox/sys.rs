//! Wraps system calls that no safe wrapper covers, so that they are safe to call. All `unsafe` code outside V8's
//! callbacks is in this file and in [`super::pages`].
#![expect(unsafe_code, reason = "system calls and memory mappings that rustix has no safe wrapper for")]

use std::io;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI64, Ordering};

use rustix::process::Pid;

/// Side of [`fork_sibling`] on which it returns.
pub(super) enum Fork {
    /// The new process.
    Child,
    /// The caller, with the new process as its sibling.
    Parent { pid: Pid, pidfd: OwnedFd },
}

/// Forks a process whose parent is the caller's parent: the relay itself reaps the workers of a forking process, even
/// when that process is gone.
///
/// # Errors
/// [`io::Error`]: the kernel refuses another process.
pub(super) fn fork_sibling() -> io::Result<Fork> {
    let mut pidfd: RawFd = -1;
    let flags = libc::CLONE_PARENT | libc::CLONE_PIDFD | libc::SIGCHLD;
    // SAFETY: without CLONE_VM and with no new stack this is a plain fork: the child runs on a copy of all memory. The
    // calling process has one thread (V8 runs single-threaded in it), so no lock is held by a thread that is not
    // copied. The kernel writes the descriptor to `pidfd`, which outlives the call.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, &raw mut pidfd, 0, 0) };
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(Fork::Child) };
    // SAFETY: the kernel made this descriptor for us just now; nobody else owns it.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    Ok(Fork::Parent { pid, pidfd })
}

/// Takes this process's standard input, a socket of the relay's. Called once; no other code reads it.
pub(super) fn standard_input() -> OwnedFd {
    // SAFETY: the relay starts its processes with a socket there, and this one takes it before anybody else could.
    unsafe { OwnedFd::from_raw_fd(libc::STDIN_FILENO) }
}

/// Gives `socket` the number `only` and closes every other descriptor of this process.
///
/// # Errors
/// [`io::Error`]: the kernel has no `close_range` (before 5.9).
pub(super) fn only_descriptor(socket: OwnedFd, only: RawFd) -> io::Result<OwnedFd> {
    // A descriptor that already has the number would be closed when `socket` is dropped.
    let from = socket.into_raw_fd();
    // SAFETY: the caller is a worker that owns nothing but `socket`: descriptors that are closed here are not used
    // again, and nothing is opened afterwards that could take their numbers.
    let done = unsafe {
        let moved = if from == only { only } else { libc::dup2(from, only) };
        if moved == only { close_others(only.unsigned_abs()) } else { -1 }
    };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is open, by the step before, and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(only) })
}

/// # Safety
/// Nobody uses another descriptor than `only` afterwards.
unsafe fn close_others(only: u32) -> libc::c_long {
    // SAFETY: the caller's promise.
    unsafe {
        let below = if only > 0 { libc::syscall(libc::SYS_close_range, 0, only - 1, 0) } else { 0 };
        let above = libc::syscall(libc::SYS_close_range, only + 1, u32::MAX, 0);
        below | above
    }
}

/// Forbids this process and its forks to make memory executable that is or was writable (Linux 6.3).
///
/// # Errors
/// [`io::Error`]: the kernel knows the request and refuses it.
pub(super) fn refuse_executable_memory() -> io::Result<()> {
    // SAFETY: the request changes what later calls may ask for, and no memory.
    let done = unsafe { libc::prctl(libc::PR_SET_MDWE, libc::PR_MDWE_REFUSE_EXEC_GAIN as libc::c_ulong, 0, 0, 0) };
    match io::Error::last_os_error() {
        _ if done == 0 => Ok(()),
        // An older kernel does not know the request.
        error if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
        error => Err(error),
    }
}

/// End of the child of [`in_a_child`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChildEnd {
    /// By itself, with this status.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
}

/// Runs `run` in a fork of this process, whose exit status it returns, and waits for the end of the fork.
///
/// # Errors
/// [`io::Error`]: the kernel refuses another process.
pub(super) fn in_a_child(run: impl FnOnce() -> i32) -> io::Result<ChildEnd> {
    // SAFETY: the calling process has one thread, so no lock is held by a thread that is not copied.
    let pid = unsafe { libc::fork() };
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    if pid == 0 {
        exit_now(run());
    }
    let mut status = 0;
    // SAFETY: the call writes the status of our own child to `status`.
    if unsafe { libc::waitpid(pid, &raw mut status, 0) } != pid {
        return Err(io::Error::last_os_error());
    }
    Ok(if libc::WIFSIGNALED(status) {
        ChildEnd::Signalled(libc::WTERMSIG(status))
    } else {
        ChildEnd::Exited(libc::WEXITSTATUS(status))
    })
}

/// Makes a system call with these arguments. Returns its result, or the negative error number.
pub(super) fn raw_call(number: libc::c_long, arguments: [usize; 6]) -> i64 {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: used by the self-test alone, in a process made for this one call. Whatever the kernel does to that
    // process is what the test is about.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    if result < 0 { -i64::from(io::Error::last_os_error().raw_os_error().unwrap_or(1)) } else { result }
}

/// Returns the CPU time that a process has used so far; `None`: the process is gone.
pub(super) fn cpu_time(pid: Pid) -> Option<std::time::Duration> {
    let mut clock: libc::clockid_t = 0;
    // SAFETY: the call writes a clock id to `clock` and touches nothing else.
    if unsafe { libc::clock_getcpuclockid(pid.as_raw_nonzero().get(), &raw mut clock) } != 0 {
        return None;
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes a time to `time` and touches nothing else.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return None;
    }
    Some(std::time::Duration::new(u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?))
}

/// Time of day that this process sees in place of the machine's, in µs since 1970.
static TIME_OF_DAY_US: AtomicI64 = AtomicI64::new(MACHINE_TIME);
/// Value of [`TIME_OF_DAY_US`] that stands for the machine's time.
const MACHINE_TIME: i64 = i64::MIN;

/// Sets the time of day that V8 sees in place of the machine's, in µs since 1970.
pub(super) fn set_time_of_day(us: i64) {
    TIME_OF_DAY_US.store(us.max(MACHINE_TIME + 1), Ordering::Relaxed);
}

/// Replaces the C library's function. V8 and its ICU read the time of day by it, for every `Date` and every format of a
/// date; no other code here does.
///
/// # Safety
/// `time` is null, or a place that the caller owns, as for the C library's.
#[unsafe(no_mangle)]
#[expect(unreachable_pub, reason = "the linker reaches it")]
pub unsafe extern "C" fn gettimeofday(time: *mut libc::timeval, _zone: *mut libc::c_void) -> libc::c_int {
    let us = match TIME_OF_DAY_US.load(Ordering::Relaxed) {
        MACHINE_TIME => {
            let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: the call writes a time to `now` and touches nothing else.
            if unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut now) } != 0 {
                return -1;
            }
            now.tv_sec.saturating_mul(1_000_000).saturating_add(now.tv_nsec / 1_000)
        }
        given => given,
    };
    if !time.is_null() {
        let (tv_sec, tv_usec) = (us.div_euclid(1_000_000), us.rem_euclid(1_000_000));
        // SAFETY: the caller's promise.
        unsafe { time.write(libc::timeval { tv_sec, tv_usec }) };
    }
    0
}

/// Returns the peak of this process's resident memory in bytes.
pub(super) fn peak_resident_bytes() -> u64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the call fills `usage`, which is plain data, valid when zeroed.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024
}

/// Exit status of a worker that did its work, whatever came of the script.
pub(super) const EXIT_DONE: i32 = 0;
/// Exit status of a worker in a state that cannot be.
pub(super) const EXIT_BROKEN: i32 = 70;
/// Exit status of a worker whose relay went away.
pub(super) const EXIT_ORPHANED: i32 = 71;
/// Exit status of a worker that could not be locked.
pub(super) const EXIT_NOT_LOCKED: i32 = 72;

/// Ends this process at once, without running anything that waits to run at exit.
pub(super) fn exit_now(status: i32) -> ! {
    // SAFETY: `_exit` ends the process; there is nothing left that could be used wrongly.
    unsafe { libc::_exit(status) }
}

/// Sets a handler that is called on a stack of its own when this thread overflows its stack, touches unmapped memory,
/// or aborts.
///
/// # Errors
/// [`io::Error`]: the kernel refuses the stack or the handler.
pub(super) fn on_crash(handler: extern "C" fn(libc::c_int)) -> io::Result<()> {
    const STACK_BYTES: usize = 64 << 10;
    // Lives as long as the process: the kernel may switch to it at any time.
    let stack = Box::leak(vec![0_u8; STACK_BYTES].into_boxed_slice());
    let stack = libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: STACK_BYTES };
    // SAFETY: the stack is valid for the rest of the process, and used for nothing else.
    if unsafe { libc::sigaltstack(&raw const stack, std::ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGTRAP, libc::SIGABRT] {
        // SAFETY: `sigaction` is plain data, valid when zeroed; the handler is a function of the right type.
        let done = unsafe {
            let action = action.assume_init_mut();
            action.sa_sigaction = handler as *const () as usize;
            action.sa_flags = libc::SA_ONSTACK | libc::SA_RESETHAND;
            libc::sigaction(signal, action, std::ptr::null_mut())
        };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Sets a handler that is called when C++'s `new` finds no memory. It must not return.
pub(super) fn on_failed_new(handler: extern "C" fn()) {
    unsafe extern "C" {
        /// `std::set_new_handler` of the C++ library that V8 brings.
        #[link_name = "_ZSt15set_new_handlerPFvvE"]
        fn set_new_handler(handler: extern "C" fn()) -> Option<extern "C" fn()>;
    }
    // SAFETY: the function stores the handler, which lives as long as the program.
    unsafe { set_new_handler(handler) };
}

/// Returns whether the kernel refuses this much more memory. May be called in a signal handler.
pub(super) fn no_room_for(bytes: usize) -> bool {
    let (readable, anonymous) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, wherever the kernel likes, which nobody touches before it is given back.
    unsafe {
        let room = libc::mmap(std::ptr::null_mut(), bytes.max(1), readable, anonymous, -1, 0);
        room == libc::MAP_FAILED || libc::munmap(room, bytes.max(1)) != 0
    }
}

/// Writes all of `bytes` to a descriptor. May be called in a signal handler.
pub(super) fn write_all(fd: RawFd, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        // SAFETY: the pointer and the length are those of a slice that outlives the call.
        let written = unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) };
        match usize::try_from(written) {
            Ok(written) if written > 0 => bytes = bytes.get(written..).unwrap_or(&[]),
            _ => return,
        }
    }
}

/// Moves this program's code into huge pages, if the kernel has them: a fork then copies a few entries instead of
/// faulting in hundreds of small pages. Code that cannot be moved stays as it is, which is only slower.
///
/// # Errors
/// [`io::Error`]: `/proc` cannot be read. A kernel that refuses huge pages is no error.
pub(super) fn move_code_to_huge_pages() -> io::Result<usize> {
    const HUGE: usize = 2 << 20;
    let program = std::fs::read_link("/proc/self/exe")?;
    let program = program.to_string_lossy();
    let mut moved = 0;
    for line in std::fs::read_to_string("/proc/self/maps")?.lines() {
        let mut fields = line.split_ascii_whitespace();
        let (Some(range), Some("r-xp")) = (fields.next(), fields.next()) else { continue };
        if !line.ends_with(&*program) {
            continue;
        }
        let Some((start, end)) = range.split_once('-') else { continue };
        let (Ok(start), Ok(end)) = (usize::from_str_radix(start, 16), usize::from_str_radix(end, 16)) else { continue };
        let (start, end) = (start.next_multiple_of(HUGE), end / HUGE * HUGE);
        if start < end && replace_with_huge_pages(start, end - start) {
            moved += end - start;
        }
    }
    Ok(moved)
}

/// Copies a range of code into huge pages and puts the copy in its place.
fn replace_with_huge_pages(start: usize, length: usize) -> bool {
    const HUGE: usize = 2 << 20;
    let writable = libc::PROT_READ | libc::PROT_WRITE;
    let anonymous = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping, wherever the kernel likes; nothing else is touched.
    let room = unsafe { libc::mmap(std::ptr::null_mut(), length + HUGE, writable, anonymous, -1, 0) };
    if room == libc::MAP_FAILED {
        return false;
    }
    let from = (room as usize).next_multiple_of(HUGE) as *mut libc::c_void;
    let code = start as *const u8;
    // SAFETY: `from` is `length` bytes of the new mapping, aligned inside it. `code` is `length` bytes of a readable,
    // executable mapping of this program, which nobody changes. The copy is complete before it becomes executable, and
    // the kernel puts it in the place of the original in one step: the processor finds the same bytes at the same
    // addresses before and after, this function's own included.
    let moved = unsafe {
        libc::madvise(from, length, libc::MADV_HUGEPAGE);
        std::ptr::copy_nonoverlapping(code, from.cast(), length);
        libc::mprotect(from, length, libc::PROT_READ | libc::PROT_EXEC) == 0
            && libc::mremap(from, length, length, libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED, start as *mut libc::c_void)
                != libc::MAP_FAILED
    };
    // SAFETY: what is left of the new mapping, before and after what was moved out of it, is used by nobody.
    unsafe {
        libc::munmap(room, from as usize - room as usize);
        let after = from as usize + length;
        libc::munmap(after as *mut libc::c_void, room as usize + length + HUGE - after);
        if !moved {
            libc::munmap(from, length);
        }
    }
    moved
}
