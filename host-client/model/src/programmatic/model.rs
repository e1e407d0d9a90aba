//! Interface to models: requests, replies and errors.

use std::fmt;
use std::future::Future;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

/// Language model that continues conversations, such as a client of a provider, or a stub in tests.
///
/// ```
/// use host_client_model::programmatic::{Model, ModelError, ModelReply, ModelRequest};
///
/// /// A stub that answers every request with the same program.
/// struct Stub;
///
/// #[async_trait::async_trait]
/// impl Model for Stub {
///     async fn complete(&self, request: ModelRequest) -> Result<ModelReply, ModelError> {
///         assert!(!request.messages.is_empty());
///         Ok(ModelReply::new("```js\nreturn 6 * 7\n```"))
///     }
/// }
/// ```
///
/// [`CallbackModel`] makes a model of a function.
#[async_trait]
pub trait Model: Send + Sync + 'static {
    /// Returns the next message of a conversation. The future is dropped at the timeout.
    ///
    /// # Errors
    /// A [`ModelError`] if the provider cannot be reached, refuses, or sends a reply that is too long.
    async fn complete(&self, request: ModelRequest) -> Result<ModelReply, ModelError>;
}

/// Model that calls a function, such as one around the application's own client of a provider.
#[derive(Clone, Copy)]
pub struct CallbackModel<F>(F);

impl<F> CallbackModel<F> {
    /// Creates a model. `function` returns the next message.
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

/// Request to a model: a conversation to continue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelRequest {
    /// System prompt.
    pub system: String,
    /// Conversation so far. The last message is a user's.
    pub messages: Vec<Message>,
    /// Maximum length of the reply, in bytes. Stop reading from the network there.
    pub reply_bytes: usize,
}

/// Author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The user, or the application in the user's place.
    User,
    /// The model.
    Assistant,
}

/// Message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Author of the message.
    pub role: Role,
    /// Text of the message.
    pub content: String,
}

impl Message {
    /// Makes a message of the user.
    pub fn user(content: impl Into<String>) -> Self {
        Self { role: Role::User, content: content.into() }
    }

    /// Makes a message of the model.
    pub fn assistant(content: impl Into<String>) -> Self {
        Self { role: Role::Assistant, content: content.into() }
    }
}

/// Reply of a model.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModelReply {
    /// Text of the reply.
    pub text: String,
    /// `true`: the reply ended at the limit of tokens.
    pub is_cut: bool,
    /// Tokens of the reply and its request.
    pub usage: ModelUsage,
}

impl ModelReply {
    /// Makes a complete reply of unknown usage.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

/// Tokens of replies; `None` if the provider does not report them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ModelUsage {
    /// Tokens read by the model.
    pub input_tokens: Option<u64>,
    /// Tokens written by the model, its reasoning included.
    pub output_tokens: Option<u64>,
}

impl ModelUsage {
    /// Adds the usage of another reply.
    pub(super) fn add(&mut self, other: Self) {
        let sum = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (Some(one), Some(other)) => Some(one.saturating_add(other)),
            (one, other) => one.or(other),
        };
        self.input_tokens = sum(self.input_tokens, other.input_tokens);
        self.output_tokens = sum(self.output_tokens, other.output_tokens);
    }
}

/// Error of a provider's library.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Error of a model.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The provider does not answer, or the connection broke.
    #[error("its provider cannot be reached: {0}")]
    Unreachable(#[source] BoxError),
    /// The provider rejects the key.
    #[error("its provider does not accept the key: {0}")]
    Unauthenticated(#[source] BoxError),
    /// The provider is busy, or a rate limit was hit. A later attempt may succeed.
    #[error("its provider refuses for now; try again later: {0}")]
    Overloaded(#[source] BoxError),
    /// The provider refuses the request, or its response is malformed.
    #[error("its provider refused: {0}")]
    Refused(#[source] BoxError),
    /// The reply is longer than [`ModelRequest::reply_bytes`].
    #[error("its reply has more than {most} bytes")]
    TooLarge {
        /// Maximum length of a reply, in bytes.
        most: usize,
    },
}
