//! Admits executions: limits how many run at once, for each session, for each subject and in all, and queues the rest
//! fairly between subjects.
//!
//! An execution that waits for a person can be *parked*: it gives its place back, and its worker sleeps with what it
//! holds, within a bound of its own. It takes a place again before it goes on.

mod room;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

pub(crate) use room::Room;

/// Maximum numbers of executions that run and that wait.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AdmissionConfig {
    pub(crate) running: usize,
    pub(crate) running_per_subject: usize,
    pub(crate) running_per_session: usize,
    pub(crate) waiting: usize,
    pub(crate) waiting_per_subject: usize,
    /// Bytes that the workers of parked executions may hold together; those of one subject, half of it.
    pub(crate) parked_bytes: u64,
}

/// Number of a session; unique while the relay runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SessionNumber(pub(crate) u64);

/// Reports that an execution can neither run nor wait.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotAdmitted {
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
    /// Tickets of parked executions, each with the bytes that its worker holds.
    parked: HashMap<u64, u64>,
    parked_bytes: u64,
    /// Subjects with waiting executions, in the order of their turns.
    turns: VecDeque<Arc<str>>,
}

#[derive(Debug, Default)]
struct Subject {
    running: usize,
    /// Executions that wait for a place. Parked ones that come back stand before the others.
    waiting: VecDeque<Waiter>,
    parked: usize,
    parked_bytes: u64,
}

