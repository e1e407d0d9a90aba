//! The relay's tool calls: each is admitted, and answered by a task of its own.

use std::sync::Arc;

use relay_proto::wire::message::Payload;
use relay_proto::{ExecutionId, wire};

use super::{Session, SessionFault};
use crate::call::CallRecord;
use crate::call::dispatch::{self, Caller, answer};
use crate::call::ledger::Refused;
use crate::call::run::{AnswerTurn, DurableRun, IncomingCall};
use crate::text::short_name;

impl Session {
    /// Returns the durable run of an execution; `None`: the relay was not sent it, or it has ended.
    ///
    /// # Errors
    /// [`SessionFault`]: it is no valid id, or the execution belongs to no durable run.
    pub(super) fn run_of(&self, id: &str) -> Result<Option<Arc<dyn DurableRun>>, SessionFault> {
        let Some(id) = self.running(id.to_owned())? else { return Ok(None) };
        let run = self.ledger.run_of(&id);
        match run {
            None if self.ledger.is_relays(&id) => Err(SessionFault::new(format!("the execution {id} is not durable"))),
            run => Ok(run),
        }
    }

    pub(super) fn start_call(self: &Arc<Self>, call: wire::ToolCall) -> Result<(), SessionFault> {
        let id = answer::call_id(&call).ok_or_else(|| SessionFault::new("a tool call has no usable id".into()))?;
        let execution = ExecutionId::try_from(call.execution_id.clone());
        let execution = execution.map_err(|error| SessionFault::new(error.to_string()))?;
        let credit = self.delivery.admit(call.arguments.len())?;
        let permit = match self.ledger.enter(id, &execution, &call) {
            Ok(permit) => permit,
            Err(Refused::Violation(reason)) => {
                tracing::warn!(tool = short_name(&call.tool), reason, "the relay broke the protocol");
                return Err(SessionFault::new(reason));
            }
            Err(refused) => {
                if let Refused::Failed(code, reason) = &refused {
                    tracing::warn!(tool = short_name(&call.tool), %code, reason, "a call was not let in");
                }
                if let Some(answer) = answer::refusal(call, refused) {
                    // Refusals come only from a relay that breaks the protocol; it may wait for them in vain.
                    let _ = self.outbound.try_send(Payload::ToolResult(answer));
                }
                return Ok(());
            }
        };
        // Before the next message is taken: a run records calls and steps in their order.
        let of_run = permit.call.context.run.as_ref().map(|run| Arc::clone(run).called(&call));
        let task = {
            let (session, execution) = (Arc::clone(self), execution.clone());
            tokio::spawn(async move {
                let caller = match session.terms.knows_states {
                    true => Caller::Relay(&session.outbound),
                    false => Caller::RelayWithoutCallState,
                };
                let (answer, turn) = match of_run {
                    None => (dispatch::dispatch(&session.host, &permit, call, caller).await, None),
                    Some(call) => match session.answer_of_run(call, &permit.call).await {
                        Some((answer, turn)) => (answer, Some(turn)),
                        None => return,
                    },
                };
                if !session.ledger.answer(&permit, &answer) {
                    return;
                }
                let answer = Payload::ToolResult(answer);
                // While the queue is full, the call keeps its place. Nobody is left to hear the answer when this fails.
                if let Ok(room) = session.outbound.reserve(&answer).await {
                    session.ledger.sent(id, &execution);
                    room.send(answer);
                }
                drop(turn);
                // The relay may send another call in its place.
                drop(credit);
            })
        };
        self.ledger.set_abort(id, &execution, task.abort_handle());
        Ok(())
    }

    /// Waits for the answer to a call of a durable run, and tells the relay the call's states meanwhile; `None`: there will be
    /// no answer.
    async fn answer_of_run(&self, call: IncomingCall, record: &CallRecord) -> Option<(wire::ToolResult, AnswerTurn)> {
        let IncomingCall { mut status, mut answer } = call;
        let answer = loop {
            let changed = async {
                match &mut status {
                    Some(status) => match status.changed().await {
                        Ok(()) => *status.borrow_and_update(),
                        // The answer is about to come.
                        Err(_) => std::future::pending().await,
                    },
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                answer = &mut answer => break answer,
                status = changed => self.tell_state(record, status).await,
            }
        };
        record.leave();
        let (answer, turn) = answer?;
        Some((wire::ToolResult { id: record.id.to_string(), ..answer }, turn))
    }

    async fn tell_state(&self, call: &CallRecord, status: wire::CallStatus) {
        if self.terms.knows_states {
            // Nobody is left to hear it when this fails.
            let _ = self.outbound.send(Payload::CallState(call.state_message(status))).await;
        }
    }
}
