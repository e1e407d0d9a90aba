//! State of a run, and what it has used: every limit that can be counted from outside the worker is counted here.

mod calls;
mod rest;
mod steps;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use relay_proto::code::warning;
use relay_proto::wire::{OutputItem, OutputKind};
use relay_proto::{ErrorCode, LimitName, Limits, ToolName, wire};
use tokio::time::Instant;

use super::clock::{Clocks, ExpiredCall, MIN_CPU_INTERVAL};
use super::durable::{DurableRequest, Record};
use super::link::{Reader, Writer};
use super::outcome::{self, Ended, ExecutionError, Outcome};
use super::states::CallStates;
use super::stopwatch::Stopwatch;
use super::{CallFailure, Command, Event, EventSink, WorkerCall};
use crate::sandbox::channel::ChannelError;
use crate::sandbox::channel::message::{self, report::Kind as Report};
use crate::sandbox::pool::Worker;
use crate::store;

/// Maximum number of pieces of output in one message.
const MAX_OUTPUT_ITEMS: usize = 1_024;
/// Maximum number of a worker's warnings that are passed on.
const MAX_WARNINGS: usize = 16;

/// One run: its worker, its clocks and its counts.
pub(super) struct Run<'a> {
    pub(super) worker: &'a Worker,
    pub(super) writer: Writer,
    limits: Limits,
    /// Time of the run, which stands still while there is no connection. The CPU time does not.
    watch: Stopwatch,
    /// Instant of the next look at the CPU time while the clocks stand still.
    cpu_check: Instant,
    clocks: Clocks<ToolName>,
    states: Arc<CallStates>,
    /// CPU time that the worker had used before the run.
    cpu_before: Duration,
    /// Expired calls that the host is still to be told of.
    expired: Vec<(WorkerCall, LimitName)>,
    /// Calls that went to the host.
    tool_calls: u64,
    /// Calls that the worker asked for, refused ones included.
    asked_calls: u64,
    output_bytes: usize,
    output_count: u64,
    /// Output that no event carries yet: it came right before output over a limit.
    unsent: Vec<OutputItem>,
    /// Number of writes to the session's store that the worker has left.
    store_writes_left: u64,
    /// `true`: the store had no room for something that the worker wrote.
    is_store_full: bool,
    /// Record of a durable execution; `None`: it is none.
    record: Option<Record>,
}

impl<'a> Run<'a> {
    /// Starts the clocks.
    pub(super) fn new(
        worker: &'a Worker,
        limits: Limits,
        writer: Writer,
        states: Arc<CallStates>,
        store_writes_left: u64,
        stopped_for: Duration,
        durable: Option<DurableRequest>,
    ) -> Self {
        let now = Instant::now();
        Self {
            cpu_before: worker.cpu_time(),
            worker,
            writer,
            watch: Stopwatch::start(now, stopped_for),
            cpu_check: now,
            clocks: Clocks::new(&limits),
            states,
            expired: Vec::new(),
            tool_calls: 0,
            asked_calls: 0,
            output_bytes: 0,
            output_count: 0,
            unsent: Vec::new(),
            store_writes_left,
            is_store_full: false,
            record: durable.map(Record::new),
            limits,
        }
    }

    /// Returns when [`check_time`](Self::check_time) has something to do next.
    pub(super) fn next_check(&self) -> Instant {
        let next = self.watch.instant(self.clocks.next_check());
        if self.states.are_clocks_stopped() { next.min(self.cpu_check) } else { next }
    }

    fn now(&self) -> Duration {
        self.watch.time(Instant::now())
    }

    fn cpu_time(&self) -> Duration {
        self.worker.cpu_time().saturating_sub(self.cpu_before)
    }

    /// Takes one command; `None`: nobody can send one any more.
    pub(super) fn command(&mut self, command: Option<Command>) -> ControlFlow<Ended> {
        match command {
            Some(Command::Settle { call, outcome }) => {
                let now = self.now();
                // A call that has expired is settled already.
                match self.clocks.close(call, now, |call| self.states.wait(call)) {
                    Some(tool) => self.settle(call, &tool, outcome),
                    None => ControlFlow::Continue(()),
                }
            }
            Some(Command::Cancel) | None => ControlFlow::Break(Ended::cancelled()),
        }
    }

    /// Returns whether the code waits for people and for nothing else, as far as the relay knows: nothing is on its way
    /// to the worker, and of its open calls every one waits.
    pub(super) fn waits_for_people(&self) -> bool {
        !self.writer.is_pending() && self.clocks.all_wait()
    }

