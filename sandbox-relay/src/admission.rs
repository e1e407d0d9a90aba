//! Admits executions: limits how many run at once, for each session, for each subject and in all, and queues the rest
//! fairly between subjects.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// Memory that one execution is assumed to need.
const EXECUTION_BYTES: u64 = 96 << 20;
/// Memory that the relay itself is assumed to need.
const RELAY_BYTES: u64 = 64 << 20;

/// Maximum numbers of executions that run and that wait.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AdmissionConfig {
    pub(crate) running: usize,
    pub(crate) running_per_subject: usize,
    pub(crate) running_per_session: usize,
    pub(crate) waiting: usize,
    pub(crate) waiting_per_subject: usize,
}

/// Number of a session; unique while the relay runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SessionNumber(pub(crate) u64);

/// Reports that an execution can neither run nor wait.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Overloaded {
    #[error("too many executions of this subject wait already")]
    Subject,
    #[error("too many executions wait already")]
    Relay,
    #[error("the relay is shutting down")]
    Draining,
}

/// Hands out permits to run.
#[derive(Debug, Clone)]
pub(crate) struct Admission(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    config: AdmissionConfig,
    running: usize,
    waiting: usize,
    draining: bool,
    next_ticket: u64,
    subjects: HashMap<Arc<str>, Subject>,
    sessions: HashMap<SessionNumber, usize>,
    /// Tickets that have a place.
    granted: HashSet<u64>,
    /// Subjects with waiting executions, in the order of their turns.
    turns: VecDeque<Arc<str>>,
}

#[derive(Debug, Default)]
struct Subject {
    running: usize,
    waiting: VecDeque<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    ticket: u64,
    session: SessionNumber,
    granted: oneshot::Sender<()>,
}

/// Proof that an execution may run. Dropping it frees the place, or leaves the queue.
#[derive(Debug)]
pub(crate) struct ExecutionPermit {
    admission: Admission,
    subject: Arc<str>,
    session: SessionNumber,
    ticket: u64,
}

impl Admission {
    pub(crate) fn new(config: AdmissionConfig) -> Self {
        Self(Arc::new(Mutex::new(State {
            config,
            running: 0,
            waiting: 0,
            draining: false,
            next_ticket: 0,
            subjects: HashMap::new(),
            sessions: HashMap::new(),
            granted: HashSet::new(),
            turns: VecDeque::new(),
        })))
    }

    /// Waits for a place. Cancel safe: dropping the future gives up the turn.
    ///
    /// # Errors
    /// [`Overloaded`]: the queue is full, or the relay drains.
    pub(crate) async fn admit(&self, subject: Arc<str>, session: SessionNumber) -> Result<ExecutionPermit, Overloaded> {
        let (permit, granted) = self.enqueue(subject, session)?;
        // The sender lives in the queue until it grants.
        if granted.await.is_err() {
            return Err(Overloaded::Draining);
        }
        Ok(permit)
    }

    fn enqueue(
        &self,
        subject: Arc<str>,
        session: SessionNumber,
    ) -> Result<(ExecutionPermit, oneshot::Receiver<()>), Overloaded> {
        let mut state = self.lock();
        if state.draining {
            return Err(Overloaded::Draining);
        }
        let config = state.config;
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        let (granted, receiver) = oneshot::channel();
        let entry = state.subjects.entry(Arc::clone(&subject)).or_default();
        entry.waiting.push_back(Waiter { ticket, session, granted });
        if entry.waiting.len() == 1 {
            state.turns.push_back(Arc::clone(&subject));
        }
        state.waiting += 1;
        state.grant();
        let waiting_of_subject = state.subjects.get(&subject).map_or(0, |subject| subject.waiting.len());
        let refused = match state.granted.contains(&ticket) {
            true => None,
            false if waiting_of_subject > config.waiting_per_subject => Some(Overloaded::Subject),
            false if state.waiting > config.waiting => Some(Overloaded::Relay),
            false => None,
        };
        drop(state);
        // Dropping the permit takes it out of the queue again.
        let permit = ExecutionPermit { admission: self.clone(), subject, session, ticket };
        refused.map_or(Ok((permit, receiver)), Err)
    }

    /// Admits no execution from now on and turns away those that wait.
    pub(crate) fn drain(&self) {
        let mut state = self.lock();
        state.draining = true;
        state.waiting = 0;
        state.turns.clear();
        for subject in state.subjects.values_mut() {
            subject.waiting.clear();
        }
    }

    /// Returns how many executions may run at once.
    pub(crate) fn capacity(&self) -> usize {
        self.lock().config.running
    }

