//! `self-test`: tries inside a closed lock what a worker must never be able to do, one process for each attempt, and
//! reports the kernel's answers.

use std::io;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use super::jail::{self, JailConfig, Lock};
use super::sys::{self, ChildEnd};

/// Required answer to an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// The process is ended with SIGSYS.
    Killed,
    /// The call fails with this error number.
    Fails(i32),
    /// The call works: without it no code could run.
    Works,
}

/// System call with arguments that would be harmless, and could succeed, outside the lock.
struct Attempt {
    name: &'static str,
    call: libc::c_long,
    arguments: [usize; 6],
    expected: Expected,
}

const PATH: &std::ffi::CStr = c"/proc/self/maps";
const NONE: usize = usize::MAX;

const fn attempt(name: &'static str, call: libc::c_long, arguments: [usize; 6], expected: Expected) -> Attempt {
    Attempt { name, call, arguments, expected }
}

/// Attempts at files, the network, other processes, new code and more rights: every way out that the kernel has a call
/// for.
fn attempts() -> Vec<Attempt> {
    use Expected::{Fails, Killed, Works};
    let path = PATH.as_ptr() as usize;
    let here = std::process::id() as usize;
    let read_write_execute = (libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC).unsigned_abs() as usize;
    let execute = (libc::PROT_READ | libc::PROT_EXEC).unsigned_abs() as usize;
    let anonymous = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS).unsigned_abs() as usize;
    let at_working_folder = libc::AT_FDCWD as usize;
    // A page of this program's data, which exists and is writable.
    let mut page = vec![0_u8; 8192];
    let page = (page.as_mut_ptr() as usize).next_multiple_of(4096);
    let domain = libc::AF_INET as usize;
    let (unix, stream) = (libc::AF_UNIX as usize, libc::SOCK_STREAM as usize);
    vec![
        attempt("getpid, which is allowed", libc::SYS_getpid, [0; 6], Works),
        attempt("mmap of plain memory, which is allowed", libc::SYS_mmap, [0, 4096, 3, anonymous, NONE, 0], Works),
        attempt("open", libc::SYS_open, [path, 0, 0, 0, 0, 0], Fails(libc::EACCES)),
        attempt("openat", libc::SYS_openat, [at_working_folder, path, 0, 0, 0, 0], Fails(libc::EACCES)),
        attempt("openat2", libc::SYS_openat2, [at_working_folder, path, 0, 0, 0, 0], Killed),
        attempt("open_by_handle_at", libc::SYS_open_by_handle_at, [at_working_folder, 0, 0, 0, 0, 0], Killed),
        attempt("creat", libc::SYS_creat, [path, 0, 0, 0, 0, 0], Killed),
        attempt("unlink", libc::SYS_unlink, [path, 0, 0, 0, 0, 0], Killed),
        attempt("rename", libc::SYS_rename, [path, path, 0, 0, 0, 0], Killed),
        attempt("mkdir", libc::SYS_mkdir, [path, 0, 0, 0, 0, 0], Killed),
        attempt("chmod", libc::SYS_chmod, [path, 0o777, 0, 0, 0, 0], Killed),
        attempt("readlink", libc::SYS_readlink, [path, page, 64, 0, 0, 0], Killed),
        attempt("stat", libc::SYS_stat, [path, page, 0, 0, 0, 0], Killed),
        attempt("getdents64", libc::SYS_getdents64, [0, page, 64, 0, 0, 0], Killed),
        attempt("read of another descriptor", libc::SYS_read, [1, page, 1, 0, 0, 0], Killed),
        attempt("write to another descriptor", libc::SYS_write, [1, page, 1, 0, 0, 0], Killed),
        attempt("write to standard error", libc::SYS_write, [2, page, 1, 0, 0, 0], Fails(libc::EACCES)),
        attempt("memfd_create", libc::SYS_memfd_create, [path, 0, 0, 0, 0, 0], Killed),
        attempt("socket", libc::SYS_socket, [domain, stream, 0, 0, 0, 0], Killed),
        attempt("socketpair", libc::SYS_socketpair, [unix, stream, 0, page, 0, 0], Killed),
        attempt("connect", libc::SYS_connect, [0, page, 16, 0, 0, 0], Killed),
        attempt("bind", libc::SYS_bind, [0, page, 16, 0, 0, 0], Killed),
        attempt("listen", libc::SYS_listen, [0, 1, 0, 0, 0, 0], Killed),
        attempt("accept4", libc::SYS_accept4, [0, 0, 0, 0, 0, 0], Killed),
        attempt("sendmsg, which passes descriptors", libc::SYS_sendmsg, [0, page, 0, 0, 0, 0], Killed),
        attempt("recvmsg, which takes descriptors", libc::SYS_recvmsg, [0, page, 0, 0, 0, 0], Killed),
        attempt("fork", libc::SYS_fork, [0; 6], Killed),
        attempt("vfork", libc::SYS_vfork, [0; 6], Killed),
        attempt("clone", libc::SYS_clone, [libc::SIGCHLD as usize, 0, 0, 0, 0, 0], Killed),
        attempt("clone3", libc::SYS_clone3, [page, 88, 0, 0, 0, 0], Killed),
        attempt("execve", libc::SYS_execve, [path, 0, 0, 0, 0, 0], Killed),
        attempt("execveat", libc::SYS_execveat, [at_working_folder, path, 0, 0, 0, 0], Killed),
        attempt("kill of this process", libc::SYS_kill, [here, 0, 0, 0, 0, 0], Killed),
        attempt("kill of everything", libc::SYS_kill, [NONE, 0, 0, 0, 0, 0], Killed),
        attempt("tgkill", libc::SYS_tgkill, [here, here, 9, 0, 0, 0], Killed),
        attempt("tgkill as in an abort", libc::SYS_tgkill, [here, here, 6, 0, 0, 0], Fails(libc::EACCES)),
        attempt("rt_sigaction", libc::SYS_rt_sigaction, [11, page, 0, 8, 0, 0], Killed),
        attempt("pidfd_open", libc::SYS_pidfd_open, [here, 0, 0, 0, 0, 0], Killed),
        attempt("pidfd_getfd", libc::SYS_pidfd_getfd, [0, 0, 0, 0, 0, 0], Killed),
        attempt("ptrace", libc::SYS_ptrace, [0; 6], Killed),
        attempt("process_vm_readv", libc::SYS_process_vm_readv, [here, 0, 0, 0, 0, 0], Killed),
        attempt("process_vm_writev", libc::SYS_process_vm_writev, [here, 0, 0, 0, 0, 0], Killed),
        attempt("mmap of executable memory", libc::SYS_mmap, [0, 4096, read_write_execute, anonymous, NONE, 0], Killed),
        attempt("mmap of shared memory, which no limit counts", libc::SYS_mmap, [0, 4096, 3, 0x21, NONE, 0], Killed),
        attempt("mmap of memory that grows by itself", libc::SYS_mmap, [0, 4096, 3, 0x122, NONE, 0], Killed),
        attempt("sending out of band", libc::SYS_sendto, [0, page, 1, 1, 0, 0], Killed),
        attempt("peeking", libc::SYS_recvfrom, [0, page, 1, 2, 0, 0], Killed),
        attempt("another process's clock", libc::SYS_clock_gettime, [!here << 3 | 6, page, 0, 0, 0, 0], Killed),
        attempt("a futex that lends priority", libc::SYS_futex, [page, 6, 0, 0, 0, 0], Killed),
        attempt("mprotect to executable", libc::SYS_mprotect, [page, 4096, execute, 0, 0, 0], Killed),
        attempt("pkey_mprotect", libc::SYS_pkey_mprotect, [page, 4096, execute, NONE, 0, 0], Killed),
        attempt("personality", libc::SYS_personality, [0x0040_0000, 0, 0, 0, 0, 0], Killed),
        attempt("prctl", libc::SYS_prctl, [libc::PR_SET_DUMPABLE as usize, 1, 0, 0, 0, 0], Killed),
        attempt("seccomp", libc::SYS_seccomp, [0; 6], Killed),
        attempt("bpf", libc::SYS_bpf, [0; 6], Killed),
        attempt("userfaultfd", libc::SYS_userfaultfd, [0; 6], Killed),
        attempt("perf_event_open", libc::SYS_perf_event_open, [page, 0, NONE, NONE, 0, 0], Killed),
        attempt("io_uring_setup", libc::SYS_io_uring_setup, [1, page, 0, 0, 0, 0], Killed),
        attempt("io_setup", libc::SYS_io_setup, [1, page, 0, 0, 0, 0], Killed),
        attempt("add_key", libc::SYS_add_key, [path, path, 0, 0, NONE, 0], Killed),
        attempt("keyctl", libc::SYS_keyctl, [0; 6], Killed),
        attempt("setuid", libc::SYS_setuid, [0; 6], Killed),
        attempt("unshare", libc::SYS_unshare, [libc::CLONE_NEWUSER as usize, 0, 0, 0, 0, 0], Killed),
        attempt("setns", libc::SYS_setns, [0; 6], Killed),
        attempt("mount", libc::SYS_mount, [0; 6], Killed),
        attempt("chroot", libc::SYS_chroot, [path, 0, 0, 0, 0, 0], Killed),
        attempt("prlimit64", libc::SYS_prlimit64, [0, 2, 0, page, 0, 0], Killed),
        attempt("sched_setaffinity", libc::SYS_sched_setaffinity, [0, 8, page, 0, 0, 0], Killed),
        attempt("ioctl", libc::SYS_ioctl, [0, 0, 0, 0, 0, 0], Killed),
        attempt("fcntl", libc::SYS_fcntl, [0, 1, 0, 0, 0, 0], Killed),
        attempt("dup", libc::SYS_dup, [0; 6], Killed),
        attempt("a call of the 32-bit kind", 0x4000_0000 | libc::SYS_getpid, [0; 6], Killed),
        attempt("a call that does not exist", 1_000_000, [0; 6], Killed),
    ]
}

