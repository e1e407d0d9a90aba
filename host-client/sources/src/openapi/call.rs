//! Calls one operation: sends the request, and converts the response to JSON.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue};
use serde::de::IgnoredAny;
use serde_json::Value;
use url::Url;

use super::credential::Credentials;
use super::operation::{Operation, is_safe};
use super::parameters::is_json;
use super::request;
use crate::net::{Answer, BodyLimit, GuardedClient};
use host_client_core::tool::DEFAULT_RESULT_BYTES;
use host_client_core::tool::{CallContext, CallFuture, Tool, ToolError, ToolSpec};

/// Maximum number of characters of a response that an error quotes.
const QUOTED_CHARS: usize = 500;

/// Client, server and credentials that all operations of a document share.
pub(super) struct Api {
    pub(super) client: GuardedClient,
    pub(super) server: Url,
    pub(super) credentials: Credentials,
    pub(super) propagates_trace: bool,
}

/// Operation of a document as a tool.
pub(super) struct OperationTool {
    pub(super) api: Arc<Api>,
    pub(super) operation: Operation,
}

impl Tool for OperationTool {
    fn spec(&self) -> ToolSpec {
        self.operation.spec.clone()
    }

    fn call(&self, arguments: Value, context: CallContext) -> CallFuture {
        let api = Arc::clone(&self.api);
        let request = request::build(&self.operation, &api.server, &api.credentials, arguments);
        let is_safe = is_safe(&self.operation.method);
        let label = format!("{} {}", self.operation.method, self.operation.template);
        Box::pin(async move {
            let mut request = request?;
            if api.propagates_trace {
                request.headers.insert("traceparent", HeaderValue::try_from(context.trace.to_string())?);
            }
            let limit = BodyLimit::FailOver(DEFAULT_RESULT_BYTES);
            let answer = api.client.send(request, limit, context.deadline).await;
            result(answer.map_err(|error| error.into_tool_error(is_safe))?, &api.credentials, &label)
        })
    }
}

/// Converts a response to the result for code: its JSON as it came, else the text as a string, or `null` without a
/// body.
///
/// # Errors
/// `TOOL_FAILED` with the beginning of the body if the status is not a success.
fn result(answer: Answer, credentials: &Credentials, label: &str) -> Result<Bytes, ToolError> {
    let Answer { status, headers, body, .. } = answer;
    let text = credentials.redact(String::from_utf8_lossy(&body).into_owned());
    if !status.is_success() {
        let quoted: String = text.chars().take(QUOTED_CHARS).collect();
        return Err(ToolError::new(format!("{label} was answered with {status}: {}", quoted.trim())));
    }
    if text.is_empty() || matches!(status, StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT) {
        return Ok(Bytes::from_static(b"null"));
    }
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if is_json(content_type) && serde_json::from_str::<IgnoredAny>(&text).is_ok() {
        return Ok(text.into());
    }
    Ok(serde_json::to_vec(&text)?.into())
}
