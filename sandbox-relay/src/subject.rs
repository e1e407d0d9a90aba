//! Limits that all connections of one subject share: their number, and the memory that they make the relay hold.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Semaphore;

/// Maximum number of bytes of source and input that the executions of one subject hold, running or waiting.
const SOURCE_BYTES: usize = 64 << 20;
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
    shared: Budgets,
}

/// Byte budgets that the connections of a subject share.
#[derive(Debug, Clone)]
pub(crate) struct Budgets {
    pub(crate) sources: Arc<Semaphore>,
    pub(crate) incoming: Arc<Semaphore>,
}

/// Proof that a subject may have this connection, which counts until this is dropped.
#[derive(Debug)]
pub(crate) struct SubjectPermit {
    name: Arc<str>,
    connected: Arc<Mutex<HashMap<Arc<str>, Entry>>>,
    pub(crate) budgets: Budgets,
}

impl Subjects {
    /// Allows each subject this many connections.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, connected: Arc::default() }
    }

    /// Counts a connection; `None`: the subject has as many as it may.
    pub(crate) fn enter(&self, name: &Arc<str>) -> Option<SubjectPermit> {
        let mut connected = self.connected.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = connected.entry(Arc::clone(name)).or_insert_with(|| Entry {
            connections: 0,
            shared: Budgets {
                sources: Arc::new(Semaphore::new(SOURCE_BYTES)),
                incoming: Arc::new(Semaphore::new(INCOMING_BYTES)),
            },
        });
        if entry.connections >= self.most {
            return None;
        }
        entry.connections += 1;
        let budgets = entry.shared.clone();
        Some(SubjectPermit { name: Arc::clone(name), connected: Arc::clone(&self.connected), budgets })
    }
}

impl Drop for SubjectPermit {
    fn drop(&mut self) {
        let mut connected = self.connected.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(entry) = connected.get_mut(&self.name) else { return };
        entry.connections -= 1;
        if entry.connections == 0 {
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
        let held = [subjects.enter(&a).unwrap(), subjects.enter(&a).unwrap()];
        assert!(subjects.enter(&a).is_none());
        assert!(subjects.enter(&b).is_some(), "another subject has its own");
        drop(held);
        assert!(subjects.connected.lock().unwrap().is_empty());
    }
}
