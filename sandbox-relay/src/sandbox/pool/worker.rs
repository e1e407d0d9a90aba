//! Worker processes, as the relay holds them: their socket, their limits, their end.

use std::any::Any;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions};

use super::{Dying, PoolState, lock};
use crate::sandbox::sys;

/// Worker process, locked and ready. Dropping it kills the process; the pool's thread reaps it.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(super) pid: Pid,
    pub(super) pidfd: Arc<OwnedFd>,
    pub(super) socket: Option<UnixStream>,
    pub(super) held: Option<Box<dyn Any + Send + Sync>>,
    pub(super) jit: bool,
    pub(super) pool: Arc<PoolState>,
}

impl Worker {
    /// Takes the socket; `None`: it was taken before.
    pub(crate) fn take_socket(&mut self) -> Option<UnixStream> {
        self.socket.take()
    }

    /// Returns whether the other end of the socket is open: a process that has died has closed it.
    pub(crate) fn is_there(&self) -> bool {
        let Some(socket) = &self.socket else { return false };
        let mut states = [PollFd::new(socket, PollFlags::empty())];
        // An error says nothing of the process.
        rustix::event::poll(&mut states, Some(&Timespec::default())).is_err()
            || !states[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
    }

    /// Keeps `held` until the process is reaped, and its memory with it.
    pub(crate) fn hold(&mut self, held: impl Any + Send + Sync) {
        self.held = Some(Box::new(held));
    }

    /// Returns the CPU time used so far; zero if the process is gone.
    pub(crate) fn cpu_time(&self) -> Duration {
        sys::cpu_time(self.pid).unwrap_or_default()
    }

    /// Limits the private memory of the process, from outside.
    ///
    /// # Errors
    /// [`io::Error`]: the kernel refuses.
    pub(crate) fn limit_memory(&self, bytes: u64) -> io::Result<()> {
        // Room for compiled code is reserved from the start, and is not the script's.
        let bytes = if self.jit { bytes.saturating_add(reserved_memory(self.pid)) } else { bytes };
        let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
        match rustix::process::prlimit(Some(self.pid), Resource::Data, limit) {
            // A process that has ended has no memory; its socket tells that it has.
            Ok(_) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the bytes of memory that are the process's own, if it sleeps; `None`: it computes, or is gone.
    pub(crate) fn asleep(&self) -> Option<u64> {
        let status = status(self.pid)?;
        field(&status, "State:")?.starts_with('S').then(|| kib(&status, "RssAnon:")).flatten()
    }

    /// Returns a handle to watch the process without owning it.
    pub(crate) fn handle(&self) -> WorkerHandle {
        WorkerHandle { pid: self.pid, pidfd: Arc::clone(&self.pidfd) }
    }

    /// Kills the process.
    pub(crate) fn kill(&self) {
        // It may have ended by itself.
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, Signal::KILL);
    }

    /// Waits up to 20 ms for the end of a process whose socket has closed. Returns the signal that ended it; `None`: it
    /// ended by itself, or not yet.
    pub(crate) async fn ended_by(&self) -> Option<Signal> {
        let peek = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        for _ in 0..20 {
            match rustix::process::waitid(WaitId::PidFd(self.pidfd.as_fd()), peek) {
                Ok(Some(status)) => return status.terminating_signal().and_then(Signal::from_named_raw),
                Ok(None) => tokio::time::sleep(Duration::from_millis(1)).await,
                Err(_) => return None,
            }
        }
        None
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
        lock(&self.pool.dying).push(Dying { pid: self.pid, pidfd: Arc::clone(&self.pidfd), _held: self.held.take() });
        self.pool.wake();
    }
}

/// Worker process, for those who do not own it.
#[derive(Debug)]
pub(crate) struct WorkerHandle {
    pid: Pid,
    pidfd: Arc<OwnedFd>,
}

impl WorkerHandle {
    /// Returns the CPU time used so far; zero if the process is gone.
    pub(crate) fn cpu_time(&self) -> Duration {
        sys::cpu_time(self.pid).unwrap_or_default()
    }

    /// Stops the process until [`go_on`](Self::go_on).
    pub(crate) fn stop(&self) {
        // It may have ended.
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, Signal::STOP);
    }

    /// Lets a stopped process go on.
    pub(crate) fn go_on(&self) {
        // It may have ended.
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, Signal::CONT);
    }
}

/// Returns the bytes that a process has of the memory that its limit counts; 0 if the kernel does not tell.
fn reserved_memory(pid: Pid) -> u64 {
    status(pid).and_then(|status| kib(&status, "VmData:")).unwrap_or(0)
}

/// Reads what the kernel tells of a process; `None`: it is gone.
fn status(pid: Pid) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).ok()
}

/// Returns the value of a field of a process's status.
fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// Returns the value of a field in bytes.
fn kib(status: &str, name: &str) -> Option<u64> {
    field(status, name)?.strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib << 10)
}
