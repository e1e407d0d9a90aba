//! Order in which events reach the code of a durable execution: one at a time, first those that are recorded, in their
//! order; then the answers as they arrive, and the timers as they are due.

use std::time::{Duration, Instant};

use relay_proto::steps::Source;
use relay_proto::time::millis;

use super::calls::CallQueue;
use super::channel::message;
use super::channel::message::report::Kind as Report;
use super::{bridge, ending, link, record, timers};

/// Sends what is collected and waits for the next event, which has to be handed to the code; `None`: nothing can ever come.
///
/// # Errors
/// The report of code that did something else than what is recorded.
pub(super) fn next() -> Result<Option<Source>, message::Failed> {
    bridge::send();
    let event = match record::due() {
        Some(due) => Some(recorded(due)?),
        None => live(),
    };
    if let Some(source) = event {
        record::reach(source);
    }
    Ok(event)
}

/// Waits for a recorded event, whatever else arrives before it.
fn recorded(due: Source) -> Result<Source, message::Failed> {
    let call = match due {
        Source::Timer(timer) if timers::is_set(timer) => return Ok(due),
        Source::Timer(_) => return Err(record::diverged(due, "that one is not set")),
        Source::Call(call) => call,
    };
    while bridge::queue(|queue| queue.is_unsettled(call)) {
        if bridge::queue(|queue| queue.has_answer(call)) {
            return Ok(due);
        }
        receive(None);
        bridge::send();
    }
    let did = match bridge::queue(CallQueue::made) {
        made if made < call => format!("the code waits and has made {made} calls"),
        _ => "that one was answered before".into(),
    };
    Err(record::diverged(due, &did))
}

/// Waits for the first answer to arrive or the first timer to be due. Of both, it is the other than before.
fn live() -> Option<Source> {
    let (began, mut waiting_after) = (Instant::now(), record::waiting_after());
    loop {
        receive_all();
        let (answered, is_any_open) =
            bridge::queue(|queue| (queue.first_arrived(), queue.unsettled().next().is_some()));
        let answer = answered.map(Source::Call);
        let timer = timers::first().map(Source::Timer);
        let timer_in = timers::next();
        let due = timer.filter(|_| timer_in.is_some_and(|left| left.is_zero()));
        let (first, second) = if record::was_timer() { (answer, due) } else { (due, answer) };
        if let Some(event) = first.or(second) {
            return Some(event);
        }
        if !is_any_open && timer.is_none() {
            return None;
        }
        let mut within = timer_in;
        if let Some(after) = waiting_after {
            let waits_long = !is_any_open && timer_in.is_some_and(|left| left > after);
            let left = after.saturating_sub(began.elapsed());
            if waits_long || left.is_zero() {
                waiting_after = None;
                report(timer_in);
                continue;
            }
            within = Some(timer_in.map_or(left, |timer_in| timer_in.min(left)));
        }
        receive(within);
    }
}

/// Reports that the code waits.
fn report(timer_in: Option<Duration>) {
    let timer_in_ms = timer_in.map(millis);
    link::write(Report::Waiting(message::Waiting { timer_in_ms, steps: record::take_unreported() }));
}

fn receive(within: Option<Duration>) {
    if bridge::receive(within).is_err() {
        ending::orphaned();
    }
}

fn receive_all() {
    if bridge::receive_all().is_err() {
        ending::orphaned();
    }
}
