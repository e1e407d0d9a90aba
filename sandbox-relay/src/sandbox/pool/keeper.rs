//! Thread that makes a pool's workers ahead of need, watches the forking process, and reaps each worker by its pidfd,
//! so that it takes nobody else's exit status.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use prost::Message as _;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{WaitId, WaitIdOptions};
use tokio::sync::mpsc;

use super::worker::Worker;
use super::{Dying, PoolState, READY_WITHIN, lock};
use crate::metrics::{self, WorkerTrouble};
use crate::sandbox::channel::{self, message, message::report::Kind as Report};
use crate::sandbox::spawn::{Newborn, Spawner};

/// Pause after a worker could not be made.
const RETRY_AFTER: Duration = Duration::from_millis(200);

/// State of the thread.
pub(super) struct Keeper {
    pool: Arc<PoolState>,
    /// `true`: V8 compiles to machine code.
    jit: bool,
    stock: mpsc::Sender<Worker>,
    /// Killed workers that are not reaped yet.
    reaping: Vec<Dying>,
}

impl Keeper {
    /// Makes the state, with nothing to reap.
    pub(super) fn new(pool: Arc<PoolState>, jit: bool, stock: mpsc::Sender<Worker>) -> Self {
        Self { pool, jit, stock, reaping: Vec::new() }
    }

    /// Runs until the pool stops, and then until every process is reaped.
    pub(super) fn run(mut self, spawner: &mut dyn Spawner) {
        while !self.pool.stopping.load(Ordering::Relaxed) {
            let filled = self.fill(spawner);
            let pause = match &filled {
                Ok(()) => None,
                Err(error) => {
                    tracing::error!(%error, "a worker could not be started");
                    Some(RETRY_AFTER)
                }
            };
            *lock(&self.pool.trouble) = filled.err().map(|error| error.to_string());
            self.sleep(spawner, pause);
            self.reap();
        }
        self.end();
    }

    /// Fills the stock: makes all missing processes, then waits until each is ready.
    fn fill(&mut self, spawner: &mut dyn Spawner) -> io::Result<()> {
        let mut made = Vec::new();
        let mut result = Ok(());
        let missing = self.stock.capacity();
        // Workers for a nearly empty stock are needed at once.
        let ahead = missing * 4 <= self.stock.max_capacity();
        for _ in 0..missing {
            match spawner.spawn(ahead) {
                Ok(newborn) => made.push((self.adopt(newborn), Instant::now())),
                Err(error) => {
                    metrics::worker_trouble(WorkerTrouble::NotStarted);
                    result = Err(error);
                    break;
                }
            }
        }
        for (worker, started) in made {
            if let Err(error) = wait_until_ready(&worker) {
                metrics::worker_trouble(WorkerTrouble::NotStarted);
                result = result.and(Err(error));
                continue;
            }
            metrics::worker_ready(started);
            self.pool.ready.fetch_add(1, Ordering::Relaxed);
            if self.stock.try_send(worker).is_err() {
                self.pool.ready.fetch_sub(1, Ordering::Relaxed);
            }
        }
        result
    }

    /// Takes a new process over: from here on it is killed and reaped, whatever happens.
    fn adopt(&self, newborn: Newborn) -> Worker {
        let Newborn { pid, pidfd, socket } = newborn;
        let pool = Arc::clone(&self.pool);
        lock(&pool.owned).insert(pid);
        Worker { pid, pidfd: Arc::new(pidfd), socket: Some(socket), held: None, jit: self.jit, pool }
    }

    /// Waits until there is something to do, for at most `pause`.
    fn sleep(&mut self, spawner: &mut dyn Spawner, pause: Option<Duration>) {
        let forking_process_ended = {
            let mut watched = vec![PollFd::new(&self.pool.wake, PollFlags::IN)];
            let forking_process = spawner.watched();
            if let Some(process) = &forking_process {
                watched.push(PollFd::new(process, PollFlags::IN));
            }
            watched.extend(self.reaping.iter().map(|dying| PollFd::new(&dying.pidfd, PollFlags::IN)));
            let pause = pause.and_then(|pause| Timespec::try_from(pause).ok());
            // After an interruption the thread looks again, too.
            let _ = rustix::event::poll(&mut watched, pause.as_ref());
            forking_process.is_some() && watched.get(1).is_some_and(|it| !it.revents().is_empty())
        };
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.pool.wake, &mut count);
        if forking_process_ended {
            tracing::warn!("the forking process ended; starting another");
            if let Err(error) = spawner.revive() {
                tracing::error!(%error, "the forking process could not be started");
            }
        }
    }

    /// Reaps the killed workers that have ended.
    fn reap(&mut self) {
        self.reaping.append(&mut lock(&self.pool.dying));
        self.reaping.retain(|dying| {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
            let is_left = matches!(rustix::process::waitid(WaitId::PidFd(dying.pidfd.as_fd()), options), Ok(None));
            if !is_left {
                lock(&self.pool.owned).remove(&dying.pid);
            }
            is_left
        });
    }

    /// Reaps every process that is left.
    fn end(self) {
        let Self { pool, stock, reaping, .. } = self;
        // The receiver still holds the stock: those workers are killed when it is dropped, and die with this thread at
        // the latest.
        drop(stock);
        let dying = std::mem::take(&mut *lock(&pool.dying));
        for Dying { pidfd, .. } in reaping.into_iter().chain(dying) {
            let _ = rustix::process::waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED);
        }
    }
}

/// Waits until a new worker reports that it is locked and ready.
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
