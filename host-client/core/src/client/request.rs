//! Requests to run code, with the bindings, limits and rules of one execution.

use std::collections::BTreeMap;
use std::sync::Arc;

use relay_proto::time::millis;
use relay_proto::{ExecutionId, LimitName, LimitOverrides, TraceContext, wire};
use serde::{Deserialize, Serialize};

use crate::call::run::DurableRun;
use crate::rules::approval::Approver;
use crate::rules::policy::Phase;

/// The bindings that code of a model has beside `mcp`, as far as the relay offers them: models use these without being
/// told.
pub const MODEL_BINDINGS: [&str; 4] = ["console", "timers", "servers", "introspection"];

/// Action on code that is certain to fail: it calls a tool that does not exist or may not be called, passes arguments
/// that do not fit the tool's schema, or uses the Promise of a call as its result. The host finds such mistakes without
/// running the code, if it has the feature `short-path`, and reports only those that nothing around the call could
/// prevent or handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Check {
    /// The code does not run: the execution ends with `CHECK_FAILED`, which names all mistakes. This is the default.
    #[default]
    Refuse,
    /// The code runs, and its mistakes are among the warnings of the outcome.
    Warn,
    /// The code is not checked.
    Off,
}

/// The form in which code gets an integer of a tool that is over 2^53 and would change as a number, such as
/// 9007199254740993.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LargeIntegers {
    /// The nearest number, with the warning `VALUE_CHANGED`. This is the default.
    #[default]
    Number,
    /// A string of its digits.
    Text,
    /// A `BigInt`, which has no JSON form: the code has to convert it before it returns it. An integer of more than 1,000
    /// digits, and all others of its result, are numbers, with the warning.
    BigInt,
}

/// A request to run code, with the bindings, limits and rules of its execution.
#[derive(Clone)]
pub struct ExecuteRequest {
    /// JavaScript, in any of the forms that the relay takes.
    pub code: String,
    /// The limits that are to be lower than the session's; none by default.
    pub limits: LimitOverrides,
    /// The names of the bindings that the code has beside `mcp`; `console` by default.
    pub bindings: Vec<String>,
    /// The names of further bindings, of which the code gets those that the relay offers; none by default. Unlike here,
    /// asking for a binding that is not offered in [`bindings`](Self::bindings) is an error.
    pub bindings_if_offered: Vec<String>,
    /// The text that `read_input()` returns, with the binding `io`; empty by default.
    pub input: String,
    /// The patterns of the tools that the code may call, such as `github.*`; `None`, the default: all tools of the
    /// client.
    pub tools: Option<Vec<String>>,
    /// The phase, which decides whether the policy offers only tools that read; `None`, the default: its rules alone
    /// decide.
    pub phase: Option<Phase>,
    /// The approver that is asked about its calls; `None`, the default: the host's approver.
    pub approver: Option<Arc<dyn Approver>>,
    /// The trace and the span that the execution belongs to; `None`, the default: those of the current span if spans
    /// are exported, else a new trace.
    pub trace: Option<TraceContext>,
    /// The seed of `Math.random`; `None`, the default: a fresh one.
    pub seed: Option<u64>,
    /// The time at which the code's clock begins, in ms since 1970; `None`, the default: the present.
    pub now_ms: Option<i64>,
    /// The form in which the code gets integers of tools that no number holds; [`LargeIntegers::Number`] by default.
    pub large_integers: LargeIntegers,
    /// `true`, the default: code that is no more than one tool call may run on this host, without a sandbox.
    pub short_paths: bool,
    /// The action on code that is certain to fail; [`Check::Refuse`] by default.
    pub check: Check,
    /// The sources of functions that run beside the code in the sandbox, by the name after `local.`; none by default.
    pub local_tools: BTreeMap<String, String>,
}

/// The execution of a durable run's code.
#[derive(Clone)]
pub(crate) struct DurableAttempt {
    pub(crate) run: Arc<dyn DurableRun>,
    /// The record of the executions before, which the relay replays.
    pub(crate) history: wire::Durable,
}

impl std::fmt::Debug for ExecuteRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExecuteRequest").field("code", &self.code).field("tools", &self.tools).finish_non_exhaustive()
    }
}

