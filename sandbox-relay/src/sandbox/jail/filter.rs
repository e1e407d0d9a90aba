//! Lists the system calls that a locked worker may make, with the reasons: those that work, and those that fail with an
//! error number because harmless code tries them. Every other call ends the process.
//!
//! The kernel takes longer to install a long filter than to fork a process. So the long filters are installed once, in
//! the process that forks, and also allow what that process needs to make a worker and close its lock. Each worker
//! installs a short one as its last step, which takes that away.

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen as Width, SeccompCmpOp as Compare, SeccompCondition,
    SeccompFilter, SeccompRule,
};

/// Number of the worker's only descriptor.
pub(super) const SOCKET: i32 = 0;

/// System call, and the rules for its arguments, one of which has to hold.
struct Entry {
    call: libc::c_long,
    /// Empty: any arguments are allowed.
    rules: &'static [&'static [Argument]],
}

/// Value that the bits of one argument under the mask have to have. All arguments that matter have 32 bits.
struct Argument {
    place: u8,
    mask: u32,
    value: u32,
}

const ALL: u32 = u32::MAX;

const fn any(call: libc::c_long) -> Entry {
    Entry { call, rules: &[] }
}

const fn with(call: libc::c_long, rules: &'static [&'static [Argument]]) -> Entry {
    Entry { call, rules }
}

const fn is(place: u8, value: i32) -> Argument {
    Argument { place, mask: ALL, value: value.cast_unsigned() }
}

const fn masked(place: u8, mask: i32, value: i32) -> Argument {
    Argument { place, mask: mask.cast_unsigned(), value: value.cast_unsigned() }
}

const ON_SOCKET: Argument = is(0, SOCKET);
/// Rule for a mapping: no execution.
const NOT_EXECUTABLE: Argument = masked(2, libc::PROT_EXEC, 0);
/// Rule for a mapping: private, so that the limit on the process's memory counts it.
const PRIVATE: Argument = masked(3, 0x0f | libc::MAP_GROWSDOWN, libc::MAP_PRIVATE);
/// Rule for a futex: the operation without its flags.
const fn operation(value: i32) -> Argument {
    masked(1, !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME), value)
}

/// Calls that a worker needs to run code.
const ALLOWED: &[Entry] = &[
    // Talking to the relay over the one socket. The standard library uses either pair, with no flag but this one;
    // out-of-band data has been a broken corner of the kernel.
    with(libc::SYS_read, &[&[ON_SOCKET]]),
    with(libc::SYS_write, &[&[ON_SOCKET]]),
    with(libc::SYS_recvfrom, &[&[ON_SOCKET, is(3, 0)]]),
    with(libc::SYS_sendto, &[&[ON_SOCKET, is(3, 0)], &[ON_SOCKET, is(3, libc::MSG_NOSIGNAL)]]),
    // Waiting for the relay's answer. Other descriptors than the socket do not exist.
    any(libc::SYS_poll),
    any(libc::SYS_ppoll),
    // Memory for V8's heap and for ours, never executable, never shared.
    with(libc::SYS_mmap, &[&[NOT_EXECUTABLE, PRIVATE]]),
    with(libc::SYS_mprotect, &[&[NOT_EXECUTABLE]]),
    any(libc::SYS_munmap),
    any(libc::SYS_mremap),
    any(libc::SYS_madvise),
    any(libc::SYS_brk),
    // Locks inside V8 and the allocator; the wait to be killed after the last report.
    with(
        libc::SYS_futex,
        &[
            &[operation(libc::FUTEX_WAIT)],
            &[operation(libc::FUTEX_WAKE)],
            &[operation(libc::FUTEX_REQUEUE)],
            &[operation(libc::FUTEX_CMP_REQUEUE)],
            &[operation(libc::FUTEX_WAIT_BITSET)],
            &[operation(libc::FUTEX_WAKE_BITSET)],
        ],
    ),
    any(libc::SYS_sched_yield),
    // Date.now and the time between two flushes, on machines where the vDSO cannot answer. Clocks of other processes,
    // which have higher numbers, would tell when they run.
    with(libc::SYS_clock_gettime, &[&[masked(0, !0x0f, 0)]]),
    any(libc::SYS_gettimeofday),
    // The seed of Math.random and of hash maps.
    any(libc::SYS_getrandom),
    // Numbers of this process and its thread, in V8's locks and in an abort.
    any(libc::SYS_getpid),
    any(libc::SYS_gettid),
    // The peak of this process's own resident memory, for the report.
    with(libc::SYS_getrusage, &[&[is(0, libc::RUSAGE_SELF)]]),
    // The handler of a crash: returning from it, and the masks around it.
    any(libc::SYS_rt_sigreturn),
    any(libc::SYS_rt_sigprocmask),
    any(libc::SYS_sigaltstack),
    // Resuming a wait after the process was stopped and continued from outside.
    any(libc::SYS_restart_syscall),
    // The end.
    any(libc::SYS_exit),
    any(libc::SYS_exit_group),
];

