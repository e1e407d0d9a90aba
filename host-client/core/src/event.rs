//! The events of an execution, for applications that watch it. Watching never delays a tool: a watcher that is too slow
//! misses events, and is told how many.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::Stream;
use relay_proto::{Code, ToolName};
use tokio::sync::broadcast;
use tokio_stream::wrappers::BroadcastStream;
use tokio_stream::wrappers::errors::BroadcastStreamRecvError;

pub use crate::outcome::{OutputItem, OutputKind};

use crate::outcome::Usage;

/// The most events that wait for a slow watcher; it misses the older ones.
pub(crate) const EVENTS_KEPT: usize = 1_024;

/// The place where a request is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Route {
    /// On this host, without a relay: the code is a single tool call.
    Host,
    /// In a worker of the relay, as code.
    Relay,
}

/// One event of an execution. [`EventStream`] has an example.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// The client accepted the code.
    CodeReceived {
        /// The length of the code in bytes.
        bytes: usize,
    },
    /// The client chose where the code runs.
    RouteChosen(Route),
    /// The execution started: its code was handed over, or its single tool call begins.
    Started,
    /// The code calls a tool. The call is within the execution's limits; the policy has not decided yet.
    ToolCallRequested {
        /// The call's id in its session.
        id: u64,
        /// The tool's full name as the code wrote it; there may be no such tool.
        tool: String,
        /// The length of the arguments' JSON, in bytes.
        arguments_bytes: usize,
    },
    /// The policy, a person or a budget denied a call: its tool does not run.
    ToolCallDenied {
        /// The call's id in its session.
        id: u64,
        /// The tool's full name.
        tool: ToolName,
        /// The error code: `TOOL_DENIED`, `APPROVAL_DENIED`, `APPROVAL_TIMEOUT`, or that of the exhausted budget.
        code: Code,
        /// The error message that the code gets.
        reason: String,
        /// The rule of the policy that decided.
        rule: Arc<str>,
    },
    /// The approver is asked about a call.
    ToolCallAwaitingApproval {
        /// The call's id in its session.
        id: u64,
        /// The tool's full name.
        tool: ToolName,
        /// The rule of the policy that requires the approval.
        rule: Arc<str>,
        /// The time for an answer; without one, the call is denied.
        within: Duration,
    },
    /// A call that needed an approval has it.
    ToolCallApproved {
        /// The call's id in its session.
        id: u64,
        /// The tool's full name.
        tool: ToolName,
        /// The name of the approver that was asked; `None`: an earlier approval covers this call.
        by: Option<String>,
        /// The scope of the approval: `once`, `execution` or `session`.
        scope: &'static str,
    },
    /// A tool begins to run.
    ToolCallStarted {
        /// The call's id in its session.
        id: u64,
        /// The tool's full name.
        tool: ToolName,
    },
    /// A tool says how far a call is. At most ten such reports of a call are told at once, and ten in each second after that; a
    /// slow watcher gets fewer.
    ToolCallProgress {
        /// The call's id in its session.
        id: u64,
        /// The tool.
        tool: ToolName,
        /// The progress so far, in a unit of the tool's choice.
        done: f64,
        /// The progress at the end, in the same unit; `None`: the tool does not know.
        total: Option<f64>,
        /// The tool's description of what it is doing, at most 1 KiB; empty: it gives none.
        message: String,
    },
    /// A tool returned a result.
    ToolCallFinished {
        /// The call's id in its session.
        id: u64,
        /// The tool's full name.
        tool: ToolName,
        /// The time since the call's request.
        elapsed: Duration,
        /// The length of the result's JSON, in bytes.
        result_bytes: usize,
    },
    /// A call failed: there is no such tool, its arguments do not fit, or the tool failed.
    ToolCallFailed {
        /// The call's id in its session.
        id: u64,
        /// The tool's full name as the code wrote it; there may be no such tool.
        tool: String,
        /// The error code.
        code: Code,
        /// The error message that the code gets.
        message: String,
    },
    /// The code wrote output, with `console` or with `emit`.
    Output(OutputItem),
    /// The connection to the relay was lost, and the client tries to resume the session. The code goes on at the relay; its
    /// calls wait.
    Disconnected {
        /// The reason, for people.
        reason: Arc<str>,
    },
    /// The session was resumed on another connection: nothing is lost, and nothing is done twice.
    Resumed {
        /// The time without a connection.
        after: Duration,
    },
    /// The code returned a value.
    Result {
        /// The length of the value's JSON, in bytes.
        bytes: usize,
    },
    /// The execution is over. This is the last event.
    Ended {
        /// The error code; `None`: the execution succeeded.
        code: Option<Code>,
        /// The usage that the relay reported; zero where it reported none.
        usage: Usage,
    },
    /// The watcher was too slow, and missed this number of events.
    Missed(u64),
}

/// The events of one execution in their order, up to [`Event::Ended`].
///
/// ```no_run
/// use host_client_core::{Client, Event, ExecuteRequest};
///
/// # async fn example(client: Client) -> Result<(), Box<dyn std::error::Error>> {
/// let mut execution = client.execute(ExecuteRequest::new("return await mcp.call('math.add', {a: 1, b: 2})")).await?;
/// if let Some(mut events) = execution.events() {
///     tokio::spawn(async move {
///         while let Some(event) = events.next().await {
///             match event {
///                 Event::ToolCallStarted { tool, .. } => println!("{tool} runs"),
///                 Event::ToolCallFailed { tool, code, message, .. } => println!("{tool} failed: {code}, {message}"),
///                 Event::Output(item) => println!("{}", item.text),
///                 _ => {}
///             }
///         }
///     });
/// }
/// let outcome = execution.await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct EventStream {
    events: BroadcastStream<Event>,
    has_ended: bool,
}

impl EventStream {
    pub(crate) fn new(events: broadcast::Receiver<Event>) -> Self {
        Self { events: BroadcastStream::new(events), has_ended: false }
    }

    /// Waits for the next event; `None`: the last one was returned, or the execution was dropped.
    pub async fn next(&mut self) -> Option<Event> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl Stream for EventStream {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        Poll::Ready(match ready!(Pin::new(&mut self.events).poll_next(cx)) {
            Some(Ok(event)) => {
                self.has_ended = matches!(event, Event::Ended { .. });
                Some(event)
            }
            Some(Err(BroadcastStreamRecvError::Lagged(missed))) => Some(Event::Missed(missed)),
            None => None,
        })
    }
}
