//! What a worker gives up before it reads code. A step that the kernel offers and that fails ends the worker: it does
//! not run half locked.
//!
//! [`Lock::prepare`] does what a fork inherits, once; [`Lock::close`] does the rest in each worker. What may still be
//! asked of the kernel afterwards stands in `filter`.

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

/// How willingly the kernel ends a worker when memory runs out: before anything else in the container.
const OOM_SCORE: &str = "1000";

/// What the lock allows; set by the relay for all of its workers.
#[derive(Debug, Clone, Copy)]
pub(super) struct JailConfig {
    /// The most private memory that any execution can be granted, in bytes. The relay lowers it for each.
    pub(super) memory_bytes: u64,
    /// The most CPU time that any execution can be granted, in seconds: a backstop behind the relay's own watch.
    pub(super) cpu_seconds: u64,
    /// V8 compiles to machine code: memory may become executable.
    pub(super) jit: bool,
    /// The relay.
    pub(super) parent: Option<Pid>,
}

/// Ties this process to its parent: it dies when the relay's thread that keeps the workers does.
///
/// # Errors
/// The parent is already gone, or the kernel refuses.
pub(super) fn die_with(parent: Option<Pid>) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have died before the request: then nobody would ever send the signal.
    if rustix::process::getppid() == parent { Ok(()) } else { Err(io::Error::other("the relay is gone")) }
}

/// Lets a crash, or the kernel in need of memory, end this process before the relay. While it can still be written.
///
/// # Errors
/// There is no `/proc`, or it cannot be written.
pub(super) fn volunteer_for_out_of_memory() -> io::Result<()> {
    std::fs::write("/proc/self/oom_score_adj", OOM_SCORE)
}

/// A lock that is ready to be closed.
pub(super) struct Lock {
    config: JailConfig,
    last: BpfProgram,
}

impl Lock {
    /// Gives up in this process, and in all that it will fork, what neither it nor they need: files, the network, new
    /// privileges, memory that is both written and executed, being looked into, and all system calls but those of a
    /// worker and those that make one. Prepares the rest.
    ///
    /// # Errors
    /// The kernel offers a step and refuses it.
    pub(super) fn prepare(config: JailConfig) -> io::Result<Self> {
        rustix::thread::set_no_new_privs(true)?;
        rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
        if !config.jit {
            sys::refuse_executable_memory()?;
        }
        no_files_and_no_network()?;
        let last = filter::last().map_err(io::Error::other)?;
        // Of several filters the kernel takes the strictest answer: an error number from the first, death from the
        // second.
        for program in [filter::refused(), filter::allowed(config.jit)] {
            seccompiler::apply_filter(&program.map_err(io::Error::other)?).map_err(io::Error::other)?;
        }
        Ok(Self { config, last })
    }

    /// Locks this process for good, which owns no descriptor but its socket: see [`keep_only`].
    ///
    /// # Errors
    /// A step that the kernel refused.
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

/// Landlock: nothing in any file system, no TCP port, no process and no abstract socket outside. A kernel without it,
/// or with an older version, gives what it has: the filter of system calls refuses all of it as well.
///
/// # Errors
/// The kernel has it and refuses. Gives `false` where it has none.
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