    /// Stops the clocks while the execution waits for a place, and continues them.
    pub(super) fn hold_clocks(&mut self, hold: bool) {
        if self.clocks.is_held() != hold {
            let now = self.now();
            self.clocks.hold(now, hold, |call| self.states.wait(call));
        }
    }

    /// Stops and continues the clocks after the host has reported states of calls, was lost, or is back.
    pub(super) fn update_clocks(&mut self) {
        let now = Instant::now();
        if self.watch.stop(now, self.states.are_clocks_stopped()) {
            // The time that stands still tells no more how much the worker can have computed.
            self.cpu_check = now;
            self.clocks.look_at_cpu();
        }
        let now = self.now();
        self.clocks.update(now, |call| self.states.wait(call));
    }

    /// Ends the run whose time is used up, and fails the calls whose time is.
    pub(super) fn check_time(&mut self) -> ControlFlow<Ended> {
        let (now, worker, before) = (self.now(), self.worker, self.cpu_before);
        let cpu_time = || worker.cpu_time().saturating_sub(before);
        if self.states.are_clocks_stopped() {
            self.clocks.look_at_cpu();
            let limit = Duration::from_millis(self.limits.get(LimitName::CpuMs));
            self.cpu_check = Instant::now() + limit.saturating_sub(cpu_time()).max(MIN_CPU_INTERVAL);
        }
        let expired = match self.clocks.check(now, cpu_time, |call| self.states.wait(call)) {
            ControlFlow::Continue(expired) => expired,
            ControlFlow::Break(limit) => {
                let code = if limit == LimitName::WallMs { ErrorCode::Timeout } else { ErrorCode::CpuLimit };
                return ControlFlow::Break(Ended::Stopped(self.limit_hit(code, limit)));
            }
        };
        for ExpiredCall { call, of: tool, limit } in expired {
            let most = self.limits.get(limit);
            let (code, message) = match limit {
                LimitName::ApprovalMs => {
                    (ErrorCode::ApprovalTimeout, format!("nobody approved the call of {tool} within {most} ms"))
                }
                _ => (ErrorCode::ToolTimeout, format!("{tool} did not answer within {most} ms")),
            };
            self.fail(call, CallFailure { code: code.into(), message })?;
            self.expired.push((call, limit));
        }
        ControlFlow::Continue(())
    }

    /// Takes an expired call that the host is to be told of; `None`: there is none left.
    pub(super) fn take_expired(&mut self) -> Option<Event> {
        let (call, limit) = self.expired.pop()?;
        let reason = match limit {
            LimitName::ApprovalMs => "approval_ms is used up",
            _ => "tool_call_ms is used up",
        };
        Some(Event::CallGivenUp { call, reason })
    }

    /// Finds out how a worker ended whose channel failed.
    pub(super) async fn lost(&self, error: ChannelError) -> Ended {
        let ChannelError::Socket(_) = error else { return error.into() };
        let signal = self.worker.ended_by().await;
        tracing::warn!(?signal, "a worker was lost");
        Ended::died(signal)
    }

    /// Takes one report, and the output that has arrived right behind output. Returns the event for the host, if any.
    pub(super) fn report(
        &mut self,
        report: Report,
        reader: &mut Reader,
        sink: &impl EventSink,
    ) -> ControlFlow<Ended, Option<Event>> {
        match report {
            Report::Call(call) => self.call(call, sink),
            Report::Output(output) => {
                let item = self.output(output)?;
                self.unsent.push(item);
                while self.unsent.len() < MAX_OUTPUT_ITEMS {
                    match reader.try_output() {
                        Ok(Some(output)) => {
                            let item = self.output(output)?;
                            self.unsent.push(item);
                        }
                        Ok(None) => break,
                        Err(error) => return ControlFlow::Break(error.into()),
                    }
                }
                let items = std::mem::take(&mut self.unsent);
                ControlFlow::Continue(Some(Event::Output(items, self.news())))
            }
            Report::Steps(it) => {
                self.take_steps(&it.steps)?;
                ControlFlow::Continue(self.much_news())
            }
            Report::Waiting(waiting) => self.waiting(&waiting).map_continue(Some),
            Report::Stored(value) => self.stored(value, sink).map_continue(|()| None),
            Report::Done(done) => ControlFlow::Break(Ended::Done(done)),
            Report::Failed(failed) => ControlFlow::Break(Ended::Failed(failed)),
            Report::Ready(_) => ControlFlow::Break(Ended::broken("it said twice that it is ready")),
        }
    }

