//! The application's side of every session: its tools, its rules, who is asked, what is written down. And what each execution
//! was given.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use relay_proto::{CallId, Code, ErrorCode, ExecutionId, LimitName, LimitOverrides, ToolPatterns, TraceContext, wire};
use serde_json::Value;
use tokio::sync::broadcast;
use tower::{BoxError, Layer, Service};

use crate::approval::{Approver, Asked, Grants};
use crate::audit::{Audit, ExecutionStart, Trail};
use crate::client::Usage;
use crate::dispatch::{self, Caller, Questions};
use crate::error::{Error, ExecutionError};
use crate::event::{Event, Path};
use crate::executor::{self, ToolRequest, ToolService};
use crate::ledger::{Budget, Ledger};
use crate::policy::{Phase, Policy, Spending};
use crate::registry::Tools;

/// Tools, and what every call of them is held against. Clients are connected with one, and may share it; where there is
/// nothing but tools, `tools.into()` is one with the rules that hold by default.
pub struct Host {
    pub(crate) tools: Tools,
    pub(crate) policy: Policy,
    pub(crate) approver: Option<Arc<dyn Approver>>,
    /// What was approved for all calls that no code makes.
    grants: Grants,
    pub(crate) audit: Option<Audit>,
    pub(crate) service: ToolService,
    /// Calls that no code made.
    calls: AtomicU64,
    /// What these calls are told apart by from those of other hosts.
    key: String,
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("tools", &self.tools).finish_non_exhaustive()
    }
}

impl From<Tools> for Arc<Host> {
    fn from(tools: Tools) -> Self {
        Self::new(Host::new(tools))
    }
}

impl Host {
    /// Tools that read run, and all others are refused, for there is nobody to ask.
    pub fn new(tools: Tools) -> Self {
        Self {
            tools,
            policy: Policy::default(),
            approver: None,
            grants: Grants::default(),
            audit: None,
            service: executor::service(),
            calls: AtomicU64::new(0),
            key: random_key(),
        }
    }

    /// Sets the rules. Without, tools that read run, and all others are asked about.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        // What the policy says of tools holds for this host alone.
        self.tools = self.tools.amended(&policy.manifests);
        self.policy = policy;
        self
    }

    /// Sets who is asked where the rules ask. Without, nobody is, and such calls fail with `APPROVAL_DENIED`.
    #[must_use]
    pub fn approver(mut self, approver: impl Approver) -> Self {
        self.approver = Some(Arc::new(approver));
        self
    }

    /// Records what is asked, decided and done. What cannot be recorded is not done.
    #[must_use]
    pub fn audit(mut self, audit: Audit) -> Self {
        self.audit = Some(audit);
        self
    }

    /// Remembers what the results of tools without an output schema are like, and says it where such a tool is declared:
    /// shapes, never values. They are not promised, and nothing is held against them. Off unless turned on.
    #[must_use]
    pub fn learn_results(mut self, learns: bool) -> Self {
        self.tools = self.tools.learning(learns);
        self
    }

    /// Puts a layer around the running of tools, such as one of [`tower`] that limits their rate. The last one is outermost.
    #[must_use]
    pub fn layer<L>(mut self, layer: &L) -> Self
    where
        L: Layer<ToolService>,
        L::Service: Service<ToolRequest, Response = Bytes> + Clone + Send + Sync + 'static,
        <L::Service as Service<ToolRequest>>::Error: Into<BoxError>,
        <L::Service as Service<ToolRequest>>::Future: Send + 'static,
    {
        self.service = executor::layered(self.service, layer);
        self
    }

    /// The tools.
    pub fn tools(&self) -> &Tools {
        &self.tools
    }

    /// Calls one tool, without code and without a relay, through everything that a call of code passes. Gives UTF-8 JSON.
    ///
    /// # Errors
    /// There is no such tool, the arguments do not fit, it was denied, or it failed.
    pub async fn call(&self, tool: &str, arguments: &Value) -> Result<Bytes, Error> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let failed = |code: Code, message: String| Error::from(Box::new(ExecutionError::with_code(code, message)));
        let internal = |reason: String| failed(ErrorCode::Internal.into(), reason);
        let ledger = Ledger::starting_at(number);
        let (milliseconds, code) =
            (LimitName::ToolCallMs.maximum(), serde_json::json!({"tool": tool, "arguments": arguments}));
        let budget = Budget {
            tools: ToolPatterns::default(),
            arguments_bytes: LimitName::ArgumentsBytes.maximum(),
            tool_calls: 1,
            in_flight: 1,
            result_bytes: LimitName::ToolResultBytes.maximum(),
        };
        let code: Arc<str> = code.to_string().into();
        let trace = new_trace();
        let context = |id: ExecutionId, events| ExecutionContext {
            span: tracing::info_span!("execute_code", gen_ai.operation.name = "execute_tool", tool),
            needs_trail: self.audit.is_some(),
            trail: OnceLock::new(),
            id,
            tools: ToolPatterns::default(),
            questions: Questions::default(),
            code: Arc::clone(&code),
            phase: None,
            trace,
            events,
            spending: Spending::new(&self.policy.budget),
            asked: Asked::default(),
            approver: self.approver.clone(),
            approval_timeout: Duration::from_millis(LimitName::ApprovalMs.default_value()),
        };
        let opened = ledger.open(budget, context).map_err(internal)?;
        self.record(&opened.context, "host", &self.key, &LimitOverrides::default())?;
        ledger.start(&opened.context.id);
        opened.context.tell(Event::PathChosen(Path::Host));
        let call = wire::ToolCall {
            id: "1".into(),
            tool: tool.to_owned(),
            arguments: arguments.to_string().into(),
            remaining_ms: milliseconds,
            ..wire::ToolCall::default()
        };
        let permit = ledger.enter(CallId(1), &opened.context.id, &call);
        let permit = permit.map_err(|_| internal("the call was not let in".into()))?;
        let answer = dispatch::dispatch(self, &self.grants, &ledger, permit, call, Caller::Host).await;
        let error = answer.as_ref().filter(|answer| !answer.success).map(|answer| Code::from(answer.code.clone()));
        let result_bytes = answer.as_ref().map_or(0, |answer| answer.result.len());
        if let Some(trail) = opened.context.trail.get() {
            trail.end(error.as_ref(), result_bytes, Usage::default());
        }
        match answer {
            Some(answer) if answer.success => Ok(answer.result),
            Some(answer) => Err(failed(answer.code.into(), answer.error)),
            None => Err(internal("the call was given up".into())),
        }
    }
}

