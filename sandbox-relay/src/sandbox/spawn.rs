//! Makes worker processes in two ways, behind the trait [`Spawner`]: by fork and by exec.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType};
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions};
use serde::{Deserialize, Serialize};

use super::process::{self, ProcessArgs};

/// Maximum time until a new forking process is warm.
const WARM_WITHIN: Duration = Duration::from_secs(10);

/// Way to make worker processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// Fork a warm process for each execution: the fast way.
    #[default]
    Fork,
    /// Exec a process for each execution: for kernels or V8 versions where forking fails.
    Exec,
}

/// New worker process. It is ready when it says so on its socket.
#[derive(Debug)]
pub(super) struct Newborn {
    pub(super) pid: Pid,
    pub(super) pidfd: OwnedFd,
    /// The relay's end of the socket.
    pub(super) socket: UnixStream,
}

/// Makes worker processes. All calls come from one thread, which outlives every process that it makes: their death
/// signal is tied to it.
pub(super) trait Spawner {
    /// Makes one worker process, a child of the relay. One that is made `ahead` of need may take longer until it is
    /// ready, and is then quicker.
    fn spawn(&mut self, ahead: bool) -> io::Result<Newborn>;

    /// Returns the process that has to live for `spawn` to be quick; `None`: there is none. The caller watches it and
    /// calls `revive` when it ends.
    fn watched(&self) -> Option<BorrowedFd<'_>>;

    /// Replaces the watched process.
    fn revive(&mut self) -> io::Result<()>;
}

/// Makes the spawner of a backend.
pub(super) fn spawner(backend: Backend, args: ProcessArgs, forks_per_process: u32) -> Box<dyn Spawner> {
    match backend {
        Backend::Fork => Box::new(ForkSpawner { args, forks_per_process, current: None, next: None }),
        Backend::Exec => Box::new(ExecSpawner { args }),
    }
}

/// Makes a command of this same binary that inherits nothing but one descriptor, as its standard input.
fn own_command(subcommand: &str, args: ProcessArgs, stdin: OwnedFd) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0("sandbox-relay")
        .arg(subcommand)
        .args(args.to_args())
        .env_clear()
        .current_dir("/")
        .stdin(stdin)
        .stdout(Stdio::null())
        // A signal of the terminal is for the relay, which ends its children in order.
        .process_group(0);
    command
}

/// Starts a command and opens a descriptor of its process. Nobody else waits for it, so its id cannot be reused before.
fn start(mut command: Command) -> io::Result<(Pid, OwnedFd)> {
    let child = command.spawn()?;
    let pid =
        i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or_else(|| io::Error::other("no process id"))?;
    let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
    Ok((pid, pidfd))
}

struct ExecSpawner {
    args: ProcessArgs,
}

impl Spawner for ExecSpawner {
    fn spawn(&mut self, _ahead: bool) -> io::Result<Newborn> {
        let (socket, theirs) = UnixStream::pair()?;
        let (pid, pidfd) = start(own_command("internal-worker", self.args, theirs.into()))?;
        Ok(Newborn { pid, pidfd, socket })
    }

    fn watched(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn revive(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct ForkSpawner {
    args: ProcessArgs,
    forks_per_process: u32,
    current: Option<Zygote>,
    /// Successor, while it warms up.
    next: Option<Zygote>,
}

/// Forking process, as the relay holds it. Dropping it ends the process.
struct Zygote {
    pidfd: OwnedFd,
    control: OwnedFd,
    forks: u32,
}

impl Zygote {
    fn start(args: ProcessArgs) -> io::Result<Self> {
        let kind = SocketType::SEQPACKET;
        let (control, theirs) = rustix::net::socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
        rustix::net::sockopt::set_socket_timeout(&control, rustix::net::sockopt::Timeout::Recv, Some(WARM_WITHIN))?;
        let (_, pidfd) = start(own_command("internal-zygote", args, theirs))?;
        Ok(Self { pidfd, control, forks: 0 })
    }

    /// Returns whether the process has said that it is warm. Without `DONTWAIT` it waits for that.
    fn is_warm(&self, flags: RecvFlags) -> io::Result<bool> {
        let mut answer = [0; 16];
        match rustix::net::recv(&self.control, &mut answer, flags) {
            Ok((length, _)) if answer.get(..length) == Some(process::WARM) => Ok(true),
            Ok(_) => Err(io::Error::other("the forking process ended before it was warm")),
            Err(rustix::io::Errno::AGAIN) if flags.contains(RecvFlags::DONTWAIT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn fork(&mut self, ahead: bool) -> io::Result<Newborn> {
        let (socket, theirs) = UnixStream::pair()?;
        let request = if ahead { process::FORK_AHEAD } else { process::FORK };
        process::send_with_fd(&self.control, request, &theirs)?;
        drop(theirs);
        let mut answer = [0; 4];
        let (length, pidfd) = process::receive_with_fd(&self.control, &mut answer)?;
        let number = i32::from_le_bytes(answer);
        match (length, Pid::from_raw(number.max(0)), pidfd) {
            (4, Some(pid), Some(pidfd)) => {
                self.forks += 1;
                Ok(Newborn { pid, pidfd, socket })
            }
            // The kernel had no descriptor for us to receive; the process is our child all the same.
            (4, Some(pid), None) => {
                self.forks += 1;
                let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty());
                pidfd.map(|pidfd| Newborn { pid, pidfd, socket }).map_err(|error| {
                    let _ = rustix::process::kill_process(pid, Signal::KILL);
                    let _ = rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED);
                    error.into()
                })
            }
            (4, None, _) => Err(io::Error::from_raw_os_error(number.saturating_neg())),
            _ => Err(io::Error::other("the forking process ended")),
        }
    }
}

impl Drop for Zygote {
    fn drop(&mut self) {
        // The process may be gone already.
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, Signal::KILL);
        let _ = rustix::process::waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED);
    }
}

impl Spawner for ForkSpawner {
    fn spawn(&mut self, ahead: bool) -> io::Result<Newborn> {
        match self.next.as_ref().map(|next| next.is_warm(RecvFlags::DONTWAIT)) {
            Some(Ok(true)) => self.current = self.next.take(),
            Some(Err(error)) => {
                tracing::warn!(%error, "the next forking process did not get ready");
                self.next = None;
            }
            Some(Ok(false)) | None => {}
        }
        if self.current.is_none() {
            self.revive()?;
        }
        let Some(current) = &mut self.current else { return Err(io::Error::other("no forking process")) };
        let newborn = match current.fork(ahead) {
            Ok(newborn) => newborn,
            Err(error) => {
                self.current = None;
                return Err(error);
            }
        };
        // All forks have the same address layout and hash seed: a process serves only so many executions.
        if current.forks >= self.forks_per_process && self.next.is_none() {
            match Zygote::start(self.args) {
                Ok(next) => self.next = Some(next),
                Err(error) => tracing::warn!(%error, "the next forking process could not be started"),
            }
        }
        Ok(newborn)
    }

    fn watched(&self) -> Option<BorrowedFd<'_>> {
        self.current.as_ref().map(|zygote| zygote.pidfd.as_fd())
    }

    fn revive(&mut self) -> io::Result<()> {
        self.current = None;
        let zygote = match self.next.take() {
            Some(next) => next,
            None => Zygote::start(self.args)?,
        };
        zygote.is_warm(RecvFlags::empty())?;
        self.current = Some(zygote);
        Ok(())
    }
}