impl ExecuteRequest {
    /// Creates a request with the session's limits and the binding `console`.
    pub fn new(code: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            limits: LimitOverrides::default(),
            bindings: vec!["console".into()],
            bindings_if_offered: Vec::new(),
            input: String::new(),
            tools: None,
            phase: None,
            approver: None,
            trace: None,
            seed: None,
            now_ms: None,
            large_integers: LargeIntegers::default(),
            local_tools: BTreeMap::new(),
            short_paths: true,
            check: Check::default(),
        }
    }

    /// Creates a request for code that a model wrote, with the session's limits and those of [`MODEL_BINDINGS`] that
    /// the relay offers.
    pub fn for_model(code: impl Into<String>) -> Self {
        let bindings_if_offered = MODEL_BINDINGS.map(Into::into).into();
        Self { bindings: Vec::new(), bindings_if_offered, ..Self::new(code) }
    }

    /// Runs the code in the sandbox in any case, unchecked. Otherwise code that is no more than one tool call may run on
    /// this host, with the same outcome, and code that is certain to fail is refused.
    #[must_use]
    pub fn always_in_sandbox(mut self) -> Self {
        self.short_paths = false;
        self.check = Check::Off;
        self
    }

    /// Sets what is done about code that is certain to fail. Default: [`Check::Refuse`].
    #[must_use]
    pub fn check(mut self, check: Check) -> Self {
        self.check = check;
        self
    }

    /// Makes the outcome the same whenever the same code gets the same tool results: `Math.random` begins with `seed`, and the
    /// clock with `now_ms`, in ms since 1970. That clock stands still but for timers, which take no time, and results come to
    /// the code in the order of its calls.
    #[must_use]
    pub fn repeatable(mut self, seed: u64, now_ms: i64) -> Self {
        (self.seed, self.now_ms) = (Some(seed), Some(now_ms));
        self
    }

    /// Sets the form in which the code gets integers of tools over 2^53 that would change as numbers. Default:
    /// [`LargeIntegers::Number`]. Another form needs a relay that offers it.
    #[must_use]
    pub fn large_integers(mut self, form: LargeIntegers) -> Self {
        self.large_integers = form;
        self
    }

    /// Sends along a function that runs beside the code, as `mcp.call("local.NAME", args)`, without a round trip to the
    /// host. It is JavaScript or TypeScript: one function of one argument. What it does counts as the code's: it passes
    /// no policy, no schema and no audit.
    #[must_use]
    pub fn local_tool(mut self, name: impl Into<String>, source: impl Into<String>) -> Self {
        self.local_tools.insert(name.into(), source.into());
        self
    }

    /// Lets the code call only tools that one of these patterns fits, such as `github.*`. The host and the relay both
    /// check it.
    #[must_use]
    pub fn tools<S: Into<String>>(mut self, patterns: impl IntoIterator<Item = S>) -> Self {
        self.tools = Some(patterns.into_iter().map(Into::into).collect());
        self
    }

    /// Offers the code only the tools of one of the policy's phases.
    #[must_use]
    pub fn phase(mut self, phase: Phase) -> Self {
        self.phase = Some(phase);
        self
    }

    /// Sets the approver that is asked about its calls, in the place of the host's.
    #[must_use]
    pub fn approver(mut self, approver: impl Approver) -> Self {
        self.approver = Some(Arc::new(approver));
        self
    }

    /// Sets the trace and the span that the execution belongs to.
    #[must_use]
    pub fn trace(mut self, parent: TraceContext) -> Self {
        self.trace = Some(parent);
        self
    }

    /// Lowers a limit, in the unit of its name.
    #[must_use]
    pub fn limit(mut self, name: LimitName, value: u64) -> Self {
        self.limits.set(name, value);
        self
    }

    /// Lowers the limit `wall_ms`: from the hand-over to a worker until the end, without waiting for approvals. Parts of a
    /// millisecond are dropped.
    #[must_use]
    pub fn wall(self, time: std::time::Duration) -> Self {
        self.limit(LimitName::WallMs, millis(time))
    }

    /// Gives the code `read_input()`, which returns `input`, and `emit(text)`.
    #[must_use]
    pub fn io(mut self, input: impl Into<String>) -> Self {
        self.bindings.push("io".into());
        self.input = input.into();
        self
    }

    /// Gives the code exactly these bindings beside `mcp`.
    #[must_use]
    pub fn bindings<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.bindings = names.into_iter().map(Into::into).collect();
        self.bindings_if_offered.clear();
        self
    }

    /// Moves the bindings of [`bindings_if_offered`](Self::bindings_if_offered) that are offered to
    /// [`bindings`](Self::bindings), and drops the others.
    pub(crate) fn with_offered(mut self, offered: &[String]) -> Self {
        for name in std::mem::take(&mut self.bindings_if_offered) {
            if offered.contains(&name) && !self.bindings.contains(&name) {
                self.bindings.push(name);
            }
        }
        self
    }

    /// Returns the message that asks the relay to run the code, and to begin within this time; 0: there is no bound.
    pub(super) fn into_wire(self, id: &ExecutionId, trace: &TraceContext, begin_within_ms: u64) -> wire::Execute {
        let large_integers = match self.large_integers {
            LargeIntegers::Number => wire::LargeIntegers::Number,
            LargeIntegers::Text => wire::LargeIntegers::Text,
            LargeIntegers::BigInt => wire::LargeIntegers::BigInt,
        };
        wire::Execute {
            code: self.code,
            execution_id: id.as_str().to_owned(),
            limits: self.limits.to_wire(),
            bindings: self.bindings,
            input: self.input,
            remote_tools: self.tools.unwrap_or_default(),
            traceparent: trace.to_string(),
            local_tools: self.local_tools,
            seed: self.seed,
            now_ms: self.now_ms,
            large_integers: large_integers.into(),
            begin_within_ms,
            durable: None,
        }
    }
}