impl Host {
    /// Records that code is about to run, where there is an audit.
    pub(crate) fn record(
        &self,
        context: &ExecutionContext,
        subject: &str,
        session: &str,
        limits: &LimitOverrides,
    ) -> Result<(), Error> {
        let Some(audit) = &self.audit else { return Ok(()) };
        let code = &*context.code;
        let trail = Trail::begin(audit.clone(), subject, session, &context.id, code, |audit, origin| {
            let client = concat!("host-client/", env!("CARGO_PKG_VERSION"));
            audit.execution(&ExecutionStart { origin, client, code, limits, trace: Some(context.trace) })
        });
        // Nobody has set it before: the execution is new.
        drop(context.trail.set(trail?));
        Ok(())
    }
}

/// A text that nobody else makes up.
pub(crate) fn random_key() -> String {
    format!("{:016x}", random())
}

/// The start of a new trace.
pub(crate) fn new_trace() -> TraceContext {
    TraceContext::new(u128::from(random()) << 64 | u128::from(random()), random())
}

fn random() -> u64 {
    // Seeded anew by the system for each.
    std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), std::time::Instant::now())
}

/// What is known of one execution, for as long as any of its calls runs.
pub(crate) struct ExecutionContext {
    pub(crate) id: ExecutionId,
    /// The tools that it may call and be told of.
    pub(crate) tools: ToolPatterns,
    /// What it may ask about them.
    pub(crate) questions: Questions,
    /// As it was sent.
    pub(crate) code: Arc<str>,
    pub(crate) phase: Option<Phase>,
    pub(crate) trace: TraceContext,
    pub(crate) span: tracing::Span,
    /// Whether there is an audit, without which nothing is done for it.
    pub(crate) needs_trail: bool,
    /// What is recorded of it, where there is an audit.
    pub(crate) trail: OnceLock<Trail>,
    pub(crate) events: broadcast::Sender<Event>,
    pub(crate) spending: Spending,
    pub(crate) asked: Asked,
    /// Who is asked.
    pub(crate) approver: Option<Arc<dyn Approver>>,
    /// How long one approval may take.
    pub(crate) approval_timeout: Duration,
}

impl fmt::Debug for ExecutionContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecutionContext").field("id", &self.id).finish_non_exhaustive()
    }
}

impl ExecutionContext {
    /// One with no rules and nobody to ask, for tests of other parts.
    #[cfg(any(test, feature = "bench", feature = "fuzzing"))]
    pub(crate) fn for_tests(id: ExecutionId, events: broadcast::Sender<Event>) -> Self {
        Self {
            id,
            tools: ToolPatterns::default(),
            questions: Questions::default(),
            code: "".into(),
            phase: None,
            trace: TraceContext::NONE,
            span: tracing::Span::none(),
            needs_trail: false,
            trail: OnceLock::new(),
            events,
            spending: Spending::new(&crate::policy::Budget::default()),
            asked: Asked::default(),
            approver: None,
            approval_timeout: Duration::ZERO,
        }
    }

    /// Lets watchers know. Nobody has to watch, and who is slow does not hold us up.
    pub(crate) fn tell(&self, event: Event) {
        let _ = self.events.send(event);
    }
}
