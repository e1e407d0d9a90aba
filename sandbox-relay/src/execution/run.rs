//! The state of a run, and what it has used: every limit that can be counted from outside is counted here.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use relay_proto::code::warning;
use relay_proto::wire::{OutputItem, OutputKind};
use relay_proto::{ErrorCode, LimitName, Limits, ToolName, wire};
use rustix::process::Signal;
use tokio::time::Instant;

use super::link::{MAX_WAITING_BYTES, Reader, Writer};
use super::states::Wait;
use super::{CallFailure, CallStates, Command, Event, EventSink, ExecutionError, Outcome, WorkerCall};
use crate::sandbox::channel::ChannelError;
use crate::sandbox::channel::message::{self, instruction::Kind as Instruction, report::Kind as Report};
use crate::sandbox::pool::Worker;
use crate::store;

/// The most pieces of output in one message.
const MAX_OUTPUT_ITEMS: usize = 1_024;

/// The most warnings of a worker's that are passed on.
const MAX_WARNINGS: usize = 16;

/// All waiting for approvals of one execution may take this many times as long as one approval: a worker and its place are held
/// meanwhile.
const APPROVALS_IN_ALL: u32 = 4;
/// Longer than any execution.
const NEVER: Duration = Duration::from_secs(400 * 24 * 3_600);

/// What ended a run: the worker's word, or ours.
pub(super) enum Ended {
    Done(message::Done),
    Failed(message::Failed),
    Stopped(ExecutionError),
}

/// Why a worker that broke off did so, as far as the system knows.
pub(super) fn died(signal: Option<Signal>) -> &'static str {
    match signal {
        Some(Signal::SYS) => "the worker process was ended: the code tried what the sandbox forbids",
        Some(Signal::KILL) => "the worker process was killed, most likely because the machine ran out of memory",
        Some(_) => "the worker process crashed",
        None => "the worker process ended without an answer",
    }
}

pub(super) fn lost(error: &ChannelError) -> Ended {
    Ended::Stopped(match error {
        ChannelError::Socket(_) => ExecutionError::new(ErrorCode::WorkerLost, died(None)),
        ChannelError::TooLong(_) | ChannelError::Undecodable(_) => {
            ExecutionError::new(ErrorCode::WorkerLost, format!("the worker was stopped: {error}"))
        }
    })
}

pub(super) fn broken(what: &str) -> Ended {
    Ended::Stopped(ExecutionError::new(ErrorCode::WorkerLost, format!("the worker was stopped: {what}")))
}

pub(super) fn cancelled() -> Ended {
    Ended::Stopped(ExecutionError::new(ErrorCode::Cancelled, "the execution was cancelled"))
}

struct OpenCall {
    /// Its own, or that of its approval.
    deadline: Instant,
    tool: ToolName,
    /// While it waits for a person: how much of its own time is left.
    left: Option<Duration>,
    /// Since when its question has been open.
    asked_since: Option<Instant>,
    /// How long it may still await approval, however often the host changes its mind.
    approval_left: Duration,
}

/// The state of a run, and what it has used.
pub(super) struct Run {
    worker: Worker,
    pub(super) writer: Writer,
    limits: Limits,
    started: Instant,
    wall_deadline: Instant,
    states: Arc<CallStates>,
    /// Since when the wall's clock has stood still, because a call awaits approval.
    paused: Option<Instant>,
    approval: Duration,
    cpu_before: Duration,
    cpu_check: Instant,
    open: HashMap<WorkerCall, OpenCall>,
    first_call_deadline: Option<Instant>,
    given_up: Vec<(WorkerCall, ErrorCode)>,
    tool_calls: u64,
    /// Calls that the worker asked for, those included that were refused here.
    asked_calls: u64,
    output_bytes: usize,
    output_count: u64,
    /// How often it may still write to the session's store.
    store_writes: u64,
    /// Whether something that it wrote there had no room.
    is_store_full: bool,
}

