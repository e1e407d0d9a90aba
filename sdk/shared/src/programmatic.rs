//! Answers requests with programs that a model writes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use host_client::programmatic::{
    Attempt, Message, Model, ModelError, ModelReply, ModelRequest, ProgrammaticConfig, ProgrammaticError, Repair,
};
use host_client::{LazyClient, LimitOverrides, Phase, Programmatic, ProgrammaticRequest};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::error::{ErrorKind, SdkError};
use crate::execution::Outcome;
use crate::foreign::{ForeignModel, ModelFault, ModelFaultKind};
use crate::options::limits;
use crate::request::lowered;
use crate::shape::UsageShape;

/// The settings for all requests.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProgrammaticOptions {
    /// The most time for one reply of the model; 120,000 by default.
    pub model_timeout_ms: Option<u64>,
    /// The most bytes of one reply; 256 KiB by default.
    pub reply_bytes: Option<usize>,
    /// The length of the overview of tools in the prompt, in estimated tokens; 3,000 by default.
    pub overview_tokens: Option<usize>,
    /// Limits of each program, in the units of their names.
    pub limits: BTreeMap<String, u64>,
    /// When a program that failed is repaired: `if_nothing_changed`, the default, `never` or `always`.
    pub repair: RepairOption,
}

/// When a program that failed is repaired.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RepairOption {
    /// Never.
    Never,
    /// Unless it called a tool that may have changed something.
    #[default]
    IfNothingChanged,
    /// Always.
    Always,
}

/// A request.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PromptOptions {
    /// The request of the user, in words.
    pub prompt: String,
    /// The system prompt of the application; `null`: none.
    pub system: Option<String>,
    /// The conversation so far.
    pub history: Vec<Message>,
    /// The phase of the policy; `null`: the rules decide alone.
    pub phase: Option<Phase>,
}

/// The answer to a request.
#[derive(Debug, Clone, Serialize)]
pub struct Answered {
    /// The outcome of the program.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// The program.
    pub code: String,
    /// All attempts, the last of which gave the result.
    pub attempts: Vec<Value>,
    /// The messages that this request adds to the conversation.
    pub messages: Vec<Message>,
}

/// Answers requests with programs of one model.
#[derive(Debug, Clone)]
pub struct ForeignProgrammatic {
    programmatic: Programmatic,
    cancel: CancellationToken,
}

impl ForeignProgrammatic {
    pub(crate) fn new(
        client: LazyClient,
        model: Arc<dyn ForeignModel>,
        options: ProgrammaticOptions,
        (of_host, cancel): (&LimitOverrides, CancellationToken),
    ) -> Result<Self, SdkError> {
        let usual = ProgrammaticConfig::default();
        let config = ProgrammaticConfig {
            model_timeout: options.model_timeout_ms.map_or(usual.model_timeout, Duration::from_millis),
            reply_bytes: options.reply_bytes.unwrap_or(usual.reply_bytes),
            overview_tokens: options.overview_tokens.unwrap_or(usual.overview_tokens),
            limits: lowered(of_host, &limits(&options.limits)?),
            repair: match options.repair {
                RepairOption::Never => Repair::Never,
                RepairOption::IfNothingChanged => Repair::IfNothingChanged,
                RepairOption::Always => Repair::Always,
            },
            ..usual
        };
        Ok(Self { programmatic: Programmatic::new(AskedModel(model), client).config(config), cancel })
    }

    /// Lets the model write a program, and runs it. Dropping the future cancels it.
    ///
    /// # Errors
    /// [`ErrorKind::Script`]: no program of the model succeeded. [`ErrorKind::Model`]: the model gave none.
    /// [`ErrorKind::Closed`]: the host is closed.
    pub async fn run(&self, options: PromptOptions) -> Result<Answered, SdkError> {
        let mut request = ProgrammaticRequest::new(options.prompt).history(options.history);
        (request.system, request.phase) = (options.system, options.phase);
        let run = self.cancel.run_until_cancelled(self.programmatic.run(request));
        match run.await.ok_or_else(SdkError::closed)? {
            Ok(answer) => Ok(Answered {
                outcome: answer.outcome.into(),
                code: answer.code,
                attempts: answer.attempts.iter().map(attempt).collect(),
                messages: answer.messages,
            }),
            Err(failed) => {
                let text = failed.to_string();
                Err(SdkError { text, ..error(&failed.error) })
            }
        }
    }

    /// Returns the part of the system prompt that says what a program is and which tools there are.
    pub fn teaching(&self) -> String {
        self.programmatic.teaching()
    }
}

fn attempt(attempt: &Attempt) -> Value {
    json!({
        "reply": attempt.reply,
        "code": attempt.code,
        "model": attempt.model,
        "execution": attempt.execution.map(UsageShape::from),
        "changes": attempt.changes,
        "error": attempt.error.as_ref().map(ToString::to_string),
    })
}

fn error(error: &ProgrammaticError) -> SdkError {
    match error {
        ProgrammaticError::Execution(error) => host_client::Error::Execution(error.clone()).into(),
        ProgrammaticError::Relay(error) => SdkError::new(ErrorKind::Connection, "NOT_RUN", error.to_string()),
        ProgrammaticError::ModelTimeout(_) => SdkError::new(ErrorKind::Model, "MODEL_TIMEOUT", error.to_string()),
        ProgrammaticError::NoCode { .. } => SdkError::new(ErrorKind::Model, "NO_CODE", error.to_string()),
        ProgrammaticError::Cut => SdkError::new(ErrorKind::Model, "REPLY_CUT", error.to_string()),
        ProgrammaticError::Model(_) => SdkError::new(ErrorKind::Model, "MODEL_FAILED", error.to_string()),
    }
}

/// A model that is a function of another language.
struct AskedModel(Arc<dyn ForeignModel>);

#[async_trait]
impl Model for AskedModel {
    async fn complete(&self, request: ModelRequest) -> Result<ModelReply, ModelError> {
        let reply = self.0.complete(request.into()).await.map_err(|ModelFault { kind, message }| match kind {
            ModelFaultKind::Unreachable => ModelError::Unreachable(message.into()),
            ModelFaultKind::Unauthenticated => ModelError::Unauthenticated(message.into()),
            ModelFaultKind::Overloaded => ModelError::Overloaded(message.into()),
            ModelFaultKind::Refused => ModelError::Refused(message.into()),
        })?;
        Ok(ModelReply { text: reply.text, is_cut: reply.is_cut, usage: reply.usage })
    }
}