/// Calls that a worker needs besides if its V8 compiles to machine code.
const ALLOWED_WITH_JIT: &[Entry] = &[
    // Code is first written and then made executable.
    with(libc::SYS_mmap, &[&[PRIVATE]]),
    any(libc::SYS_mprotect),
    // The same with a protection key, on processors that have them.
    any(libc::SYS_pkey_mprotect),
];

/// Calls that make a worker of a process with the long filters and close its lock. A worker has none of them.
const WHILE_LOCKING: &[libc::c_long] = &[
    // The forking process: requests from the relay and answers, with descriptors attached; the fork; what is done with.
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_clone,
    libc::SYS_close,
    // A check of the standard library's, in debug builds, before it closes a descriptor.
    libc::SYS_fcntl,
    // The steps of the lock: the death signal, the one descriptor, the limits, the last filter.
    libc::SYS_prctl,
    libc::SYS_getppid,
    libc::SYS_dup2,
    libc::SYS_close_range,
    libc::SYS_prlimit64,
    libc::SYS_seccomp,
];

/// Calls that harmless code tries and can do without: they fail with an error number.
const REFUSED: &[Entry] = &[
    // glibc opens `/proc/self/maps` when V8 looks for the bounds of its stack.
    any(libc::SYS_openat),
    any(libc::SYS_open),
    // Last words on standard error, which is closed.
    with(libc::SYS_write, &[&[is(0, libc::STDERR_FILENO)]]),
    // Signals of an abort, which then ends with an instruction; our own crash handler ends the process, too.
    with(libc::SYS_tgkill, &[&[is(2, libc::SIGABRT)]]),
    with(libc::SYS_rt_sigaction, &[&[is(0, libc::SIGABRT)]]),
];

/// Makes the filter that allows the list, and what is still needed to close the lock, and ends the process at any other
/// call.
pub(super) fn allowed(jit: bool) -> Result<BpfProgram, BackendError> {
    let mut all = BTreeMap::new();
    let more: &[Entry] = if jit { ALLOWED_WITH_JIT } else { &[] };
    // Later entries replace earlier ones.
    for entry in ALLOWED.iter().chain(more) {
        all.insert(entry.call, rules(entry)?);
    }
    all.extend(WHILE_LOCKING.iter().map(|call| (*call, Vec::new())));
    // The other filter answers these.
    for entry in REFUSED {
        let also = rules(entry)?;
        all.entry(entry.call).and_modify(|rules| rules.extend_from_slice(&also)).or_insert(also);
    }
    compile(all, SeccompAction::KillProcess, SeccompAction::Allow)
}

/// Makes the filter that answers with an error number and leaves every other call to the other filter.
pub(super) fn refused() -> Result<BpfProgram, BackendError> {
    let all = REFUSED.iter().map(|entry| Ok((entry.call, rules(entry)?)));
    let all = all.collect::<Result<_, BackendError>>()?;
    compile(all, SeccompAction::Allow, SeccompAction::Errno(libc::EACCES.unsigned_abs()))
}

/// Makes the filter of the last step, which takes away what was needed to close the lock.
pub(super) fn last() -> Result<BpfProgram, BackendError> {
    let all = WHILE_LOCKING.iter().map(|call| (*call, Vec::new())).collect();
    compile(all, SeccompAction::Allow, SeccompAction::KillProcess)
}

fn compile(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    otherwise: SeccompAction,
    listed: SeccompAction,
) -> Result<BpfProgram, BackendError> {
    SeccompFilter::new(rules, otherwise, listed, std::env::consts::ARCH.try_into()?)?.try_into()
}

fn rules(entry: &Entry) -> Result<Vec<SeccompRule>, BackendError> {
    let condition = |Argument { place, mask, value }: &Argument| {
        SeccompCondition::new(*place, Width::Dword, Compare::MaskedEq((*mask).into()), (*value).into())
    };
    let rule = |arguments: &&[Argument]| SeccompRule::new(arguments.iter().map(condition).collect::<Result<_, _>>()?);
    entry.rules.iter().map(rule).collect()
}
