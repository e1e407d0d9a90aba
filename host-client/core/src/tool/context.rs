//! The context of a running call: its origin, its limits, and the way to report progress.

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use relay_proto::{ExecutionId, ToolName, TraceContext};
use tokio::sync::{broadcast, watch};
use tokio::time::Instant;

use super::manifest::DEFAULT_RESULT_BYTES;
use crate::event::{self, Event, EventStream};
use crate::random::random_key;

/// The number of progress reports of one call that are passed on at once, and then in each second.
pub const PROGRESS_PER_SECOND: u32 = 10;
/// The maximum length of the message in a progress report, in bytes; the rest is cut off.
pub const PROGRESS_MESSAGE_BYTES: usize = 1 << 10;

/// The interval at which one more progress report is passed on.
const PROGRESS_EVERY: Duration = Duration::from_millis(1_000 / PROGRESS_PER_SECOND as u64);

/// The context of a running call: its origin, its deadline, and the way to report progress.
///
/// A tool gets one with each call; clones belong to the same call. When a call is cancelled or takes too long, the
/// future of its tool is dropped. Work that runs elsewhere, such as on a blocking thread, learns of it by
/// [`CallContext::is_cancelled`] or [`CallContext::cancelled`].
///
/// ```
/// use std::time::Duration;
/// use host_client_core::{CallContext, Event, ToolError, ToolName};
///
/// /// Counts to a number on a thread of its own.
/// async fn count(to: u32, context: CallContext) -> Result<u32, ToolError> {
///     let counting = move || {
///         for number in 1..=to {
///             if context.is_cancelled() {
///                 return Err(ToolError::new(format!("nobody waits for more than {number}")));
///             }
///             context.progress(f64::from(number), Some(f64::from(to)), "counting");
///         }
///         Ok(to)
///     };
///     tokio::task::spawn_blocking(counting).await?
/// }
///
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// let tool = ToolName::new("numbers", "count").unwrap();
/// let (context, mut events) = CallContext::by_hand_with_events(tool, Duration::from_secs(60));
/// assert!(context.remaining() > Duration::from_secs(50));
/// assert_eq!(count(3, context).await.unwrap(), 3);
/// assert!(matches!(events.next().await, Some(Event::ToolCallProgress { done: 1.0, total: Some(3.0), .. })));
/// # });
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CallContext {
    /// The execution whose code calls.
    pub execution: ExecutionId,
    /// The call's id, unique in its session. A relay counts its calls up from 1; those that the host makes itself are numbered
    /// from 2^52.
    pub call: u64,
    /// The tool's full name.
    pub tool: ToolName,
    /// The time at which the call is given up: after its tool's timeout, or after the rest of the relay's limit
    /// `tool_call_ms` if that is less.
    pub deadline: Instant,
    /// The trace and the span of this call, for the requests that its tool sends to others.
    pub trace: TraceContext,
    /// The maximum size of the call's result, in bytes of JSON; the tool's manifest says what happens to a larger one.
    pub result_bytes: usize,
    /// The start of the idempotency key: the execution's own.
    pub(crate) key: Arc<str>,
    pub(crate) life: Arc<CallLife>,
}

/// The state that all clones of a call's context share.
pub(crate) struct CallLife {
    /// `true`: the call is over.
    over: watch::Sender<bool>,
    /// The sender of progress; `None`: the call is over.
    teller: Mutex<Option<Teller>>,
    /// The wait until the tool runs fewer calls at once: [`NO_WAIT`], then [`WAITS`], then [`HAS_TURN`] or [`NO_TURN`].
    turn: AtomicU8,
}

/// The call has not waited for its turn: its tool may have no such limit.
const NO_WAIT: u8 = 0;
/// The call waits for its turn: its tool does not run.
const WAITS: u8 = 1;
/// The call has had its turn. It stays so, whatever a layer that repeats calls does.
const HAS_TURN: u8 = 2;
/// The call gave its turn up: its tool must not run.
const NO_TURN: u8 = 3;

/// Tells the progress of one call.
struct Teller {
    events: broadcast::Sender<Event>,
    /// The time at which the next report is due at the allowed rate. It may come up to a second earlier.
    due: Instant,
}

/// Ends the life of a call when it is dropped: the call has its answer, or nobody waits for one any more.
#[derive(Debug)]
pub(crate) struct CallGuard(Arc<CallLife>);