impl Run {
    pub(super) fn new(
        worker: Worker,
        limits: Limits,
        writer: Writer,
        states: Arc<CallStates>,
        has_store: bool,
    ) -> Self {
        let started = Instant::now();
        let after = |name| started + Duration::from_millis(limits.get(name));
        Self {
            cpu_before: worker.cpu_time(),
            writer,
            started,
            wall_deadline: after(LimitName::WallMs),
            states,
            paused: None,
            approval: Duration::ZERO,
            cpu_check: after(LimitName::CpuMs),
            open: HashMap::new(),
            first_call_deadline: None,
            given_up: Vec::new(),
            tool_calls: 0,
            asked_calls: 0,
            output_bytes: 0,
            output_count: 0,
            store_writes: if has_store { store::MAX_WRITES } else { 0 },
            is_store_full: false,
            worker,
            limits,
        }
    }

    pub(super) fn next_check(&self) -> Instant {
        let check = match self.paused {
            Some(since) => self.cpu_check.min(self.pause_ends(since)),
            None => self.cpu_check.min(self.wall_deadline),
        };
        self.first_call_deadline.map_or(check, |call| check.min(call))
    }

    fn cpu_time(&self) -> Duration {
        self.worker.cpu_time().saturating_sub(self.cpu_before)
    }

    pub(super) fn command(&mut self, command: Option<Command>) -> Option<Ended> {
        match command {
            Some(Command::Settle { call, outcome }) => {
                // A call that was given up meanwhile is settled already.
                if let Some(OpenCall { tool, left, .. }) = self.open.remove(&call) {
                    let outcome = self.bounded(&tool, outcome);
                    self.writer.put(settle(call, outcome));
                    if left.is_some() {
                        self.look_at_states();
                    }
                }
                None
            }
            Some(Command::Cancel) | None => Some(cancelled()),
        }
    }

    fn bounded(&self, tool: &ToolName, outcome: Result<Bytes, CallFailure>) -> Result<Bytes, CallFailure> {
        let result = outcome?;
        let limit = self.limits.size(LimitName::ToolResultBytes);
        if result.len() > limit {
            let message =
                format!("the result of {tool} has {} bytes; the limit tool_result_bytes is {limit}", result.len());
            return Err(CallFailure { code: ErrorCode::ToolResultLimit.into(), message });
        }
        if self.writer.pending.len() + result.len() > MAX_WAITING_BYTES {
            let message =
                format!("the result of {tool} was dropped: the code is busy and too many results wait for it");
            return Err(CallFailure { code: ErrorCode::ToolResultLimit.into(), message });
        }
        Ok(result)
    }

    /// Stops and continues the clocks as the states of the calls are now.
    pub(super) fn look_at_states(&mut self) {
        let now = Instant::now();
        let may_wait = self.pause_ends(now) > now;
        let mut waits = false;
        for (call, open) in &mut self.open {
            let wait = self.states.wait(*call).filter(|_| may_wait);
            if let Some(since) = open.asked_since.take() {
                open.approval_left = open.approval_left.saturating_sub(now - since);
            }
            match (wait, open.left) {
                (Some(_), None) => open.left = Some(open.deadline.saturating_duration_since(now)),
                (None, Some(left)) => {
                    open.left = None;
                    open.deadline = now + left;
                }
                _ => {}
            }
            if let Some(wait) = wait {
                waits = true;
                open.deadline = match wait {
                    // The end of all waiting is looked at apart.
                    Wait::Turn => now + NEVER,
                    Wait::Answer => now + open.approval_left,
                };
                open.asked_since = (wait == Wait::Answer).then_some(now);
            }
        }
        self.first_call_deadline = self.open.values().map(|open| open.deadline).min();
        match self.paused {
            None if waits => self.paused = Some(now),
            Some(since) if !waits => {
                self.paused = None;
                self.approval += now - since;
                self.wall_deadline += now - since;
            }
            _ => {}
        }
    }

