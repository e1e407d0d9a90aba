//! Calls of the server `mcp`, by which code asks about its tools. They read only what the code may know, so that they
//! need no approval; they are counted, recorded and timed as other calls are.

use bytes::Bytes;
use relay_proto::{ErrorCode, ToolName};
use serde_json::Value;

use super::{CheckedResult, Denied, Dispatch, Failed, Failure};
use crate::audit::{self, Arguments};
use crate::introspect;
use crate::tool::Effect;

impl Dispatch<'_> {
    pub(super) async fn answer(&self, arguments: Value) -> Result<(ToolName, CheckedResult), Failed> {
        let (context, tool) = (&self.call.context, &self.message.tool);
        let name = ToolName::try_from(tool.clone());
        let name = name.map_err(|error| Failure(ErrorCode::InvalidToolName, error.to_string()))?;
        if !context.introspection.is_allowed {
            let text = "there is no server \"mcp\" for this execution: it did not ask for the binding introspection";
            return Err(Failure(ErrorCode::UnknownServer, text.into()).into());
        }
        if let Err((code, message)) = context.spending.call(&name) {
            let denied = Denied { tool: name, effect: Some(Effect::ReadOnly), rule: "budget".into() };
            return Err(Failed { failure: Failure(code, message), denied: Some(denied) });
        }
        let bytes = self.message.arguments.len();
        let recorded = self.call.decide(
            Some(Effect::ReadOnly),
            Arguments::Value { value: &arguments, bytes },
            (audit::Decision::Allow, "introspection"),
        );
        recorded.map_err(|error| self.unrecorded(&error))?;
        let left = self.left();
        let answer = tokio::time::timeout(left, self.answered(arguments)).await.map_err(|_elapsed| {
            let text = format!("{tool} did not answer within {} ms", left.as_millis());
            Failure(ErrorCode::ToolTimeout, text)
        });
        let json = answer??;
        context.spending.read(&name, json.len() as u64).map_err(|(code, message)| Failure(code, message))?;
        Ok((name, CheckedResult(json)))
    }

    async fn answered(&self, arguments: Value) -> Result<Bytes, Failure> {
        let questions = &self.call.context.introspection;
        let _turn = questions.turn.lock().await;
        let is_of_all = self.message.tool == "mcp.interfaces";
        if let (true, Some(interfaces)) = (is_of_all, questions.interfaces.get()) {
            return Ok(interfaces.clone());
        }
        let (tools, patterns) = (self.host.offered(self.call.context.phase).clone(), self.call.context.tools.clone());
        let tool = self.message.tool.clone();
        // Many tools take a while to describe, and others wait for this thread.
        let answered = tokio::task::spawn_blocking(move || {
            let answer = introspect::answer(&tools, &patterns, &tool, &arguments)?;
            serde_json::to_vec(&answer).map_err(|error| (ErrorCode::Internal, error.to_string()))
        });
        let answer = answered.await.map_err(|error| Failure(ErrorCode::Internal, error.to_string()))?;
        let json: Bytes = answer.map_err(|(code, message)| Failure(code, message))?.into();
        if is_of_all {
            questions.interfaces.get_or_init(|| json.clone());
        }
        Ok(json)
    }
}