    /// Returns the number of running and of waiting executions.
    pub(crate) fn load(&self) -> (usize, usize) {
        let state = self.lock();
        (state.running, state.waiting)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The counts are changed only under this lock, by code that does not panic half way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Gives free places to waiting executions, one subject's turn after the other.
    fn grant(&mut self) {
        let mut passed_over = 0;
        while self.running < self.config.running && passed_over < self.turns.len() {
            let Some(name) = self.turns.pop_front() else { return };
            let Some(subject) = self.subjects.get_mut(&name) else { continue };
            let place = (subject.running < self.config.running_per_subject).then(|| {
                let free = |it: &Waiter| {
                    self.sessions.get(&it.session).copied().unwrap_or(0) < self.config.running_per_session
                };
                subject.waiting.iter().position(free)
            });
            let Some(waiter) = place.flatten().and_then(|at| subject.waiting.remove(at)) else {
                self.turns.push_back(name);
                passed_over += 1;
                continue;
            };
            passed_over = 0;
            subject.running += 1;
            self.running += 1;
            self.waiting -= 1;
            *self.sessions.entry(waiter.session).or_default() += 1;
            self.granted.insert(waiter.ticket);
            if !subject.waiting.is_empty() {
                self.turns.push_back(name);
            }
            // A future that was just dropped gives the place back with its permit.
            let _ = waiter.granted.send(());
        }
    }
}

impl Drop for ExecutionPermit {
    fn drop(&mut self) {
        let mut guard = self.admission.lock();
        let state = &mut *guard;
        let Some(subject) = state.subjects.get_mut(&self.subject) else { return };
        if state.granted.remove(&self.ticket) {
            subject.running -= 1;
            state.running -= 1;
            if let Some(running) = state.sessions.get_mut(&self.session) {
                *running -= 1;
                if *running == 0 {
                    state.sessions.remove(&self.session);
                }
            }
        } else if let Some(at) = subject.waiting.iter().position(|waiter| waiter.ticket == self.ticket) {
            subject.waiting.remove(at);
            state.waiting -= 1;
            if subject.waiting.is_empty() {
                state.turns.retain(|name| *name != self.subject);
            }
        }
        if subject.running == 0 && subject.waiting.is_empty() {
            state.subjects.remove(&self.subject);
        }
        state.grant();
    }
}

/// Returns how many executions fit into the memory that this process may use: that of its cgroup, else that of the
/// machine.
pub(crate) fn executions_for_memory() -> usize {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
        line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib * 1024)
    });
    let bytes = machine.unwrap_or(1 << 30).min(cgroup_memory().unwrap_or(u64::MAX));
    usize::try_from(bytes.saturating_sub(RELAY_BYTES) / EXECUTION_BYTES).unwrap_or(usize::MAX).max(1)
}

/// Returns the memory limit of this process's cgroup, version 2 or 1; `None`: it has none.
fn cgroup_memory() -> Option<u64> {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mut limits = Vec::new();
    for line in own.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|it| it == "memory") => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => continue,
        };
        // In a container the root is the container's own group, whatever its path outside.
        for group in [path, ""] {
            let file = Path::new(root).join(group.trim_start_matches('/')).join(file);
            limits.extend(fs::read_to_string(file).ok().and_then(|text| text.trim().parse::<u64>().ok()));
        }
    }
    limits.into_iter().min()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn admission() -> Admission {
        Admission::new(AdmissionConfig {
            running: 3,
            running_per_subject: 2,
            running_per_session: 1,
            waiting: 4,
            waiting_per_subject: 3,
        })
    }

    fn ask(admission: &Admission, subject: &str, session: u64) -> (ExecutionPermit, oneshot::Receiver<()>) {
        admission.enqueue(subject.into(), SessionNumber(session)).unwrap()
    }

    fn granted(receiver: &mut oneshot::Receiver<()>) -> bool {
        receiver.try_recv().is_ok()
    }

    #[test]
    fn places_are_counted_per_session_per_subject_and_in_all() {
        let admission = admission();
        let (first, mut first_granted) = ask(&admission, "a", 1);
        assert!(granted(&mut first_granted));
        let (_same_session, mut same_session) = ask(&admission, "a", 1);
        assert!(!granted(&mut same_session), "one per session");
        let (_second, mut second) = ask(&admission, "a", 2);
        assert!(granted(&mut second), "another session of the subject passes the one that has to wait");
        let (_third, mut third) = ask(&admission, "a", 3);
        assert!(!granted(&mut third), "two per subject");
        let (_other, mut other) = ask(&admission, "b", 4);
        assert!(granted(&mut other));
        assert_eq!(admission.load(), (3, 2));
        drop(first);
        assert!(granted(&mut same_session), "a place that is given back goes to who waited longest");
        assert_eq!(admission.load(), (3, 1));
    }

    #[test]
    fn subjects_take_turns_and_full_queues_turn_away() {
        let admission = admission();
        let running: Vec<_> = [("a", 1), ("a", 2), ("b", 3)].map(|(it, n)| ask(&admission, it, n)).into();
        let (_a1, mut a1) = ask(&admission, "a", 4);
        let (_a2, mut a2) = ask(&admission, "a", 5);
        let (_c, mut c) = ask(&admission, "c", 6);
        let (_a3, _) = ask(&admission, "a", 7);
        assert_eq!(admission.enqueue("a".into(), SessionNumber(8)).unwrap_err(), Overloaded::Subject);
        assert_eq!(admission.enqueue("d".into(), SessionNumber(9)).unwrap_err(), Overloaded::Relay);
        let mut running = running.into_iter();
        drop(running.next());
        drop(running.next());
        assert!(granted(&mut a1) && granted(&mut c), "the second place goes to the other subject");
        assert!(!granted(&mut a2));
    }

    #[test]
    fn who_stops_waiting_leaves_nothing_behind() {
        let admission = admission();
        let held: Vec<_> = [("a", 1), ("b", 2), ("c", 3)].map(|(it, n)| ask(&admission, it, n)).into();
        drop(ask(&admission, "d", 4));
        assert_eq!(admission.load(), (3, 0));
        drop(held);
        assert_eq!(admission.load(), (0, 0));
        let state = admission.lock();
        assert!(state.subjects.is_empty() && state.sessions.is_empty() && state.turns.is_empty());
    }
}
