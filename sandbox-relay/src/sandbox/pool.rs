//! The relay's stock of workers. One thread makes them ahead of need, watches the forking process, and reaps each
//! worker by its pidfd, so that nobody's exit status is taken by anybody else.

use std::any::Any;
use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::BytesMut;
use prost::Message as _;
use relay_proto::{LimitName, Limits};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions};
use tokio::sync::mpsc;

use super::channel::{self, message, message::report::Kind as Report};
use super::process::ProcessArgs;
use super::spawn::{self, Backend, Newborn, Spawner};
use super::sys;

/// How long a new worker may take until it is locked and ready.
const READY_WITHIN: Duration = Duration::from_secs(10);
/// What V8 reserves for compiled code, and more.
const CODE_BYTES: u64 = 1 << 30;
/// The pause after a worker could not be made.
const RETRY_AFTER: Duration = Duration::from_millis(200);

/// How workers are made and how many wait.
#[derive(Debug, Clone, Copy)]
pub struct PoolConfig {
    /// Fork or exec.
    pub backend: Backend,
    /// How many workers are made ahead.
    pub stock: usize,
    /// How many workers one forking process makes before it is replaced.
    pub forks_per_process: u32,
    /// The most that any execution can be granted.
    pub maxima: Limits,
    /// Workers whose V8 compiles to machine code.
    pub jit: bool,
}

/// The stock. Dropping it ends every process that is left.
#[derive(Debug)]
pub(crate) struct Pool {
    stock: tokio::sync::Mutex<mpsc::Receiver<Worker>>,
    shared: Arc<Shared>,
    /// With how many left the stock is filled up at once.
    low: usize,
    keeper: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    wake: OwnedFd,
    /// Workers that were killed and not yet reaped, with what they hold until then.
    dying: Mutex<Vec<Dying>>,
    /// The processes that are ours to reap.
    owned: Mutex<HashSet<Pid>>,
    ready: AtomicUsize,
    stopping: AtomicBool,
    trouble: Mutex<Option<String>>,
}

#[derive(Debug)]
struct Dying {
    pid: Pid,
    pidfd: Arc<OwnedFd>,
    _held: Option<Box<dyn Any + Send + Sync>>,
}