impl CallContext {
    /// Makes the context of a call that no execution makes, for tests of tools: id 1, no trace, the default limit of
    /// results, given up after `time`. Its progress is dropped.
    pub fn by_hand(tool: ToolName, time: Duration) -> Self {
        Self::by_hand_with_events(tool, time).0
    }

    /// Makes the context of a call that no execution makes, and the events that its progress becomes. They end when all clones
    /// of the context are dropped.
    pub fn by_hand_with_events(tool: ToolName, time: Duration) -> (Self, EventStream) {
        let (events, receiver) = broadcast::channel(event::EVENTS_KEPT);
        let context = Self {
            execution: 1.into(),
            call: 1,
            tool,
            deadline: Instant::now() + time,
            trace: TraceContext::NONE,
            result_bytes: DEFAULT_RESULT_BYTES,
            key: random_key().into(),
            life: CallLife::new(events),
        };
        (context, EventStream::new(receiver))
    }

    /// Returns the time that is left until the call is given up; zero after that.
    pub fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Returns a key that tells this call from all others, for services that do a request with the same key once. A durable run
    /// that makes the call again, because the outcome of the first time is not known, keeps the key.
    pub fn idempotency_key(&self) -> String {
        format!("{}-{}", self.key, self.call)
    }

    /// Reports progress: `done` of `total`, in a unit of the tool's choice, with a message on the current step. `None`:
    /// the total is not known.
    ///
    /// It becomes an [`Event::ToolCallProgress`], and a progress notification where code is run by `serve-mcp`. It never waits:
    /// reports are dropped beyond [`PROGRESS_PER_SECOND`], when whoever watches is slow, and once the call is over. A message is
    /// cut to [`PROGRESS_MESSAGE_BYTES`], and numbers that are not finite are not told.
    pub fn progress(&self, done: f64, total: Option<f64>, message: impl Into<String>) {
        let mut teller = self.life.teller();
        let Some(teller) = teller.as_mut() else { return };
        if !done.is_finite() || !teller.is_free(Instant::now()) {
            return;
        }
        let mut message = message.into();
        message.truncate(message.floor_char_boundary(PROGRESS_MESSAGE_BYTES));
        let (tool, total) = (self.tool.clone(), total.filter(|total| total.is_finite()));
        // Under the lock, so that none comes after the call's end. Nobody has to watch.
        let _ = teller.events.send(Event::ToolCallProgress { id: self.call, tool, done, total, message });
    }

    /// Returns whether nobody waits for the call any more: it was cancelled, its time is up, or it has its answer.
    pub fn is_cancelled(&self) -> bool {
        *self.life.over.borrow() || self.remaining().is_zero()
    }

    /// Completes when nobody waits for the call any more: it was cancelled, its time is up, or it has its answer.
    ///
    /// This is for work that goes on when the future of the tool is dropped, such as a spawned task or a blocking thread. A
    /// future that is a part of the tool's own never sees it complete, for it is dropped, too.
    pub fn cancelled(&self) -> impl Future<Output = ()> + Send + use<> {
        let (mut over, deadline) = (self.life.over.subscribe(), self.deadline);
        async move {
            tokio::select! {
                // An error says that the call and all clones of its context are gone.
                _ = over.wait_for(|over| *over) => {}
                () = tokio::time::sleep_until(deadline) => {}
            }
        }
    }
}

impl CallLife {
    /// Begins the life of a call whose progress goes to these events.
    pub(crate) fn new(events: broadcast::Sender<Event>) -> Arc<Self> {
        let teller = Teller { events, due: Instant::now() };
        let (over, teller) = (watch::Sender::new(false), Mutex::new(Some(teller)));
        Arc::new(Self { over, teller, turn: AtomicU8::new(NO_WAIT) })
    }

