//! The times of a run's calls, as bars.

use std::time::Instant;

use crate::live::micros;
use crate::live::run::{LiveCall, LiveRun};
use crate::shown::Shown;

/// The width of the whole chart, in its own units.
const WIDTH: u64 = 1_000;

/// The calls of a run over its time.
pub(super) struct Waterfall {
    pub(super) total: String,
    pub(super) rows: Vec<Row>,
    /// The number of calls that are not kept.
    pub(super) left_out: u64,
    /// `true`: something of the run was missed.
    pub(super) has_gaps: bool,
}

/// One call.
pub(super) struct Row {
    pub(super) number: u64,
    pub(super) tool: Shown,
    pub(super) state: &'static str,
    pub(super) class: &'static str,
    pub(super) took: String,
    pub(super) bars: Vec<Bar>,
    /// The phases with their times, for who does not see the bars.
    pub(super) label: String,
}

/// One phase of a call.
pub(super) struct Bar {
    pub(super) class: &'static str,
    pub(super) x: u64,
    pub(super) width: u64,
}

impl Waterfall {
    pub(super) fn of(run: &LiveRun) -> Self {
        let now = Instant::now();
        let total = run.elapsed(now).max(1);
        // A call of a durable run may end after the code was taken off its relay.
        let last = run.calls.values().map(|call| micros(run.began, call.ended.unwrap_or(run.began))).max();
        let total = total.max(last.unwrap_or(0));
        let end = run.ended.as_ref().map_or(now, |ended| ended.at);
        Self {
            total: took(total),
            rows: run.calls.iter().map(|(number, call)| Row::of(run, (*number, call), total, end)).collect(),
            left_out: run.left_out,
            has_gaps: run.has_gaps,
        }
    }
}

impl Row {
    fn of(run: &LiveRun, (number, call): (u64, &LiveCall), total: u64, end: Instant) -> Self {
        let phases = call.phases(end);
        let at = |time: Instant| {
            u64::try_from(u128::from(micros(run.began, time)) * u128::from(WIDTH) / u128::from(total)).unwrap_or(WIDTH)
        };
        let bar = |(phase, from, to): &(crate::live::run::Phase, Instant, Instant)| {
            let x = at(*from).min(WIDTH - 2);
            // A short phase is seen as well.
            Bar { class: phase.class(), x, width: at(*to).min(WIDTH).saturating_sub(x).max(2) }
        };
        let label = phases.iter().map(|(phase, from, to)| format!("{} {}", phase.text(), took(micros(*from, *to))));
        let label = label.collect::<Vec<_>>().join(", ");
        let after = took(micros(run.began, call.requested));
        let state = call.state();
        Self {
            number,
            tool: Shown::line(&call.tool),
            state,
            class: state.split(' ').next().unwrap_or_default(),
            took: took(micros(call.requested, call.ended.unwrap_or(end))),
            bars: phases.iter().map(bar).collect(),
            label: format!("begins after {after}: {label}"),
        }
    }
}

/// Formats a time in µs.
pub(super) fn took(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..10_000 => format!("{}.{} ms", micros / 1_000, micros % 1_000 / 100),
        10_000..1_000_000 => format!("{} ms", micros / 1_000),
        1_000_000..60_000_000 => format!("{}.{} s", micros / 1_000_000, micros % 1_000_000 / 100_000),
        _ => {
            let seconds = micros / 1_000_000;
            format!("{} min {} s", seconds / 60, seconds % 60)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        for (micros, expected) in
            [(0, "0 µs"), (1_250, "1.2 ms"), (12_500, "12 ms"), (1_250_000, "1.2 s"), (61_000_000, "1 min 1 s")]
        {
            assert_eq!(took(micros), expected);
        }
    }
}
