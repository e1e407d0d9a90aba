//! Which open calls wait for a person, as the host last reported, and whether there is a host at all. Written by the
//! session, read by the execution.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::WorkerCall;

/// Event that a call waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// An answer to another question of its execution, after which its own is asked.
    Turn,
    /// A person's answer to its own question.
    Answer,
}

/// The waiting calls of one execution; at most as many as are open.
#[derive(Debug, Default)]
pub(crate) struct CallStates {
    waits: Mutex<HashMap<WorkerCall, Wait>>,
    /// `true`: the session has no connection, and the clocks stand still.
    stopped: AtomicBool,
    changed: Notify,
}

impl CallStates {
    fn lock(&self) -> MutexGuard<'_, HashMap<WorkerCall, Wait>> {
        // Changed only under this lock, by code that does not panic half way.
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets what an open call waits for; `None`: it runs. Returns `false` if that is no change.
    #[must_use]
    pub(crate) fn set(&self, call: WorkerCall, wait: Option<Wait>) -> bool {
        let before = {
            let mut waits = self.lock();
            match wait {
                Some(wait) => waits.insert(call, wait),
                None => waits.remove(&call),
            }
        };
        if before != wait {
            self.changed.notify_one();
        }
        before != wait
    }

    /// Removes a call that is closed.
    pub(crate) fn forget(&self, call: WorkerCall) {
        self.lock().remove(&call);
    }

    /// Stops the clocks of the execution, or lets them go on.
    pub(crate) fn stop_clocks(&self, stop: bool) {
        if self.stopped.swap(stop, Ordering::Relaxed) != stop {
            self.changed.notify_one();
        }
    }

    /// Returns whether the clocks stand still.
    pub(super) fn are_clocks_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Returns what a call waits for; `None`: it runs or is closed.
    pub(super) fn wait(&self, call: WorkerCall) -> Option<Wait> {
        self.lock().get(&call).copied()
    }

    /// Waits for a change since the last time that this completed. Cancel safe.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }
}
