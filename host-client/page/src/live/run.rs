//! One run of this process as it was seen: its calls with their times, its output, its end.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use host_client_core::watch::{Excerpt, Sight};
use host_client_core::{Event, LimitName, OutputItem, RunId, Usage};

use super::micros;

/// The maximum number of calls of a run that are kept: the first ones.
const MAX_CALLS: usize = 500;
/// The maximum length of a run's code that is kept, in bytes.
const MAX_CODE_BYTES: usize = 1 << 20;
/// The maximum length of a run's output that is kept, in bytes: the newest.
const MAX_OUTPUT_BYTES: usize = 64 << 10;
/// The size that is counted for a call beside its texts, in bytes.
const CALL_BYTES: usize = 512;

/// A run of this process.
#[derive(Debug)]
pub(crate) struct LiveRun {
    /// Its name in addresses.
    pub(crate) name: Arc<str>,
    /// The durable run; `None`: it ends with its session.
    pub(crate) run: Option<RunId>,
    pub(crate) code: String,
    pub(crate) limits: Vec<(LimitName, u64)>,
    pub(crate) began: Instant,
    pub(crate) began_at: SystemTime,
    pub(crate) calls: BTreeMap<u64, LiveCall>,
    /// The number of calls that are not kept.
    pub(crate) left_out: u64,
    pub(crate) output: VecDeque<OutputItem>,
    output_bytes: usize,
    pub(crate) has_lost_output: bool,
    /// `true`: there is no connection to its relay.
    pub(crate) is_away: bool,
    /// `true`: something of it was missed.
    pub(crate) has_gaps: bool,
    /// The value, or the error's code and message; `None`: there is none yet.
    pub(crate) outcome: Option<Result<Excerpt, (String, String)>>,
    pub(crate) ended: Option<Ended>,
    /// The size of all that is kept of it, in bytes.
    pub(crate) bytes: usize,
}

/// The end of a run.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) at: Instant,
    /// The error code; `None`: it succeeded.
    pub(crate) code: Option<String>,
    pub(crate) usage: Usage,
}

/// A call of a run.
#[derive(Debug)]
pub(crate) struct LiveCall {
    pub(crate) tool: String,
    pub(crate) line: Option<usize>,
    pub(crate) arguments: Excerpt,
    pub(crate) rule: Option<Arc<str>>,
    pub(crate) decided_by: Option<String>,
    pub(crate) result: Option<Excerpt>,
    /// The error code and the message; `None`: it has not failed.
    pub(crate) error: Option<(String, String)>,
    pub(crate) requested: Instant,
    pub(crate) asked: Option<Instant>,
    pub(crate) started: Option<Instant>,
    pub(crate) ended: Option<Instant>,
}

/// A part of a call's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Policy,
    Person,
    Running,
}

impl Phase {
    /// Returns the name of its class.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::Person => "person",
            Self::Running => "running",
        }
    }

    /// Returns the phase as people read it.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Policy => "checks",
            Self::Person => "waiting for a person",
            Self::Running => "running",
        }
    }
}

impl LiveCall {
    /// Returns the state as people read it.
    pub(crate) fn state(&self) -> &'static str {
        match (self.ended, self.started, self.asked, &self.error) {
            (Some(_), _, _, None) => "answered",
            (Some(_), _, _, Some(_)) => "failed",
            (None, Some(_), _, _) => "running",
            (None, None, Some(_), _) => "waiting for approval",
            (None, None, None, _) => "called",
        }
    }

    /// Returns the phases with their beginnings and ends, up to now.
    pub(crate) fn phases(&self, now: Instant) -> Vec<(Phase, Instant, Instant)> {
        let end = self.ended.unwrap_or(now);
        let started = self.started.unwrap_or(end);
        let asked = self.asked.unwrap_or(started);
        let phases =
            [(Phase::Policy, self.requested, asked), (Phase::Person, asked, started), (Phase::Running, started, end)];
        phases.into_iter().filter(|(_, from, to)| from < to).collect()
    }
}

