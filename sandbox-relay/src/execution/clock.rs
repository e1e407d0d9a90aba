//! Clocks of one execution: its wall time, its CPU time, and the time of each open call. Pure code: it reads no clock.
//!
//! Every time is a duration since the start of the execution; the caller passes `now`, which never decreases. While a
//! call waits for a person, the wall clock and the call's own clock stand still; while the
//! execution then waits for a place to go on, the wall clock does. One call may wait for the limit
//! `approval_ms`, and all of an execution together for [`TOTAL_APPROVAL_FACTOR`] times as long; then the clocks go on.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::time::Duration;

use relay_proto::session::TOTAL_APPROVAL_FACTOR;
use relay_proto::{LimitName, Limits};

use super::WorkerCall;
use super::states::Wait;

/// Time that a call has without a limit of its own: longer than any execution.
const NO_LIMIT: Duration = Duration::from_secs(u32::MAX as u64);

/// Shortest time between two looks at the CPU time.
pub(super) const MIN_CPU_INTERVAL: Duration = Duration::from_millis(1);

/// The clocks of an execution, whose open calls each carry a `T`.
#[derive(Debug)]
pub(super) struct Clocks<T> {
    cpu_limit: Duration,
    call_limit: Duration,
    approval_limit: Duration,
    /// Instant at which the wall time ends. Moves by each pause, when the pause ends.
    wall_deadline: Duration,
    /// Instant of the next look at the CPU time.
    cpu_check: Duration,
    /// Instant at which the current pause began; `None`: the wall clock runs.
    paused_since: Option<Duration>,
    /// Length of all pauses that have ended.
    paused_before: Duration,
    /// `true`: the execution waits for a place, as if a call waited for a person.
    held: bool,
    open: HashMap<WorkerCall, OpenCall<T>>,
    /// Not later than the first deadline of an open call. Closing a call leaves it as it is.
    first_deadline: Option<Duration>,
}

#[derive(Debug)]
struct OpenCall<T> {
    of: T,
    /// End of the call's own time, or of its approval while it waits for one.
    deadline: Duration,
    /// Rest of its own time, while it waits for a person; `None`: it does not wait.
    suspended: Option<Duration>,
    /// Instant at which its current question was put to a person.
    asked_since: Option<Duration>,
    /// Rest of the time for answers, of all its questions together.
    approval_left: Duration,
}

/// A call that was closed because its time was used up.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ExpiredCall<T> {
    pub(super) call: WorkerCall,
    pub(super) of: T,
    /// Limit that was used up: `ToolCallMs` or `ApprovalMs`.
    pub(super) limit: LimitName,
}

impl<T> Clocks<T> {
    /// Starts all clocks at zero.
    pub(super) fn new(limits: &Limits) -> Self {
        let limit = |name| Duration::from_millis(limits.get(name));
        Self {
            cpu_limit: limit(LimitName::CpuMs),
            call_limit: limit(LimitName::ToolCallMs),
            approval_limit: limit(LimitName::ApprovalMs),
            wall_deadline: limit(LimitName::WallMs),
            cpu_check: limit(LimitName::CpuMs),
            paused_since: None,
            paused_before: Duration::ZERO,
            held: false,
            open: HashMap::new(),
            first_deadline: None,
        }
    }

    /// Returns the next instant at which [`check`](Self::check) has something to do.
    pub(super) fn next_check(&self) -> Duration {
        let end = self.paused_since.map_or(self.wall_deadline, |since| self.pause_ends(since));
        let check = self.cpu_check.min(end);
        self.first_deadline.map_or(check, |deadline| check.min(deadline))
    }

    /// Returns the number of open calls.
    pub(super) fn open_calls(&self) -> usize {
        self.open.len()
    }

    /// Returns whether a call is open.
    pub(super) fn is_open(&self, call: WorkerCall) -> bool {
        self.open.contains_key(&call)
    }

    /// Returns whether there are open calls, and every one waits for a person.
    pub(super) fn all_wait(&self) -> bool {
        !self.open.is_empty() && self.open.values().all(|open| open.suspended.is_some())
    }

    /// Returns whether [`hold`](Self::hold) stopped the wall clock.
    pub(super) fn is_held(&self) -> bool {
        self.held
    }

    /// Stops the wall clock while the execution waits for a place, or lets it go on.
    pub(super) fn hold(&mut self, now: Duration, held: bool, wait: impl Fn(WorkerCall) -> Option<Wait>) {
        self.held = held;
        self.update(now, wait);
    }

    /// Makes the next [`check`](Self::check) look at the CPU time, whatever the time was when it last did.
    pub(super) fn look_at_cpu(&mut self) {
        self.cpu_check = Duration::ZERO;
    }

    /// Opens a call and returns the time that it has: its own, or what is left of the wall time if that is less.
    pub(super) fn open(&mut self, call: WorkerCall, of: T, now: Duration) -> Duration {
        self.open_for(self.call_limit, call, of, now)
    }