impl Shared {
    fn wake(&self) {
        // A counter that is full wakes as well.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What a panicking thread left is whole: every change under these locks is a single call.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// No worker could be had.
#[derive(Debug, thiserror::Error)]
#[error("no worker could be started: {0}")]
pub(crate) struct PoolError(String);

impl Pool {
    /// Starts the thread that keeps the stock. Workers follow at once.
    ///
    /// # Errors
    /// The kernel refuses a thread or a descriptor.
    pub(crate) fn start(config: PoolConfig) -> io::Result<Self> {
        let (stock_tx, stock) = mpsc::channel(config.stock.max(1));
        let shared = Arc::new(Shared {
            wake: rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            dying: Mutex::default(),
            owned: Mutex::default(),
            ready: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
            trouble: Mutex::default(),
        });
        let args = ProcessArgs {
            heap_bytes: config.maxima.size(LimitName::HeapBytes),
            // Code of its own size has to fit too; the relay sets the limit of each execution.
            memory_bytes: config.maxima.get(LimitName::MemoryBytes) + if config.jit { CODE_BYTES } else { 0 },
            // One second more: the relay's own watch comes first.
            cpu_seconds: config.maxima.get(LimitName::CpuMs).div_ceil(1000) + 1,
            jit: config.jit,
            parent: rustix::process::getpid().as_raw_nonzero().get(),
        };
        let keeper = Keeper { shared: Arc::clone(&shared), jit: config.jit, stock: stock_tx, reaping: Vec::new() };
        let (backend, forks) = (config.backend, config.forks_per_process);
        let keeper = std::thread::Builder::new()
            .name("worker-keeper".into())
            .spawn(move || keeper.run(spawn::spawner(backend, args, forks).as_mut()))?;
        Ok(Self { stock: tokio::sync::Mutex::new(stock), shared, low: config.stock / 2 + 1, keeper: Some(keeper) })
    }

    /// Whether a worker waits.
    pub(crate) fn is_ready(&self) -> bool {
        self.shared.ready.load(Ordering::Relaxed) > 0
    }

    /// Whether a process is a worker of this stock, dead or alive. Until it is reaped here, its number is its own.
    pub(crate) fn owns(&self, pid: Pid) -> bool {
        lock(&self.shared.owned).contains(&pid)
    }

    /// Takes a worker that is locked and waits for its script. The caller is admitted, so that one will be free.
    ///
    /// # Errors
    /// None can be made.
    pub(crate) async fn take(&self) -> Result<Worker, PoolError> {
        let next = async { self.stock.lock().await.recv().await };
        let worker = tokio::time::timeout(READY_WITHIN, next).await.ok().flatten();
        let left = self.shared.ready.fetch_sub(usize::from(worker.is_some()), Ordering::Relaxed);
        // A new one is made when this one ends, which is soon and out of its way; unless the stock runs low.
        if left <= self.low || worker.is_none() {
            self.shared.wake();
        }
        worker.ok_or_else(|| {
            let trouble = lock(&self.shared.trouble).clone();
            PoolError(trouble.unwrap_or_else(|| "none was ready in time".into()))
        })
    }
}

#[cfg(any(test, feature = "fuzzing"))]
impl Pool {
    /// A stock of workers that are no processes, but what a hostile one says, in the order of these sockets.
    ///
    /// # Errors
    /// The kernel refuses a descriptor.
    pub(crate) fn of_sockets(sockets: Vec<UnixStream>) -> io::Result<Self> {
        let (stock_tx, stock) = mpsc::channel(sockets.len().max(1));
        let shared = Arc::new(Shared {
            wake: rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            dying: Mutex::default(),
            owned: Mutex::default(),
            ready: AtomicUsize::new(sockets.len()),
            stopping: AtomicBool::new(false),
            trouble: Mutex::default(),
        });
        for socket in sockets {
            socket.set_nonblocking(true)?;
            // A process that has ended: signals to it reach nobody.
            let mut child = std::process::Command::new("/bin/true").spawn()?;
            let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
            let pidfd = Arc::new(rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?);
            child.wait()?;
            let shared = Arc::clone(&shared);
            let worker = Worker { pid, pidfd, socket: Some(socket), held: None, jit: false, shared };
            // There is room for all of them.
            let _ = stock_tx.try_send(worker);
        }
        Ok(Self { stock: tokio::sync::Mutex::new(stock), shared, low: 0, keeper: None })
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        self.shared.wake();
        if let Some(keeper) = self.keeper.take() {
            // It has logged its panic, if that is how it ended.
            let _ = keeper.join();
        }
    }
}

/// A worker process, locked and ready. Dropping it kills it; the stock's thread reaps it.
#[derive(Debug)]
pub(crate) struct Worker {
    pid: Pid,
    pidfd: Arc<OwnedFd>,
    socket: Option<UnixStream>,
    held: Option<Box<dyn Any + Send + Sync>>,
    jit: bool,
    shared: Arc<Shared>,
}

impl Worker {
    /// The socket, once.
    pub(crate) fn take_socket(&mut self) -> Option<UnixStream> {
        self.socket.take()
    }

    /// Keeps `held` until the process is gone, and its memory with it.
    pub(crate) fn hold(&mut self, held: impl Any + Send + Sync) {
        self.held = Some(Box::new(held));
    }

    /// The CPU time used so far.
    pub(crate) fn cpu_time(&self) -> Duration {
        sys::cpu_time(self.pid).unwrap_or_default()
    }

    /// Sets how much private memory the process may have, from outside.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn limit_memory(&self, bytes: u64) -> io::Result<()> {
        // Room for compiled code is reserved from the start, and is not the script's.
        let bytes = if self.jit { bytes.saturating_add(reserved_memory(self.pid)) } else { bytes };
        let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
        match rustix::process::prlimit(Some(self.pid), Resource::Data, limit) {
            // One that has ended has no memory, and its socket tells that it has ended.
            Ok(_) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// For those who watch the process without owning it.
    pub(crate) fn handle(&self) -> WorkerHandle {
        WorkerHandle { pid: self.pid, pidfd: Arc::clone(&self.pidfd) }
    }

    /// Ends the process at once, whatever it does.
    pub(crate) fn kill(&self) {
        // It may have ended by itself.
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, Signal::KILL);
    }

    /// The signal that ended the process, if one did just now. Its socket closes a moment before its end is known.
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
        lock(&self.shared.dying).push(Dying { pid: self.pid, pidfd: Arc::clone(&self.pidfd), _held: self.held.take() });
        self.shared.wake();
    }
}

/// A worker process, seen by somebody who does not own it.
#[derive(Debug)]
pub(crate) struct WorkerHandle {
    pid: Pid,
    pidfd: Arc<OwnedFd>,
}

impl WorkerHandle {
    /// The CPU time used so far.
    pub(crate) fn cpu_time(&self) -> Duration {
        sys::cpu_time(self.pid).unwrap_or_default()
    }

    /// Takes the processor from it.
    pub(crate) fn stop(&self) {
        // It may have ended.
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, Signal::STOP);
    }

    /// Gives it back.
    pub(crate) fn go_on(&self) {
        // It may have ended.
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, Signal::CONT);
    }
}

/// The thread behind the stock.
struct Keeper {
    shared: Arc<Shared>,
    jit: bool,
    stock: mpsc::Sender<Worker>,
    reaping: Vec<Dying>,
}