/// Result of one attempt.
#[derive(Debug)]
pub struct Finding {
    /// Attempt, in words.
    pub attempt: &'static str,
    /// Answer of the kernel, in words.
    pub outcome: String,
    /// `true`: the answer is the required one.
    pub holds: bool,
}

/// Makes every attempt, each in a process of its own that has closed the lock.
///
/// # Errors
/// [`std::io::Error`]: the system refuses a process, or the lock cannot be prepared.
pub fn self_test() -> io::Result<Vec<Finding>> {
    let config = JailConfig {
        memory_bytes: 1 << 30,
        cpu_seconds: 10,
        jit: false,
        parent: rustix::process::Pid::from_raw(std::process::id().cast_signed()),
    };
    let attempts = attempts();
    let attempts = attempts.iter().map(|it| finding(it, config));
    attempts.chain([write_xor_execute(config), landlock()]).collect()
}

/// Tries whether the kernel itself refuses executable memory, without the filter.
fn write_xor_execute(config: JailConfig) -> io::Result<Finding> {
    const PR_GET_MDWE: usize = 66;
    let end = sys::in_a_child(|| match Lock::prepare(config) {
        Ok(_) => status(sys::raw_call(libc::SYS_prctl, [PR_GET_MDWE, 0, 0, 0, 0, 0])),
        Err(_) => NOT_LOCKED,
    })?;
    Ok(layer("memory is written or executed, never both", end, ChildEnd::Exited(ANSWERED + 1), libc::EINVAL))
}

