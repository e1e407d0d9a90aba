//! What came of a request.

use std::fmt;
use std::time::Duration;

use super::model::{Message, ModelError, ModelUsage};
use host_client_core::error::{Error, ExecutionError};
use host_client_core::text::shortened_text;
use host_client_core::{Outcome, Usage};

/// The most bytes of a reply without code that an error shows.
const SHOWN_BYTES: usize = 2_000;

/// A program's result, and how it came about.
#[derive(Debug, Clone)]
pub struct ProgrammaticAnswer {
    /// What the program returned and printed.
    pub outcome: Outcome,
    /// The program, as it was sent to the relay.
    pub code: String,
    /// All attempts; the last one gave the result.
    pub attempts: Vec<Attempt>,
    /// What all attempts used together.
    pub usage: TotalUsage,
    /// What this request adds to the conversation, the user's message first. The last one tells the model what its program
    /// returned.
    pub messages: Vec<Message>,
}

/// One program, or what the model answered in the place of one.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// What the model answered.
    pub reply: String,
    /// What was sent to the relay, if there was code: the reply, with the fence that the code may stand in.
    pub code: Option<String>,
    /// What the reply cost.
    pub model: ModelUsage,
    /// What the execution used, if there was one.
    pub execution: Option<Usage>,
    /// Tools that were called and do not only read, in their order, each once.
    pub changes: Vec<String>,
    /// Why it gave no result.
    pub error: Option<ProgrammaticError>,
}

/// What the attempts used together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TotalUsage {
    /// By the model.
    pub model: ModelUsage,
    /// By the executions; of memory, the most of one.
    pub execution: Usage,
}

/// Why there is no result.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ProgrammaticError {
    /// The model gave no reply.
    #[error("the model gave no reply: {0}")]
    Model(std::sync::Arc<ModelError>),
    /// The model did not answer in time.
    #[error("the model did not answer within {} s", .0.as_secs_f64())]
    ModelTimeout(Duration),
    /// The model answered with something that is no code.
    #[error("the model answered without any code: {:?}", shortened_text(reply, SHOWN_BYTES))]
    NoCode {
        /// The answer.
        reply: String,
    },
    /// The reply ended in the middle, because the model may not write more. Half a program is not run.
    #[error("the model's reply was cut off at its limit of tokens")]
    Cut,
    /// There is no relay, or it refuses.
    #[error("the code was not run: {0}")]
    Relay(std::sync::Arc<Error>),
    /// The code failed.
    #[error(transparent)]
    Execution(Box<ExecutionError>),
}

/// Why the model was not asked for another program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotRepaired {
    /// Another program would fare no better: the fault is not the program's.
    NotTheCode,
    /// It is [`Repair::Never`](super::Repair::Never).
    NotWanted,
    /// The program had begun to change something, by these tools. One that is empty stands for events that were missed.
    Changed(Vec<String>),
    /// It was asked already, and that program failed, too.
    Tried,
}

impl fmt::Display for NotRepaired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotTheCode => f.write_str("another program would fare no better"),
            Self::NotWanted => f.write_str("it was not to be repaired"),
            Self::Changed(tools) => write!(
                f,
                "it was not repaired, because it had begun to change things: look at what is done before it is run again \
                 (it called {})",
                tools.join(", ")
            ),
            Self::Tried => f.write_str("it was repaired once, and failed again"),
        }
    }
}

/// A request that gave no result, and what was tried.
#[derive(Debug, Clone)]
pub struct Failed {
    /// Why the last attempt gave none.
    pub error: ProgrammaticError,
    /// Why there was no further one.
    pub not_repaired: NotRepaired,
    /// The attempts for which there was a reply.
    pub attempts: Vec<Attempt>,
    /// What all attempts used together.
    pub usage: TotalUsage,
    /// What this request adds to the conversation, the user's message first. Where the model answered, the last one tells it
    /// what went wrong.
    pub messages: Vec<Message>,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.not_repaired {
            // The error says so itself.
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
    pub(super) fn of(attempts: &[Attempt]) -> Self {
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