    /// Opens a call without a time of its own, and returns what is left of the wall time.
    pub(super) fn open_without_limit(&mut self, call: WorkerCall, of: T, now: Duration) -> Duration {
        self.open_for(NO_LIMIT, call, of, now)
    }

    fn open_for(&mut self, own: Duration, call: WorkerCall, of: T, now: Duration) -> Duration {
        // The call's own deadline is its own limit: the end of the execution ends the call in any case.
        let deadline = now + own;
        let approval_left = self.approval_limit;
        self.open.insert(call, OpenCall { of, deadline, suspended: None, asked_since: None, approval_left });
        self.first_deadline = Some(self.first_deadline.map_or(deadline, |first| first.min(deadline)));
        own.min(self.wall_deadline.saturating_sub(self.paused_since.unwrap_or(now)))
    }

    /// Closes a call that was answered. `None`: it is not open, because it has expired.
    pub(super) fn close(
        &mut self,
        call: WorkerCall,
        now: Duration,
        wait: impl Fn(WorkerCall) -> Option<Wait>,
    ) -> Option<T> {
        let closed = self.open.remove(&call)?;
        if closed.suspended.is_some() {
            self.update(now, wait);
        }
        Some(closed.of)
    }

    /// Stops and continues the clocks as the calls wait now. `wait` tells what a call waits for.
    pub(super) fn update(&mut self, now: Duration, wait: impl Fn(WorkerCall) -> Option<Wait>) {
        let may_wait = self.pause_ends(now) > now;
        for (call, open) in &mut self.open {
            open.update(now, wait(*call).filter(|_| may_wait));
        }
        self.first_deadline = self.open.values().map(|open| open.deadline).min();
        let waits = (self.held && may_wait) || self.open.values().any(|open| open.suspended.is_some());
        match self.paused_since {
            None if waits => self.paused_since = Some(now),
            Some(since) if !waits => {
                self.paused_since = None;
                self.paused_before += now - since;
                self.wall_deadline += now - since;
            }
            _ => {}
        }
    }

    /// Closes the calls whose time is used up and returns them, or breaks with the limit of the execution that is.
    ///
    /// `cpu_time` is asked only when the CPU time could be used up.
    pub(super) fn check(
        &mut self,
        now: Duration,
        cpu_time: impl FnOnce() -> Duration,
        wait: impl Fn(WorkerCall) -> Option<Wait>,
    ) -> ControlFlow<LimitName, Vec<ExpiredCall<T>>> {
        if self.paused_since.is_some_and(|since| now >= self.pause_ends(since)) {
            self.update(now, &wait);
        }
        if self.paused_since.is_none() && now >= self.wall_deadline {
            return ControlFlow::Break(LimitName::WallMs);
        }
        if now >= self.cpu_check {
            let left = self.cpu_limit.saturating_sub(cpu_time());
            if left.is_zero() {
                return ControlFlow::Break(LimitName::CpuMs);
            }
            // A worker has one thread, which cannot use more CPU time than passes.
            self.cpu_check = now + left.max(MIN_CPU_INTERVAL);
        }
        let mut expired = Vec::new();
        if self.first_deadline.is_some_and(|deadline| now >= deadline) {
            let over = self.open.extract_if(|_, open| open.deadline <= now);
            expired.extend(over.map(|(call, open)| {
                let limit = if open.suspended.is_some() { LimitName::ApprovalMs } else { LimitName::ToolCallMs };
                ExpiredCall { call, of: open.of, limit }
            }));
            self.update(now, wait);
        }
        ControlFlow::Continue(expired)
    }

    /// Returns the time spent waiting for people.
    pub(super) fn approval(&self, now: Duration) -> Duration {
        self.paused_before + self.paused_since.map_or(Duration::ZERO, |since| now.saturating_sub(since))
    }

    /// Returns the wall time: the time since the start without waiting for people.
    pub(super) fn wall(&self, now: Duration) -> Duration {
        now.saturating_sub(self.approval(now))
    }

    /// Returns the instant at which a pause that began at `since` has used up the time for all approvals.
    fn pause_ends(&self, since: Duration) -> Duration {
        let total = self.approval_limit * TOTAL_APPROVAL_FACTOR;
        self.paused_since.unwrap_or(since) + total.saturating_sub(self.paused_before)
    }
}

impl<T> OpenCall<T> {
    fn update(&mut self, now: Duration, wait: Option<Wait>) {
        if let Some(since) = self.asked_since.take() {
            self.approval_left = self.approval_left.saturating_sub(now - since);
        }
        match (wait, self.suspended) {
            (Some(_), None) => self.suspended = Some(self.deadline.saturating_sub(now)),
            (None, Some(left)) => {
                self.suspended = None;
                self.deadline = now + left;
            }
            _ => {}
        }
        match wait {
            Some(Wait::Answer) => {
                self.asked_since = Some(now);
                self.deadline = now + self.approval_left;
            }
            // Only the time for all approvals ends this wait.
            Some(Wait::Turn) => self.deadline = Duration::MAX,
            None => {}
        }
    }
}

#[cfg(test)]
mod tests;
