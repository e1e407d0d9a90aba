//! The functions of another language that a host calls, as traits.
//!
//! Their futures are dropped when nobody waits for them any more: a binding stops its function then.

use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use host_client::approval::ApprovalFuture;
use host_client::page::LocalPage;
use host_client::programmatic::{self, Message, ModelUsage};
use host_client::prompt::{self, Space};
use host_client::{Approval, ApprovalRequest, Approver, CallContext, ErrorCode, ToolError};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::Instant;

use crate::shape::ms;

/// The text of a function's own error, such as the message of an exception.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ForeignFault(pub String);

/// A function that is a tool.
#[async_trait]
pub trait ForeignCall: Send + Sync + 'static {
    /// Runs the function. `arguments` is JSON that fits the tool's schema; the result is UTF-8 JSON.
    ///
    /// # Errors
    /// A [`ToolFault`], which the code reads.
    async fn call(&self, arguments: String, context: ForeignContext) -> Result<Bytes, ToolFault>;
}

/// The failure of a function that is a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolFault {
    /// `TOOL_FAILED`, `TOOL_DENIED`, `INVALID_ARGUMENTS`, `TOOL_RESULT_LIMIT`, `TOOL_TIMEOUT` or `OUTCOME_UNKNOWN`; any
    /// other code counts as the first.
    pub code: String,
    /// The text for the author of the code.
    pub message: String,
}

impl ToolFault {
    /// Makes a failure with the code `TOOL_FAILED`.
    pub fn failed(message: impl Into<String>) -> Self {
        Self { code: ErrorCode::ToolFailed.as_str().to_owned(), message: message.into() }
    }
}

impl From<ToolFault> for ToolError {
    fn from(ToolFault { code, message }: ToolFault) -> Self {
        match code.as_str() {
            "TOOL_DENIED" => Self::denied(message),
            "INVALID_ARGUMENTS" => Self::invalid_arguments(message),
            "TOOL_RESULT_LIMIT" => Self::too_large(message),
            "TOOL_TIMEOUT" => Self::timed_out(message),
            "OUTCOME_UNKNOWN" => Self::outcome_unknown(message),
            _ => Self::new(message),
        }
    }
}

/// The context of a call, for the function that runs it.
#[derive(Debug, Clone)]
pub struct ForeignContext(CallContext);

/// What is known of a call.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CallInfo {
    /// The id of the execution whose code calls.
    pub execution: String,
    /// The call's id in its session.
    pub call: u64,
    /// The tool's full name.
    pub tool: String,
    /// The time that is left until the call is given up.
    pub remaining_ms: f64,
    /// The key that tells this call from all others, for services that do a request with the same key once.
    pub idempotency_key: String,
    /// The W3C trace and span of the call.
    pub traceparent: String,
}

impl ForeignContext {
    pub(crate) fn new(context: CallContext) -> Self {
        Self(context)
    }

    /// Returns what is known of the call.
    pub fn info(&self) -> CallInfo {
        CallInfo {
            execution: self.0.execution.as_str().to_owned(),
            call: self.0.call,
            tool: self.0.tool.to_string(),
            remaining_ms: ms(self.0.remaining()),
            idempotency_key: self.0.idempotency_key().to_owned(),
            traceparent: self.0.trace.to_string(),
        }
    }

    /// Reports progress: `done` of `total`, in a unit of the tool's choice; `None`: the total is not known. It never waits.
    pub fn progress(&self, done: f64, total: Option<f64>, message: impl Into<String>) {
        self.0.progress(done, total, message);
    }

    /// Returns whether nobody waits for the call any more.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Completes when nobody waits for the call any more.
    pub fn cancelled(&self) -> impl Future<Output = ()> + Send + use<> {
        self.0.cancelled()
    }
}

/// A function that decides on calls which need an approval.
#[async_trait]
pub trait ForeignApprover: Send + Sync + 'static {
    /// Returns the name of the person or system that answers, for events and the audit.
    fn name(&self) -> String;

    /// Asks about a call.
    ///
    /// # Errors
    /// The function failed: the call is denied.
    async fn approve(&self, question: Question) -> Result<Answer, ForeignFault>;
}

/// A tool call that needs an approval.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Question {
    /// The id of the execution whose code calls.
    pub execution: String,
    /// The call's id in its session.
    pub call: u64,
    /// The tool's full name.
    pub tool: String,
    /// The tool's description.
    pub description: String,
    /// The arguments. If the call is approved, the tool gets exactly these.
    pub arguments: Value,
    /// The tool's effect: `read_only`, `mutating` or `privileged`; `null`: it is unknown.
    pub effect: Option<String>,
    /// The rule of the policy that requires the approval.
    pub rule: String,
    /// The code of the execution.
    pub code: String,
    /// The line of the code that makes the call, from 1; `null`: it is not known.
    pub line: Option<usize>,
    /// The time for an answer; without one, the call is denied.
    pub within_ms: f64,
    /// The question as text for a person, of at most 50 rows with 80 columns; what does not fit is cut, and said to be.
    pub text: String,
}

