//! Which open calls wait for a person. The host says so, as often as it likes; what counts is how it is when we look.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::WorkerCall;

/// The calls of one execution that await approval. It holds no more than there are open calls.
#[derive(Debug, Default)]
pub(crate) struct CallStates {
    awaiting: Mutex<HashSet<WorkerCall>>,
    changed: Notify,
}

impl CallStates {
    fn lock(&self) -> MutexGuard<'_, HashSet<WorkerCall>> {
        // Changed only under this lock, by code that does not panic half way.
        self.awaiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes whether an open call awaits approval. Gives `false` where that was known.
    #[must_use]
    pub(crate) fn set(&self, call: WorkerCall, awaits: bool) -> bool {
        let is_new = if awaits { self.lock().insert(call) } else { self.lock().remove(&call) };
        if is_new {
            self.changed.notify_one();
        }
        is_new
    }

    /// Forgets a call that is not open any more.
    pub(crate) fn forget(&self, call: WorkerCall) {
        self.lock().remove(&call);
    }

    pub(super) fn awaits(&self, call: WorkerCall) -> bool {
        self.lock().contains(&call)
    }

    /// Completes when something has changed since the last time. Safe to drop and ask again.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }
}
