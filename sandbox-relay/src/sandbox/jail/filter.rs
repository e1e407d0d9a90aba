//! The system calls that a locked worker may make, and why. Two lists: what runs, and what fails with an error number
//! because harmless code tries it. Everything else ends the process.

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen as Width, SeccompCmpOp as Compare, SeccompCondition,
    SeccompFilter, SeccompRule,
};

/// The number of the worker's only descriptor.
pub(super) const SOCKET: i32 = 0;

/// A system call and with what arguments it may be made.
struct Entry {
    call: libc::c_long,
    arguments: Arguments,
}

enum Arguments {
    Any,
    /// The first is the worker's socket.
    OnSocket,
    /// The third, a protection, does not ask for executable memory.
    NotExecutable,
    /// The first is zero: this process itself, no other.
    Zero,
    /// The first is the descriptor of standard error.
    OnStandardError,
    /// The third, a signal, is that of an abort.
    Abort,
    /// The first, a signal, is that of an abort.
    OfAbort,
}

const fn entry(call: libc::c_long, arguments: Arguments) -> Entry {
    Entry { call, arguments }
}

/// What a worker that runs code needs.
const ALLOWED: &[Entry] = &[
    // Talking to the relay, over the one socket. The standard library reads and writes sockets with either pair.
    entry(libc::SYS_read, Arguments::OnSocket),
    entry(libc::SYS_write, Arguments::OnSocket),
    entry(libc::SYS_recvfrom, Arguments::OnSocket),
    entry(libc::SYS_sendto, Arguments::OnSocket),
    // Waiting for the relay's answer. Other descriptors than the socket do not exist.
    entry(libc::SYS_poll, Arguments::Any),
    entry(libc::SYS_ppoll, Arguments::Any),
    // Memory for V8's heap and for ours, never executable.
    entry(libc::SYS_mmap, Arguments::NotExecutable),
    entry(libc::SYS_mprotect, Arguments::NotExecutable),
    entry(libc::SYS_munmap, Arguments::Any),
    entry(libc::SYS_mremap, Arguments::Any),
    entry(libc::SYS_madvise, Arguments::Any),
    entry(libc::SYS_brk, Arguments::Any),
    // Locks inside V8 and the allocator; the wait to be killed after the last report.
    entry(libc::SYS_futex, Arguments::Any),
    entry(libc::SYS_sched_yield, Arguments::Any),
    // Date.now, and the time between two flushes, where the vDSO has no answer of its own.
    entry(libc::SYS_clock_gettime, Arguments::Any),
    entry(libc::SYS_gettimeofday, Arguments::Any),
    // The seed of Math.random and of hash maps.
    entry(libc::SYS_getrandom, Arguments::Any),
    // Numbers of this process and its thread, in V8's locks and in an abort.
    entry(libc::SYS_getpid, Arguments::Any),
    entry(libc::SYS_gettid, Arguments::Any),
    // The peak of resident memory, for the report.
    entry(libc::SYS_getrusage, Arguments::Zero),
    // The handler of a stack overflow in the parser: returning from it, and the masks around it.
    entry(libc::SYS_rt_sigreturn, Arguments::Any),
    entry(libc::SYS_rt_sigprocmask, Arguments::Any),
    entry(libc::SYS_sigaltstack, Arguments::Any),
    // Going on with a wait after the process was stopped and continued from outside.
    entry(libc::SYS_restart_syscall, Arguments::Any),
    // The end.
    entry(libc::SYS_exit, Arguments::Any),
    entry(libc::SYS_exit_group, Arguments::Any),
];

/// What else a worker needs whose V8 compiles to machine code.
const ALLOWED_WITH_JIT: &[Entry] = &[
    // Code is written first and made executable then.
    entry(libc::SYS_mmap, Arguments::Any),
    entry(libc::SYS_mprotect, Arguments::Any),
    // The same, with a protection key, where the processor has them.
    entry(libc::SYS_pkey_mprotect, Arguments::Any),
];

/// What harmless code tries and gets on without.
const REFUSED: &[Entry] = &[
    // glibc opens `/proc/self/maps` when V8 looks for the bounds of its stack.
    entry(libc::SYS_openat, Arguments::Any),
    entry(libc::SYS_open, Arguments::Any),
    // Last words on standard error, which is closed.
    entry(libc::SYS_write, Arguments::OnStandardError),
    // The signals of an abort, which goes on to an instruction that ends it; and so do we, in a handler of our own.
    entry(libc::SYS_tgkill, Arguments::Abort),
    entry(libc::SYS_rt_sigaction, Arguments::OfAbort),
];

/// The filter that lets the list through and ends the process at anything else.
pub(super) fn allowed(jit: bool) -> Result<BpfProgram, BackendError> {
    let mut rules = BTreeMap::new();
    let more: &[Entry] = if jit { ALLOWED_WITH_JIT } else { &[] };
    // What comes later replaces what came before.
    for Entry { call, arguments } in ALLOWED.iter().chain(more) {
        rules.insert(*call, conditions(arguments)?);
    }
    // The other filter sees to these. No condition at all would mean: with any arguments.
    for Entry { call, arguments } in REFUSED {
        let also = conditions(arguments)?;
        rules.entry(*call).and_modify(|rules| rules.extend_from_slice(&also)).or_insert(also);
    }
    compile(rules, SeccompAction::KillProcess, SeccompAction::Allow)
}

/// The filter that gives an error number, and leaves everything else to the other one.
pub(super) fn refused() -> Result<BpfProgram, BackendError> {
    let rules = REFUSED.iter().map(|Entry { call, arguments }| Ok((*call, conditions(arguments)?)));
    compile(
        rules.collect::<Result<_, BackendError>>()?,
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EACCES.unsigned_abs()),
    )
}

fn compile(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    otherwise: SeccompAction,
    listed: SeccompAction,
) -> Result<BpfProgram, BackendError> {
    SeccompFilter::new(rules, otherwise, listed, std::env::consts::ARCH.try_into()?)?.try_into()
}

/// No rule at all means: with any arguments.
fn conditions(arguments: &Arguments) -> Result<Vec<SeccompRule>, BackendError> {
    let socket = u64::from(SOCKET.unsigned_abs());
    let executable = u64::from(libc::PROT_EXEC.unsigned_abs());
    let abort = u64::from(libc::SIGABRT.unsigned_abs());
    let (argument, compare, value) = match arguments {
        Arguments::Any => return Ok(Vec::new()),
        Arguments::OnSocket => (0, Compare::Eq, socket),
        Arguments::NotExecutable => (2, Compare::MaskedEq(executable), 0),
        Arguments::Zero => (0, Compare::Eq, 0),
        Arguments::OnStandardError => (0, Compare::Eq, 2),
        Arguments::Abort => (2, Compare::Eq, abort),
        Arguments::OfAbort => (0, Compare::Eq, abort),
    };
    Ok(vec![SeccompRule::new(vec![SeccompCondition::new(argument, Width::Dword, compare, value)?])?])
}