impl From<&ApprovalRequest> for Question {
    fn from(request: &ApprovalRequest) -> Self {
        let remaining = request.deadline.saturating_duration_since(Instant::now());
        let question = prompt::Question {
            tool: request.tool.as_str(),
            effect: request.manifest.effect,
            rule: &request.rule,
            arguments: &request.arguments,
            script: Some((&request.code, request.line)),
            remaining,
        };
        Self {
            execution: request.execution.as_str().to_owned(),
            call: request.call,
            tool: request.tool.to_string(),
            description: request.description.clone(),
            arguments: Value::clone(&request.arguments),
            effect: request.manifest.effect.map(|effect| effect.to_string()),
            rule: request.rule.to_string(),
            code: request.code.to_string(),
            line: request.line,
            within_ms: ms(remaining),
            text: prompt::render(&question, Space::default()),
        }
    }
}

/// The answer to a [`Question`].
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "scope", rename_all = "snake_case", deny_unknown_fields)]
pub enum Answer {
    /// Denies the call.
    Deny {
        /// The reason, which the code gets; `null`: none is given.
        #[serde(default)]
        reason: Option<String>,
    },
    /// Allows this call with these arguments.
    Once,
    /// Allows all calls of this tool until the execution ends.
    Execution,
    /// Allows all calls of this tool until the session ends.
    Session,
}

impl From<Answer> for Approval {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Deny { reason } => Self::Deny { reason },
            Answer::Once => Self::Once,
            Answer::Execution => Self::Execution,
            Answer::Session => Self::Session,
        }
    }
}

/// An approver of the host that calls a function.
pub(crate) struct Asked {
    function: Arc<dyn ForeignApprover>,
    name: String,
}

impl Asked {
    pub(crate) fn new(function: Arc<dyn ForeignApprover>) -> Self {
        Self { name: function.name(), function }
    }
}

impl Approver for Asked {
    fn name(&self) -> &str {
        &self.name
    }

    fn approve(&self, request: ApprovalRequest) -> ApprovalFuture {
        let function = Arc::clone(&self.function);
        Box::pin(async move {
            match function.approve(Question::from(&request)).await {
                Ok(answer) => answer.into(),
                Err(fault) => Approval::Deny { reason: Some(format!("the approver failed: {fault}")) },
            }
        })
    }
}

/// Returns the approver that asks a function and a page at the same time, or the one of both that there is.
pub(crate) fn asked(function: Option<Arc<dyn ForeignApprover>>, page: Option<&LocalPage>) -> Option<Arc<dyn Approver>> {
    let function = function.map(|function| Arc::new(Asked::new(function)) as Arc<dyn Approver>);
    match page {
        Some(page) => Some(Arc::new(page.approver(function))),
        None => function,
    }
}

/// A function that gives tokens.
#[async_trait]
pub trait ForeignTokens: Send + Sync + 'static {
    /// Returns a fresh bearer token.
    ///
    /// # Errors
    /// The function failed: there is no connection.
    async fn token(&self) -> Result<String, ForeignFault>;
}

/// A function that asks a language model.
#[async_trait]
pub trait ForeignModel: Send + Sync + 'static {
    /// Returns the next message of a conversation.
    ///
    /// # Errors
    /// A [`ModelFault`].
    async fn complete(&self, request: ModelQuestion) -> Result<Reply, ModelFault>;
}

/// A conversation that a model is to continue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ModelQuestion {
    /// The system prompt.
    pub system: String,
    /// The messages so far; the last is the user's.
    pub messages: Vec<Message>,
    /// The most bytes that the reply may have.
    pub reply_bytes: usize,
}

impl From<programmatic::ModelRequest> for ModelQuestion {
    fn from(request: programmatic::ModelRequest) -> Self {
        Self { system: request.system, messages: request.messages, reply_bytes: request.reply_bytes }
    }
}

/// The reply of a model.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reply {
    /// The text.
    pub text: String,
    /// `true`: the reply ended at the limit of tokens.
    #[serde(default)]
    pub is_cut: bool,
    /// The tokens of the reply and its request.
    #[serde(default)]
    pub usage: ModelUsage,
}

/// The failure of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelFault {
    /// What failed.
    pub kind: ModelFaultKind,
    /// The text.
    pub message: String,
}

/// What failed when a model was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelFaultKind {
    /// The provider does not answer.
    Unreachable,
    /// The provider rejects the key.
    Unauthenticated,
    /// The provider is busy.
    Overloaded,
    /// The provider refuses the request; any other failure.
    Refused,
}
