//! The session's end of one execution: waiting for its turn, its events as messages, its outcome.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;

use super::{HeldSource, SessionGrant, Shared};
use crate::execution::{
    self, CallFailure, Control, Event, EventSink, ExecutionError, ExecutionRequest, Outcome, WorkerCall,
};
use crate::outbound::Room;
use bytes::Bytes;
use futures_util::FutureExt;
use relay_proto::wire::message::Payload;
use relay_proto::{
    BASIC_SERVER, CallId, ErrorCode, ExecutionId, INTROSPECTION_SERVER, INTROSPECTION_TOOLS, ToolName, ToolPatterns,
    TraceContext, wire,
};

/// Waits for its turn, runs, and answers.
pub(super) async fn run_execution(
    mut sink: SessionSink,
    mut request: ExecutionRequest,
    mut control: Control,
    clamped: Vec<wire::Warning>,
    held: HeldSource,
) {
    let shared = Arc::clone(&sink.shared);
    let jit = sink.grant.jit;
    let queued = Instant::now();
    let admitted = async {
        let permit = shared.app.admission.admit(Arc::clone(&shared.subject), shared.number).await;
        let permit = permit.map_err(|error| ExecutionError::new(ErrorCode::Overloaded, error.to_string()))?;
        let pool = match &shared.app.jit_pool {
            Some(pool) if jit => pool,
            _ => &shared.app.pool,
        };
        let worker = pool.take().await;
        let mut worker = worker.map_err(|error| ExecutionError::new(ErrorCode::Overloaded, error.to_string()))?;
        // The place is free when the process is gone and its outcome is on its way, whichever is later.
        let permit = Arc::new(permit);
        worker.hold(Arc::clone(&permit));
        Ok((worker, permit))
    };
    let admitted = tokio::select! {
        biased;
        admitted = admitted => admitted,
        // Nothing but the end of the session or a cancel can come while no call was made.
        _ = control.commands.recv() => Err(ExecutionError::new(ErrorCode::Cancelled, "the execution was cancelled")),
    };
    let queue_us = u64::try_from(queued.elapsed().as_micros()).unwrap_or(u64::MAX);
    let (mut outcome, worker) = match admitted {
        Ok((worker, permit)) => {
            // From here on the worker holds the source.
            drop(held);
            sink.complete(&mut request).await;
            let _fair = shared.app.fairness.enter(&shared.subject, &worker);
            let (outcome, worker) = execution::run(worker, request, control, &mut sink).await;
            (outcome, Some((worker, permit)))
        }
        Err(error) => (Outcome { result: Err(error), usage: wire::Usage::default(), warnings: Vec::new() }, None),
    };
    outcome.usage.queue_us = queue_us;
    outcome.warnings.splice(0..0, clamped);
    // The host gets its answer first: ending a process takes as long as a small execution. But a host that does not read
    // keeps no worker alive.
    let (worker, _place) = worker.unzip();
    let mut ending = pin!(sink.end(outcome));
    if ending.as_mut().now_or_never().is_none() {
        drop(worker);
        ending.await;
    } else {
        tokio::task::yield_now().await;
        drop(worker);
    }
}

/// The session's end of one execution.
pub(super) struct SessionSink {
    pub(super) shared: Arc<Shared>,
    /// What the token allowed when it began.
    pub(super) grant: Arc<SessionGrant>,
    /// The tools that this execution was given.
    pub(super) only: ToolPatterns,
    /// Whether it may ask its host about the tools.
    pub(super) introspects: bool,
    /// How often a failure still says what was probably meant.
    pub(super) suggestions: AtomicU8,
    pub(super) id: ExecutionId,
    /// The trace that its calls belong to.
    pub(super) traceparent: Option<TraceContext>,
    /// The peer said no hello: short names, no ids, nothing cancelled.
    pub(super) basic: bool,
}

/// How many failures of one execution say what was probably meant.
pub(super) const SUGGESTIONS: u8 = 8;

