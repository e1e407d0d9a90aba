//! What a model is asked, and what it answers.

use std::fmt;
use std::future::Future;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

/// Something that continues conversations: a provider's model, or a test's list of answers.
#[async_trait]
pub trait Model: Send + Sync + 'static {
    /// Gives the next message of a conversation. The future is dropped when it takes too long.
    ///
    /// # Errors
    /// There is none.
    async fn complete(&self, request: ModelRequest) -> Result<ModelReply, ModelError>;
}

/// A model that asks a function, such as one around a client of the application's own.
#[derive(Clone, Copy)]
pub struct CallbackModel<F>(F);

impl<F> CallbackModel<F> {
    /// `function` gives the next message.
    pub fn new<Fut>(function: F) -> Self
    where
        F: Fn(ModelRequest) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ModelReply, ModelError>> + Send,
    {
        Self(function)
    }
}

impl<F> fmt::Debug for CallbackModel<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallbackModel")
    }
}

#[async_trait]
impl<F, Fut> Model for CallbackModel<F>
where
    F: Fn(ModelRequest) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ModelReply, ModelError>> + Send,
{
    async fn complete(&self, request: ModelRequest) -> Result<ModelReply, ModelError> {
        (self.0)(request).await
    }
}

/// A conversation that is to be continued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelRequest {
    /// The system prompt.
    pub system: String,
    /// The conversation; the last message is a user's.
    pub messages: Vec<Message>,
    /// The most bytes of a reply that are taken. Whoever reads it from a network stops there.
    pub reply_bytes: usize,
}

/// Who wrote a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The user, or a program in the user's place.
    User,
    /// The model.
    Assistant,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who wrote it.
    pub role: Role,
    /// Its text.
    pub content: String,
}

impl Message {
    /// A message of the user.
    pub fn user(content: impl Into<String>) -> Self {
        Self { role: Role::User, content: content.into() }
    }

    /// A message of the model.
    pub fn assistant(content: impl Into<String>) -> Self {
        Self { role: Role::Assistant, content: content.into() }
    }
}

/// What a model answered.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModelReply {
    /// The text.
    pub text: String,
    /// It ended because the model may not write more.
    pub is_cut: bool,
    /// What it cost.
    pub usage: ModelUsage,
}

impl ModelReply {
    /// A whole reply whose cost nobody knows.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

/// What replies cost, in tokens, as far as the provider said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ModelUsage {
    /// Read by the model.
    pub input_tokens: Option<u64>,
    /// Written by the model, what it thought included.
    pub output_tokens: Option<u64>,
}

impl ModelUsage {
    /// Adds another reply's.
    pub(super) fn add(&mut self, other: Self) {
        let sum = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (Some(one), Some(other)) => Some(one.saturating_add(other)),
            (one, other) => one.or(other),
        };
        self.input_tokens = sum(self.input_tokens, other.input_tokens);
        self.output_tokens = sum(self.output_tokens, other.output_tokens);
    }
}

/// Any error of a provider's library.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a model gave no reply.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// No provider answers, or it broke off.
    #[error("its provider cannot be reached: {0}")]
    Unreachable(#[source] BoxError),
    /// The provider does not accept the key.
    #[error("its provider does not accept the key: {0}")]
    Unauthenticated(#[source] BoxError),
    /// The provider refuses for now: it is busy, or too much was asked of it.
    #[error("its provider refuses for now; try again later: {0}")]
    Overloaded(#[source] BoxError),
    /// The provider refuses the request, or what it sent is none of its replies.
    #[error("its provider refused: {0}")]
    Refused(#[source] BoxError),
    /// The reply is longer than is taken.
    #[error("its reply has more than {most} bytes")]
    TooLarge {
        /// What is taken.
        most: usize,
    },
}
