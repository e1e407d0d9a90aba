//! Time of one execution that can be stopped: it stands still while the session has no connection. Pure code: it reads no
//! clock.

use std::time::Duration;

use tokio::time::Instant;

/// Time since the start, without the time in which it was stopped.
#[derive(Debug)]
pub(super) struct Stopwatch {
    started: Instant,
    /// Maximum time for which it stands still, in all.
    most: Duration,
    stopped_before: Duration,
    stopped_since: Option<Instant>,
}

impl Stopwatch {
    /// Starts. It stands still for `most` at most, all stops together.
    pub(super) fn start(now: Instant, most: Duration) -> Self {
        Self { started: now, most, stopped_before: Duration::ZERO, stopped_since: None }
    }

    /// Stops, or goes on. Returns whether that is a change.
    pub(super) fn stop(&mut self, now: Instant, stop: bool) -> bool {
        if stop == self.stopped_since.is_some() {
            return false;
        }
        self.stopped_before = self.stopped(now);
        self.stopped_since = stop.then_some(now);
        true
    }

    /// Returns the time at `now`.
    pub(super) fn time(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.started).saturating_sub(self.stopped(now))
    }

    /// Returns the instant at which it shows `time`, unless it is stopped or goes on before.
    pub(super) fn instant(&self, time: Duration) -> Instant {
        let stopped = if self.stopped_since.is_some() { self.most } else { self.stopped_before };
        self.started + stopped + time
    }

    fn stopped(&self, now: Instant) -> Duration {
        let current = self.stopped_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        (self.stopped_before + current).min(self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn it_stands_still_while_it_is_stopped() {
        let start = Instant::now();
        let at = |seconds: u32| start + SECOND * seconds;
        let mut watch = Stopwatch::start(start, SECOND * 100);
        assert_eq!((watch.time(at(3)), watch.instant(SECOND * 5)), (SECOND * 3, at(5)));
        assert!(watch.stop(at(3), true));
        assert!(!watch.stop(at(4), true), "it stands still already");
        assert_eq!(watch.time(at(9)), SECOND * 3);
        assert!(watch.stop(at(10), false));
        assert!(!watch.stop(at(11), false));
        assert_eq!((watch.time(at(12)), watch.instant(SECOND * 5)), (SECOND * 5, at(12)));
    }

    #[test]
    fn all_stops_together_are_bounded() {
        let start = Instant::now();
        let at = |seconds: u32| start + SECOND * seconds;
        let mut watch = Stopwatch::start(start, SECOND * 10);
        for (seconds, stop) in [(0, true), (6, false), (8, true)] {
            assert!(watch.stop(at(seconds), stop));
        }
        assert_eq!(watch.instant(SECOND * 2), at(12));
        assert_eq!(
            [11, 12, 13, 20].map(|seconds| watch.time(at(seconds))),
            [2, 2, 3, 10].map(|seconds| SECOND * seconds)
        );
        assert!(watch.stop(at(20), false));
        assert_eq!(watch.time(at(21)), SECOND * 11);
    }
}