    /// Passes a write to the session's store on.
    fn stored(&mut self, value: message::StoredValue, sink: &impl EventSink) -> ControlFlow<Ended> {
        let message::StoredValue { key, json } = value;
        // An honest worker keeps to both by itself.
        if self.store_writes_left == 0 || key.len() > store::MAX_KEY_BYTES {
            return ControlFlow::Break(Ended::broken("it wrote to the store what it may not"));
        }
        self.store_writes_left -= 1;
        let json = (!json.is_empty()).then_some(json);
        self.is_store_full |= !sink.store(key, json);
        ControlFlow::Continue(())
    }

    fn output(&mut self, output: message::Output) -> ControlFlow<Ended, OutputItem> {
        self.take_steps(&output.steps)?;
        self.output_count += 1;
        self.output_bytes += output.text.len();
        let hit = if self.output_count > self.limits.get(LimitName::OutputCount) {
            LimitName::OutputCount
        } else if self.output_bytes > self.limits.size(LimitName::OutputBytes) {
            LimitName::OutputBytes
        } else {
            let kind = i32::try_from(output.kind).ok().and_then(|kind| OutputKind::try_from(kind).ok());
            let kind = kind.unwrap_or(OutputKind::Log).into();
            return ControlFlow::Continue(OutputItem { kind, text: output.text });
        };
        ControlFlow::Break(Ended::Stopped(self.limit_hit(ErrorCode::OutputLimit, hit)))
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

    /// Tells how near the limits are, for an error.
    fn standing(&self) -> String {
        let used = [
            (LimitName::WallMs, self.clocks.wall(self.now()).as_millis()),
            (LimitName::CpuMs, self.cpu_time().as_millis()),
            (LimitName::ToolCalls, self.tool_calls.into()),
            (LimitName::OutputBytes, self.output_bytes as u128),
        ];
        let parts = used.map(|(name, used)| format!("{name} {used} of {}", self.limits.get(name)));
        format!("used: {}", parts.join(", "))
    }

    /// Makes the outcome of the run, with what it has used. `queued` is the time in which it waited for a place again.
    pub(super) fn outcome(mut self, ended: Ended, queued: Duration) -> Outcome {
        let (result, warnings, memory_bytes) = match ended {
            Ended::Done(done) => {
                self.count_local(done.local_calls);
                (self.checked_result(done.result), done.warnings, done.memory_bytes)
            }
            Ended::Failed(mut failed) => {
                self.count_local(failed.local_calls);
                let warnings = std::mem::take(&mut failed.warnings);
                let memory_bytes = failed.memory_bytes;
                (Err(outcome::reported_error(failed, || self.standing())), warnings, memory_bytes)
            }
            Ended::Stopped(error) => (Err(error), Vec::new(), 0),
        };
        let (now, micros) = (self.now(), |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
        let usage = wire::Usage {
            queue_us: micros(queued),
            wall_us: micros(self.clocks.wall(now)),
            approval_us: micros(self.clocks.approval(now).saturating_sub(queued)),
            cpu_us: micros(self.cpu_time()),
            tool_calls: self.tool_calls,
            output_bytes: self.output_bytes as u64,
            memory_bytes,
        };
        let cut =
            |it: message::Warning| wire::Warning { code: outcome::cut(it.code), message: outcome::cut(it.message) };
        let warnings = warnings.into_iter().take(MAX_WARNINGS).map(cut);
        let full = self.is_store_full.then(|| wire::Warning {
            code: warning::STORE_FULL.into(),
            message: "something was not stored: other executions of the session filled the store meanwhile".into(),
        });
        Outcome { result, usage, warnings: warnings.chain(full).collect() }
    }

    /// Adds the calls that ran in the worker, which only the worker can count.
    fn count_local(&mut self, local_calls: u64) {
        self.tool_calls = self.tool_calls.saturating_add(local_calls).min(self.limits.get(LimitName::ToolCalls));
    }

    fn checked_result(&self, result: Bytes) -> Result<Bytes, ExecutionError> {
        if result.len() > self.limits.size(LimitName::ResultBytes) {
            return Err(self.limit_hit(ErrorCode::ResultLimit, LimitName::ResultBytes));
        }
        Ok(result)
    }
}
