//! Results and errors of a request.

use std::fmt;
use std::time::Duration;

use super::model::{Message, ModelError, ModelUsage};
use host_client_core::error::{Error, ExecutionError};
use host_client_core::text::shortened_text;
use host_client_core::{Outcome, Usage};

/// Maximum length of a reply without code in an error message, in bytes.
const SHOWN_BYTES: usize = 2_000;

/// Result of a request, with the program and all attempts.
#[derive(Debug, Clone)]
pub struct ProgrammaticAnswer {
    /// Value and output of the program.
    pub outcome: Outcome,
    /// Program as it was sent to the relay.
    pub code: String,
    /// All attempts. The last one gave the result.
    pub attempts: Vec<Attempt>,
    /// Usage of all attempts together.
    pub usage: TotalUsage,
    /// Messages that this request adds to the conversation, the user's first. The last one tells the model the result.
    pub messages: Vec<Message>,
}

/// One reply of the model, and the execution of its program.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// Reply of the model.
    pub reply: String,
    /// Text that was sent to the relay: the reply, with the Markdown fence of its code. `None`: the reply has no code.
    pub code: Option<String>,
    /// Tokens of the reply.
    pub model: ModelUsage,
    /// Usage of the execution; `None` if there was none.
    pub execution: Option<Usage>,
    /// Tools that were called and whose effect is not `ReadOnly`, in the order of their first call.
    pub changes: Vec<String>,
    /// Reason why the attempt failed; `None` if it gave the result.
    pub error: Option<ProgrammaticError>,
}

/// Usage of all attempts together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TotalUsage {
    /// Tokens of the model.
    pub model: ModelUsage,
    /// Sum of the executions; for memory, the maximum.
    pub execution: Usage,
}

/// Reason why an attempt failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ProgrammaticError {
    /// The model could not be asked, or its reply is unusable.
    #[error("the model gave no reply: {0}")]
    Model(std::sync::Arc<ModelError>),
    /// The model did not answer within [`ProgrammaticConfig::model_timeout`](super::ProgrammaticConfig::model_timeout).
    #[error("the model did not answer within {} s", .0.as_secs_f64())]
    ModelTimeout(Duration),
    /// The reply contains no code.
    #[error("the model answered without any code: {:?}", shortened_text(reply, SHOWN_BYTES))]
    NoCode {
        /// The reply.
        reply: String,
    },
    /// The reply ended at the model's limit of tokens. An incomplete program is not run.
    #[error("the model's reply was cut off at its limit of tokens")]
    Cut,
    /// The relay cannot be reached, or refuses the execution.
    #[error("the code was not run: {0}")]
    Relay(std::sync::Arc<Error>),
    /// The program failed.
    #[error(transparent)]
    Execution(Box<ExecutionError>),
}

/// Reason why the model was not asked for another program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotRepaired {
    /// The failure is not the program's, so that another program would not help.
    NotTheCode,
    /// The setting is [`Repair::Never`](super::Repair::Never).
    NotWanted,
    /// The program called these tools, which may have changed something. `tools that were not seen` stands for events
    /// that were missed.
    Changed(Vec<String>),
    /// The program was already repaired once, and failed again.
    Tried,
}

impl fmt::Display for NotRepaired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotTheCode => f.write_str("another program would fare no better"),
            Self::NotWanted => f.write_str("it was not to be repaired"),
            Self::Changed(tools) => write!(
                f,
                "it was not repaired, because it had begun to change things: look at what is done before it is run \
                 again (it called {})",
                tools.join(", ")
            ),
            Self::Tried => f.write_str("it was repaired once, and failed again"),
        }
    }
}

/// Error of a request that gave no result, with all attempts.
#[derive(Debug, Clone)]
pub struct Failed {
    /// Reason why the last attempt failed.
    pub error: ProgrammaticError,
    /// Reason why there was no further attempt.
    pub not_repaired: NotRepaired,
    /// Attempts for which there was a reply.
    pub attempts: Vec<Attempt>,
    /// Usage of all attempts together.
    pub usage: TotalUsage,
    /// Messages that this request adds to the conversation, the user's first. If the model replied, the last one tells
    /// it the error.
    pub messages: Vec<Message>,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.not_repaired {
            // The error message is enough.
            NotRepaired::NotTheCode => self.error.fmt(f),
            reason => write!(f, "{}\n{reason}", self.error),
        }
    }
}

impl std::error::Error for Failed {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl TotalUsage {
    /// Sums up the usage of attempts.
    pub(super) fn sum(attempts: &[Attempt]) -> Self {
        let mut total = Self::default();
        for attempt in attempts {
            total.model.add(attempt.model);
            if let Some(usage) = attempt.execution {
                let sum = &mut total.execution;
                sum.queue += usage.queue;
                sum.wall += usage.wall;
                sum.approval += usage.approval;
                sum.cpu += usage.cpu;
                sum.tool_calls += usage.tool_calls;
                sum.output_bytes += usage.output_bytes;
                sum.memory_bytes = sum.memory_bytes.max(usage.memory_bytes);
            }
        }
        total
    }
}