/// Tries whether Landlock alone refuses files, without the filter.
fn landlock() -> io::Result<Finding> {
    let end = sys::in_a_child(|| match jail::no_files_and_no_network() {
        Ok(true) => status(sys::raw_call(libc::SYS_open, [c"/".as_ptr() as usize, 0, 0, 0, 0, 0])),
        Ok(false) => libc::ENOSYS,
        Err(_) => NOT_LOCKED,
    })?;
    Ok(layer("files are shut without the filter (Landlock)", end, ChildEnd::Exited(libc::EACCES), libc::ENOSYS))
}

/// Makes the result of a second line of defence: the answer has to be `expected`, or an error number of a kernel
/// without it.
fn layer(attempt: &'static str, end: ChildEnd, expected: ChildEnd, absent: i32) -> Finding {
    let (outcome, holds) = match end {
        end if end == expected => ("yes".to_owned(), true),
        ChildEnd::Exited(error) if error == absent => ("this kernel has none".to_owned(), true),
        end => (format!("no: {end:?}"), false),
    };
    Finding { attempt, outcome, holds }
}

/// Returns the exit status for the result of a call.
fn status(result: i64) -> i32 {
    let status = if result < 0 { -result } else { i64::from(ANSWERED) + result };
    i32::try_from(status).unwrap_or(NOT_LOCKED)
}

/// Exit statuses of an attempt: the error number of the call, or one of these.
const WORKED: i32 = 0;
const NOT_LOCKED: i32 = 250;
/// Offset of the status of a call that returned a small number.
const ANSWERED: i32 = 200;

fn finding(attempt: &Attempt, config: JailConfig) -> io::Result<Finding> {
    let end = sys::in_a_child(|| {
        let locked = UnixStream::pair().and_then(|(socket, theirs)| {
            let lock = Lock::prepare(config)?;
            // The next step closes it with every other descriptor; afterwards a worker may not call close.
            let _ = theirs.into_raw_fd();
            let _ = jail::keep_only(OwnedFd::from(socket))?.into_raw_fd();
            lock.close()
        });
        if locked.is_err() {
            return NOT_LOCKED;
        }
        match sys::raw_call(attempt.call, attempt.arguments) {
            error if error < 0 => i32::try_from(-error).unwrap_or(NOT_LOCKED),
            _ => WORKED,
        }
    })?;
    let (outcome, holds) = match end {
        ChildEnd::Signalled(libc::SIGSYS) => ("killed".to_owned(), attempt.expected == Expected::Killed),
        ChildEnd::Signalled(signal) => (format!("ended by signal {signal}"), false),
        ChildEnd::Exited(NOT_LOCKED) => ("not tried: the lock could not be closed".to_owned(), false),
        ChildEnd::Exited(WORKED) => ("worked".to_owned(), attempt.expected == Expected::Works),
        ChildEnd::Exited(error) => {
            let text = io::Error::from_raw_os_error(error).to_string();
            (format!("failed: {text}"), attempt.expected == Expected::Fails(error))
        }
    };
    Ok(Finding { attempt: attempt.name, outcome, holds })
}
