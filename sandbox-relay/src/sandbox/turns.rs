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

/// Waits for the first answer to arrive or the first timer to be due.
fn live() -> Option<Source> {
    let mut patience = Patience { began: Instant::now(), after: record::waiting_after() };
    loop {
        receive_all();
        let pending = Pending::now();
        if let Some(event) = pending.event() {
            return Some(event);
        }
        if !pending.is_any_open && pending.timer.is_none() {
            return None;
        }
        let timer_in = pending.timer.map(|(_, left)| left);
        let report_in = patience.left(&pending);
        if report_in.is_some_and(|left| left.is_zero()) {
            patience.after = None;
            let (timer_in_ms, steps) = (timer_in.map(millis), record::take_unreported());
            link::write(Report::Waiting(message::Waiting { timer_in_ms, steps }));
        } else {
            receive(timer_in.into_iter().chain(report_in).min());
        }
    }
}

/// The events that the code waits for.
struct Pending {
    /// Call whose answer arrived first.
    answered: Option<u64>,
    /// Timer that is due next, and the time until then.
    timer: Option<(u64, Duration)>,
    /// `true`: the code has not seen the answers of all its calls.
    is_any_open: bool,
}

impl Pending {
    fn now() -> Self {
        let timer = timers::first();
        bridge::queue(|queue| Self {
            answered: queue.first_arrived(),
            timer,
            is_any_open: queue.unsettled().next().is_some(),
        })
    }

    /// Returns what can reach the code now; of an answer and a timer, it is the other than before.
    fn event(&self) -> Option<Source> {
        let answer = self.answered.map(Source::Call);
        let due = self.timer.filter(|(_, left)| left.is_zero()).map(|(timer, _)| Source::Timer(timer));
        if record::was_timer() { answer.or(due) } else { due.or(answer) }
    }
}

/// Time after which it is reported that the code waits.
struct Patience {
    began: Instant,
    /// `None`: it is not reported, or was already.
    after: Option<Duration>,
}

impl Patience {
    /// Returns the time until the report, zero if it is due; `None`: there is none to come.
    fn left(&self, pending: &Pending) -> Option<Duration> {
        let after = self.after?;
        let sleeps = !pending.is_any_open && pending.timer.is_some_and(|(_, left)| left > after);
        Some(if sleeps { Duration::ZERO } else { after.saturating_sub(self.began.elapsed()) })
    }
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
