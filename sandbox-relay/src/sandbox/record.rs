//! Record of a durable execution: the steps that are to reach the code again, and those that reach it for the first time,
//! which go to the relay with the next report.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use relay_proto::ErrorCode;
use relay_proto::steps::{self, MAX_STEPS, Source, Step};

use super::channel::message;
use super::channel::message::report::Kind as Report;
use super::ending::{self, failure};
use super::{clock, link, sys};

/// Maximum number of bytes of steps that wait for another report.
const MAX_UNREPORTED_BYTES: usize = 16 << 10;

thread_local! {
    static RECORD: RefCell<Option<Record>> = const { RefCell::new(None) };
}

struct Record {
    /// Recorded steps that are still to reach the code.
    replayed: VecDeque<Step>,
    /// Number of steps that have reached the code.
    reached: usize,
    /// `true`: the last of them was a timer.
    was_timer: bool,
    /// `true`: the last of them, or the beginning before the first, had reached it before, at the time of the code's clock.
    is_past: bool,
    /// Encoded steps that no report has carried.
    unreported: Vec<u8>,
    /// Time for which the code waits before it is reported; `None`: it is not.
    waiting_after: Option<Duration>,
}

/// Makes room for the state in this thread. A fork inherits it and need not look for it any more.
pub(super) fn prepare_thread() {
    RECORD.set(None);
}

/// Takes what is recorded, and starts the clock at the time at which the execution began.
pub(super) fn begin(durable: &message::Durable, began_ms: i64) {
    // The relay has checked them.
    let Ok(steps) = steps::decode(&durable.steps, began_ms) else { sys::exit_now(sys::EXIT_BROKEN) };
    let last_ms = steps.last().map_or(began_ms, |step| step.at_ms);
    clock::begin_recorded(began_ms, durable.clock_ms.max(last_ms));
    let after = durable.waiting_after_ms;
    RECORD.set(Some(Record {
        replayed: steps.into(),
        reached: 0,
        was_timer: false,
        is_past: durable.again,
        unreported: Vec::new(),
        waiting_after: (after > 0).then(|| Duration::from_millis(after)),
    }));
}

fn with<R>(f: impl FnOnce(&mut Record) -> R) -> Option<R> {
    RECORD.with_borrow_mut(|record| record.as_mut().map(f))
}

/// Returns whether the execution is durable.
pub(super) fn is_on() -> bool {
    RECORD.with_borrow(Option::is_some)
}

/// Returns the time for which the code waits before it is reported; `None`: it is not.
pub(super) fn waiting_after() -> Option<Duration> {
    with(|record| record.waiting_after).flatten()
}

/// Returns the time from which a timer counts that is set now: the time at which the code set it for the first time. For code
/// that gets as far for the first time, that is the real one, which is ahead of its clock.
pub(super) fn timers_count_from() -> Duration {
    let is_past = with(|record| record.is_past).unwrap_or_default();
    if is_past { clock::elapsed() } else { clock::elapsed_for_timers() }
}

/// Returns whether the last event was a timer.
pub(super) fn was_timer() -> bool {
    with(|record| record.was_timer).unwrap_or_default()
}

/// Returns the recorded event that has to reach the code next; `None`: all have.
pub(super) fn due() -> Option<Source> {
    with(|record| record.replayed.front().map(|step| step.source)).flatten()
}

/// Notes that an event reaches the code, and moves the clock to its time: the recorded one, or that of the machine, which is
/// recorded. Ends the execution if another event is due.
pub(super) fn reach(source: Source) {
    let Some(due) = with(|record| record.replayed.front().copied()) else { return };
    if let Some(step) = due.filter(|step| step.source != source) {
        let did = format!("the code waited for {}", name(source));
        ending::end(Report::Failed(diverged(step.source, &did)))
    }
    with(|record| {
        record.reached += 1;
        record.was_timer = matches!(source, Source::Timer(_));
        record.is_past = due.is_some();
        record.replayed.pop_front();
    });
    match due {
        Some(step) => clock::step_to(step.at_ms),
        None => add(source),
    }
}

/// Records an event that reaches the code for the first time.
fn add(source: Source) {
    let Some((before_ms, at_ms)) = clock::step_times() else { return };
    let (count, unreported_bytes) = with(|record| {
        steps::encode_one(&mut record.unreported, Step { source, at_ms }, before_ms);
        (record.reached, record.unreported.len())
    })
    .unwrap_or_default();
    clock::step_to(at_ms);
    if count > MAX_STEPS {
        let text = format!(
            "a durable execution can have {MAX_STEPS} answers and timers in all; use fewer timers, or call less often"
        );
        ending::end(Report::Failed(failure(ErrorCode::EvalError, text)));
    }
    if unreported_bytes > MAX_UNREPORTED_BYTES {
        link::put(Report::Steps(message::Steps { steps: take_unreported() }));
    }
}

/// Takes the steps that no report has carried, which have to be reported.
pub(super) fn take_unreported() -> Bytes {
    with(|record| Bytes::from(std::mem::take(&mut record.unreported))).unwrap_or_default()
}

/// Replaces the outcome of code that ended while recorded events were still to reach it.
///
/// # Errors
/// The outcome's own error, or the report that it diverged.
pub(super) fn check_used_up<T>(outcome: Result<T, message::Failed>) -> Result<T, message::Failed> {
    let Some(due) = due() else { return outcome };
    match outcome {
        Err(failed) if failed.code == ErrorCode::ReplayDiverged.as_str() => Err(failed),
        Err(failed) => Err(diverged(due, &format!("the code failed with {}: {}", failed.code, failed.message))),
        Ok(_) => Err(diverged(due, "the code ended")),
    }
}

/// Makes the report of code that did something else than what is recorded.
pub(super) fn diverged(due: Source, did: &str) -> message::Failed {
    let (reached, left) = with(|record| (record.reached, record.replayed.len())).unwrap_or_default();
    let (step, total) = (reached + 1, reached + left);
    let text = format!("step {step} of the {total} that are recorded is {}, but {did}", name(due));
    failure(ErrorCode::ReplayDiverged, text)
}

fn name(source: Source) -> String {
    match source {
        Source::Call(call) => format!("the answer of call {call}"),
        Source::Timer(timer) => format!("timer {timer}"),
    }
}
