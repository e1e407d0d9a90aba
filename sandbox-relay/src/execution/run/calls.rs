//! Tool calls of a run: checked and counted on their way to the host, bounded on their way back.

use std::ops::ControlFlow;
use std::time::Duration;

use bytes::Bytes;
use relay_proto::{ErrorCode, LimitName, ToolName};

use super::Run;
use crate::execution::link::{MAX_WAITING_BYTES, settle};
use crate::execution::outcome::Ended;
use crate::execution::{CallFailure, Event, EventSink, WorkerCall};
use crate::sandbox::channel::message;

impl Run<'_> {
    /// Takes a call. Returns the event for the host, if any.
    pub(super) fn call(&mut self, call: message::Call, sink: &impl EventSink) -> ControlFlow<Ended, Option<Event>> {
        let number = WorkerCall(call.call);
        self.asked_calls += 1;
        // An honest worker keeps to both limits by itself.
        if self.asked_calls > self.limits.get(LimitName::ToolCalls)
            || self.clocks.is_open(number)
            || self.clocks.open_calls() >= self.limits.size(LimitName::ToolCallsInFlight)
        {
            return ControlFlow::Break(Ended::broken("it sent calls that its limits do not allow"));
        }
        self.take_steps(&call.steps)?;
        if let Some(failure) = self.record.as_ref().and_then(|record| record.failure(number)).cloned() {
            self.tool_calls += 1;
            self.writer.put(settle(number, Err(failure)));
            return ControlFlow::Continue(self.much_news());
        }
        let checked = ToolName::try_from(call.tool)
            .map_err(|error| CallFailure { code: ErrorCode::InvalidToolName.into(), message: error.to_string() })
            .and_then(|tool| self.check_call(number, tool, &call.arguments, sink));
        let tool = match checked {
            Ok(tool) => tool,
            Err(failure) => {
                self.fail(number, failure)?;
                return ControlFlow::Continue(self.much_news());
            }
        };
        self.tool_calls += 1;
        let (arguments, line, news) = (call.arguments, call.line, self.news());
        let remaining = Duration::ZERO;
        ControlFlow::Continue(Some(Event::Call { call: number, tool, arguments, remaining, line, news }))
    }

    /// Starts the clock of a call that is sent now.
    pub(in crate::execution) fn begin(&mut self, event: &mut Event) {
        if let Event::Call { call, tool, remaining, .. } = event {
            let now = self.now();
            let was_answered = self.record.as_ref().is_some_and(|record| record.was_answered(*call));
            *remaining = match was_answered {
                false => self.clocks.open(*call, tool.clone(), now),
                // It did not time out then, so it must not now.
                true => self.clocks.open_without_limit(*call, tool.clone(), now),
            };
        }
    }

    fn check_call(
        &self,
        call: WorkerCall,
        tool: ToolName,
        arguments: &[u8],
        sink: &impl EventSink,
    ) -> Result<ToolName, CallFailure> {
        let most = self.limits.get(LimitName::ToolCalls);
        if self.tool_calls >= most {
            let message = format!("{tool} was not called: this execution has used its {most} tool calls");
            return Err(CallFailure { code: ErrorCode::ToolCallLimit.into(), message });
        }
        let limit = self.limits.size(LimitName::ArgumentsBytes);
        if arguments.len() > limit {
            let message = format!("the arguments of {tool} have {} bytes; the limit is {limit}", arguments.len());
            return Err(CallFailure { code: ErrorCode::ArgumentsLimit.into(), message });
        }
        let record = self.record.as_ref();
        // What the host has answered before it answers again, whatever the token allows by now.
        if !record.is_some_and(|record| record.was_answered(call)) {
            sink.check_tool(&tool, record.is_some_and(|record| record.is_recorded(call)))?;
        }
        Ok(tool)
    }

    /// Gives the worker the host's answer of a call that is open no more.
    pub(super) fn settle(
        &mut self,
        call: WorkerCall,
        tool: &ToolName,
        outcome: Result<Bytes, CallFailure>,
    ) -> ControlFlow<Ended> {
        if let Some(failure) = outcome.as_ref().ok().and_then(|result| self.refusal(tool, result.len())) {
            return self.fail(call, failure);
        }
        self.writer.put(settle(call, outcome));
        ControlFlow::Continue(())
    }

    /// Fails a call by the relay's own decision.
    pub(super) fn fail(&mut self, call: WorkerCall, mut failure: CallFailure) -> ControlFlow<Ended> {
        if let Some(record) = &mut self.record {
            record.fail(call, &mut failure)?;
        }
        self.writer.put(settle(call, Err(failure)));
        ControlFlow::Continue(())
    }

    /// Returns the failure that a result of this length becomes; `None`: it is not too large.
    fn refusal(&self, tool: &ToolName, bytes: usize) -> Option<CallFailure> {
        let limit = self.limits.size(LimitName::ToolResultBytes);
        let message = if bytes > limit {
            format!("the result of {tool} has {bytes} bytes; the limit tool_result_bytes is {limit}")
        } else if self.writer.pending.len() + bytes > MAX_WAITING_BYTES {
            format!("the result of {tool} was dropped: the code is busy and too many results wait for it")
        } else {
            return None;
        };
        Some(CallFailure { code: ErrorCode::ToolResultLimit.into(), message })
    }
}
