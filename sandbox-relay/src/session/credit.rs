//! Credit of a session: tool calls that the host takes, and executions that the relay takes.

use std::sync::{Mutex, MutexGuard, PoisonError};

use relay_proto::credit::{Allowance, Credit, TooMuchCredit};
use relay_proto::wire;
use tokio::sync::Notify;

use super::{MAX_LIVE_EXECUTIONS, SESSION_SOURCE_BYTES, Violation};

/// Executions that a host may send before more are granted.
const EXECUTIONS: wire::Credit = wire::Credit { count: MAX_LIVE_EXECUTIONS as u64, bytes: SESSION_SOURCE_BYTES as u64 };

/// Credit of both peers of one session.
#[derive(Debug)]
pub(super) struct SessionCredit {
    /// Tool calls that the host takes.
    calls: Mutex<Credit>,
    /// Notified when the host takes more.
    more_calls: Notify,
    /// Executions that the host may send.
    executions: Mutex<Allowance>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Changed only under this lock, by code that does not panic half way.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SessionCredit {
    /// Begins with the credit that hello grants. Returns it with the credit for welcome.
    ///
    /// # Errors
    /// [`TooMuchCredit`]: hello grants more than a peer may have.
    pub(super) fn new(granted: &wire::Credit) -> Result<(Self, wire::Credit), TooMuchCredit> {
        let (calls, executions) = (Mutex::new(Credit::new(granted)?), Mutex::new(Allowance::new(EXECUTIONS)?));
        Ok((Self { calls, more_calls: Notify::new(), executions }, EXECUTIONS))
    }

    /// Waits until the host takes another tool call. Cancel safe.
    pub(super) async fn call(&self) {
        loop {
            let more = self.more_calls.notified();
            tokio::pin!(more);
            more.as_mut().enable();
            if lock(&self.calls).lasts() {
                return;
            }
            more.await;
        }
    }

    /// Takes a tool call with arguments of this length from the credit. Returns `false` if the host takes none.
    #[must_use]
    pub(super) fn spend_call(&self, bytes: usize) -> bool {
        lock(&self.calls).spend(bytes)
    }

    /// Adds what the host grants.
    ///
    /// # Errors
    /// [`Violation`]: it is more than a peer may have.
    pub(super) fn add(&self, granted: &wire::Credit) -> Result<(), Violation> {
        lock(&self.calls).add(granted).map_err(|error| Violation(error.to_string()))?;
        self.more_calls.notify_waiters();
        Ok(())
    }

    /// Counts an execution with texts of this length that came.
    ///
    /// # Errors
    /// [`Violation`]: the host had no credit for it.
    pub(super) fn execution(&self, bytes: usize) -> Result<(), Violation> {
        lock(&self.executions).spend(bytes).map_err(|error| Violation(error.to_string()))
    }

    /// Gives an execution back that has ended. Returns what the host is to be granted; `None`: nothing yet.
    pub(super) fn execution_ended(&self, bytes: usize) -> Option<wire::Credit> {
        lock(&self.executions).give_back(bytes)
    }
}
