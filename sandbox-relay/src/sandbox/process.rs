//! Entry points of the relay's own processes: the one that forks workers, and the worker that is exec'd.
//!
//! Both get one descriptor, as their standard input, and an empty environment.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use clap::Args;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};
use rustix::process::Pid;

use super::jail::{self, JailConfig, Lock};
use super::{isolate, pages, sys, worker};

/// Arguments of the relay's own processes; none of them is a secret.
#[derive(Debug, Clone, Copy, Args)]
pub struct ProcessArgs {
    /// Maximum heap of any execution, in bytes
    #[arg(long)]
    pub(super) heap_bytes: usize,
    /// Maximum private memory of any execution, in bytes
    #[arg(long)]
    pub(super) memory_bytes: u64,
    /// Maximum CPU time of any execution, in seconds
    #[arg(long)]
    pub(super) cpu_seconds: u64,
    /// Let V8 compile to machine code
    #[arg(long, action = clap::ArgAction::Set)]
    pub(super) jit: bool,
    /// Process id of the relay
    #[arg(long)]
    pub(super) parent: i32,
}

impl ProcessArgs {
    /// Returns the arguments as [`ProcessArgs`] parses them.
    pub(super) fn to_args(self) -> [String; 5] {
        [
            format!("--heap-bytes={}", self.heap_bytes),
            format!("--memory-bytes={}", self.memory_bytes),
            format!("--cpu-seconds={}", self.cpu_seconds),
            format!("--jit={}", self.jit),
            format!("--parent={}", self.parent),
        ]
    }

    fn jail(self) -> JailConfig {
        JailConfig {
            memory_bytes: self.memory_bytes,
            cpu_seconds: self.cpu_seconds,
            jit: self.jit,
            parent: Pid::from_raw(self.parent),
        }
    }
}

/// First message of the forking process: it is warm.
pub(super) const WARM: &[u8] = b"warm";
/// Request for a fork, with the worker's socket attached.
pub(super) const FORK: &[u8] = b"fork";
/// Request for a fork that may take longer to get ready, so as to be quicker later.
pub(super) const FORK_AHEAD: &[u8] = b"fork ahead";

/// Warms V8 and forks a worker for each request, until the relay closes the socket.
///
/// # Errors
/// [`io::Error`]: the kernel refuses something that forking needs. The relay logs it and starts another process.
pub fn run_zygote(args: ProcessArgs) -> io::Result<()> {
    jail::die_with(Pid::from_raw(args.parent))?;
    // Standard input itself: the filter lets this process write to that number alone.
    let control = sys::standard_input();
    jail::volunteer_for_out_of_memory()?;
    worker::prepare_process()?;
    sys::move_code_to_huge_pages()?;
    let warm = isolate::warm(args.heap_bytes, args.jit).ok_or_else(not_warm)?;
    pages::copy_all_on_fork()?;
    let lock = Lock::prepare(args.jail())?;
    rustix::net::send(&control, WARM, SendFlags::NOSIGNAL)?;
    // Each fork consumes its copy; the original only lends its pages.
    let mut warm = Some(warm);
    while let Some((socket, ahead)) = receive_request(&control)? {
        match sys::fork_sibling() {
            Ok(sys::Fork::Parent { pid, pidfd }) => {
                drop(socket);
                send_pidfd(&control, pid, &pidfd)?;
            }
            Ok(sys::Fork::Child) => {
                if let Some(warm) = warm.take() {
                    worker::run(warm, socket, &lock, ahead);
                }
                sys::exit_now(sys::EXIT_BROKEN);
            }
            Err(error) => {
                // The relay reads a number that is no process id.
                rustix::net::send(
                    &control,
                    &error.raw_os_error().map_or(-1, |errno| -errno).to_le_bytes(),
                    SendFlags::NOSIGNAL,
                )?;
            }
        }
    }
    sys::exit_now(0)
}

/// Becomes one worker, without a fork.
///
/// # Errors
/// [`io::Error`]: the kernel refuses something that a worker needs.
pub fn run_worker(args: ProcessArgs) -> io::Result<()> {
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    jail::volunteer_for_out_of_memory()?;
    worker::prepare_process()?;
    let warm = isolate::cold(args.heap_bytes, args.jit).ok_or_else(not_warm)?;
    let lock = Lock::prepare(args.jail())?;
    // This process shares no memory: touching it ahead would gain nothing.
    let ahead = false;
    worker::run(warm, socket, &lock, ahead);
}

fn not_warm() -> io::Error {
    io::Error::other("V8 could not be made ready")
}

/// Waits for the next request: the worker's socket, and whether it is made ahead of need. `None`: the relay is gone.
fn receive_request(control: &OwnedFd) -> io::Result<Option<(OwnedFd, bool)>> {
    let mut request = [0; 16];
    loop {
        let (length, socket) = receive_with_fd(control, &mut request)?;
        match socket {
            _ if length == 0 => return Ok(None),
            Some(socket) if &request[..length] == FORK => return Ok(Some((socket, false))),
            Some(socket) if &request[..length] == FORK_AHEAD => return Ok(Some((socket, true))),
            _ => {}
        }
    }
}

fn send_pidfd(control: &OwnedFd, pid: Pid, pidfd: &OwnedFd) -> io::Result<()> {
    send_with_fd(control, &pid.as_raw_nonzero().get().to_le_bytes(), pidfd)
}

/// Sends one message with a descriptor attached.
pub(super) fn send_with_fd(socket: &OwnedFd, bytes: &[u8], fd: &impl AsFd) -> io::Result<()> {
    let fds = [fd.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut attached = SendAncillaryBuffer::new(&mut space);
    attached.push(SendAncillaryMessage::ScmRights(&fds));
    rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut attached, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives one message and the descriptor attached to it. Length 0: the peer has closed its end.
pub(super) fn receive_with_fd(socket: &OwnedFd, bytes: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut attached = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let flags = RecvFlags::CMSG_CLOEXEC;
        match rustix::net::recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut attached, flags) {
            Err(rustix::io::Errno::INTR) => {}
            other => break other?,
        }
    };
    let mut fd = None;
    for message in attached.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            fd = fds.into_iter().next().or(fd);
        }
    }
    Ok((received.bytes, fd))
}