impl Keeper {
    fn run(mut self, spawner: &mut dyn Spawner) {
        while !self.shared.stopping.load(Ordering::Relaxed) {
            let filled = self.fill(spawner);
            let pause = match &filled {
                Ok(()) => None,
                Err(error) => {
                    tracing::error!(%error, "a worker could not be started");
                    Some(RETRY_AFTER)
                }
            };
            *lock(&self.shared.trouble) = filled.err().map(|error| error.to_string());
            self.sleep(spawner, pause);
            self.reap();
        }
        self.end();
    }

    /// Makes workers until the stock is full: first all their processes, then waits until each is ready.
    fn fill(&mut self, spawner: &mut dyn Spawner) -> io::Result<()> {
        let mut made = Vec::new();
        let mut result = Ok(());
        let missing = self.stock.capacity();
        // A stock that is nearly full is not in a hurry.
        let ahead = missing * 4 <= self.stock.max_capacity();
        for _ in 0..missing {
            match spawner.spawn(ahead) {
                Ok(newborn) => made.push(self.adopt(newborn)),
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        for worker in made {
            wait_until_ready(&worker)?;
            self.shared.ready.fetch_add(1, Ordering::Relaxed);
            if self.stock.try_send(worker).is_err() {
                self.shared.ready.fetch_sub(1, Ordering::Relaxed);
            }
        }
        result
    }

    /// From here on the process is killed and reaped, whatever happens.
    fn adopt(&self, newborn: Newborn) -> Worker {
        let Newborn { pid, pidfd, socket } = newborn;
        let shared = Arc::clone(&self.shared);
        lock(&shared.owned).insert(pid);
        Worker { pid, pidfd: Arc::new(pidfd), socket: Some(socket), held: None, jit: self.jit, shared }
    }

    /// Waits until there is something to do.
    fn sleep(&mut self, spawner: &mut dyn Spawner, pause: Option<Duration>) {
        let forking_process_ended = {
            let mut watched = vec![PollFd::new(&self.shared.wake, PollFlags::IN)];
            let forking_process = spawner.watched();
            if let Some(process) = &forking_process {
                watched.push(PollFd::new(process, PollFlags::IN));
            }
            watched.extend(self.reaping.iter().map(|dying| PollFd::new(&dying.pidfd, PollFlags::IN)));
            let pause = pause.and_then(|pause| Timespec::try_from(pause).ok());
            // An interruption is as good a reason to look again as any.
            let _ = rustix::event::poll(&mut watched, pause.as_ref());
            forking_process.is_some() && watched.get(1).is_some_and(|it| !it.revents().is_empty())
        };
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.shared.wake, &mut count);
        if forking_process_ended {
            tracing::warn!("the forking process ended; starting another");
            if let Err(error) = spawner.revive() {
                tracing::error!(%error, "the forking process could not be started");
            }
        }
    }

    /// Reaps what has ended of what was killed.
    fn reap(&mut self) {
        self.reaping.append(&mut lock(&self.shared.dying));
        self.reaping.retain(|dying| {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
            let is_left = matches!(rustix::process::waitid(WaitId::PidFd(dying.pidfd.as_fd()), options), Ok(None));
            if !is_left {
                lock(&self.shared.owned).remove(&dying.pid);
            }
            is_left
        });
    }

    /// Ends every process that is left and waits for each.
    fn end(self) {
        let Self { shared, stock, reaping, .. } = self;
        // The receiver is still there, with the stock in it: those workers are killed when it is dropped, and die with
        // this thread at the latest.
        drop(stock);
        let dying = std::mem::take(&mut *lock(&shared.dying));
        for Dying { pidfd, .. } in reaping.into_iter().chain(dying) {
            let _ = rustix::process::waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED);
        }
    }
}

/// What a process has of the memory that its limit counts.
fn reserved_memory(pid: Pid) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap_or_default();
    let data = status.lines().find_map(|line| line.strip_prefix("VmData:"));
    let kib = data.and_then(|data| data.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

/// Waits until a new worker says that it is locked.
fn wait_until_ready(worker: &Worker) -> io::Result<()> {
    use std::io::Read;
    let Some(mut socket) = worker.socket.as_ref() else { return Err(io::Error::other("no socket")) };
    socket.set_read_timeout(Some(READY_WITHIN))?;
    let mut buffer = BytesMut::new();
    let mut chunk = [0; 512];
    let frame = loop {
        if let Some(frame) = channel::take_frame(&mut buffer).map_err(io::Error::other)? {
            break frame;
        }
        match socket.read(&mut chunk)? {
            0 => return Err(io::Error::other("the worker ended before it was ready")),
            length => buffer.extend_from_slice(&chunk[..length]),
        }
    };
    match message::Report::decode(frame).map_err(io::Error::other)?.kind {
        Some(Report::Ready(_)) => socket.set_nonblocking(true),
        Some(Report::Failed(failed)) => Err(io::Error::other(failed.message)),
        _ => Err(io::Error::other("the worker did not say that it is ready")),
    }
}