#[derive(Debug)]
struct Waiter {
    ticket: u64,
    session: SessionNumber,
    since: Instant,
    granted: oneshot::Sender<()>,
    /// `true`: it was parked. It counts in no queue's limit and is not turned away.
    comes_back: bool,
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
            parked: HashMap::new(),
            parked_bytes: 0,
            turns: VecDeque::new(),
        })))
    }

    /// Waits for a place. Cancel safe: dropping the future gives up the turn.
    ///
    /// # Errors
    /// [`NotAdmitted`]: the queue is full, or the relay drains.
    pub(crate) async fn admit(
        &self,
        subject: Arc<str>,
        session: SessionNumber,
    ) -> Result<ExecutionPermit, NotAdmitted> {
        let (permit, granted) = self.enqueue(subject, session)?;
        // The sender lives in the queue until it grants.
        if granted.await.is_err() {
            return Err(NotAdmitted::Draining);
        }
        Ok(permit)
    }

    fn enqueue(
        &self,
        subject: Arc<str>,
        session: SessionNumber,
    ) -> Result<(ExecutionPermit, oneshot::Receiver<()>), NotAdmitted> {
        let mut state = self.lock();
        if state.draining {
            return Err(NotAdmitted::Draining);
        }
        let config = state.config;
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        let (granted, receiver) = oneshot::channel();
        let entry = state.subjects.entry(Arc::clone(&subject)).or_default();
        entry.waiting.push_back(Waiter { ticket, session, since: Instant::now(), granted, comes_back: false });
        if entry.waiting.len() == 1 {
            state.turns.push_back(Arc::clone(&subject));
        }
        state.waiting += 1;
        state.grant();
        let waiting_of_subject = state.subjects.get(&subject).map_or(0, Subject::new_ones);
        let refused = match state.granted.contains(&ticket) {
            true => None,
            false if waiting_of_subject > config.waiting_per_subject => Some(NotAdmitted::Subject),
            false if state.waiting > config.waiting => Some(NotAdmitted::Relay),
            false => None,
        };
        drop(state);
        // Dropping the permit takes it out of the queue again.
        let permit = ExecutionPermit { admission: self.clone(), subject, session, ticket };
        refused.map_or(Ok((permit, receiver)), Err)
    }

    /// Admits no execution from now on and turns away those that wait. Parked ones come back.
    pub(crate) fn drain(&self) {
        let mut state = self.lock();
        state.draining = true;
        state.waiting = 0;
        let State { subjects, turns, .. } = &mut *state;
        for subject in subjects.values_mut() {
            subject.waiting.retain(|waiter| waiter.comes_back);
        }
        turns.retain(|name| subjects.get(name).is_some_and(|subject| !subject.waiting.is_empty()));
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

    /// Returns the time for which that execution has waited which has waited longest; zero: none waits.
    pub(crate) fn oldest_wait(&self) -> Duration {
        let state = self.lock();
        let waits = state.subjects.values().flat_map(|subject| &subject.waiting).map(|waiter| waiter.since.elapsed());
        waits.max().unwrap_or_default()
    }

    /// Returns the number of parked executions that wait for a place to go on.
    pub(crate) fn coming_back(&self) -> usize {
        let state = self.lock();
        state.subjects.values().map(|subject| subject.waiting.len() - subject.new_ones()).sum()
    }

    /// Returns the number of parked executions.
    pub(crate) fn parked(&self) -> usize {
        self.lock().parked.len()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The counts are changed only under this lock, by code that does not panic half way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subject {
    /// Returns the number of waiting executions that have not run yet.
    fn new_ones(&self) -> usize {
        self.waiting.iter().filter(|waiter| !waiter.comes_back).count()
    }
}

impl State {
    /// Frees a place.
    fn leave(&mut self, subject: &str, session: SessionNumber) {
        if let Some(subject) = self.subjects.get_mut(subject) {
            subject.running -= 1;
        }
        self.running -= 1;
        if let Some(running) = self.sessions.get_mut(&session) {
            *running -= 1;
            if *running == 0 {
                self.sessions.remove(&session);
            }
        }
    }

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
            if waiter.comes_back {
                let bytes = self.parked.remove(&waiter.ticket).unwrap_or_default();
                subject.parked -= 1;
                subject.parked_bytes -= bytes;
                self.parked_bytes -= bytes;
            } else {
                self.waiting -= 1;
            }
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

impl ExecutionPermit {
    /// Gives the place back while the execution waits for a person. Its worker holds `bytes` of memory. Returns
    /// `false`, and keeps the place, where parked executions would hold more than they may.
    #[must_use]
    pub(crate) fn park(&self, bytes: u64) -> bool {
        let mut state = self.admission.lock();
        let most = state.config.parked_bytes;
        if !state.granted.contains(&self.ticket) || state.parked_bytes.saturating_add(bytes) > most {
            return false;
        }
        let Some(subject) = state.subjects.get_mut(&self.subject) else { return false };
        if subject.parked_bytes.saturating_add(bytes) > most / 2 {
            return false;
        }
        subject.parked += 1;
        subject.parked_bytes += bytes;
        state.parked_bytes += bytes;
        state.parked.insert(self.ticket, bytes);
        state.granted.remove(&self.ticket);
        state.leave(&self.subject, self.session);
        state.grant();
        true
    }

    /// Asks for a place again after [`park`](Self::park). The execution comes before those of its subject that have not
    /// run yet. The receiver gets its message when the place is there.
    pub(crate) fn come_back(&self) -> oneshot::Receiver<()> {
        let mut guard = self.admission.lock();
        let state = &mut *guard;
        let (granted, receiver) = oneshot::channel();
        let Some(subject) = state.subjects.get_mut(&self.subject) else { return receiver };
        let (ticket, session, since) = (self.ticket, self.session, Instant::now());
        let waiter = Waiter { ticket, session, since, granted, comes_back: true };
        let at = subject.waiting.iter().take_while(|waiter| waiter.comes_back).count();
        subject.waiting.insert(at, waiter);
        if subject.waiting.len() == 1 {
            state.turns.push_back(Arc::clone(&self.subject));
        }
        state.grant();
        receiver
    }
}

impl Drop for ExecutionPermit {
    fn drop(&mut self) {
        let mut guard = self.admission.lock();
        let state = &mut *guard;
        if state.granted.remove(&self.ticket) {
            state.leave(&self.subject, self.session);
        }
        let Some(subject) = state.subjects.get_mut(&self.subject) else { return };
        if let Some(bytes) = state.parked.remove(&self.ticket) {
            subject.parked -= 1;
            subject.parked_bytes -= bytes;
            state.parked_bytes -= bytes;
        }
        if let Some(at) = subject.waiting.iter().position(|waiter| waiter.ticket == self.ticket)
            && let Some(waiter) = subject.waiting.remove(at)
        {
            state.waiting -= usize::from(!waiter.comes_back);
            if subject.waiting.is_empty() {
                state.turns.retain(|name| *name != self.subject);
            }
        }
        if subject.running == 0 && subject.waiting.is_empty() && subject.parked == 0 {
            state.subjects.remove(&self.subject);
        }
        state.grant();
    }
}

#[cfg(test)]
mod tests;
