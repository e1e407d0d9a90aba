//! The place of an execution among those that run. It gives the place back while it waits for people and its worker
//! sleeps, and has to have it again before its worker hears anything.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use crate::admission::ExecutionPermit;
use crate::sandbox::pool::Worker;

/// Time from the beginning of a wait until the first look at the worker.
const FIRST_LOOK: Duration = Duration::from_millis(2);
/// Maximum time between two looks.
const MAX_INTERVAL: Duration = Duration::from_millis(500);
/// Bytes by which a parked worker's memory may grow before it counts as running.
const GROWTH_BYTES: u64 = 4 << 20;

/// The place of one execution; `None` in the place of a permit: it needs none.
#[derive(Debug)]
pub(super) struct Place {
    permit: Option<Arc<ExecutionPermit>>,
    held: Held,
    /// Instant of the next look at the worker; `None`: there is nothing to find out.
    next_look: Option<Instant>,
    interval: Duration,
    /// Time spent waiting for a place again, without the current wait.
    waited: Duration,
}

#[derive(Debug)]
enum Held {
    /// It has its place.
    Place,
    /// It gave its place back; its worker held so many bytes then.
    Parked { bytes: u64 },
    /// It waits for a place, since that instant.
    ComesBack { granted: oneshot::Receiver<()>, since: Instant },
}

impl Place {
    /// Takes the place that the execution has.
    pub(super) fn new(permit: Option<Arc<ExecutionPermit>>) -> Self {
        Self { permit, held: Held::Place, next_look: None, interval: FIRST_LOOK, waited: Duration::ZERO }
    }

    /// Returns whether the worker may hear anything.
    pub(super) fn is_held(&self) -> bool {
        matches!(self.held, Held::Place)
    }

    /// Returns whether the execution waits for a place: its time does not run.
    pub(super) fn comes_back(&self) -> bool {
        matches!(self.held, Held::ComesBack { .. })
    }

    /// Returns the time spent waiting for a place again.
    pub(super) fn waited(&self) -> Duration {
        match &self.held {
            Held::ComesBack { since, .. } => self.waited + since.elapsed(),
            Held::Place | Held::Parked { .. } => self.waited,
        }
    }

    /// Notes whether the execution waits for people and for nothing else.
    pub(super) fn update(&mut self, waits: bool) {
        match self.held {
            Held::Place if waits && self.permit.is_some() => {
                self.next_look.get_or_insert_with(|| Instant::now() + FIRST_LOOK);
            }
            Held::Place => self.look_no_more(),
            Held::Parked { .. } if !waits => self.come_back(),
            Held::Parked { .. } | Held::ComesBack { .. } => {}
        }
    }

    fn look_no_more(&mut self) {
        (self.next_look, self.interval) = (None, FIRST_LOOK);
    }

    fn come_back(&mut self) {
        self.look_no_more();
        if let Some(permit) = &self.permit {
            self.held = Held::ComesBack { granted: permit.come_back(), since: Instant::now() };
        }
    }

    /// Waits until something is to be done about the place. Cancel safe.
    pub(super) async fn changed(&mut self) -> Change {
        match (&mut self.held, self.next_look) {
            (Held::ComesBack { granted, .. }, _) => {
                // The sender lives in the queue until it grants.
                let _ = granted.await;
                Change::Granted
            }
            (_, Some(at)) => {
                sleep_until(at).await;
                Change::LookDue
            }
            (_, None) => std::future::pending().await,
        }
    }

    /// Does what [`changed`](Self::changed) told.
    pub(super) fn apply(&mut self, change: Change, worker: &Worker) {
        match (change, &self.held) {
            (Change::Granted, Held::ComesBack { since, .. }) => {
                self.waited += since.elapsed();
                self.held = Held::Place;
            }
            (Change::LookDue, Held::Place) => self.park(worker),
            // One that goes on by itself, as with a timer, needs a place like every other.
            (Change::LookDue, &Held::Parked { bytes }) => match worker.asleep() {
                Some(now) if now <= bytes + GROWTH_BYTES => self.look_later(),
                _ => self.come_back(),
            },
            (Change::Granted | Change::LookDue, _) => {}
        }
    }

    fn park(&mut self, worker: &Worker) {
        self.look_later();
        // A worker that computes keeps its place, and so does one for which there is no room.
        if let (Some(permit), Some(bytes)) = (&self.permit, worker.asleep())
            && permit.park(bytes)
        {
            self.held = Held::Parked { bytes };
        }
    }

    fn look_later(&mut self) {
        self.interval = (self.interval * 2).min(MAX_INTERVAL);
        self.next_look = Some(Instant::now() + self.interval);
    }
}

/// Event that the execution has to act on while it holds or awaits a place.
#[derive(Debug, Clone, Copy)]
pub(super) enum Change {
    /// The execution has a place again.
    Granted,
    /// It is time to look at the worker.
    LookDue,
}
