//! Clock of the script: the machine's, or a given time that moves only with timers.

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

/// Returns whether the time was given: the execution is repeatable, so that its events need a fixed order.
pub(super) fn is_given() -> bool {
    matches!(CLOCK.get(), Some(Clock::Given { .. }))
}

/// Returns how long the script has been running, by its own clock.
pub(super) fn elapsed() -> Duration {
    match CLOCK.get() {
        Some(Clock::Real { began }) => began.elapsed(),
        Some(Clock::Given { elapsed, .. }) => elapsed,
        None => Duration::ZERO,
    }
}

/// Moves a given clock on; the machine's runs by itself.
pub(super) fn advance_to(at: Duration) {
    if let Some(Clock::Given { now_ms, elapsed }) = CLOCK.get() {
        CLOCK.set(Some(Clock::Given { now_ms, elapsed: elapsed.max(at) }));
        set_date();
    }
}

/// Lets V8 read a given clock in place of the machine's.
fn set_date() {
    if let Some(Clock::Given { now_ms, elapsed }) = CLOCK.get() {
        let elapsed_us = i64::try_from(elapsed.as_micros()).unwrap_or(i64::MAX);
        sys::set_time_of_day(now_ms.saturating_mul(1_000).saturating_add(elapsed_us));
    }
}
