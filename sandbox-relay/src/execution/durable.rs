//! The relay's part of a durable execution: what is recorded of it, and what is to be told to the host for its record.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::ControlFlow;

use bytes::{Bytes, BytesMut};
use relay_proto::steps::{MAX_STEP_FAILURE_BYTES, MAX_STEP_FAILURES, MAX_STEPS};
use relay_proto::{ErrorCode, wire};
use tokio::time::Instant;

use super::outcome::{Ended, ExecutionError};
use super::{CallFailure, WorkerCall};
use crate::sandbox::channel::message;

/// Maximum number of bytes of all steps that a worker reports: more than an honest one can.
const MAX_STEPS_BYTES: usize = MAX_STEPS * 20;
/// Number of bytes of steps from which on they are not kept for another message.
const MANY_BYTES: usize = 16 << 10;
/// Number of failures from which on they are not kept for another message.
const MANY_FAILURES: usize = 64;

/// The record of a durable execution, and the way it runs.
#[derive(Debug)]
pub(crate) struct DurableRequest {
    /// All recorded steps, in the encoding of `relay_proto::steps`.
    pub(crate) steps: Bytes,
    /// Calls whose answers are among the steps.
    pub(crate) answered: HashSet<WorkerCall>,
    /// Recorded failures that a relay made itself.
    pub(crate) failures: HashMap<WorkerCall, CallFailure>,
    /// Index of the newest recorded call; 0: none is.
    pub(crate) newest: WorkerCall,
    /// `true`: the execution began before.
    pub(crate) again: bool,
    /// Time for which the code waits before it is reported, in ms; 0: it is not.
    pub(crate) waiting_after_ms: u64,
    /// Real time in ms since 1970, and when it was that.
    pub(crate) clock_ms: (i64, Instant),
    /// Bytes of everything that is recorded.
    pub(crate) recorded_bytes: usize,
}

impl DurableRequest {
    /// Returns what a worker needs of it.
    pub(super) fn to_instruction(&self) -> message::Durable {
        let (clock_ms, at) = self.clock_ms;
        let passed_ms = i64::try_from(at.elapsed().as_millis()).unwrap_or(i64::MAX);
        message::Durable {
            steps: self.steps.clone(),
            waiting_after_ms: self.waiting_after_ms,
            clock_ms: clock_ms.saturating_add(passed_ms),
            again: self.again,
        }
    }
}

/// Steps and failures that the host is to record before it shows or does what comes with them.
#[derive(Debug, Default)]
pub(crate) struct News {
    pub(crate) steps: Bytes,
    pub(crate) failures: Vec<wire::StepFailure>,
}

impl News {
    /// Returns whether there is nothing to record.
    pub(crate) fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.failures.is_empty()
    }

    /// Returns the bytes of the steps and the texts.
    pub(super) fn len(&self) -> usize {
        self.steps.len() + self.failures.iter().map(|it| it.code.len() + it.message.len()).sum::<usize>()
    }
}

/// The part of its session that the code of a durable execution sees.
#[derive(Debug)]
pub(crate) struct Seen {
    /// Content of the session's store, with the binding `store`.
    pub(crate) store: BTreeMap<String, Bytes>,
    /// Full names of the tools, with the binding `servers`.
    pub(crate) tools: Vec<String>,
}

impl Seen {
    /// Returns the bytes of all of it.
    pub(super) fn len(&self) -> usize {
        let store: usize = self.store.iter().map(|(key, json)| key.len() + json.len()).sum();
        store + self.tools.iter().map(String::len).sum::<usize>()
    }
}

/// Record of a running durable execution.
#[derive(Debug)]
pub(super) struct Record {
    /// The record with which it began.
    before: DurableRequest,
    /// Steps and failures that the host is still to be told.
    steps: BytesMut,
    failures: Vec<wire::StepFailure>,
    /// Number of bytes of steps that the worker has reported.
    steps_bytes: usize,
    /// Number of calls that the relay has failed itself, before and now.
    failed: usize,
    /// Number of reports that the code waits.
    waits: usize,
}

impl Record {
    /// Begins with what is recorded, of which the worker has the steps.
    pub(super) fn new(mut before: DurableRequest) -> Self {
        // They hold on to the whole message that they came in.
        before.steps = Bytes::new();
        let failed = before.failures.len();
        Self { before, steps: BytesMut::new(), failures: Vec::new(), steps_bytes: 0, failed, waits: 0 }
    }

    /// Returns the recorded failure of a call; `None`: there is none.
    pub(super) fn failure(&self, call: WorkerCall) -> Option<&CallFailure> {
        self.before.failures.get(&call)
    }

    /// Returns whether a call is recorded, so that its tool need not exist any more.
    pub(super) fn is_recorded(&self, call: WorkerCall) -> bool {
        call.0 <= self.before.newest.0
    }

    /// Returns whether the answer of a call is among the recorded steps.
    pub(super) fn was_answered(&self, call: WorkerCall) -> bool {
        self.before.answered.contains(&call)
    }

    /// Takes steps that a worker reports.
    pub(super) fn take(&mut self, steps: &[u8]) -> ControlFlow<Ended> {
        self.steps_bytes += steps.len();
        if self.steps_bytes > MAX_STEPS_BYTES {
            return ControlFlow::Break(Ended::broken("it reported more steps than an execution can have"));
        }
        self.steps.extend_from_slice(steps);
        ControlFlow::Continue(())
    }

    /// Counts a report that the code waits.
    pub(super) fn wait(&mut self) -> ControlFlow<Ended> {
        self.waits += 1;
        // A wait ends with a step.
        if self.before.waiting_after_ms == 0 || self.waits > MAX_STEPS + 1 {
            return ControlFlow::Break(Ended::broken("it reported a wait that it need not"));
        }
        ControlFlow::Continue(())
    }

    /// Notes that the relay fails a call itself. The failure is cut to what a record may hold.
    pub(super) fn fail(&mut self, call: WorkerCall, failure: &mut CallFailure) -> ControlFlow<Ended> {
        let stop = |code, message: String| ControlFlow::Break(Ended::Stopped(ExecutionError::new(code, message)));
        if self.was_answered(call) {
            let (code, message) = (&failure.code, &failure.message);
            let text = format!("call {}, which was answered before, failed this time with {code}: {message}", call.0);
            return stop(ErrorCode::ReplayDiverged, text);
        }
        self.failed += 1;
        if self.failed > MAX_STEP_FAILURES {
            let text = format!("more than {MAX_STEP_FAILURES} calls of a durable execution were refused or timed out");
            return stop(ErrorCode::EvalError, text);
        }
        failure.message.truncate(failure.message.floor_char_boundary(MAX_STEP_FAILURE_BYTES));
        let (code, message) = (failure.code.as_str().into(), failure.message.clone());
        self.failures.push(wire::StepFailure { call: call.0, code, message });
        ControlFlow::Continue(())
    }

    /// Returns whether so much is to be told that it is not kept for another message.
    pub(super) fn has_much_news(&self) -> bool {
        self.steps.len() >= MANY_BYTES || self.failures.len() >= MANY_FAILURES
    }

    /// Takes what the host is to be told.
    pub(super) fn news(&mut self) -> News {
        News { steps: self.steps.split().freeze(), failures: std::mem::take(&mut self.failures) }
    }
}
