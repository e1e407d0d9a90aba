//! Shares the processors between subjects: while executions of other subjects run, only so many of one subject use CPU
//! at a time. The rest of them is stopped with a signal, and they take turns: those that have used least go on.
//!
//! It costs nothing while nobody competes: the thread sleeps until one subject has more executions than its share and
//! another subject is present.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::sandbox::pool::{Worker, WorkerHandle};

/// Interval between two looks at the CPU times.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// CPU time between two looks from which an execution counts as burning: a quarter of the interval.
const BURNING: Duration = Duration::from_micros(1_250);
/// CPU time of one turn.
const TURN: Duration = Duration::from_millis(20);
/// Time after its last execution for which a subject counts as present.
const REMEMBERED: Duration = Duration::from_secs(5);

/// Shares the processors.
#[derive(Debug)]
pub(crate) struct Fairness {
    scheduler: Arc<Scheduler>,
    thread: Option<JoinHandle<()>>,
}

/// State that the thread and the registrations share.
#[derive(Debug)]
struct Scheduler {
    /// Number of executions of one subject that may burn at a time.
    share: usize,
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct State {
    subjects: HashMap<Arc<str>, Subject>,
    next: u64,
    /// `true`: the thread sleeps until it is woken.
    asleep: bool,
    ends: bool,
}

#[derive(Debug)]
struct Subject {
    running: Vec<Running>,
    /// Time at which its last execution began or ended.
    seen: Instant,
    /// Time of the last look.
    looked_at: Instant,
}

/// CPU use of one execution.
#[derive(Debug)]
struct Running {
    number: u64,
    worker: WorkerHandle,
    /// CPU time at the last look.
    used: Duration,
    /// CPU time between the last two looks.
    recent: Duration,
    /// `true`: it uses CPU, or would if it were not stopped.
    burns: bool,
    stopped: bool,
    /// CPU time that it had used when its turn began.
    turn_began: Duration,
}

/// Registration of one execution. Dropping it ends the registration.
#[derive(Debug)]
pub(crate) struct FairnessGuard {
    scheduler: Arc<Scheduler>,
    subject: Arc<str>,
    number: u64,
}

impl Fairness {
    /// Starts the thread.
    ///
    /// # Errors
    /// [`io::Error`]: the system refuses a thread.
    pub(crate) fn start(share: usize) -> io::Result<Self> {
        let scheduler = Arc::new(Scheduler { share: share.max(1), state: Mutex::default(), wake: Condvar::new() });
        let watched = Arc::clone(&scheduler);
        let thread = std::thread::Builder::new().name("cpu-fairness".into()).spawn(move || watched.watch())?;
        Ok(Self { scheduler, thread: Some(thread) })
    }

    /// Registers an execution that begins now.
    pub(crate) fn enter(&self, subject: &Arc<str>, worker: &Worker) -> FairnessGuard {
        let mut state = self.scheduler.lock();
        let number = state.next;
        state.next += 1;
        let used = worker.cpu_time();
        let running = Running {
            number,
            worker: worker.handle(),
            used,
            recent: Duration::ZERO,
            burns: false,
            stopped: false,
            turn_began: used,
        };
        let now = Instant::now();
        let entry = state.subjects.entry(Arc::clone(subject)).or_insert_with(|| Subject {
            running: Vec::new(),
            seen: now,
            looked_at: now,
        });
        entry.running.push(running);
        entry.seen = now;
        if state.asleep && state.is_contended(self.scheduler.share) {
            self.scheduler.wake.notify_one();
        }
        FairnessGuard { scheduler: Arc::clone(&self.scheduler), subject: Arc::clone(subject), number }
    }
}

impl Drop for Fairness {
    fn drop(&mut self) {
        self.scheduler.lock().ends = true;
        self.scheduler.wake.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread is in the log.
            let _ = thread.join();
        }
    }
}

impl Drop for FairnessGuard {
    fn drop(&mut self) {
        let mut state = self.scheduler.lock();
        if let Some(subject) = state.subjects.get_mut(&self.subject) {
            subject.running.retain(|running| running.number != self.number);
            subject.seen = Instant::now();
        }
        state.forget();
    }
}

impl Scheduler {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Changed only under this lock, by code that does not panic half way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watch(&self) {
        let mut state = self.lock();
        while !state.ends {
            if state.is_contended(self.share) {
                state.look(self.share);
                state = self.wake.wait_timeout(state, LOOK_EVERY).unwrap_or_else(PoisonError::into_inner).0;
            } else {
                state.let_all_go_on();
                state.asleep = true;
                state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.asleep = false;
            }
        }
        state.let_all_go_on();
    }
}

impl State {
    /// Returns whether a subject has more executions than its share while another is present.
    fn is_contended(&self, share: usize) -> bool {
        let now = Instant::now();
        let present = self.subjects.values().filter(|subject| subject.is_present(now)).take(2).count();
        present == 2 && self.subjects.values().any(|subject| subject.running.len() > share)
    }

    fn look(&mut self, share: usize) {
        for subject in self.subjects.values_mut() {
            if subject.running.len() > share || subject.running.iter().any(|running| running.stopped) {
                subject.look(share);
            }
        }
        self.forget();
    }

    fn let_all_go_on(&mut self) {
        for running in self.subjects.values_mut().flat_map(|subject| &mut subject.running) {
            running.go_on();
        }
    }

    /// Forgets subjects that are not present any more.
    fn forget(&mut self) {
        let now = Instant::now();
        self.subjects.retain(|_, subject| subject.is_present(now));
    }
}

impl Subject {
    fn is_present(&self, now: Instant) -> bool {
        !self.running.is_empty() || now.duration_since(self.seen) < REMEMBERED
    }

    /// Lets those burning executions go on that have used least, and stops the others that burn. One that waits for a
    /// tool uses nothing and is left alone; a stopped one counts as burning.
    fn look(&mut self, share: usize) {
        let mut together = Duration::ZERO;
        for running in &mut self.running {
            let used = running.worker.cpu_time();
            if !running.stopped {
                running.recent = used.saturating_sub(running.used);
                running.burns = running.recent >= BURNING;
                together += running.recent;
            }
            running.used = used;
        }
        // Many executions that burn a little take as much as few that burn all the time.
        let most = self.looked_at.elapsed() * u32::try_from(share).unwrap_or(u32::MAX);
        if together > most {
            for running in self.running.iter_mut().filter(|running| running.recent >= BURNING / 10) {
                running.burns = true;
            }
        }
        self.looked_at = Instant::now();
        let mut burning: Vec<_> = self.running.iter_mut().filter(|running| running.burns).collect();
        burning.sort_by_key(|running| {
            let in_turn = !running.stopped && running.used.saturating_sub(running.turn_began) < TURN;
            (Reverse(in_turn), running.used)
        });
        for (place, running) in burning.into_iter().enumerate() {
            if place < share { running.go_on() } else { running.stop() }
        }
    }
}

impl Running {
    fn stop(&mut self) {
        if !self.stopped {
            self.worker.stop();
            self.stopped = true;
        }
    }

    fn go_on(&mut self) {
        if self.stopped {
            self.turn_began = self.used;
            self.stopped = false;
            self.worker.go_on();
        }
    }
}
