//! Locks a worker before it reads code. A step that the kernel offers and that fails ends the worker: it does not run
//! half locked.
//!
//! [`Lock::prepare`] takes the steps that a fork inherits, once; [`Lock::close`] takes the rest in each worker.
//! `filter` lists the system calls that are left.

mod filter;

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible, RestrictionStatus, Ruleset, RulesetAttr,
    RulesetError, RulesetStatus, Scope,
};
use rustix::process::{DumpableBehavior, Pid, Resource, Rlimit, Signal};
use seccompiler::BpfProgram;

use super::sys;

/// Score by which the kernel picks a process to kill when memory runs out: workers come first.
const OOM_SCORE: &str = "1000";

/// Limits of the lock. The relay sets them for all of its workers.
#[derive(Debug, Clone, Copy)]
pub(super) struct JailConfig {
    /// Maximum private memory of any execution in bytes. The relay lowers it for each.
    pub(super) memory_bytes: u64,
    /// Maximum CPU time of any execution in seconds: a backstop behind the relay's own watch.
    pub(super) cpu_seconds: u64,
    /// `true`: V8 compiles to machine code, so that memory may become executable.
    pub(super) jit: bool,
    /// Process id of the relay.
    pub(super) parent: Option<Pid>,
}

/// Ties this process to its parent: it dies with the relay's thread that keeps the workers.
///
/// # Errors
/// [`io::Error`]: the parent is gone already, or the kernel refuses.
pub(super) fn die_with(parent: Option<Pid>) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // If the parent died before the request, no signal would ever come.
    if rustix::process::getppid() == parent { Ok(()) } else { Err(io::Error::other("the relay is gone")) }
}

/// Lets the kernel in need of memory kill this process before the relay. Called while `/proc` can still be written.
///
/// # Errors
/// [`io::Error`]: `/proc` is missing or cannot be written.
pub(super) fn volunteer_for_out_of_memory() -> io::Result<()> {
    std::fs::write("/proc/self/oom_score_adj", OOM_SCORE)
}

/// Lock that is ready to be closed.
pub(super) struct Lock {
    config: JailConfig,
    last: BpfProgram,
}

impl Lock {
    /// Takes from this process and its forks what neither needs: files, the network, new privileges, memory that is
    /// both writable and executable, being traced, and all system calls but those of a worker and those that make one.
    /// Prepares the last step.
    ///
    /// # Errors
    /// [`io::Error`]: the kernel offers a step and refuses it.
    pub(super) fn prepare(config: JailConfig) -> io::Result<Self> {
        rustix::thread::set_no_new_privs(true)?;
        rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
        if !config.jit {
            sys::refuse_executable_memory()?;
        }
        no_files_and_no_network()?;
        let last = filter::last().map_err(io::Error::other)?;
        // The kernel takes the strictest answer of several filters: an error number from the first, death from the
        // second.
        for program in [filter::refused(), filter::allowed(config.jit)] {
            seccompiler::apply_filter(&program.map_err(io::Error::other)?).map_err(io::Error::other)?;
        }
        Ok(Self { config, last })
    }

    /// Locks this process for good. It owns no descriptor but its socket: see [`keep_only`].
    ///
    /// # Errors
    /// [`io::Error`]: the kernel refuses a step.
    pub(super) fn close(&self) -> io::Result<()> {
        die_with(self.config.parent)?;
        let limits = [
            (Resource::Core, 0),
            (Resource::Fsize, 0),
            (Resource::Nproc, 0),
            (Resource::Nofile, 8),
            (Resource::Memlock, 0),
            (Resource::Cpu, self.config.cpu_seconds),
            (Resource::Data, self.config.memory_bytes),
        ];
        for (resource, most) in limits {
            let limit = Rlimit { current: Some(most), maximum: Some(most) };
            rustix::process::setrlimit(resource, limit)?;
        }
        seccompiler::apply_filter(&self.last).map_err(io::Error::other)
    }
}

/// Closes every descriptor of this process but its socket, which gets the number that the filter allows.
///
/// # Errors
/// The kernel refuses.
pub(super) fn keep_only(socket: OwnedFd) -> io::Result<UnixStream> {
    sys::only_descriptor(socket, filter::SOCKET).map(Into::into)
}

/// Installs Landlock: no file, no TCP port, no process and no abstract socket outside. A kernel without it, or with an
/// older version, does what it can: the filter of system calls refuses all of it, too.
///
/// # Errors
/// [`io::Error`]: the kernel has Landlock and refuses. Returns `false` if it has none.
pub(super) fn no_files_and_no_network() -> io::Result<bool> {
    let all = ABI::V6;
    let restrict = || {
        let ruleset = Ruleset::default().set_compatibility(CompatLevel::BestEffort);
        let ruleset = ruleset.handle_access(AccessFs::from_all(all))?.handle_access(AccessNet::from_all(all))?;
        ruleset.scope(Scope::from_all(all))?.create()?.restrict_self()
    };
    let status: RestrictionStatus = restrict().map_err(|error: RulesetError| io::Error::other(error))?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}
