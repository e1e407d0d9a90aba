//! The system calls that a locked worker may make, and why: what runs, and what fails with an error number because
//! harmless code tries it. Everything else ends the process.
//!
//! Installing a long filter takes the kernel longer than forking a process. So the long ones are installed once, in the
//! process that forks, and allow besides what that process needs to make a worker and close its lock; a short one,
//! installed in each worker as the last step, takes that away.

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen as Width, SeccompCmpOp as Compare, SeccompCondition,
    SeccompFilter, SeccompRule,
};

/// The number of the worker's only descriptor.
pub(super) const SOCKET: i32 = 0;

/// A system call and with what arguments it may be made: any of the rules.
struct Entry {
    call: libc::c_long,
    /// Without one: with any arguments.
    rules: &'static [&'static [Argument]],
}

/// What one argument has to be: its bits under the mask. All arguments that matter have 32 bits.
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
/// Of a mapping: a protection without execution.
const NOT_EXECUTABLE: Argument = masked(2, libc::PROT_EXEC, 0);
/// Of a mapping: private, so that the limit on the process's memory counts it.
const PRIVATE: Argument = masked(3, 0x0f | libc::MAP_GROWSDOWN, libc::MAP_PRIVATE);
/// Of a futex: the operation without its flags.
const fn operation(value: i32) -> Argument {
    masked(1, !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME), value)
}

/// What a worker that runs code needs.
const ALLOWED: &[Entry] = &[
    // Talking to the relay, over the one socket. The standard library reads and writes sockets with either pair, and
    // with no flags but this: out-of-band data is a corner of the kernel that has been broken before.
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
    // Date.now, and the time between two flushes, where the vDSO has no answer of its own. Clocks of other processes,
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
    // Going on with a wait after the process was stopped and continued from outside.
    any(libc::SYS_restart_syscall),
    // The end.
    any(libc::SYS_exit),
    any(libc::SYS_exit_group),
];

/// What else a worker needs whose V8 compiles to machine code.
const ALLOWED_WITH_JIT: &[Entry] = &[
    // Code is written first and made executable then.
    with(libc::SYS_mmap, &[&[PRIVATE]]),
    any(libc::SYS_mprotect),
    // The same, with a protection key, where the processor has them.
    any(libc::SYS_pkey_mprotect),
];

/// What it takes to make a worker out of a process that has the long filters, and to close its lock. A worker has none
/// of it.
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

/// What harmless code tries and gets on without.
const REFUSED: &[Entry] = &[
    // glibc opens `/proc/self/maps` when V8 looks for the bounds of its stack.
    any(libc::SYS_openat),
    any(libc::SYS_open),
    // Last words on standard error, which is closed.
    with(libc::SYS_write, &[&[is(0, libc::STDERR_FILENO)]]),
    // The signals of an abort, which goes on to an instruction that ends it; and so do we, in a handler of our own.
    with(libc::SYS_tgkill, &[&[is(2, libc::SIGABRT)]]),
    with(libc::SYS_rt_sigaction, &[&[is(0, libc::SIGABRT)]]),
];

/// The filter that lets the list through, and what is still needed to close the lock, and ends the process at anything
/// else.
pub(super) fn allowed(jit: bool) -> Result<BpfProgram, BackendError> {
    let mut all = BTreeMap::new();
    let more: &[Entry] = if jit { ALLOWED_WITH_JIT } else { &[] };
    // What comes later replaces what came before.
    for entry in ALLOWED.iter().chain(more) {
        all.insert(entry.call, rules(entry)?);
    }
    all.extend(WHILE_LOCKING.iter().map(|call| (*call, Vec::new())));
    // The other filter sees to these.
    for entry in REFUSED {
        let also = rules(entry)?;
        all.entry(entry.call).and_modify(|rules| rules.extend_from_slice(&also)).or_insert(also);
    }
    compile(all, SeccompAction::KillProcess, SeccompAction::Allow)
}

/// The filter that gives an error number, and leaves everything else to the other one.
pub(super) fn refused() -> Result<BpfProgram, BackendError> {
    let all = REFUSED.iter().map(|entry| Ok((entry.call, rules(entry)?)));
    let all = all.collect::<Result<_, BackendError>>()?;
    compile(all, SeccompAction::Allow, SeccompAction::Errno(libc::EACCES.unsigned_abs()))
}

/// The filter that takes away what was needed to close the lock: the last step.
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
