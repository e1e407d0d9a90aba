//! Requests to a [`Programmatic`](super::Programmatic), and the steps that can be watched.

use std::fmt;
use std::sync::Arc;

use relay_proto::{Code, ExecutionId, TraceContext};

use super::model::{Message, ModelUsage};
use host_client_core::event::Event;
use host_client_core::rules::approval::Approver;
use host_client_core::rules::policy::Phase;

/// Step on the way to a result, for a watcher. Attempts count from 1.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Step {
    /// The model is asked for a program.
    Asked {
        /// Number of the attempt.
        attempt: usize,
    },
    /// The model answered.
    Replied {
        /// Number of the attempt.
        attempt: usize,
        /// Length of the reply, in bytes.
        bytes: usize,
        /// Tokens of the reply.
        usage: ModelUsage,
    },
    /// The program is on its way to the relay.
    Running {
        /// Number of the attempt.
        attempt: usize,
        /// Id of the execution, as in logs and audits.
        execution: ExecutionId,
    },
    /// The execution of the program sent an event.
    Execution {
        /// Number of the attempt.
        attempt: usize,
        /// The event.
        event: Event,
    },
    /// The attempt failed.
    Failed {
        /// Number of the attempt.
        attempt: usize,
        /// Code of the execution's error; `None` if there was no execution.
        code: Option<Code>,
        /// Reason, in words.
        message: String,
    },
    /// The model is about to be asked for another program.
    Repairing {
        /// Number of the next attempt.
        attempt: usize,
    },
    /// The program returned a result.
    Done {
        /// Number of the attempt that succeeded.
        attempt: usize,
    },
}

/// A user's request.
#[derive(Clone)]
pub struct ProgrammaticRequest {
    /// Request of the user, in words.
    pub prompt: String,
    /// System prompt of the application. [`Programmatic::teaching`](super::Programmatic::teaching) is added after it.
    pub system: Option<String>,
    /// Conversation so far, the oldest message first.
    pub history: Vec<Message>,
    /// Phase of the policy: offers the program only tools that read, or also those that change things. `None`: the
    /// rules of the policy decide alone.
    pub phase: Option<Phase>,
    /// Approver of the program's calls; `None`: the host's.
    pub approver: Option<Arc<dyn Approver>>,
    /// Trace that the executions belong to; `None`: each has its own.
    pub trace: Option<TraceContext>,
    pub(super) watcher: Option<Arc<dyn Fn(Step) + Send + Sync>>,
}

impl fmt::Debug for ProgrammaticRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProgrammaticRequest").field("prompt", &self.prompt).finish_non_exhaustive()
    }
}

impl ProgrammaticRequest {
    /// Creates a request that begins a conversation.
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

    /// Sets the system prompt of the application.
    #[must_use]
    pub fn system(mut self, system: impl Into<String>) -> Self {
        self.system = Some(system.into());
        self
    }

    /// Continues a conversation: appends messages, such as those of an earlier answer.
    #[must_use]
    pub fn history(mut self, messages: impl IntoIterator<Item = Message>) -> Self {
        self.history.extend(messages);
        self
    }

    /// Offers the program only the tools of a phase of the policy.
    #[must_use]
    pub fn phase(mut self, phase: Phase) -> Self {
        self.phase = Some(phase);
        self
    }

    /// Sets the approver of the program's calls. Default: the host's.
    #[must_use]
    pub fn approver(mut self, approver: impl Approver) -> Self {
        self.approver = Some(Arc::new(approver));
        self
    }

    /// Sets a function that is called with each step as it happens. It must not block, because the request waits for
    /// it.
    #[must_use]
    pub fn watch(mut self, watcher: impl Fn(Step) + Send + Sync + 'static) -> Self {
        self.watcher = Some(Arc::new(watcher));
        self
    }
}
