//! What an application can watch while code runs. Watching never holds up a tool: who is slow misses events and is told
//! how many.

use std::time::Duration;

use relay_proto::{Code, ToolName, wire};
use tokio::sync::broadcast;

pub use relay_proto::wire::OutputKind;

/// How many events wait for a slow watcher.
pub(crate) const KEPT: usize = 1_024;

/// One thing that happened in an execution.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// The code called a tool, and the call was accepted.
    ToolCallStarted {
        /// The call's id in its session.
        id: u64,
        /// The tool.
        tool: ToolName,
    },
    /// A tool answered.
    ToolCallFinished {
        /// The call's id in its session.
        id: u64,
        /// The tool.
        tool: ToolName,
        /// How long it took.
        elapsed: Duration,
        /// The length of its result's JSON.
        result_bytes: usize,
    },
    /// A call failed, or was not accepted.
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
    /// This watcher was too slow and missed so many events.
    Missed(u64),
}

/// A piece of output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputItem {
    /// Where it was written.
    pub kind: OutputKind,
    /// What was written.
    pub text: String,
}

impl From<wire::OutputItem> for OutputItem {
    fn from(item: wire::OutputItem) -> Self {
        Self { kind: item.kind(), text: item.text }
    }
}

/// The events of one execution, in their order, until it ends.
#[derive(Debug)]
pub struct EventStream(pub(crate) broadcast::Receiver<Event>);

impl EventStream {
    /// The next event; nothing after the last.
    pub async fn next(&mut self) -> Option<Event> {
        match self.0.recv().await {
            Ok(event) => Some(event),
            Err(broadcast::error::RecvError::Lagged(missed)) => Some(Event::Missed(missed)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}
