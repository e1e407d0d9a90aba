//! A door for the benchmark: the host's side of a session without a socket. Only built for it.

use std::sync::Arc;

use bytes::Bytes;
use relay_proto::wire::message::Payload;
use relay_proto::{ToolPatterns, wire};
use tokio::sync::mpsc;

use crate::connection::{self, Shared};
use crate::event::EventStream;
use crate::host::{ExecutionContext, Host};
use crate::ledger::{Budget, Opened};

/// One execution whose calls come from here, as if a relay had sent them.
#[derive(Debug)]
pub struct HostSide {
    shared: Arc<Shared>,
    answers: mpsc::Receiver<Payload>,
    execution: String,
    opened: Opened,
    sequence: u64,
}

impl HostSide {
    /// An execution that may call a million tools.
    ///
    /// # Errors
    /// It could not be recorded.
    pub fn open(host: Host) -> Result<Self, crate::Error> {
        let (shared, answers) = connection::without_socket(Arc::new(host));
        let budget = Budget {
            tools: ToolPatterns::default(),
            arguments_bytes: 1 << 20,
            tool_calls: 1_000_000,
            in_flight: 64,
            result_bytes: 1 << 20,
        };
        let opened = shared.ledger.open(budget, ExecutionContext::for_tests);
        let opened = opened.map_err(crate::Error::Local)?;
        shared.host.record(&opened.context, "bench", "bench", &crate::LimitOverrides::default())?;
        shared.ledger.start(&opened.context.id);
        let execution = opened.context.id.as_str().to_owned();
        Ok(Self { shared, answers, execution, opened, sequence: 1 })
    }

    /// What happens in it.
    pub fn events(&self) -> EventStream {
        EventStream::new(self.opened.events.resubscribe())
    }

    /// Calls a tool, and gives its answer: from the decoded message to the one that would be encoded.
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
        connection::handle(&self.shared, wire::Message { sequence: self.sequence, ..call.into() }).ok()?;
        match self.answers.recv().await? {
            Payload::ToolResult(result) => Some(result),
            _ => None,
        }
    }
}