    /// Notes that the call waits from now on until its tool runs fewer calls at once.
    pub(crate) fn wait_turn(&self) {
        let _ = self.turn.compare_exchange(NO_WAIT, WAITS, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Takes the turn that the call waited for. Returns `false` if the call gave it up: its tool must not run.
    #[must_use]
    pub(crate) fn take_turn(&self) -> bool {
        let had = self.turn.compare_exchange(WAITS, HAS_TURN, Ordering::Relaxed, Ordering::Relaxed);
        had != Err(NO_TURN)
    }

    /// Gives the turn up for which the call waits. Returns `false` if it waits for none: its tool may run.
    pub(crate) fn give_up_turn(&self) -> bool {
        self.turn.compare_exchange(WAITS, NO_TURN, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Makes the guard that ends it.
    pub(crate) fn guard(self: &Arc<Self>) -> CallGuard {
        CallGuard(Arc::clone(self))
    }

    fn teller(&self) -> MutexGuard<'_, Option<Teller>> {
        // Changed only under this lock, by code that does not panic half way.
        self.teller.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for CallLife {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallLife").field("over", &*self.over.borrow()).finish_non_exhaustive()
    }
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        *self.0.teller() = None;
        self.0.over.send_replace(true);
    }
}

impl Teller {
    /// Takes the place of one report; `false`: there were too many, or a watcher is slow and would miss other events.
    fn is_free(&mut self, now: Instant) -> bool {
        let due = self.due.max(now);
        let next = due + PROGRESS_EVERY;
        let is_free = next <= now + PROGRESS_EVERY * PROGRESS_PER_SECOND && self.events.len() < event::EVENTS_KEPT / 2;
        if is_free {
            self.due = next;
        }
        is_free
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn context() -> (CallContext, EventStream) {
        CallContext::by_hand_with_events(ToolName::new("a", "b").unwrap(), Duration::from_secs(60))
    }

    /// Asks for room a hundred times at one moment, and returns how often there was some.
    fn free(teller: &mut Teller, now: Instant) -> usize {
        (0..100).filter(|_| teller.is_free(now)).count()
    }

    #[test]
    fn progress_is_told_ten_times_at_once_and_ten_times_a_second() {
        let began = Instant::now();
        let mut teller = Teller { events: broadcast::Sender::new(event::EVENTS_KEPT), due: began };
        let after = |millis| began + Duration::from_millis(millis);
        let told = [0, 0, 99, 100, 250, 1_250, 60_000].map(|millis| free(&mut teller, after(millis)));
        assert_eq!(told, [10, 0, 0, 1, 1, 10, 10]);
    }

    #[test]
    fn progress_leaves_room_for_what_a_slow_watcher_must_not_miss() {
        let began = Instant::now();
        let (events, watcher) = broadcast::channel(event::EVENTS_KEPT);
        let mut teller = Teller { events, due: began };
        let told = (0..).take_while(|number| {
            let is_free = teller.is_free(began + PROGRESS_EVERY * *number);
            teller.events.send(Event::RouteChosen(event::Route::Host)).unwrap();
            is_free
        });
        assert_eq!(told.count(), event::EVENTS_KEPT / 2);
        drop(watcher);
    }

    #[tokio::test]
    async fn messages_are_cut_and_numbers_are_finite() {
        let (context, mut events) = context();
        context.progress(f64::NAN, None, "not told");
        context.progress(1.0, Some(f64::INFINITY), "é".repeat(PROGRESS_MESSAGE_BYTES));
        drop(context);
        let Some(Event::ToolCallProgress { total: None, message, .. }) = events.next().await else { panic!() };
        assert_eq!(message, "é".repeat(PROGRESS_MESSAGE_BYTES / 2));
        assert!(events.next().await.is_none());
    }

    #[tokio::test]
    async fn when_a_call_is_over_who_works_for_it_knows_and_nothing_is_told() {
        let (context, mut events) = context();
        let (guard, worker) = (context.life.guard(), context.clone());
        let cancelled = tokio::spawn(context.cancelled());
        assert!(!worker.is_cancelled());
        context.progress(1.0, None, "");
        drop(guard);
        cancelled.await.unwrap();
        context.cancelled().await;
        assert!(worker.is_cancelled());
        worker.progress(2.0, None, "");
        drop((context, worker));
        assert!(matches!(events.next().await, Some(Event::ToolCallProgress { done: 1.0, .. })));
        assert!(events.next().await.is_none());
    }

    #[tokio::test]
    async fn a_call_is_given_up_at_its_deadline() {
        let context = CallContext::by_hand(ToolName::new("a", "b").unwrap(), Duration::from_millis(20));
        context.cancelled().await;
        assert!(Instant::now() >= context.deadline && context.is_cancelled());
        assert_eq!(context.remaining(), Duration::ZERO);
    }
}
