//! Clock of the script: the machine's, a given time that moves only with timers, or the time of the last recorded step.

use std::cell::Cell;
use std::time::{Duration, Instant};

use super::sys;

thread_local! {
    static CLOCK: Cell<Option<Clock>> = const { Cell::new(None) };
}

#[derive(Debug, Clone, Copy)]
enum Clock {
    Real {
        began: Instant,
    },
    /// No code takes any time; timers move the clock on.
    Given {
        now_ms: i64,
        elapsed: Duration,
    },
    /// The time stands still until the next step. Timers are due in real time.
    Recorded {
        began_ms: i64,
        at_ms: i64,
        /// Real time, and when it was that.
        real: (i64, Instant),
    },
}

/// Makes room for the state in this thread. A fork inherits it and need not look for it any more.
pub(super) fn prepare_thread() {
    CLOCK.set(None);
}

/// Starts the clock at a given time in ms since 1970; `None`: at the machine's, with which it runs.
pub(super) fn begin(now_ms: Option<i64>) {
    CLOCK.set(Some(match now_ms {
        Some(now_ms) => Clock::Given { now_ms, elapsed: Duration::ZERO },
        None => Clock::Real { began: Instant::now() },
    }));
    set_date();
}

/// Starts the clock of a durable execution that began at `began_ms`. `real_ms` is the real time now, which counts as later
/// than all recorded steps.
pub(super) fn begin_recorded(began_ms: i64, real_ms: i64) {
    CLOCK.set(Some(Clock::Recorded { began_ms, at_ms: began_ms, real: (real_ms, Instant::now()) }));
    set_date();
}

/// Returns whether the time was given: the execution is repeatable, so that its events need a fixed order.
pub(super) fn is_given() -> bool {
    matches!(CLOCK.get(), Some(Clock::Given { .. }))
}

/// Returns how long the script has been running, by its own clock.
pub(super) fn elapsed() -> Duration {
    match CLOCK.get() {
        Some(Clock::Real { began }) => began.elapsed(),
        Some(Clock::Given { elapsed, .. }) => elapsed,
        Some(Clock::Recorded { began_ms, at_ms, .. }) => since(began_ms, at_ms),
        None => Duration::ZERO,
    }
}

/// Returns how long the script has been running, by the clock that its timers wait for.
pub(super) fn elapsed_for_timers() -> Duration {
    match CLOCK.get() {
        Some(Clock::Recorded { began_ms, real: (real_ms, at), .. }) => since(began_ms, real_ms) + at.elapsed(),
        _ => elapsed(),
    }
}

fn since(began_ms: i64, at_ms: i64) -> Duration {
    Duration::from_millis(at_ms.max(began_ms).abs_diff(began_ms))
}

/// Returns the times of the last step and of one that comes now, in ms since 1970; `None`: the execution is not durable.
pub(super) fn step_times() -> Option<(i64, i64)> {
    match CLOCK.get()? {
        Clock::Recorded { at_ms, real: (real_ms, at), .. } => {
            let passed_ms = i64::try_from(at.elapsed().as_millis()).unwrap_or(i64::MAX);
            Some((at_ms, real_ms.saturating_add(passed_ms).max(at_ms)))
        }
        Clock::Real { .. } | Clock::Given { .. } => None,
    }
}

/// Moves a recorded clock on to the time of a step, in ms since 1970.
pub(super) fn step_to(to_ms: i64) {
    if let Some(Clock::Recorded { began_ms, at_ms, real }) = CLOCK.get() {
        CLOCK.set(Some(Clock::Recorded { began_ms, at_ms: at_ms.max(to_ms), real }));
        set_date();
    }
}

/// Moves a given clock on; the machine's runs by itself.
pub(super) fn advance_to(at: Duration) {
    if let Some(Clock::Given { now_ms, elapsed }) = CLOCK.get() {
        CLOCK.set(Some(Clock::Given { now_ms, elapsed: elapsed.max(at) }));
        set_date();
    }
}

/// Lets V8 read a clock that stands in place of the machine's.
fn set_date() {
    match CLOCK.get() {
        Some(Clock::Given { now_ms, elapsed }) => {
            let elapsed_us = i64::try_from(elapsed.as_micros()).unwrap_or(i64::MAX);
            sys::set_time_of_day(now_ms.saturating_mul(1_000).saturating_add(elapsed_us));
        }
        Some(Clock::Recorded { at_ms, .. }) => sys::set_time_of_day(at_ms.saturating_mul(1_000)),
        Some(Clock::Real { .. }) | None => {}
    }
}
