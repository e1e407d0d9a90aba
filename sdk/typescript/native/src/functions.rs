//! The functions of JavaScript that a host calls, as the traits of `relay-sdk`.

use async_trait::async_trait;
use bytes::Bytes;
use relay_sdk::foreign::{
    Answer, ForeignApprover, ForeignCall, ForeignContext, ForeignFault, ForeignModel, ForeignTokens, ModelFault,
    ModelFaultKind, ModelQuestion, Question, Reply, ToolFault,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ask::{Asker, Fault, Kind};

/// Every function of a host: the question says which.
#[derive(Clone)]
pub(crate) struct Function(pub(crate) Asker);

#[async_trait]
impl ForeignCall for Function {
    async fn call(&self, arguments: String, context: ForeignContext) -> Result<Bytes, ToolFault> {
        let subject = json(&context.info()).map_err(|ForeignFault(text)| ToolFault::failed(text))?;
        match self.0.ask(Kind::Call, subject, arguments, Some(context)).await {
            Ok(result) => Ok(result.into()),
            Err(Fault { code, message }) => Err(ToolFault { code, message }),
        }
    }
}

#[async_trait]
impl ForeignApprover for Function {
    fn name(&self) -> String {
        "application".into()
    }

    async fn approve(&self, question: Question) -> Result<Answer, ForeignFault> {
        let answer = self.0.ask(Kind::Approval, String::new(), json(&question)?, None).await;
        parsed(answer)
    }
}

#[async_trait]
impl ForeignTokens for Function {
    async fn token(&self) -> Result<String, ForeignFault> {
        parsed(self.0.ask(Kind::Token, String::new(), String::new(), None).await)
    }
}

/// A model that a call of JavaScript has lent, by its name.
pub(crate) struct LentModel {
    pub(crate) asker: Asker,
    pub(crate) name: String,
}

#[async_trait]
impl ForeignModel for LentModel {
    async fn complete(&self, request: ModelQuestion) -> Result<Reply, ModelFault> {
        let refused = |ForeignFault(message)| ModelFault { kind: ModelFaultKind::Refused, message };
        let request = json(&request).map_err(refused)?;
        parsed(self.asker.ask(Kind::Model, self.name.clone(), request, None).await).map_err(refused)
    }
}

fn json(value: &impl Serialize) -> Result<String, ForeignFault> {
    serde_json::to_string(value).map_err(|error| ForeignFault(error.to_string()))
}

fn parsed<T: DeserializeOwned>(answer: Result<String, Fault>) -> Result<T, ForeignFault> {
    let text = answer.map_err(|fault| ForeignFault(fault.message))?;
    serde_json::from_str(&text).map_err(|error| ForeignFault(error.to_string()))
}
