//! Limits that all connections of one subject share: their number, and the memory that they make the relay hold.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Semaphore;

/// Maximum number of bytes of source and input that the executions of one subject hold, running or waiting.
const SOURCE_BYTES: usize = 64 << 20;
/// Maximum number of bytes of messages that are queued or kept for the sessions of one subject. Those that are queued for
/// sessions without a connection, and small ones kept for those, count; of others only the large ones do.
const KEPT_BYTES: usize = 64 << 20;
/// Number of connections of one subject beyond its maximum that may only resume a session.
const RESUMING: usize = 8;
/// Maximum number of bytes of incoming messages that the connections of one subject hold.
const INCOMING_BYTES: usize = 64 << 20;

/// Connected subjects.
#[derive(Debug)]
pub(crate) struct Subjects {
    most: usize,
    connected: Arc<Mutex<HashMap<Arc<str>, Entry>>>,
}

#[derive(Debug)]
struct Entry {
    connections: usize,
    /// Number of connections that may only resume a session.
    resuming: usize,
    shared: Budgets,
}

/// Byte budgets that the connections of a subject share.
#[derive(Debug, Clone)]
pub(crate) struct Budgets {
    pub(crate) sources: Arc<Semaphore>,
    pub(crate) incoming: Arc<Semaphore>,
    pub(crate) kept: Arc<Semaphore>,
}

/// Proof that a subject may have this connection, which counts until this is dropped.
#[derive(Debug)]
pub(crate) struct SubjectPermit {
    name: Arc<str>,
    connected: Arc<Mutex<HashMap<Arc<str>, Entry>>>,
    pub(crate) budgets: Budgets,
    /// `true`: the connection may only resume a session.
    pub(crate) resumes_only: bool,
}

impl Subjects {
    /// Allows each subject this many connections.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, connected: Arc::default() }
    }

    /// Counts a connection; `None`: the subject has as many as it may. With `resumes`, a few more are let in that may only
    /// resume a session, which has a place already.
    pub(crate) fn enter(&self, name: &Arc<str>, resumes: bool) -> Option<SubjectPermit> {
        let mut connected = self.connected.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = connected.entry(Arc::clone(name)).or_insert_with(|| Entry {
            connections: 0,
            resuming: 0,
            shared: Budgets {
                sources: Arc::new(Semaphore::new(SOURCE_BYTES)),
                incoming: Arc::new(Semaphore::new(INCOMING_BYTES)),
                kept: Arc::new(Semaphore::new(KEPT_BYTES)),
            },
        });
        let resumes_only = entry.connections >= self.most;
        let (count, most) =
            if resumes_only { (&mut entry.resuming, RESUMING) } else { (&mut entry.connections, self.most) };
        if *count >= most || (resumes_only && !resumes) {
            return None;
        }
        *count += 1;
        let budgets = entry.shared.clone();
        Some(SubjectPermit { name: Arc::clone(name), connected: Arc::clone(&self.connected), budgets, resumes_only })
    }
}

impl Drop for SubjectPermit {
    fn drop(&mut self) {
        let mut connected = self.connected.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(entry) = connected.get_mut(&self.name) else { return };
        if self.resumes_only {
            entry.resuming -= 1;
        } else {
            entry.connections -= 1;
        }
        if entry.connections + entry.resuming == 0 {
            connected.remove(&self.name);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn connections_are_counted_and_nothing_is_left_behind() {
        let subjects = Subjects::new(2);
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        let held = [false, true].map(|resumes| subjects.enter(&a, resumes).unwrap());
        assert!(held.iter().all(|permit| !permit.resumes_only));
        assert!(subjects.enter(&a, false).is_none());
        assert!(subjects.enter(&b, false).is_some(), "another subject has its own");
        let resuming: Vec<_> = std::iter::from_fn(|| subjects.enter(&a, true)).take(100).collect();
        assert_eq!(resuming.len(), RESUMING);
        assert!(resuming.iter().all(|permit| permit.resumes_only));
        drop(held);
        assert!(subjects.enter(&a, false).is_some());
        drop(resuming);
        assert!(subjects.connected.lock().unwrap().is_empty());
    }
}
