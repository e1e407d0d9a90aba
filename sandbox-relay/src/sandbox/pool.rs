//! Pools of workers: a stock of ready processes, each for one execution. `keeper` fills the stock, `worker` is what
//! comes out of it.

mod keeper;
mod worker;

use std::any::Any;
use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use relay_proto::{LimitName, Limits};
use rustix::event::EventfdFlags;
use rustix::process::Pid;
use tokio::sync::mpsc;

use super::process::ProcessArgs;
use super::spawn::{self, Backend};
use crate::metrics::{self, WorkerTrouble};
use keeper::Keeper;
pub(crate) use worker::{Worker, WorkerHandle};

/// Maximum time until a new worker is locked and ready.
const READY_WITHIN: Duration = Duration::from_secs(10);
/// Memory that V8 reserves for compiled code, and more.
const CODE_BYTES: u64 = 1 << 30;

/// Configuration of a pool.
#[derive(Debug, Clone, Copy)]
pub struct PoolConfig {
    /// Way to make processes.
    pub backend: Backend,
    /// Number of workers that are made ahead.
    pub stock: usize,
    /// Number of workers that one forking process makes before it is replaced.
    pub forks_per_process: u32,
    /// Limits that no execution exceeds.
    pub maxima: Limits,
    /// `true`: V8 compiles to machine code; `false`: it interprets.
    pub jit: bool,
}

/// Pool of workers. Dropping it ends every process that is left.
#[derive(Debug)]
pub(crate) struct Pool {
    stock: tokio::sync::Mutex<mpsc::Receiver<Worker>>,
    state: Arc<PoolState>,
    /// Number of workers at which the stock is filled up at once.
    low: usize,
    keeper: Option<JoinHandle<()>>,
}

/// State that a pool shares with its thread and its workers.
#[derive(Debug)]
struct PoolState {
    /// Event that wakes the thread.
    wake: OwnedFd,
    /// Killed workers that the thread has yet to reap.
    dying: Mutex<Vec<Dying>>,
    /// Processes that are ours to reap.
    owned: Mutex<HashSet<Pid>>,
    /// Number of workers in the stock.
    ready: AtomicUsize,
    stopping: AtomicBool,
    /// Error of the last attempt to make a worker; `None`: it succeeded.
    trouble: Mutex<Option<String>>,
}

/// Killed worker, and what it holds until it is reaped.
#[derive(Debug)]
struct Dying {
    pid: Pid,
    pidfd: Arc<OwnedFd>,
    _held: Option<Box<dyn Any + Send + Sync>>,
}

impl PoolState {
    /// Makes the state of a pool with `ready` workers.
    fn new(ready: usize) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            wake: rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            dying: Mutex::default(),
            owned: Mutex::default(),
            ready: AtomicUsize::new(ready),
            stopping: AtomicBool::new(false),
            trouble: Mutex::default(),
        }))
    }

    /// Wakes the thread.
    fn wake(&self) {
        // A full counter wakes, too.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change under these locks is a single call, which a panic leaves whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reports that no worker could be made.
#[derive(Debug, thiserror::Error)]
#[error("no worker could be started: {0}")]
pub(crate) struct PoolError(String);

impl Pool {
    /// Starts the thread, which fills the stock at once.
    ///
    /// # Errors
    /// [`io::Error`]: the kernel refuses a thread or a descriptor.
    pub(crate) fn start(config: PoolConfig) -> io::Result<Self> {
        let (stock_tx, stock) = mpsc::channel(config.stock.max(1));
        let state = PoolState::new(0)?;
        let args = ProcessArgs {
            heap_bytes: config.maxima.size(LimitName::HeapBytes),
            // Compiled code has to fit, too; the relay sets the limit of each execution.
            memory_bytes: config.maxima.get(LimitName::MemoryBytes) + if config.jit { CODE_BYTES } else { 0 },
            // One second more, so that the relay's own watch comes first.
            cpu_seconds: config.maxima.get(LimitName::CpuMs).div_ceil(1000) + 1,
            jit: config.jit,
            parent: rustix::process::getpid().as_raw_nonzero().get(),
        };
        let keeper = Keeper::new(Arc::clone(&state), config.jit, stock_tx);
        let (backend, forks) = (config.backend, config.forks_per_process);
        let keeper = std::thread::Builder::new()
            .name("worker-keeper".into())
            .spawn(move || keeper.run(spawn::spawner(backend, args, forks).as_mut()))?;
        Ok(Self { stock: tokio::sync::Mutex::new(stock), state, low: config.stock / 2 + 1, keeper: Some(keeper) })
    }

    /// Returns whether a worker is in the stock.
    pub(crate) fn is_ready(&self) -> bool {
        self.ready() > 0
    }

    /// Returns the number of workers in the stock.
    pub(crate) fn ready(&self) -> usize {
        self.state.ready.load(Ordering::Relaxed)
    }

    /// Returns whether a process is a worker of this pool, dead or alive, that is not reaped yet.
    pub(crate) fn owns(&self, pid: Pid) -> bool {
        lock(&self.state.owned).contains(&pid)
    }

    /// Takes a living worker out of the stock, or waits for one. The caller has a place, so that one will be made. Cancel
    /// safe.
    ///
    /// # Errors
    /// [`PoolError`]: none was ready in time.
    pub(crate) async fn take(&self) -> Result<Worker, PoolError> {
        if let Ok(Some(worker)) = tokio::time::timeout(READY_WITHIN, self.next()).await {
            return Ok(worker);
        }
        self.state.wake();
        let trouble = lock(&self.state.trouble).clone();
        Err(PoolError(trouble.unwrap_or_else(|| "none was ready in time".into())))
    }

    /// Waits for the next living worker; `None`: there will be none. Those that have died in the stock, such as by the
    /// kernel's hand when memory was short, are reaped.
    async fn next(&self) -> Option<Worker> {
        loop {
            let worker = self.stock.lock().await.recv().await?;
            let left = self.state.ready.fetch_sub(1, Ordering::Relaxed);
            // A new one is made when this one ends, which is soon enough and out of its way; unless the stock runs low.
            if left <= self.low {
                self.state.wake();
            }
            if worker.is_there() {
                return Some(worker);
            }
            tracing::warn!("a worker had died before it was needed");
            metrics::worker_trouble(WorkerTrouble::Died);
        }
    }
}

#[cfg(any(test, feature = "fuzzing"))]
impl Pool {
    /// Makes a pool of workers without processes: the other end of each socket says what a hostile one would.
    ///
    /// # Errors
    /// [`io::Error`]: the kernel refuses a descriptor.
    pub(crate) fn of_sockets(sockets: Vec<std::os::unix::net::UnixStream>) -> io::Result<Self> {
        let (stock_tx, stock) = mpsc::channel(sockets.len().max(1));
        let state = PoolState::new(sockets.len())?;
        for socket in sockets {
            socket.set_nonblocking(true)?;
            // A process that has ended, so that signals to it reach nobody.
            let mut child = std::process::Command::new("/bin/true").spawn()?;
            let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
            let pidfd = Arc::new(rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?);
            child.wait()?;
            let pool = Arc::clone(&state);
            let worker = Worker { pid, pidfd, socket: Some(socket), held: None, jit: false, pool };
            // There is room for all of them.
            let _ = stock_tx.try_send(worker);
        }
        Ok(Self { stock: tokio::sync::Mutex::new(stock), state, low: 0, keeper: None })
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.state.stopping.store(true, Ordering::Relaxed);
        self.state.wake();
        if let Some(keeper) = self.keeper.take() {
            // A panic of the thread is in the log.
            let _ = keeper.join();
        }
    }
}
