//! Calls one operation: sends the request, and converts the response to JSON.

use std::sync::Arc;

use http::header::HeaderValue;
use serde_json::Value;
use url::Url;

use super::credential::Credentials;
use super::operation::{Operation, is_safe};
use super::{request, response};
use crate::net::{BodyLimit, GuardedClient};
use host_client_core::tool::DEFAULT_RESULT_BYTES;
use host_client_core::tool::{CallContext, CallFuture, Tool, ToolSpec};

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

    // The schema of its results declares them. Documents often promise more than their servers keep.
    fn result_fits_by_type(&self) -> bool {
        true
    }

    fn effect_origin(&self) -> Option<String> {
        Some(format!("the method {}", self.operation.method))
    }

    fn call(&self, arguments: Value, context: CallContext) -> CallFuture {
        let api = Arc::clone(&self.api);
        let request = request::build(&self.operation, &api.server, &api.credentials, arguments);
        let (is_safe, key) = (is_safe(&self.operation.method), self.operation.key.clone());
        let label = format!("{} {}", self.operation.method, self.operation.template);
        Box::pin(async move {
            let mut request = request?;
            if api.propagates_trace {
                request.headers.insert("traceparent", HeaderValue::try_from(context.trace.to_string())?);
            }
            if let Some(header) = key {
                request.headers.insert(header, HeaderValue::try_from(context.idempotency_key())?);
            }
            let limit = BodyLimit::FailOver(DEFAULT_RESULT_BYTES);
            let answer = api.client.send(request, limit, context.deadline).await;
            response::result(answer.map_err(|error| error.into_tool_error(is_safe))?, &api.credentials, &label)
        })
    }
}
