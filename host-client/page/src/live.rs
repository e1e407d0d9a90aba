//! The runs of this process, collected from its watch. A run never waits for this: what comes too fast is missed, and said
//! to be.
//!
//! - `run`: one run as it was seen

pub(crate) mod run;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use host_client_core::watch::{Seen, Sight, Watch};
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::{broadcast, watch};

use run::LiveRun;

/// The maximum number of runs that are kept. The oldest goes first, those that have ended before the others.
const MAX_RUNS: usize = 200;
/// The maximum size of all runs that are kept, in bytes.
const MAX_BYTES: usize = 64 << 20;

/// The time between two looks at what was seen.
const PAUSE: Duration = Duration::from_millis(5);
/// The maximum number of items that are taken at once, so that views can be read meanwhile.
const MAX_TOGETHER: usize = 4_096;

/// The runs of this process.
#[derive(Debug, Default)]
pub(crate) struct Live {
    state: Mutex<State>,
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    /// The oldest first.
    runs: VecDeque<LiveRun>,
    missed: u64,
}

impl Live {
    /// Collects what a watch sees, until the host is gone or this is dropped.
    pub(crate) fn collect(watch: &Watch) -> Arc<Self> {
        let live = Arc::new(Self::default());
        let (seen, weak) = (watch.subscribe(), Arc::downgrade(&live));
        tokio::spawn(async move {
            let mut seen = seen;
            while let Some(item) = next(&mut seen).await {
                let Some(live) = weak.upgrade() else { break };
                live.take(item, &mut seen);
                drop(live);
                // Each wake-up costs the calls more than the items do.
                tokio::time::sleep(PAUSE).await;
            }
        });
        live
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Changed only under this lock, by code that does not panic half way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an item, and those that came with it.
    fn take(&self, item: Result<Seen, u64>, seen: &mut broadcast::Receiver<Seen>) {
        let mut state = self.state();
        state.take(item);
        for _ in 0..MAX_TOGETHER {
            match seen.try_recv() {
                Ok(item) => state.take(Ok(item)),
                Err(TryRecvError::Lagged(missed)) => state.take(Err(missed)),
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        drop(state);
        self.changes.send_modify(|number| *number += 1);
    }

    /// Tells that something has changed that is not in the runs, such as a question.
    pub(crate) fn touch(&self) {
        self.changes.send_modify(|number| *number += 1);
    }

    /// Returns a receiver of a number that grows with each change.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Returns what `read` makes of the runs, the newest first.
    pub(crate) fn runs<T>(&self, read: impl FnMut(&LiveRun) -> T) -> Vec<T> {
        self.state().runs.iter().rev().map(read).collect()
    }

    /// Returns what `read` makes of a run; `None`: it is not known.
    pub(crate) fn run<T>(&self, name: &str, read: impl FnOnce(&LiveRun) -> T) -> Option<T> {
        self.state().runs.iter().find(|run| *run.name == *name).map(read)
    }

    /// Returns the number of items that were missed.
    pub(crate) fn missed(&self) -> u64 {
        self.state().missed
    }
}

/// Returns the next item, or the number of those that were missed; `None`: there are no more.
async fn next(seen: &mut broadcast::Receiver<Seen>) -> Option<Result<Seen, u64>> {
    match seen.recv().await {
        Ok(seen) => Some(Ok(seen)),
        Err(RecvError::Lagged(missed)) => Some(Err(missed)),
        Err(RecvError::Closed) => None,
    }
}

impl State {
    fn take(&mut self, item: Result<Seen, u64>) {
        let Seen { execution, at, what, .. } = match item {
            Ok(seen) => seen,
            Err(missed) => {
                self.missed += missed;
                self.runs.iter_mut().filter(|run| run.ended.is_none()).for_each(|run| run.has_gaps = true);
                return;
            }
        };
        if let Sight::Began { code, run, limits } = what {
            self.begin(LiveRun::new(execution, (at, &code), run, limits));
        } else if let Some(run) = self.runs.iter_mut().rev().find(|run| run.name == execution) {
            run.take(at, what);
        }
        self.make_room();
    }

    fn begin(&mut self, run: LiveRun) {
        // A durable run that goes on here again begins anew.
        self.runs.retain(|known| known.name != run.name);
        self.runs.push_back(run);
    }

    fn make_room(&mut self) {
        let mut bytes: usize = self.runs.iter().map(|run| run.bytes).sum();
        while self.runs.len() > 1 && (self.runs.len() > MAX_RUNS || bytes > MAX_BYTES) {
            let at = self.runs.iter().position(|run| run.ended.is_some()).unwrap_or(0);
            bytes -= self.runs.remove(at).map_or(0, |run| run.bytes);
        }
    }
}

/// Returns a time relative to another, in µs; 0 if it is before.
pub(crate) fn micros(from: Instant, to: Instant) -> u64 {
    u64::try_from(to.saturating_duration_since(from).as_micros()).unwrap_or(u64::MAX)
}
