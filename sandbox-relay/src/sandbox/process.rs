//! The entry points of the relay's own processes: the one that forks workers, and the worker that is exec'd.
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

/// What the relay tells its processes on their command line; none of it is a secret.
#[derive(Debug, Clone, Copy, Args)]
pub struct ProcessArgs {
    /// The most heap that any execution can have, in bytes
    #[arg(long)]
    pub(super) heap_bytes: usize,
    /// The most private memory that any execution can have, in bytes
    #[arg(long)]
    pub(super) memory_bytes: u64,
    /// The most CPU time that any execution can have, in seconds
    #[arg(long)]
    pub(super) cpu_seconds: u64,
    /// Let V8 compile to machine code
    #[arg(long, action = clap::ArgAction::Set)]
    pub(super) jit: bool,
    /// The relay's process id
    #[arg(long)]
    pub(super) parent: i32,
}

impl ProcessArgs {
    /// The arguments as [`ProcessArgs`] reads them back.
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

/// What the forking process says first, when it is warm.
pub(super) const WARM: &[u8] = b"warm";
/// What asks it for a fork, with the worker's socket attached.
pub(super) const FORK: &[u8] = b"fork";
/// The same, for a worker that may take its time to get ready so as to be quicker later.
pub(super) const FORK_AHEAD: &[u8] = b"fork ahead";

/// Warms V8 and forks a worker for each request, until the relay closes the socket.
///
/// # Errors
/// The kernel refuses something that forking needs. The relay logs it and starts another.
pub fn run_zygote(args: ProcessArgs) -> io::Result<()> {
    jail::die_with(Pid::from_raw(args.parent))?;
    // Standard input itself: its number is the one that the filter lets this process write to.
    let control = sys::standard_input();
    jail::volunteer_for_out_of_memory()?;
    worker::prepare_process()?;
    sys::move_code_to_huge_pages()?;
    let warm = isolate::warm(args.heap_bytes, args.jit).ok_or_else(not_warm)?;
    pages::copy_all_on_fork()?;
    let lock = Lock::prepare(args.jail())?;
    rustix::net::send(&control, WARM, SendFlags::NOSIGNAL)?;
    // Each fork consumes its copy of this; the original only lends its pages.
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
/// The kernel refuses something.
pub fn run_worker(args: ProcessArgs) -> io::Result<()> {
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    jail::volunteer_for_out_of_memory()?;
    worker::prepare_process()?;
    let warm = isolate::cold(args.heap_bytes, args.jit).ok_or_else(not_warm)?;
    let lock = Lock::prepare(args.jail())?;
    // Its memory is all its own already.
    let ahead = false;
    worker::run(warm, socket, &lock, ahead);
}

fn not_warm() -> io::Error {
    io::Error::other("V8 could not be made ready")
}

/// The next worker's socket, and whether it is made ahead of need; nothing when the relay is done.
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

/// Receives one message and the descriptor attached to it. A length of 0 is the peer's end.
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
