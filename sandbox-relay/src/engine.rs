//! The engine: what runs executions of all sessions. It leases each a worker: a place to run (`admission`), a process
//! from a pool (`sandbox`), and a share of the processors (`fairness`).

use std::sync::Arc;
use std::time::Duration;

use relay_proto::ErrorCode;
use rustix::process::Pid;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::admission::{Admission, ExecutionPermit, NotAdmitted, SessionNumber};
use crate::execution::ExecutionError;
use crate::fairness::{Fairness, FairnessGuard};
use crate::sandbox::pool::{Pool, PoolError, Worker};

/// Maximum number of bytes of source and input that all executions hold, running or waiting.
const SOURCE_BYTES: usize = 256 << 20;

/// Pools of ready workers.
#[derive(Debug)]
pub(crate) struct Pools {
    /// Workers whose V8 interprets.
    pub(crate) interpreter: Pool,
    /// Workers whose V8 compiles to machine code; `None`: the relay does not allow that.
    pub(crate) compiler: Option<Pool>,
}

/// Runs executions.
#[derive(Debug)]
pub(crate) struct Engine {
    admission: Admission,
    pools: Pools,
    fairness: Fairness,
    source_bytes: Arc<Semaphore>,
}

/// No worker can be leased.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LeaseError {
    /// Neither a place nor room in the queue.
    #[error(transparent)]
    NotAdmitted(#[from] NotAdmitted),
    /// No place in time.
    #[error("it did not begin within {} ms of queueing", .0.as_millis())]
    NotBegun(Duration),
    /// No process could be made.
    #[error(transparent)]
    Pool(#[from] PoolError),
}

impl LeaseError {
    /// Returns the error that the execution ends with: `DRAINING` if the relay shuts down, else `OVERLOADED`.
    pub(crate) fn into_execution_error(self) -> ExecutionError {
        match self {
            Self::NotAdmitted(NotAdmitted::Draining) => ExecutionError {
                hint: "nothing was run: send it to another relay, or to this one when it is back".into(),
                ..ExecutionError::new(ErrorCode::Draining, self.to_string())
            },
            Self::NotBegun(_) => ExecutionError {
                hint: "nothing was run: send it again later, or let it wait for longer".into(),
                ..ExecutionError::new(ErrorCode::Overloaded, self.to_string())
            },
            Self::NotAdmitted(_) | Self::Pool(_) => ExecutionError::new(ErrorCode::Overloaded, self.to_string()),
        }
    }
}

/// A worker and its place, for one execution. Dropping it ends the process; its place is free again when the process is
/// gone and the lease is dropped, whichever is later.
#[derive(Debug)]
pub(crate) struct Lease {
    _share: FairnessGuard,
    pub(crate) worker: Worker,
    place: Arc<ExecutionPermit>,
}

impl Lease {
    /// Returns the place, which the execution can give back while it waits for people.
    pub(crate) fn place(&self) -> Arc<ExecutionPermit> {
        Arc::clone(&self.place)
    }

    /// Ends the process and gives its share of the processors back. The place stays taken until it is dropped.
    pub(crate) fn end_worker(self) -> Arc<ExecutionPermit> {
        self.place
    }
}

impl Engine {
    /// Makes an engine of its parts.
    pub(crate) fn new(admission: Admission, pools: Pools, fairness: Fairness) -> Self {
        Self { admission, pools, fairness, source_bytes: Arc::new(Semaphore::new(SOURCE_BYTES)) }
    }

    /// Waits for a place and takes a worker, for at most the time `within`; `None`: for as long as it takes. With
    /// `compiled`, V8 compiles to machine code, if the relay allows it. Cancel safe: dropping the future gives up the
    /// turn.
    ///
    /// # Errors
    /// - [`LeaseError::NotAdmitted`]: the queue is full, or the relay drains
    /// - [`LeaseError::NotBegun`]: there was no worker within that time
    /// - [`LeaseError::Pool`]: no process could be made in time
    pub(crate) async fn lease(
        &self,
        subject: &Arc<str>,
        session: SessionNumber,
        compiled: bool,
        within: Option<Duration>,
    ) -> Result<Lease, LeaseError> {
        let lease = self.lease_in_turn(subject, session, compiled);
        match within {
            Some(within) => tokio::time::timeout(within, lease).await.unwrap_or(Err(LeaseError::NotBegun(within))),
            None => lease.await,
        }
    }

    async fn lease_in_turn(
        &self,
        subject: &Arc<str>,
        session: SessionNumber,
        compiled: bool,
    ) -> Result<Lease, LeaseError> {
        let place = Arc::new(self.admission.admit(Arc::clone(subject), session).await?);
        let pool = match &self.pools.compiler {
            Some(pool) if compiled => pool,
            _ => &self.pools.interpreter,
        };
        let mut worker = pool.take().await?;
        worker.hold(Arc::clone(&place));
        let share = self.fairness.enter(subject, &worker);
        Ok(Lease { _share: share, worker, place })
    }

    /// Reserves room for the texts of a request; `None`: there is none.
    pub(crate) fn hold_source(&self, bytes: u32) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.source_bytes).try_acquire_many_owned(bytes).ok()
    }

    /// Returns whether the relay allows V8 to compile to machine code.
    pub(crate) fn compiles(&self) -> bool {
        self.pools.compiler.is_some()
    }

    /// Returns whether a worker waits for an execution.
    pub(crate) fn is_ready(&self) -> bool {
        self.pools.interpreter.is_ready()
    }

    /// Returns the number of ready workers of each pool, with the pool's name.
    pub(crate) fn ready_workers(&self) -> impl Iterator<Item = (&'static str, usize)> {
        let compiler = self.pools.compiler.as_ref().map(|pool| ("compiler", pool.ready()));
        std::iter::once(("interpreter", self.pools.interpreter.ready())).chain(compiler)
    }

    /// Returns the time for which that execution has waited which has waited longest; zero: none waits.
    pub(crate) fn oldest_wait(&self) -> Duration {
        self.admission.oldest_wait()
    }

    /// Returns how many executions may run at once.
    pub(crate) fn capacity(&self) -> usize {
        self.admission.capacity()
    }

    /// Returns the number of running and of waiting executions.
    pub(crate) fn load(&self) -> (usize, usize) {
        self.admission.load()
    }

    /// Returns the number of executions that have waited for people, and wait for a place now.
    pub(crate) fn coming_back(&self) -> usize {
        self.admission.coming_back()
    }

    /// Returns the number of executions that wait for people and hold no place.
    pub(crate) fn parked(&self) -> usize {
        self.admission.parked()
    }

    /// Admits no execution from now on and turns away those that wait.
    pub(crate) fn drain(&self) {
        self.admission.drain();
    }

    /// Returns whether a process is a worker, dead or alive, that its pool has yet to reap.
    pub(crate) fn owns(&self, pid: Pid) -> bool {
        self.pools.interpreter.owns(pid) || self.pools.compiler.as_ref().is_some_and(|pool| pool.owns(pid))
    }
}
