//! What a tool call is held against: the tools, the rules, who is asked, what is written down. And what each execution was
//! given.

use std::sync::Arc;
use std::time::Duration;

use relay_proto::ExecutionId;
use tokio::sync::broadcast;

use crate::approval::{Approver, Asked, Grants};
use crate::event::Event;
use crate::executor::ToolService;
use crate::policy::{Phase, Policy, Spending};
use crate::registry::Tools;
use crate::trace::TraceContext;

/// One application's side of a session.
pub(crate) struct Host {
    pub(crate) tools: Tools,
    pub(crate) policy: Policy,
    pub(crate) approver: Option<Arc<dyn Approver>>,
    /// What was approved for the whole session.
    pub(crate) grants: Grants,
    pub(crate) service: ToolService,
}

/// What is known of one execution, for as long as any of its calls runs.
pub(crate) struct ExecutionContext {
    pub(crate) id: ExecutionId,
    /// As it was sent.
    pub(crate) code: Arc<str>,
    pub(crate) phase: Option<Phase>,
    pub(crate) trace: TraceContext,
    pub(crate) span: tracing::Span,
    pub(crate) events: broadcast::Sender<Event>,
    pub(crate) spending: Spending,
    pub(crate) asked: Asked,
    /// How long one approval may take.
    pub(crate) approval_timeout: Duration,
}

impl ExecutionContext {
    /// One with no rules and nobody to ask, for tests of other parts.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn for_tests(id: ExecutionId, events: broadcast::Sender<Event>) -> Self {
        Self {
            id,
            code: "".into(),
            phase: None,
            trace: TraceContext::NONE,
            span: tracing::Span::none(),
            events,
            spending: Spending::new(&crate::policy::Budget::default()),
            asked: Asked::default(),
            approval_timeout: Duration::ZERO,
        }
    }

    /// Lets watchers know. Nobody has to watch, and who is slow does not hold us up.
    pub(crate) fn tell(&self, event: Event) {
        let _ = self.events.send(event);
    }
}
