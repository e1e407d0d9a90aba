//! What is asked of a model and its program, and what can be watched meanwhile.

use std::fmt;
use std::sync::Arc;

use relay_proto::{Code, ExecutionId, TraceContext};

use super::model::{Message, ModelUsage};
use host_client_core::event::Event;
use host_client_core::rules::approval::Approver;
use host_client_core::rules::policy::Phase;

/// One thing that happened on the way to a result. Attempts count from 1.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Step {
    /// The model is asked for a program.
    Asked {
        /// For which attempt.
        attempt: usize,
    },
    /// The model answered.
    Replied {
        /// For which attempt.
        attempt: usize,
        /// The length of the reply.
        bytes: usize,
        /// What it cost.
        usage: ModelUsage,
    },
    /// The program is on its way to the relay.
    Running {
        /// Which attempt.
        attempt: usize,
        /// The execution, for logs and audits.
        execution: ExecutionId,
    },
    /// Something happened in the program's execution.
    Execution {
        /// Which attempt.
        attempt: usize,
        /// What.
        event: Event,
    },
    /// The attempt gave no result.
    Failed {
        /// Which attempt.
        attempt: usize,
        /// The code of the execution's error, where there was an execution.
        code: Option<Code>,
        /// Why, in words.
        message: String,
    },
    /// The model is about to be asked for another program.
    Repairing {
        /// The attempt to come.
        attempt: usize,
    },
    /// There is a result.
    Done {
        /// The attempt that gave it.
        attempt: usize,
    },
}

/// A user's request.
#[derive(Clone)]
pub struct ProgrammaticRequest {
    /// What the user wants, in words.
    pub prompt: String,
    /// The application's own system prompt. What a program is, is taught after it.
    pub system: Option<String>,
    /// The conversation so far, the oldest message first.
    pub history: Vec<Message>,
    /// What the policy offers the program: only what reads, or what changes things, too; without, what its rules say.
    pub phase: Option<Phase>,
    /// Who is asked about the program's calls; without, the host's approver.
    pub approver: Option<Arc<dyn Approver>>,
    /// The trace that the executions belong to; without, each has its own.
    pub trace: Option<TraceContext>,
    pub(super) watcher: Option<Arc<dyn Fn(Step) + Send + Sync>>,
}

impl fmt::Debug for ProgrammaticRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProgrammaticRequest").field("prompt", &self.prompt).finish_non_exhaustive()
    }
}

impl ProgrammaticRequest {
    /// A request that begins a conversation.
    pub fn new(prompt: impl Into<String>) -> Self {
        Self {
            prompt: prompt.into(),
            system: None,
            history: Vec::new(),
            phase: None,
            approver: None,
            trace: None,
            watcher: None,
        }
    }

    /// Sets the application's own system prompt.
    #[must_use]
    pub fn system(mut self, system: impl Into<String>) -> Self {
        self.system = Some(system.into());
        self
    }

    /// Goes on with a conversation, such as that of an answer.
    #[must_use]
    pub fn history(mut self, messages: impl IntoIterator<Item = Message>) -> Self {
        self.history.extend(messages);
        self
    }

    /// Offers the program only the tools of one of the policy's phases.
    #[must_use]
    pub fn phase(mut self, phase: Phase) -> Self {
        self.phase = Some(phase);
        self
    }

    /// Sets who is asked about the program's calls, in the place of the host's approver.
    #[must_use]
    pub fn approver(mut self, approver: impl Approver) -> Self {
        self.approver = Some(Arc::new(approver));
        self
    }

    /// Has somebody told of each step, in their order and as it happens. Everything waits for it: it must not block.
    #[must_use]
    pub fn watch(mut self, watcher: impl Fn(Step) + Send + Sync + 'static) -> Self {
        self.watcher = Some(Arc::new(watcher));
        self
    }
}
