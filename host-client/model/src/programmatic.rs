//! Answers a user's request with a program: a model writes it, and the relay runs it.
//!
//! ```no_run
//! # async fn example(
//! #     model: impl host_client_model::programmatic::Model, client: host_client_core::Client,
//! # ) -> Result<(), Box<dyn std::error::Error>> {
//! use host_client_model::programmatic::{Programmatic, ProgrammaticRequest};
//!
//! let programmatic = Programmatic::new(model, client);
//! let answer = programmatic.run(ProgrammaticRequest::new("How many open issues do we have?")).await?;
//! println!("{} ({} programs)", answer.outcome.value()?, answer.attempts.len());
//! # Ok(()) }
//! ```
//!
//! The model is asked while the connection to the relay is made. A program that fails is repaired once: the model gets
//! the error with its hint, and answers with another program. By default, a program that may have changed something
//! before it failed is not repaired, because another run could repeat the change; see [`Repair`].

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
use host_client_core::rules::policy::Phase;

pub use answer::{Attempt, Failed, NotRepaired, ProgrammaticAnswer, ProgrammaticError, TotalUsage};
pub use model::{BoxError, CallbackModel, Message, Model, ModelError, ModelReply, ModelRequest, ModelUsage, Role};
pub use request::{ProgrammaticRequest, Step};
#[cfg(feature = "rig")]
pub use rig::RigModel;

/// Maximum length of a result in the conversation, which every later request sends again.
const CONVERSATION_CUT: CutConfig = CutConfig { characters: 20_000, head_percent: 60 };

/// Condition for asking the model for another program after its first one failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Repair {
    /// Never repair.
    Never,
    /// Repair unless the first program called a tool that may change something: one whose effect is not `ReadOnly`, or
    /// is undeclared.
    #[default]
    IfNothingChanged,
    /// Always repair. The model learns which tools were called, but nothing prevents it from calling them again.
    Always,
}

/// Settings for all requests of a [`Programmatic`].
#[derive(Debug, Clone)]
pub struct ProgrammaticConfig {
    /// Maximum time for one reply of the model. Default: 120 s.
    pub model_timeout: Duration,
    /// Maximum length of one reply, in bytes. Default: 256 KiB.
    pub reply_bytes: usize,
    /// Maximum length of the overview of tools in the prompt, in estimated tokens. Default: 3,000.
    pub overview_tokens: usize,
    /// Settings by which a result is shortened in the conversation. Default: as [`OutputConfig::default`], but cut at
    /// 20,000 characters. The answer has the whole value.
    pub output: OutputConfig,
    /// Limits of the program, if lower than those of the session. `tool_calls` counts for all attempts together.
    /// Default: none.
    pub limits: LimitOverrides,
    /// Condition for repairing a program that failed. Default: [`Repair::IfNothingChanged`].
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

/// Model that writes programs, and client that runs them. Clones share both.
///
/// ```no_run
/// use host_client_core::{Client, ClientConfig, Tools};
/// use host_client_model::programmatic::{CallbackModel, ModelReply};
/// use host_client_model::{Programmatic, ProgrammaticRequest};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// // In place of a provider's model: answers each request with the same program.
/// let model = CallbackModel::new(|_request| async { Ok(ModelReply::new("```js\nreturn 6 * 7\n```")) });
/// let client = Client::connect(ClientConfig::new("ws://127.0.0.1:8080/ws", "the token"), Tools::new()).await?;
/// let programmatic = Programmatic::new(model, client);
/// let answer = programmatic.run(ProgrammaticRequest::new("What is six times seven?")).await?;
/// assert_eq!(answer.outcome.value()?, 42);
/// # Ok(()) }
/// ```
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
    /// Creates one from a model and a [`Client`](host_client_core::Client), or a [`LazyClient`] that connects while the
    /// model thinks.
    pub fn new(model: impl Model, client: impl Into<LazyClient>) -> Self {
        Self::shared(Arc::new(model), client)
    }

    /// Creates one with a model that is shared with others.
    pub fn shared(model: Arc<dyn Model>, client: impl Into<LazyClient>) -> Self {
        Self { model, client: client.into(), config: ProgrammaticConfig::default() }
    }

    /// Sets the settings for all requests. Default: [`ProgrammaticConfig::default`].
    #[must_use]
    pub fn config(mut self, config: ProgrammaticConfig) -> Self {
        self.config = config;
        self
    }

    /// Returns the part of the system prompt that this crate adds: the form of a program, its environment and the
    /// tools.
    pub fn teaching(&self) -> String {
        self.teaching_in(None)
    }

    /// Does the same for a phase of the policy, in which fewer tools may be called.
    fn teaching_in(&self, phase: Option<Phase>) -> String {
        let overview = self.client.host().offered(phase).overview(self.config.overview_tokens);
        teach::system(&self.client.model_bindings(), &overview)
    }

    /// Lets the model write a program, and runs it. Dropping the future cancels the execution.
    ///
    /// # Errors
    /// [`Failed`] with a [`ProgrammaticError`] and all attempts, if the model or the relay cannot be reached, or no
    /// program of the model succeeded.
    pub async fn run(&self, request: ProgrammaticRequest) -> Result<ProgrammaticAnswer, Box<Failed>> {
        attempt::Run::new(self, request).run().await
    }
}
