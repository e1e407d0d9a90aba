//! What a worker gives up before it reads code. A step that fails ends the worker: it does not run half locked.

use std::io;
use std::os::fd::AsFd;

use rustix::process::{DumpableBehavior, Pid, Resource, Rlimit, Signal};

use super::sys;

/// What the lock allows; set by the relay for all of its workers.
#[derive(Debug, Clone, Copy)]
pub(super) struct JailConfig {
    /// The most private memory that any execution can be granted, in bytes. The relay lowers it for each.
    pub(super) memory_bytes: u64,
    /// The most CPU time that any execution can be granted, in seconds: a backstop behind the relay's own watch.
    pub(super) cpu_seconds: u64,
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

/// Locks this process for good. Afterwards `socket` is its only descriptor.
///
/// # Errors
/// A step that the kernel refused.
pub(super) fn lock(socket: impl AsFd, config: JailConfig) -> io::Result<()> {
    die_with(config.parent)?;
    sys::close_all_but(socket.as_fd())?;
    let limits = [
        (Resource::Core, 0),
        (Resource::Fsize, 0),
        (Resource::Nproc, 0),
        (Resource::Nofile, 8),
        (Resource::Memlock, 0),
        (Resource::Cpu, config.cpu_seconds),
        (Resource::Data, config.memory_bytes),
    ];
    for (resource, most) in limits {
        let limit = Rlimit { current: Some(most), maximum: Some(most) };
        rustix::process::setrlimit(resource, limit)?;
    }
    rustix::thread::set_no_new_privs(true)?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(())
}
