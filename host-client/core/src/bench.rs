//! The entry point for the benchmark in `dev/bench`: the host's side of a session without a socket.

use std::sync::Arc;

use bytes::Bytes;
use relay_proto::wire::message::Payload;
use relay_proto::{LimitOverrides, ToolPatterns, wire};

use crate::call::ExecutionContext;
use crate::call::ledger::{Budget, Opened};
use crate::error::Error;
use crate::event::EventStream;
use crate::host::Host;
use crate::session::{Outbox, Session};

/// One execution in a session without a relay: [`HostSide::call`] sends its calls.
#[derive(Debug)]
pub struct HostSide {
    session: Arc<Session>,
    answers: Outbox,
    execution: String,
    opened: Opened,
    sequence: u64,
}

impl HostSide {
    /// Opens a session and an execution in it that may make a million calls.
    ///
    /// # Errors
    /// - [`Error::Local`]: the session is over.
    /// - [`Error::Audit`]: its start could not be recorded.
    pub fn open(host: Host) -> Result<Self, Error> {
        let (session, answers) = Session::new(Arc::new(host), true);
        let budget = Budget {
            tools: ToolPatterns::default(),
            arguments_bytes: 1 << 20,
            tool_calls: 1_000_000,
            in_flight: 64,
            result_bytes: 1 << 20,
        };
        let audit = session.host.audit.clone();
        let context = |id, events| ExecutionContext { audit, ..ExecutionContext::for_tests(id, events) };
        let opened = session.ledger.open(budget, context);
        opened.context.record_start("bench", "bench", &LimitOverrides::default())?;
        session.ledger.start(&opened.context.id).map_err(Error::Local)?;
        let execution = opened.context.id.as_str().to_owned();
        Ok(Self { session, answers, execution, opened, sequence: 1 })
    }

    /// Returns the events of the execution.
    pub fn events(&self) -> EventStream {
        EventStream::new(self.opened.events.resubscribe())
    }

    /// Calls a tool and waits for its result, from the decoded message to the one that would be encoded; `None`: the
    /// session refused the call.
    pub async fn call(&mut self, tool: &str, arguments: Bytes) -> Option<wire::ToolResult> {
        self.sequence += 1;
        let call = Payload::ToolCall(wire::ToolCall {
            id: (self.sequence - 1).to_string(),
            tool: tool.to_owned(),
            arguments,
            execution_id: self.execution.clone(),
            remaining_ms: 30_000,
            ..wire::ToolCall::default()
        });
        self.session.handle(wire::Message { sequence: self.sequence, ..call.into() }, 0).ok()?;
        match self.answers.next().await?.payload? {
            Payload::ToolResult(result) => Some(result),
            _ => None,
        }
    }
}
