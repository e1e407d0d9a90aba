//! The session's end of one execution: waits for a worker, turns events into messages, reports the outcome.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::FutureExt;
use relay_proto::time::millis;
use relay_proto::wire::message::Payload;
use relay_proto::{
    BASIC_SERVER, Binding, CallId, ErrorCode, ExecutionId, INTROSPECTION_SERVER, INTROSPECTION_TOOLS, ToolName,
    ToolPatterns, TraceContext, wire,
};

use super::announced::Suggestions;
use super::state::{HeldSource, SessionGrant, SessionState};
use crate::engine::{Lease, LeaseError};
use crate::execution::{
    self, CallFailure, Control, Event, EventSink, ExecutionError, ExecutionRequest, Needs, News, Outcome, Seen,
    WorkerCall,
};
use crate::metrics::{self, CallEnd};
use crate::outbound::Room;

/// Runs one execution: waits for its turn, for at most the time `begin_within`, runs it, and reports its outcome to the
/// host.
pub(super) async fn run_execution(
    mut sink: SessionSink,
    mut request: ExecutionRequest,
    mut control: Control,
    clamped: Vec<wire::Warning>,
    held: HeldSource,
    begin_within: Option<Duration>,
) {
    let session = Arc::clone(&sink.session);
    let queued = Instant::now();
    let lease = tokio::select! {
        biased;
        lease = session.context.engine.lease(&session.subject, session.number, sink.grant.compiled, begin_within) => {
            lease.map_err(LeaseError::into_execution_error)
        }
        // Only a cancel or the end of the session can come before the first call.
        _ = control.commands.recv() => Err(ExecutionError::cancelled()),
    };
    let queue_us = u64::try_from(queued.elapsed().as_micros()).unwrap_or(u64::MAX);
    let (mut outcome, lease) = match lease {
        Ok(mut lease) => {
            // From here on the worker holds the source.
            drop(held);
            sink.complete(&mut request).await;
            control.place = Some(lease.place());
            (execution::run(&mut lease.worker, request, control, &mut sink).await, Some(lease))
        }
        Err(error) => (Outcome::not_run(error), None),
    };
    outcome.usage.queue_us = outcome.usage.queue_us.saturating_add(queue_us);
    outcome.warnings.splice(0..0, clamped);
    metrics::execution_ended(outcome.result.as_ref().err().map(|error| error.code), &outcome.usage);
    // The host gets its answer first: ending a process takes as long as a small execution. But a host that does not
    // read keeps no worker alive. It keeps the place: outcomes that nobody reads are bounded by the places of their
    // session and subject.
    let mut ending = pin!(sink.end(outcome));
    if ending.as_mut().now_or_never().is_none() {
        let place = lease.map(Lease::end_worker);
        ending.await;
        drop(place);
    } else {
        tokio::task::yield_now().await;
        drop(lease);
    }
}

/// Receives the events of one execution and sends them to the host.
pub(super) struct SessionSink {
    pub(super) session: Arc<SessionState>,
    /// Grant of the token when the execution began.
    pub(super) grant: Arc<SessionGrant>,
    /// Tools that the execution may call: those of the token and of its own filter.
    pub(super) tools: ToolPatterns,
    /// `true`: the execution has the binding `introspection`.
    pub(super) introspects: bool,
    pub(super) suggestions: Suggestions,
    pub(super) id: ExecutionId,
    /// Trace that its calls belong to.
    pub(super) traceparent: Option<TraceContext>,
    /// `true`: the peer said no hello; it uses short tool names, no ids and no cancels.
    pub(super) basic: bool,
    /// Bytes that the host gets back of its credit when the execution has ended.
    pub(super) credit_bytes: usize,
}

impl SessionSink {
    /// Adds to a request what the session holds when the code begins: the names of the tools, and the store.
    async fn complete(&self, request: &mut ExecutionRequest) {
        // A durable execution that began before has the names and the store of that time.
        let again = request.durable.as_ref().is_some_and(|durable| durable.again);
        let has_names = again && request.bindings.has(Binding::Servers);
        if !self.basic && !has_names {
            let (announced, allowed) = (self.session.tools(), self.tools.clone());
            let names = move || announced.names(&allowed);
            request.tools = if self.tools.are_all() {
                names()
            } else {
                // Many names against many patterns take a while, and others wait for this thread.
                tokio::task::spawn_blocking(names).await.unwrap_or_default()
            };
        }
        if request.bindings.has(Binding::Store) && !again {
            let copy = |(key, json): (&String, &Bytes)| (key.clone(), json.clone());
            request.stored = self.session.store().iter().map(copy).collect();
        }
    }

    /// Returns the id on the wire; empty for a basic peer.
    fn execution_id(&self) -> String {
        if self.basic { String::new() } else { self.id.as_str().to_owned() }
    }

