//! Which open calls wait for a person. The host says so, as often as it likes; what counts is how it is when we look.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::WorkerCall;

/// What a call waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Until another question of its execution is answered.
    Turn,
    /// For the answer to its own.
    Answer,
}

/// The calls of one execution that wait. It holds no more than there are open calls.
#[derive(Debug, Default)]
pub(crate) struct CallStates {
    waits: Mutex<HashMap<WorkerCall, Wait>>,
    changed: Notify,
}

impl CallStates {
    fn lock(&self) -> MutexGuard<'_, HashMap<WorkerCall, Wait>> {
        // Changed only under this lock, by code that does not panic half way.
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what an open call waits for, if for anything. Gives `false` where that was known.
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

    /// Forgets a call that is not open any more.
    pub(crate) fn forget(&self, call: WorkerCall) {
        self.lock().remove(&call);
    }

    pub(super) fn wait(&self, call: WorkerCall) -> Option<Wait> {
        self.lock().get(&call).copied()
    }

    /// Completes when something has changed since the last time. Safe to drop and ask again.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }
}