impl LiveRun {
    pub(crate) fn new(
        name: Arc<str>,
        (began, code): (Instant, &str),
        run: Option<RunId>,
        limits: Vec<(LimitName, u64)>,
    ) -> Self {
        let code = &code[..code.floor_char_boundary(MAX_CODE_BYTES)];
        let ago = began.elapsed();
        Self {
            bytes: code.len() + CALL_BYTES,
            code: code.to_owned(),
            name,
            run,
            limits,
            began,
            began_at: SystemTime::now().checked_sub(ago).unwrap_or(SystemTime::UNIX_EPOCH),
            calls: BTreeMap::new(),
            left_out: 0,
            output: VecDeque::new(),
            output_bytes: 0,
            has_lost_output: false,
            is_away: false,
            has_gaps: false,
            outcome: None,
            ended: None,
        }
    }

    /// Returns the state as people read it.
    pub(crate) fn status(&self) -> &'static str {
        match &self.ended {
            Some(Ended { code: None, .. }) => "done",
            Some(_) => "failed",
            None if self
                .calls
                .values()
                .any(|call| call.asked.is_some() && call.started.is_none() && call.ended.is_none()) =>
            {
                "waiting"
            }
            None => "running",
        }
    }

    /// Returns the time that it has taken so far, in µs.
    pub(crate) fn elapsed(&self, now: Instant) -> u64 {
        micros(self.began, self.ended.as_ref().map_or(now, |ended| ended.at))
    }

    /// Takes something that was seen of it.
    pub(super) fn take(&mut self, at: Instant, what: Sight) {
        match what {
            Sight::Called { call, tool, line, arguments } => self.called(at, call, (tool, line, arguments)),
            Sight::Ruled { call, rule, .. } => self.of(call, |call| call.rule = Some(rule)),
            Sight::Answered { call, result } => {
                self.bytes += result.text.len();
                self.of(call, |call| call.result = Some(result));
            }
            Sight::Outcome(outcome) => self.outcome = Some(outcome),
            Sight::Event(event) => self.event(at, event),
            _ => {}
        }
    }

    fn called(&mut self, at: Instant, call: u64, (tool, line, arguments): (String, Option<usize>, Excerpt)) {
        if self.calls.len() >= MAX_CALLS {
            self.left_out += 1;
            return;
        }
        self.bytes += tool.len() + arguments.text.len() + CALL_BYTES;
        let new = LiveCall {
            tool,
            line,
            arguments,
            rule: None,
            decided_by: None,
            result: None,
            error: None,
            requested: at,
            asked: None,
            started: None,
            ended: None,
        };
        self.calls.insert(call, new);
    }

    fn of(&mut self, call: u64, change: impl FnOnce(&mut LiveCall)) {
        if let Some(call) = self.calls.get_mut(&call) {
            change(call);
        }
    }

    fn event(&mut self, at: Instant, event: Event) {
        match event {
            Event::ToolCallAwaitingApproval { id, .. } => self.of(id, |call| call.asked = Some(at)),
            Event::ToolCallApproved { id, by, .. } => self.of(id, |call| call.decided_by = by),
            Event::ToolCallStarted { id, .. } => self.of(id, |call| call.started = Some(at)),
            Event::ToolCallFinished { id, .. } => self.of(id, |call| call.ended = Some(at)),
            Event::ToolCallFailed { id, code, message, .. } => self.failed(at, id, (code.to_string(), message)),
            Event::ToolCallDenied { id, code, reason, .. } => self.failed(at, id, (code.to_string(), reason)),
            Event::Output(item) => self.output(item),
            Event::Disconnected { .. } => self.is_away = true,
            Event::Resumed { .. } | Event::Started => self.is_away = false,
            Event::Ended { code, usage } => {
                let code = code.map(|code| code.to_string());
                self.ended = Some(Ended { at, code, usage });
            }
            _ => {}
        }
    }

    fn failed(&mut self, at: Instant, call: u64, error: (String, String)) {
        self.bytes += error.0.len() + error.1.len();
        self.of(call, |call| (call.ended, call.error) = (Some(at), Some(error)));
    }

    fn output(&mut self, item: OutputItem) {
        let size = |item: &OutputItem| item.text.len() + size_of::<OutputItem>();
        self.output_bytes += size(&item);
        self.bytes += size(&item);
        self.output.push_back(item);
        while self.output_bytes > MAX_OUTPUT_BYTES
            && let Some(oldest) = self.output.pop_front()
        {
            self.has_lost_output = true;
            self.output_bytes -= size(&oldest);
            self.bytes -= size(&oldest);
        }
    }
}
