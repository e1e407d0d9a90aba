//! Watching everything that a host runs, as pages do: what begins, its calls with their arguments and results, its events.
//! Watching delays nothing: what a slow watcher has not taken is dropped.

use std::sync::Arc;
use std::time::Instant;

use relay_proto::{LimitName, LimitOverrides};
use tokio::sync::broadcast;

use crate::durable::RunId;
use crate::error::ExecutionError;
use crate::event::Event;
use crate::outcome::OutputItem;
use crate::text::clipped;

/// The maximum number of items that wait for a slow watcher; it misses the older ones.
const KEPT: usize = 4_096;
/// The maximum length of a text in an item, in bytes: arguments, results, output and messages.
const EXCERPT_BYTES: usize = 4 << 10;

/// A watch over all executions of a host. Clones are of the same watch.
///
/// ```
/// use host_client_core::{Host, Tools, watch::Watch};
///
/// let watch = Watch::new();
/// let host = Host::new(Tools::new()).watch(watch.clone());
/// let seen = watch.subscribe();
/// # drop((seen, host));
/// ```
#[derive(Debug, Clone)]
pub struct Watch(broadcast::Sender<Seen>);

/// Something that was seen.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Seen {
    /// The name of the execution, which no other has; of a durable run, its id.
    pub execution: Arc<str>,
    /// The time at which it was seen.
    pub at: Instant,
    /// What was seen.
    pub what: Sight,
}

/// What can be seen of an execution.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Sight {
    /// An execution begins, or this process goes on with a durable run.
    Began {
        /// The code.
        code: Arc<str>,
        /// The durable run; `None`: the execution ends with its session.
        run: Option<RunId>,
        /// The limits.
        limits: Vec<(LimitName, u64)>,
    },
    /// The code calls a tool.
    Called {
        /// The call's id, as its events have it.
        call: u64,
        /// The tool's full name as the code wrote it.
        tool: String,
        /// The line of the code, from 1; `None`: it is not known.
        line: Option<usize>,
        /// The arguments' JSON.
        arguments: Excerpt,
    },
    /// The policy has decided on a call that may run.
    Ruled {
        /// The call's id.
        call: u64,
        /// The rule that decided.
        rule: Arc<str>,
        /// `true`: a person has to approve the call.
        is_asked: bool,
    },
    /// A tool has returned the result that the code gets.
    Answered {
        /// The call's id.
        call: u64,
        /// The result's JSON.
        result: Excerpt,
    },
    /// The execution has an outcome: the value's JSON, or the error's code and message.
    Outcome(Result<Excerpt, (String, String)>),
    /// An event. Its texts are cut after 4 KiB.
    Event(Event),
}

/// The start of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    /// The text, cut after 4 KiB.
    pub text: String,
    /// The length of the whole text, in bytes.
    pub bytes: usize,
}

impl Excerpt {
    fn of(json: &[u8]) -> Self {
        let start = &json[..json.len().min(EXCERPT_BYTES)];
        // The last character may be cut.
        let text = String::from_utf8_lossy(start).trim_end_matches('\u{fffd}').to_owned();
        Self { text, bytes: json.len() }
    }

    /// Returns `true` if it is not the whole text.
    pub fn is_shortened(&self) -> bool {
        self.text.len() < self.bytes
    }
}

impl Default for Watch {
    fn default() -> Self {
        Self::new()
    }
}

impl Watch {
    /// Creates a watch, for [`Host::watch`](crate::Host::watch).
    pub fn new() -> Self {
        Self(broadcast::Sender::new(KEPT))
    }

    /// Returns what is seen from now on. A receiver that is too slow gets
    /// [`RecvError::Lagged`](broadcast::error::RecvError::Lagged) with the number of items that it has missed.
    pub fn subscribe(&self) -> broadcast::Receiver<Seen> {
        self.0.subscribe()
    }

    fn tell(&self, execution: &Arc<str>, what: impl FnOnce() -> Sight) {
        // Nothing is copied while nobody watches.
        if self.0.receiver_count() > 0 {
            let _ = self.0.send(Seen { execution: Arc::clone(execution), at: Instant::now(), what: what() });
        }
    }
}

/// One execution, as it is watched.
#[derive(Debug, Clone)]
pub(crate) struct Watched {
    watch: Watch,
    execution: Arc<str>,
}

impl Watched {
    /// Begins to watch an execution of a host; `None`: nobody watches the host.
    pub(crate) fn begin(
        watch: Option<&Watch>,
        execution: &Arc<str>,
        code: &Arc<str>,
        run: Option<&RunId>,
        limits: impl FnOnce() -> Vec<(LimitName, u64)>,
    ) -> Option<Self> {
        let watched = Self { watch: watch?.clone(), execution: Arc::clone(execution) };
        watched.watch.tell(execution, || Sight::Began { code: Arc::clone(code), run: run.cloned(), limits: limits() });
        Some(watched)
    }

    pub(crate) fn event(&self, event: &Event) {
        self.watch.tell(&self.execution, || Sight::Event(short(event)));
    }

    pub(crate) fn called(&self, call: u64, tool: &str, line: u32, arguments: &[u8]) {
        self.watch.tell(&self.execution, || Sight::Called {
            call,
            tool: tool.to_owned(),
            line: usize::try_from(line).ok().filter(|line| *line > 0),
            arguments: Excerpt::of(arguments),
        });
    }

    pub(crate) fn ruled(&self, call: u64, rule: &Arc<str>, is_asked: bool) {
        self.watch.tell(&self.execution, || Sight::Ruled { call, rule: Arc::clone(rule), is_asked });
    }

    pub(crate) fn answered(&self, call: u64, result: &[u8]) {
        self.watch.tell(&self.execution, || Sight::Answered { call, result: Excerpt::of(result) });
    }

    pub(crate) fn outcome(&self, outcome: Result<&[u8], &ExecutionError>) {
        self.watch.tell(&self.execution, || {
            let failed = |error: &ExecutionError| (error.code.to_string(), clipped(&error.message, EXCERPT_BYTES));
            Sight::Outcome(outcome.map(Excerpt::of).map_err(failed))
        });
    }
}

/// Returns all limits that hold.
pub(crate) fn limits(limit: impl Fn(LimitName) -> u64) -> Vec<(LimitName, u64)> {
    LimitName::ALL.iter().map(|name| (*name, limit(*name))).collect()
}

/// Returns the limits of a durable run, which has all of them.
pub(crate) fn limits_of(limits: &LimitOverrides) -> Vec<(LimitName, u64)> {
    LimitName::ALL.iter().filter_map(|name| Some((*name, limits.get(*name)?))).collect()
}

/// Copies an event with short texts.
fn short(event: &Event) -> Event {
    let cut = |text: &String| clipped(text, EXCERPT_BYTES);
    match event {
        Event::Output(item) => Event::Output(OutputItem { kind: item.kind, text: cut(&item.text) }),
        Event::ToolCallFailed { id, tool, code, message } => {
            Event::ToolCallFailed { id: *id, tool: tool.clone(), code: code.clone(), message: cut(message) }
        }
        Event::ToolCallDenied { id, tool, code, reason, rule } => Event::ToolCallDenied {
            id: *id,
            tool: tool.clone(),
            code: code.clone(),
            reason: cut(reason),
            rule: Arc::clone(rule),
        },
        event => event.clone(),
    }
}
