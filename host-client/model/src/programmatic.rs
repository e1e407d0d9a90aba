//! From a user's request to a result: a model writes one program for it, and the program is run.
//!
//! ```no_run
//! # async fn example(model: impl host_client::programmatic::Model, client: host_client::Client) {
//! use host_client::programmatic::{Programmatic, ProgrammaticRequest};
//!
//! let programmatic = Programmatic::new(model, client);
//! let request = ProgrammaticRequest::new("How many open issues do we have?");
//! match programmatic.run(request).await {
//!     Ok(answer) => assert!(answer.outcome.value().is_ok() && answer.attempts.len() <= 2),
//!     Err(failed) => assert!(!failed.to_string().is_empty()),
//! }
//! # }
//! ```
//!
//! The model is asked while the relay is connected to. Code that fails is repaired once: the model is given the error with its
//! hint, and answers with another program. Code that may have changed something before it failed is not: another run could do
//! the same again. [`Repair`] says otherwise.

mod answer;
mod attempt;
mod model;
mod reply;
mod request;
#[cfg(feature = "rig")]
mod rig;
mod teach;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use relay_proto::LimitOverrides;

use crate::output::{CutConfig, OutputConfig};
use host_client_core::client::LazyClient;

pub use answer::{Attempt, Failed, NotRepaired, ProgrammaticAnswer, ProgrammaticError, TotalUsage};
pub use model::{BoxError, CallbackModel, Message, Model, ModelError, ModelReply, ModelRequest, ModelUsage, Role};
pub use request::{ProgrammaticRequest, Step};
#[cfg(feature = "rig")]
pub use rig::RigModel;

/// What of a result stays in the conversation: every later request reads it again.
const CONVERSATION_CUT: CutConfig = CutConfig { characters: 20_000, head_percent: 60 };

/// Whether the model may answer with another program where its first one failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Repair {
    /// No.
    Never,
    /// Unless the first one had begun to change something: calls of tools that do not only read, or whose effect nobody knows.
    #[default]
    IfNothingChanged,
    /// Whatever the first one did. The model is told which calls it had started; nothing keeps it from making them again.
    Always,
}

/// What holds for every request.
#[derive(Debug, Clone)]
pub struct ProgrammaticConfig {
    /// How long the model may take for one reply.
    pub model_timeout: Duration,
    /// The most bytes of one reply.
    pub reply_bytes: usize,
    /// The most tokens of the overview of tools in the prompt, about.
    pub overview_tokens: usize,
    /// How a result is shown in the conversation. The answer has the value whole.
    pub output: OutputConfig,
    /// Limits of the code that are to be lower than the session's. `tool_calls` is for all attempts together.
    pub limits: LimitOverrides,
    /// Whether code that failed is repaired.
    pub repair: Repair,
}

impl Default for ProgrammaticConfig {
    fn default() -> Self {
        Self {
            model_timeout: Duration::from_secs(120),
            reply_bytes: 256 << 10,
            overview_tokens: 3_000,
            output: OutputConfig { cut: Some(CONVERSATION_CUT), ..OutputConfig::default() },
            limits: LimitOverrides::default(),
            repair: Repair::default(),
        }
    }
}

/// A model, and the tools that its programs call. Clones share both.
#[derive(Clone)]
pub struct Programmatic {
    model: Arc<dyn Model>,
    client: LazyClient,
    config: ProgrammaticConfig,
}

impl fmt::Debug for Programmatic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Programmatic")
            .field("client", &self.client)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl Programmatic {
    /// A model and a way to the tools: a [`Client`](host_client_core::Client), or a [`LazyClient`] that connects while the model thinks.
    pub fn new(model: impl Model, client: impl Into<LazyClient>) -> Self {
        Self::shared(Arc::new(model), client)
    }

    /// The same with a model that is used elsewhere, too.
    pub fn shared(model: Arc<dyn Model>, client: impl Into<LazyClient>) -> Self {
        Self { model, client: client.into(), config: ProgrammaticConfig::default() }
    }

    /// Sets what holds for every request.
    #[must_use]
    pub fn config(mut self, config: ProgrammaticConfig) -> Self {
        self.config = config;
        self
    }

    /// What the model is taught beside the application's own system prompt: what a program is, what is there, which tools.
    pub fn teaching(&self) -> String {
        let overview = self.client.host().tools().overview(self.config.overview_tokens);
        teach::system(&self.client.model_bindings(), &overview)
    }

    /// Has the model write a program, and runs it. Dropping the future cancels whatever goes on.
    ///
    /// # Errors
    /// The model gave no program that came to its end, or there is no model or no relay. What was tried stands in the error.
    pub async fn run(&self, request: ProgrammaticRequest) -> Result<ProgrammaticAnswer, Box<Failed>> {
        attempt::Run::new(self, request).run().await
    }
}
