//! What an application can watch while code runs. Watching never holds up a tool: who is slow misses events and is told
//! how many.

use std::sync::Arc;
use std::time::Duration;

use relay_proto::{Code, ToolName};
use tokio::sync::broadcast;

pub use crate::outcome::{OutputItem, OutputKind};

use crate::outcome::Usage;

/// How many events wait for a slow watcher.
pub(crate) const KEPT: usize = 1_024;

/// Where a request is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Route {
    /// On this host: it is one tool call and no code.
    Host,
    /// As code, in a worker of the relay.
    Relay,
}

/// One thing that happened in an execution.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// There is something to run.
    CodeReceived {
        /// The length of the code.
        bytes: usize,
    },
    /// It was decided where to run it.
    RouteChosen(Route),
    /// It is on its way to where it runs.
    Started,
    /// The code calls a tool, and the call is within what the execution was given.
    ToolCallRequested {
        /// The call's id in its session.
        id: u64,
        /// The name as it came.
        tool: String,
        /// The length of the arguments' JSON.
        arguments_bytes: usize,
    },
    /// The policy or a person does not let the call run.
    ToolCallDenied {
        /// The call's id in its session.
        id: u64,
        /// The tool.
        tool: ToolName,
        /// `TOOL_DENIED`, `APPROVAL_DENIED` or `APPROVAL_TIMEOUT`, or the budget that is used up.
        code: Code,
        /// Why, as the code reads it.
        reason: String,
        /// The line of the policy.
        rule: Arc<str>,
    },
    /// A person is asked.
    ToolCallAwaitingApproval {
        /// The call's id in its session.
        id: u64,
        /// The tool.
        tool: ToolName,
        /// The line of the policy that asks.
        rule: Arc<str>,
        /// How long there is for an answer.
        within: Duration,
    },
    /// A person said yes.
    ToolCallApproved {
        /// The call's id in its session.
        id: u64,
        /// The tool.
        tool: ToolName,
        /// Who said so; nothing where an earlier answer holds.
        by: Option<String>,
        /// For how long: `once`, `execution` or `session`.
        scope: &'static str,
    },
    /// A tool runs.
    ToolCallStarted {
        /// The call's id in its session.
        id: u64,
        /// The tool.
        tool: ToolName,
    },
    /// A tool says how far a call is. At most ten such reports of a call are told at once, and ten in each second after that; a
    /// slow watcher gets fewer.
    ToolCallProgress {
        /// The call's id in its session.
        id: u64,
        /// The tool.
        tool: ToolName,
        /// How much is done, in a unit of the tool's choice.
        done: f64,
        /// How much there is to do; `None`: the tool does not know.
        total: Option<f64>,
        /// What the tool is doing, in at most 1 KiB; empty where it does not say.
        message: String,
    },
    /// A tool answered.
    ToolCallFinished {
        /// The call's id in its session.
        id: u64,
        /// The tool.
        tool: ToolName,
        /// How long it took, from the request on.
        elapsed: Duration,
        /// The length of its result's JSON.
        result_bytes: usize,
    },
    /// A call failed, or could not be made.
    ToolCallFailed {
        /// The call's id in its session.
        id: u64,
        /// The name as it came.
        tool: String,
        /// Why.
        code: Code,
        /// The same in words.
        message: String,
    },
    /// The code printed.
    Output(OutputItem),
    /// The code returned a value.
    Result {
        /// The length of its JSON.
        bytes: usize,
    },
    /// It is over; nothing follows.
    Ended {
        /// The error code, where it failed.
        code: Option<Code>,
        /// What was used, as far as the relay said.
        usage: Usage,
    },
    /// This watcher was too slow and missed so many events.
    Missed(u64),
}

/// The events of one execution, in their order, until it ends.
#[derive(Debug)]
pub struct EventStream {
    events: broadcast::Receiver<Event>,
    has_ended: bool,
}

impl EventStream {
    pub(crate) fn new(events: broadcast::Receiver<Event>) -> Self {
        Self { events, has_ended: false }
    }

    /// The next event; nothing after the last.
    pub async fn next(&mut self) -> Option<Event> {
        if self.has_ended {
            return None;
        }
        match self.events.recv().await {
            Ok(event) => {
                self.has_ended = matches!(event, Event::Ended { .. });
                Some(event)
            }
            Err(broadcast::error::RecvError::Lagged(missed)) => Some(Event::Missed(missed)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}