    /// Cancels the calls that are still open, reports the outcome, and forgets the execution.
    async fn end(self, outcome: Outcome) {
        let of_this = |_: &CallId, (execution, _): &mut (ExecutionId, WorkerCall)| *execution == self.id;
        let open: Vec<_> = self.session.lock().calls.extract_if(of_this).map(|(call, _)| call).collect();
        open.iter().for_each(|_| metrics::call_ended(CallEnd::GivenUp));
        for call in open {
            let Some(room) = self.session.outbound.reserve(0).await else { return };
            self.send_cancel(room, call, "the execution ended");
        }
        let Outcome { result, usage, warnings } = outcome;
        let execution_id = self.execution_id();
        let (payload, weight) = match result {
            Ok(data) => {
                let weight = data.len();
                (Payload::Result(wire::Result { data, execution_id, usage: Some(usage), warnings }), weight)
            }
            Err(error) => (Payload::Error(wire::Error { execution_id, ..error.into_wire(usage, warnings) }), 0),
        };
        let room = self.session.outbound.reserve(weight).await;
        // It counts as running until its outcome is queued: a host that does not read gets no more of them.
        {
            let mut open = self.session.lock();
            if self.basic {
                open.executions.remove(&self.id);
            } else {
                open.end(&self.id);
            }
        }
        if let Some(room) = room {
            room.send(payload);
        }
        self.session.ended.notify_waiters();
        if let Some(granted) = self.session.credit.get().and_then(|it| it.execution_ended(self.credit_bytes))
            && let Some(room) = self.session.outbound.reserve(0).await
        {
            room.send(Payload::Credit(granted));
        }
    }

    /// Tells a full peer that a call is cancelled.
    fn send_cancel(&self, room: Room, call: CallId, reason: &str) {
        if self.basic {
            return;
        }
        room.send(Payload::Cancel(wire::Cancel {
            execution_id: self.execution_id(),
            call_id: call.to_string(),
            reason: reason.into(),
        }));
    }
}

impl EventSink for SessionSink {
    type Permit = Room;

    fn check_tool(&self, tool: &ToolName, is_recorded: bool) -> Result<(), CallFailure> {
        let fail = |code: ErrorCode, message: String| Err(CallFailure { code: code.into(), message });
        if self.basic {
            return match (tool.server() == BASIC_SERVER, self.tools.allow(tool)) {
                (false, _) => {
                    fail(ErrorCode::UnknownServer, format!("there is no server {:?}; there is: host", tool.server()))
                }
                (true, false) => fail(ErrorCode::UnknownTool, format!("there is no tool {tool}")),
                (true, true) => Ok(()),
            };
        }
        if self.introspects && tool.server() == INTROSPECTION_SERVER && INTROSPECTION_TOOLS.contains(&tool.tool()) {
            return Ok(());
        }
        if is_recorded && self.tools.allow(tool) {
            return Ok(());
        }
        self.session.tools().check(tool, &self.tools, &self.suggestions)
    }

    fn store(&self, key: String, json: Option<Bytes>) -> bool {
        self.session.store().put(key, json)
    }

    async fn reserve(&self, needs: Needs) -> Option<Room> {
        let Some(credit) = self.session.credit.get().filter(|_| needs.is_call) else {
            return self.session.outbound.reserve(needs.bytes).await;
        };
        loop {
            // No room is held meanwhile that others need.
            credit.call().await;
            let room = self.session.outbound.reserve(needs.bytes).await?;
            if credit.spend_call(needs.bytes) {
                return Some(room);
            }
        }
    }

    fn send(&mut self, room: Room, event: Event) {
        match event {
            Event::Call { call: worker_call, tool, arguments, remaining, line, news } => {
                let id = self.session.lock().open_call(self.id.clone(), worker_call);
                metrics::call_sent();
                room.send(Payload::ToolCall(wire::ToolCall {
                    id: id.to_string(),
                    tool: if self.basic { tool.tool().to_owned() } else { tool.as_str().to_owned() },
                    arguments,
                    execution_id: self.execution_id(),
                    remaining_ms: millis(remaining),
                    traceparent: self.traceparent.map(|trace| trace.to_string()).unwrap_or_default(),
                    line: if self.basic { 0 } else { line },
                    index: if self.basic { 0 } else { worker_call.0 },
                    steps: news.steps,
                    failures: news.failures,
                }));
            }
            Event::CallGivenUp { call, reason } => {
                let given_up = |_: &CallId, (execution, open): &mut (ExecutionId, WorkerCall)| {
                    *execution == self.id && *open == call
                };
                let id = {
                    let mut open = self.session.lock();
                    if let Some(live) = open.executions.get(&self.id) {
                        live.states.forget(call);
                    }
                    open.calls.extract_if(given_up).next()
                };
                if let Some((id, _)) = id {
                    metrics::call_ended(CallEnd::GivenUp);
                    self.send_cancel(room, id, reason);
                }
            }
            Event::Output(items, News { steps, failures }) => {
                let execution_id = self.execution_id();
                room.send(Payload::Output(wire::Output { execution_id, items, steps, failures }));
            }
            Event::Begun(Seen { store, tools }) => {
                room.send(Payload::Begun(wire::Begun { execution_id: self.execution_id(), store, tools }));
            }
            Event::Waiting { timer_in_ms, news: News { steps, failures } } => {
                let execution_id = self.execution_id();
                room.send(Payload::Waiting(wire::Waiting { execution_id, timer_in_ms, steps, failures }));
            }
        }
    }
}
