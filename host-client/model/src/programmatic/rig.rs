//! Models of rig's providers.

use async_trait::async_trait;
use futures_util::StreamExt;
use rig_core::completion::{CompletionRequest, FinishReason, Message as RigMessage};
use rig_core::driver::DynModel;
use rig_core::error::ProviderError;
use rig_core::operation::Completion;
use rig_core::streaming::{Item, StreamEvent};

use super::model::{Message, Model, ModelError, ModelReply, ModelRequest, ModelUsage, Role};

/// Completion model of any provider of rig. Replies are streamed, so that one that is too long is stopped early.
///
/// ```no_run
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use host_client_model::programmatic::RigModel;
/// use rig_core::providers::anthropic::Anthropic;
///
/// let model = RigModel::new(Anthropic::from_env()?.completion("claude-sonnet-5-5")).max_tokens(8_000);
/// # drop(model); Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct RigModel {
    model: DynModel<Completion>,
    max_tokens: Option<u64>,
    temperature: Option<f64>,
}

impl RigModel {
    /// Creates a model from one of rig, as of `provider.completion("name")`.
    pub fn new(model: impl Into<DynModel<Completion>>) -> Self {
        Self { model: model.into(), max_tokens: None, temperature: None }
    }

    /// Sets the maximum number of tokens of a reply. Default: that of the provider; some providers require a value.
    #[must_use]
    pub fn max_tokens(mut self, most: u64) -> Self {
        self.max_tokens = Some(most);
        self
    }

    /// Sets the temperature. Default: that of the provider.
    #[must_use]
    pub fn temperature(mut self, temperature: f64) -> Self {
        self.temperature = Some(temperature);
        self
    }

    /// Makes a request of rig.
    fn request(&self, system: String, messages: Vec<Message>) -> CompletionRequest {
        let mut messages = messages.into_iter().map(|Message { role, content }| match role {
            Role::User => RigMessage::user(content),
            Role::Assistant => RigMessage::assistant(content),
        });
        // In rig the last message is the prompt, and the others are its history.
        let prompt = messages.next_back().unwrap_or_else(|| RigMessage::user(""));
        CompletionRequest::new(prompt)
            .messages(messages)
            .preamble(system)
            .max_tokens(self.max_tokens)
            .temperature(self.temperature)
    }
}

#[async_trait]
impl Model for RigModel {
    async fn complete(&self, request: ModelRequest) -> Result<ModelReply, ModelError> {
        let most = request.reply_bytes;
        let mut stream = self.model.stream(self.request(request.system, request.messages)).map_err(failed)?;
        let mut bytes = 0_usize;
        while let Some(item) = stream.next().await {
            bytes += match item.map_err(failed)? {
                Item::Event(StreamEvent::Text { text, .. } | StreamEvent::Reasoning { text, .. }) => text.len(),
                Item::Event(StreamEvent::Arguments { json, .. }) => json.len(),
                Item::Event(_) | Item::Unknown(_) => 0,
            };
            if bytes > most {
                return Err(ModelError::TooLarge { most });
            }
        }
        let response = stream.finish().await.map_err(failed)?;
        if let Some(refusal) = &response.error {
            return Err(ModelError::Refused(refusal.clone().into()));
        }
        Ok(ModelReply {
            text: response.text(),
            is_cut: response.finish_reason() == Some(FinishReason::Length),
            usage: ModelUsage {
                input_tokens: response.usage.input_tokens,
                output_tokens: response.usage.output_tokens,
            },
        })
    }
}

/// Converts an error of rig.
fn failed(error: ProviderError) -> ModelError {
    let status = error.provider_response_status().map(|status| status.as_u16());
    let kind = match &error {
        _ if matches!(status, Some(401 | 403)) => ModelError::Unauthenticated,
        ProviderError::Http(_) | ProviderError::Truncated => ModelError::Unreachable,
        other if other.is_retryable() => ModelError::Overloaded,
        _ => ModelError::Refused,
    };
    kind(error.into())
}