    /// When all waiting of this execution together has taken what it may.
    fn pause_ends(&self, now: Instant) -> Instant {
        let most = Duration::from_millis(self.limits.get(LimitName::ApprovalMs)) * APPROVALS_IN_ALL;
        self.paused.unwrap_or(now) + most.saturating_sub(self.approval)
    }

    /// Waiting for approvals, so far.
    fn approval(&self) -> Duration {
        self.approval + self.paused.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// The time that counts as the execution's own.
    fn wall(&self) -> Duration {
        self.started.elapsed().saturating_sub(self.approval())
    }

    /// Looks at the clocks: the wall's, the CPU's, and those of the open calls.
    pub(super) fn check_time(&mut self) -> Option<Ended> {
        let now = Instant::now();
        if self.paused.is_some_and(|since| now >= self.pause_ends(since)) {
            self.look_at_states();
        }
        if self.paused.is_none() && now >= self.wall_deadline {
            return Some(Ended::Stopped(self.limit_hit(ErrorCode::Timeout, LimitName::WallMs)));
        }
        if now >= self.cpu_check {
            let limit = Duration::from_millis(self.limits.get(LimitName::CpuMs));
            let left = limit.saturating_sub(self.cpu_time());
            if left.is_zero() {
                return Some(Ended::Stopped(self.limit_hit(ErrorCode::CpuLimit, LimitName::CpuMs)));
            }
            // One thread cannot use more CPU than time passes.
            self.cpu_check = now + left.max(Duration::from_millis(1));
        }
        if self.first_call_deadline.is_some_and(|deadline| now >= deadline) {
            self.give_up_calls(now);
        }
        None
    }

    fn give_up_calls(&mut self, now: Instant) {
        let expired: Vec<_> =
            self.open.iter().filter(|(_, open)| open.deadline <= now).map(|(call, _)| *call).collect();
        for call in expired {
            if let Some(OpenCall { tool, left, .. }) = self.open.remove(&call) {
                let (code, message) = if left.is_some() {
                    let limit = self.limits.get(LimitName::ApprovalMs);
                    (ErrorCode::ApprovalTimeout, format!("nobody approved the call of {tool} within {limit} ms"))
                } else {
                    let limit = self.limits.get(LimitName::ToolCallMs);
                    (ErrorCode::ToolTimeout, format!("{tool} did not answer within {limit} ms"))
                };
                self.writer.put(settle(call, Err(CallFailure { code: code.into(), message })));
                self.given_up.push((call, code));
            }
        }
        self.look_at_states();
    }

    /// What to tell of a worker that is not heard any more.
    pub(super) async fn lost(&self, error: &ChannelError) -> Ended {
        let ChannelError::Socket(_) = error else { return lost(error) };
        let signal = self.worker.ended_by().await;
        tracing::warn!(?signal, "a worker was lost");
        Ended::Stopped(ExecutionError::new(ErrorCode::WorkerLost, died(signal)))
    }

    pub(super) fn given_up(&mut self) -> Option<Event> {
        let (call, code) = self.given_up.pop()?;
        let reason = match code {
            ErrorCode::ApprovalTimeout => "approval_ms is used up",
            _ => "tool_call_ms is used up",
        };
        Some(Event::CallGivenUp { call, reason })
    }

    /// Takes what the worker said, and what it said right after it where that can go together.
    pub(super) fn report(
        &mut self,
        report: Report,
        reader: &mut Reader,
        sink: &impl EventSink,
    ) -> Result<Option<Event>, Ended> {
        match report {
            Report::Call(call) => self.call(call, sink),
            Report::Output(output) => {
                let mut items = vec![self.output(output)?];
                while items.len() < MAX_OUTPUT_ITEMS
                    && let Some(output) = reader.try_output().map_err(|error| lost(&error))?
                {
                    items.push(self.output(output)?);
                }
                Ok(Some(Event::Output(items)))
            }
            Report::Stored(message::StoredValue { key, json }) => {
                // A worker that is what it should be counts, too.
                if self.store_writes == 0 || key.len() > store::MAX_KEY_BYTES {
                    return Err(broken("it wrote to the store what it may not"));
                }
                self.store_writes -= 1;
                let json = (!json.is_empty()).then_some(json);
                self.is_store_full |= !sink.store(key, json);
                Ok(None)
            }
            Report::Done(done) => Err(Ended::Done(done)),
            Report::Failed(failed) => Err(Ended::Failed(failed)),
            Report::Ready(_) => Err(broken("it said twice that it is ready")),
        }
    }

    fn call(&mut self, call: message::Call, sink: &impl EventSink) -> Result<Option<Event>, Ended> {
        let number = WorkerCall(call.call);
        self.asked_calls += 1;
        // A worker that is what it should be stops by itself.
        if self.asked_calls > self.limits.get(LimitName::ToolCalls) {
            return Err(broken("it sent calls that its limits do not allow"));
        }
        if self.open.contains_key(&number) || self.open.len() >= self.limits.size(LimitName::ToolCallsInFlight) {
            return Err(broken("it sent calls that its limits do not allow"));
        }
        let checked = ToolName::try_from(call.tool)
            .map_err(|error| CallFailure { code: ErrorCode::InvalidToolName.into(), message: error.to_string() })
            .and_then(|tool| self.check_call(tool, &call.arguments, sink));
        let tool = match checked {
            Ok(tool) => tool,
            Err(failure) => {
                self.writer.put(settle(number, Err(failure)));
                return Ok(None);
            }
        };
        self.tool_calls += 1;
        let now = Instant::now();
        let wall_left = self.wall_deadline.saturating_duration_since(self.paused.unwrap_or(now));
        let remaining = Duration::from_millis(self.limits.get(LimitName::ToolCallMs)).min(wall_left);
        // A call has its own limit; where the execution ends before it, that ends the call too.
        let deadline = now + Duration::from_millis(self.limits.get(LimitName::ToolCallMs));
        let approval_left = Duration::from_millis(self.limits.get(LimitName::ApprovalMs));
        self.open
            .insert(number, OpenCall { deadline, tool: tool.clone(), left: None, asked_since: None, approval_left });
        // A later look corrects what was answered.
        self.first_call_deadline = Some(self.first_call_deadline.map_or(deadline, |first| first.min(deadline)));
        Ok(Some(Event::Call { call: number, tool, arguments: call.arguments, remaining }))
    }

    fn check_call(&self, tool: ToolName, arguments: &[u8], sink: &impl EventSink) -> Result<ToolName, CallFailure> {
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
        sink.check_tool(&tool)?;
        Ok(tool)
    }

    fn output(&mut self, output: message::Output) -> Result<OutputItem, Ended> {
        self.output_count += 1;
        self.output_bytes += output.text.len();
        if self.output_count > self.limits.get(LimitName::OutputCount) {
            return Err(Ended::Stopped(self.limit_hit(ErrorCode::OutputLimit, LimitName::OutputCount)));
        }
        if self.output_bytes > self.limits.size(LimitName::OutputBytes) {
            return Err(Ended::Stopped(self.limit_hit(ErrorCode::OutputLimit, LimitName::OutputBytes)));
        }
        let kind = i32::try_from(output.kind).ok().and_then(|kind| OutputKind::try_from(kind).ok());
        Ok(OutputItem { kind: kind.unwrap_or(OutputKind::Log).into(), text: output.text })
    }

    fn limit_hit(&self, code: ErrorCode, limit: LimitName) -> ExecutionError {
        let value = self.limits.get(limit);
        let hint = match limit {
            LimitName::WallMs => "await independent calls together with Promise.all, or ask for a higher limit",
            LimitName::CpuMs => "do less work in the code, or look for a loop that does not end",
            _ => "",
        };
        ExecutionError {
            limit: Some(limit),
            hint: hint.into(),
            ..ExecutionError::new(code, format!("the limit {limit} of {value} is used up ({})", self.standing()))
        }
    }

    /// How near each limit is.
    fn standing(&self) -> String {
        let used = [
            (LimitName::WallMs, self.wall().as_millis()),
            (LimitName::CpuMs, self.cpu_time().as_millis()),
            (LimitName::ToolCalls, self.tool_calls.into()),
            (LimitName::OutputBytes, self.output_bytes as u128),
        ];
        let parts = used.map(|(name, used)| format!("{name} {used} of {}", self.limits.get(name)));
        format!("used: {}", parts.join(", "))
    }

    pub(super) fn outcome(mut self, ended: Ended) -> (Outcome, Worker) {
        // What ran in the worker only the worker can count.
        let counted =
            |here: u64, limits: &Limits, local: u64| here.saturating_add(local).min(limits.get(LimitName::ToolCalls));
        let (result, warnings, memory_bytes) = match ended {
            Ended::Done(done) => {
                self.tool_calls = counted(self.tool_calls, &self.limits, done.local_calls);
                (self.checked_result(done.result), done.warnings, done.memory_bytes)
            }
            Ended::Failed(mut failed) => {
                self.tool_calls = counted(self.tool_calls, &self.limits, failed.local_calls);
                let warnings = std::mem::take(&mut failed.warnings);
                let memory_bytes = failed.memory_bytes;
                (Err(self.reported_error(failed)), warnings, memory_bytes)
            }
            Ended::Stopped(error) => (Err(error), Vec::new(), 0),
        };
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let usage = wire::Usage {
            queue_us: 0,
            wall_us: micros(self.wall()),
            approval_us: micros(self.approval()),
            cpu_us: micros(self.cpu_time()),
            tool_calls: self.tool_calls,
            output_bytes: self.output_bytes as u64,
            memory_bytes,
        };
        let warnings = warnings.into_iter().take(MAX_WARNINGS);
        let warnings = warnings.map(|it| wire::Warning { code: short(it.code), message: short(it.message) });
        let full = self.is_store_full.then(|| wire::Warning {
            code: warning::STORE_FULL.into(),
            message: "something was not stored: other executions of the session filled the store meanwhile".into(),
        });
        (Outcome { result, usage, warnings: warnings.chain(full).collect() }, self.worker)
    }

    fn checked_result(&self, result: Bytes) -> Result<Bytes, ExecutionError> {
        if result.len() > self.limits.size(LimitName::ResultBytes) {
            return Err(self.limit_hit(ErrorCode::ResultLimit, LimitName::ResultBytes));
        }
        Ok(result)
    }

    /// What the worker reports, as far as it is a worker's to report.
    fn reported_error(&self, failed: message::Failed) -> ExecutionError {
        let code = match failed.code.parse() {
            Ok(
                code @ (ErrorCode::SyntaxError
                | ErrorCode::EvalError
                | ErrorCode::MemoryLimit
                | ErrorCode::OutputLimit
                | ErrorCode::ResultLimit
                | ErrorCode::NotSerializable
                | ErrorCode::Unsettled
                | ErrorCode::Internal),
            ) => code,
            _ => return ExecutionError::new(ErrorCode::WorkerLost, "the worker ended with an answer of no meaning"),
        };
        let limit: Option<LimitName> = failed.limit.parse().ok();
        let message = match limit {
            Some(_) => format!("{} ({})", short(failed.message), self.standing()),
            None => short(failed.message),
        };
        ExecutionError {
            code,
            message,
            limit,
            line: failed.line,
            column: failed.column,
            hint: short(failed.hint),
            tool: short(failed.tool),
            tool_code: short(failed.tool_code),
        }
    }
}

/// A text from a worker, no longer than an error may be.
fn short(mut text: String) -> String {
    const MOST: usize = 8 << 10;
    text.truncate(text.floor_char_boundary(MOST));
    text
}

fn settle(call: WorkerCall, outcome: Result<Bytes, CallFailure>) -> Instruction {
    let (result, failure) = match outcome {
        Ok(result) => (result, None),
        Err(CallFailure { code, message }) => {
            (Bytes::new(), Some(message::CallFailure { code: code.as_str().into(), message: short(message) }))
        }
    };
    Instruction::Settle(message::Settle { call: call.0, result, failure })
}
