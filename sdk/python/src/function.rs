//! Functions of Python that the host calls: tools, approvers, sources of tokens and models.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use pyo3::prelude::*;
use relay_sdk::foreign::ModelQuestion;
use relay_sdk::{
    Answer, ForeignApprover, ForeignCall, ForeignContext, ForeignFault, ForeignModel, ForeignTokens, ModelFault,
    ModelFaultKind, Question, Reply, ToolFault,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::mailbox::{Message, Shared};

/// A function of Python, by the number that the Python layer gave it.
#[derive(Clone)]
pub(crate) struct Function {
    pub(crate) mailbox: Arc<Shared>,
    pub(crate) number: u64,
}

/// Tells Python that nobody waits for a call any more, unless it has been answered.
struct Pending<'a>(&'a Shared, u64);

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.0.give_up(self.1);
    }
}

impl Function {
    /// Calls the function, and waits for its answer. Dropping the future stops it.
    async fn call_with(&self, payload: String, context: Option<ForeignContext>) -> Result<String, ToolFault> {
        let gone = || ToolFault::failed("the event loop of Python that this function runs on has ended");
        let (call, answer) = self.mailbox.begin().ok_or_else(gone)?;
        let pending = Pending(&self.mailbox, call);
        self.mailbox.post(Message::Call { call, function: self.number, payload, context });
        let answer = answer.await;
        drop(pending);
        answer.unwrap_or_else(|_closed| Err(gone()))
    }

    async fn ask<T: DeserializeOwned>(&self, question: &(impl Serialize + Sync)) -> Result<T, ToolFault> {
        let question = serde_json::to_string(question).map_err(|error| ToolFault::failed(error.to_string()))?;
        let answer = self.call_with(question, None).await?;
        serde_json::from_str(&answer).map_err(|error| ToolFault::failed(format!("its answer cannot be used: {error}")))
    }
}

#[async_trait]
impl ForeignCall for Function {
    async fn call(&self, arguments: String, context: ForeignContext) -> Result<Bytes, ToolFault> {
        Ok(self.call_with(arguments, Some(context)).await?.into())
    }
}

#[async_trait]
impl ForeignApprover for Function {
    fn name(&self) -> String {
        "python".to_owned()
    }

    async fn approve(&self, question: Question) -> Result<Answer, ForeignFault> {
        self.ask(&question).await.map_err(|fault| ForeignFault(fault.message))
    }
}

#[async_trait]
impl ForeignTokens for Function {
    async fn token(&self) -> Result<String, ForeignFault> {
        self.ask(&json!({})).await.map_err(|fault| ForeignFault(fault.message))
    }
}

#[async_trait]
impl ForeignModel for Function {
    async fn complete(&self, request: ModelQuestion) -> Result<Reply, ModelFault> {
        self.ask(&request).await.map_err(|fault: ToolFault| {
            let kind = match fault.code.as_str() {
                "unreachable" => ModelFaultKind::Unreachable,
                "unauthenticated" => ModelFaultKind::Unauthenticated,
                "overloaded" => ModelFaultKind::Overloaded,
                _ => ModelFaultKind::Refused,
            };
            ModelFault { kind, message: fault.message }
        })
    }
}

/// The context of a call of a tool.
#[pyclass(frozen, module = "sandbox_relay._native")]
pub(crate) struct Context(pub(crate) ForeignContext);

#[pymethods]
impl Context {
    /// Returns what is known of the call, as JSON.
    fn info(&self) -> String {
        serde_json::to_string(&self.0.info()).unwrap_or_default()
    }

    /// Reports progress.
    #[pyo3(signature = (done, total=None, message=""))]
    fn progress(&self, done: f64, total: Option<f64>, message: &str) {
        self.0.progress(done, total, message);
    }

    /// Returns whether nobody waits for the call any more.
    fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }
}