impl SessionSink {
    /// Adds what the session knows, as it is when the code begins.
    async fn complete(&self, request: &mut ExecutionRequest) {
        if !self.basic {
            let (tools, grant, only) = (self.shared.tools(), Arc::clone(&self.grant), self.only.clone());
            let names = move || tools.names(|tool| grant.tools.allow(tool) && only.allow(tool));
            request.tools = if self.only.are_all() && self.grant.tools.are_all() {
                names()
            } else {
                // Many names against many patterns take a while, and others wait for this thread.
                tokio::task::spawn_blocking(names).await.unwrap_or_default()
            };
        }
        if request.bindings.store {
            let copy = |(key, json): (&String, &Bytes)| (key.clone(), json.clone());
            request.stored = self.shared.store().iter().map(copy).collect();
        }
    }

    fn is_allowed(&self, tool: &ToolName) -> bool {
        self.grant.tools.allow(tool) && self.only.allow(tool)
    }

    fn execution_id(&self) -> String {
        if self.basic { String::new() } else { self.id.as_str().to_owned() }
    }

    /// Tells the host how it ended, and forgets the execution.
    async fn end(self, outcome: Outcome) {
        // Calls whose answers are still awaited are given up: nobody reads those answers any more.
        let of_this = |_: &CallId, (execution, _): &mut (ExecutionId, WorkerCall)| *execution == self.id;
        let open: Vec<_> = self.shared.lock().calls.extract_if(of_this).map(|(call, _)| call).collect();
        for call in open {
            let Some(room) = self.shared.outbound.reserve(0).await else { return };
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
        let room = self.shared.outbound.reserve(weight).await;
        // It counts as running until its outcome is queued: a host that does not read gets no more of them.
        {
            let mut state = self.shared.lock();
            state.executions.remove(&self.id);
            if !self.basic {
                state.remember(self.id.clone());
            }
        }
        if let Some(room) = room {
            room.send(payload);
        }
        self.shared.ended.notify_waiters();
    }

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

    fn check_tool(&self, tool: &ToolName) -> Result<(), CallFailure> {
        let fail = |code: ErrorCode, message: String| Err(CallFailure { code: code.into(), message });
        if self.basic {
            return match (tool.server() == BASIC_SERVER, self.is_allowed(tool)) {
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
        let is_free = self.grant.tools.are_all() && self.only.are_all();
        let is_allowed = |tool: &ToolName| self.is_allowed(tool);
        // It costs a comparison with every name: code that fails on and on gets it a few times.
        let suggests = self.suggestions.load(Ordering::Relaxed) > 0;
        let checked = self.shared.tools().check(tool, is_allowed, is_free, suggests);
        if checked.is_err() && suggests {
            self.suggestions.fetch_sub(1, Ordering::Relaxed);
        }
        checked
    }

    fn store(&self, key: String, json: Option<Bytes>) -> bool {
        self.shared.store().put(key, json)
    }

    fn reserve(&self, weight: usize) -> impl Future<Output = Option<Room>> + Send {
        self.shared.outbound.reserve(weight)
    }

    fn send(&mut self, room: Room, event: Event) {
        match event {
            Event::Call { call: worker_call, tool, arguments, remaining } => {
                let id = {
                    let mut state = self.shared.lock();
                    state.last_call += 1;
                    let id = CallId(state.last_call);
                    state.calls.insert(id, (self.id.clone(), worker_call));
                    id
                };
                room.send(Payload::ToolCall(wire::ToolCall {
                    id: id.to_string(),
                    tool: if self.basic { tool.tool().to_owned() } else { tool.as_str().to_owned() },
                    arguments,
                    execution_id: self.execution_id(),
                    remaining_ms: u64::try_from(remaining.as_millis()).unwrap_or(u64::MAX),
                    traceparent: self.traceparent.map(|trace| trace.to_string()).unwrap_or_default(),
                }));
            }
            Event::CallGivenUp { call, reason } => {
                let given_up = |_: &CallId, (execution, open): &mut (ExecutionId, WorkerCall)| {
                    *execution == self.id && *open == call
                };
                let id = {
                    let mut state = self.shared.lock();
                    if let Some(live) = state.executions.get(&self.id) {
                        live.states.forget(call);
                    }
                    state.calls.extract_if(given_up).next()
                };
                if let Some((id, _)) = id {
                    self.send_cancel(room, id, reason);
                }
            }
            Event::Output(items) => {
                room.send(Payload::Output(wire::Output { execution_id: self.execution_id(), items }));
            }
        }
    }
}
