//! Life of the server: its phase, its sessions, and how it comes to its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use crate::admission::SessionNumber;

/// Phase of the server's life, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Takes connections and executions.
    Serving,
    /// Takes no more; running executions may end.
    Draining,
    /// Ends everything.
    Closing,
}

/// Phase and sessions of one server.
#[derive(Debug)]
pub(crate) struct Lifecycle {
    phase: watch::Sender<Phase>,
    sessions: AtomicUsize,
    /// Number of those sessions that have no connection.
    detached: AtomicUsize,
    session_ended: Notify,
    next_session: AtomicU64,
}

/// A session that counts as there until this is dropped.
#[derive(Debug)]
pub(crate) struct SessionGuard {
    pub(crate) number: SessionNumber,
    lifecycle: Arc<Lifecycle>,
}

/// A session that counts as one without a connection until this is dropped.
#[derive(Debug)]
pub(crate) struct DetachedGuard(Arc<Lifecycle>);

impl Lifecycle {
    /// Starts in [`Phase::Serving`], without a session.
    pub(crate) fn new() -> Self {
        Self {
            phase: watch::Sender::new(Phase::Serving),
            sessions: AtomicUsize::new(0),
            detached: AtomicUsize::new(0),
            session_ended: Notify::new(),
            next_session: AtomicU64::new(1),
        }
    }

    /// Returns whether the phase is [`Phase::Serving`].
    pub(crate) fn is_serving(&self) -> bool {
        *self.phase.borrow() == Phase::Serving
    }

    /// Returns a receiver that follows the phase.
    pub(crate) fn phase(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// Returns the number of sessions.
    pub(crate) fn sessions(&self) -> usize {
        self.sessions.load(Ordering::Relaxed)
    }

    /// Returns the number of sessions without a connection.
    pub(crate) fn detached(&self) -> usize {
        self.detached.load(Ordering::Relaxed)
    }

    /// Returns the number of sessions with a connection.
    pub(crate) fn connected(&self) -> usize {
        // The two counters are read one after the other: one session may be counted in the second alone.
        self.sessions().saturating_sub(self.detached())
    }

    /// Counts a session as one without a connection.
    pub(crate) fn detach_session(self: &Arc<Self>) -> DetachedGuard {
        self.detached.fetch_add(1, Ordering::Relaxed);
        DetachedGuard(Arc::clone(self))
    }

    /// Counts a new session and gives it a number, from 1.
    pub(crate) fn begin_session(self: &Arc<Self>) -> SessionGuard {
        self.sessions.fetch_add(1, Ordering::Relaxed);
        let number = SessionNumber(self.next_session.fetch_add(1, Ordering::Relaxed));
        SessionGuard { number, lifecycle: Arc::clone(self) }
    }

    /// Drains: waits up to `drain_timeout` for the sessions to end, then closes them and waits up to `close_timeout`
    /// more.
    pub(crate) async fn drain(&self, drain_timeout: Duration, close_timeout: Duration) {
        self.phase.send_replace(Phase::Draining);
        if tokio::time::timeout(drain_timeout, self.all_sessions_ended()).await.is_err() {
            self.phase.send_replace(Phase::Closing);
            // A peer that does not read its close holds this up no longer.
            let _ = tokio::time::timeout(close_timeout, self.all_sessions_ended()).await;
        }
    }

    async fn all_sessions_ended(&self) {
        loop {
            let ended = self.session_ended.notified();
            if self.sessions() == 0 {
                return;
            }
            ended.await;
        }
    }
}

impl Drop for DetachedGuard {
    fn drop(&mut self) {
        self.0.detached.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for SessionGuard {
    fn drop(&mut self) {
        self.lifecycle.sessions.fetch_sub(1, Ordering::Relaxed);
        self.lifecycle.session_ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn draining_closes_the_sessions_that_stay() {
        let lifecycle = Arc::new(Lifecycle::new());
        let (first, second) = (lifecycle.begin_session(), lifecycle.begin_session());
        assert_eq!((first.number, second.number, lifecycle.sessions()), (SessionNumber(1), SessionNumber(2), 2));
        drop(first);
        assert!(lifecycle.is_serving());
        let mut phase = lifecycle.phase();
        let session = tokio::spawn(async move {
            // A session that stays until everything is closed.
            let closing = phase.wait_for(|phase| *phase == Phase::Closing).await.is_ok();
            drop(second);
            closing
        });
        lifecycle.drain(Duration::ZERO, Duration::from_secs(60)).await;
        assert!(!lifecycle.is_serving() && lifecycle.sessions() == 0);
        assert!(matches!(session.await, Ok(true)));
    }
}
