//! Tool of an MCP server, and one call of it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use rmcp::RoleClient;
use rmcp::handler::client::progress::ProgressSubscriber;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, RequestMetaObject, ServerResult, Tool as ListedTool,
};
use rmcp::service::{PeerRequestOptions, RequestHandle, ServiceError};
use serde_json::{Map, Value};

use super::content;
use super::failure::{Failure, Fate, fate};
use super::link::{Connection, Link};
use super::message;
use super::text::clip;
use host_client_core::tool::Effect;
use host_client_core::tool::validate::Schema;
use host_client_core::tool::{CallContext, CallFuture, Tool, ToolError, ToolSpec};

/// Maximum length of a description, in bytes. A longer one is cut.
const MAX_DESCRIPTION_BYTES: usize = 16 << 10;
/// Maximum length of the reason why results are not checked, in bytes.
const MAX_REASON_BYTES: usize = 300;
/// Maximum time for a server to read the notification that a call is cancelled.
const CANCEL_WITHIN: Duration = Duration::from_secs(10);

/// Tool as its server listed it.
pub(super) struct McpTool {
    pub(super) link: Arc<Link>,
    pub(super) listed: ListedTool,
}

impl McpTool {
    /// Returns the effect of a call, and where it comes from. An annotation is a hint: one that makes a call more careful
    /// is always believed, one that says that it only reads is believed of servers that are trusted.
    fn effect(&self) -> (Option<Effect>, &'static str) {
        let Some(annotations) = &self.listed.annotations else {
            return (None, "unknown: the server has no annotations for it");
        };
        match annotations.read_only_hint {
            Some(true) if self.link.trusts_annotations() => (Some(Effect::ReadOnly), "the server's readOnlyHint"),
            Some(true) => {
                (None, "unknown: the server's readOnlyHint is not believed without trust_annotations in its entry")
            }
            _ => (Some(Effect::Mutating), "the server's annotations, which do not say that it only reads"),
        }
    }

    /// Returns the reason why the schema of its results cannot be checked; `None`: it can, or there is none.
    fn unusable_output_schema(&self) -> Option<String> {
        let schema = self.listed.output_schema.as_ref()?;
        Schema::compile(&Value::Object((**schema).clone())).err()
    }

    fn full_name(&self) -> String {
        format!("{}.{}", self.link.server(), self.listed.name)
    }
}

impl Tool for McpTool {
    fn spec(&self) -> ToolSpec {
        let listed = &self.listed;
        let annotated_title = listed.annotations.as_ref().and_then(|annotations| annotations.title.as_deref());
        let title = listed.title.as_deref().or(annotated_title);
        let description = listed.description.as_deref().filter(|text| !text.trim().is_empty());
        let description = clip(description.or(title).unwrap_or_default(), MAX_DESCRIPTION_BYTES);
        let mut spec = ToolSpec::new(self.full_name(), description, Value::Object((*listed.input_schema).clone()));
        spec.output_schema = listed.output_schema.as_ref().map(|schema| Value::Object((**schema).clone()));
        spec.manifest.effect = self.effect().0;
        spec
    }

    // A schema that cannot be used is the server's fault, and no reason to do without the tool.
    fn result_fits_by_type(&self) -> bool {
        self.unusable_output_schema().is_some()
    }

    fn notes(&self) -> Vec<String> {
        let reason = self.unusable_output_schema();
        reason
            .map(|reason| format!("its results are not checked: {}", clip(&reason, MAX_REASON_BYTES)))
            .into_iter()
            .collect()
    }

    fn effect_origin(&self) -> Option<String> {
        Some(self.effect().1.to_owned())
    }

    fn typed_part(&self, result: &Value) -> Option<Value> {
        content::structured(result)
    }

    fn call(&self, arguments: Value, context: CallContext) -> CallFuture {
        let link = Arc::clone(&self.link);
        let (name, full_name) = (self.listed.name.clone(), self.full_name());
        Box::pin(async move {
            let connection = link.connection_before(context.deadline).await?;
            let arguments = match arguments {
                Value::Object(arguments) => arguments,
                Value::Null => Map::new(),
                _ => return Err(ToolError::new(format!("{full_name} takes an object of named arguments"))),
            };
            let mut meta = RequestMetaObject::new();
            meta.set_traceparent(context.trace.to_string());
            let params = CallToolRequestParams::new(name).with_arguments(arguments);
            match PendingCall::send(&connection, params, meta).await?.answer(&context).await {
                Ok(answer) => content::result(&full_name, answer),
                Err(error) => Err(call_error(&link, &connection, error).await),
            }
        })
    }
}

/// Converts the failure of a call to the error that code receives. May break off the connection.
async fn call_error(link: &Link, connection: &Connection, error: ServiceError) -> ToolError {
    let server = link.server();
    match error {
        ServiceError::McpError(error) if message::is_unreadable(&error) => ToolError::outcome_unknown(format!(
            "the MCP server {server:?} answered with what cannot be read: {}; what was asked may have been done",
            error.message
        )),
        ServiceError::McpError(error) => ToolError::new(content::error(&error)),
        ServiceError::TransportSend(error) => match fate(error.error.as_ref(), link.secrets()) {
            Fate::Refused(why) => ToolError::new(format!("the MCP server {server:?} did not take the call: {why}")),
            Fate::Lost(failure) => {
                let message = format!(
                    "the MCP server {server:?} did not get the call: {failure}; it is connected again, try again in a \
                     few seconds"
                );
                connection.break_off(failure);
                ToolError::new(message)
            }
            Fate::Unknown(why) => ToolError::outcome_unknown(format!(
                "the MCP server {server:?} may or may not have done the call: {why}; look before you repeat it"
            )),
        },
        _ => link.no_answer().await,
    }
}

/// Call that the server has not answered. Dropping it sends the server a cancellation.
struct PendingCall<'a> {
    handle: Option<RequestHandle<RoleClient>>,
    /// The server's reports of its progress.
    reports: ProgressSubscriber,
    connection: &'a Connection,
}

impl<'a> PendingCall<'a> {
    /// Sends the call.
    ///
    /// # Errors
    /// `TOOL_FAILED` if the connection has ended; the server has not seen the call.
    async fn send(
        connection: &'a Connection,
        params: CallToolRequestParams,
        meta: RequestMetaObject,
    ) -> Result<Self, ToolError> {
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let options = PeerRequestOptions::no_options().with_meta(meta);
        match connection.peer.send_request_with_option(request, options).await {
            Ok(handle) => {
                let reports = connection.progress.subscribe(handle.progress_token.clone()).await;
                Ok(Self { handle: Some(handle), reports, connection })
            }
            Err(_) => Err(ToolError::new(
                "the call was not sent, because the connection to the MCP server has just ended; try again in a few \
                 seconds",
            )),
        }
    }

    /// Waits for the answer, and passes reports of progress on until it comes.
    async fn answer(mut self, context: &CallContext) -> Result<ServerResult, ServiceError> {
        let Some(handle) = &mut self.handle else { return Err(ServiceError::TransportClosed) };
        let answer = loop {
            tokio::select! {
                biased;
                Some(report) = self.reports.next() => {
                    context.progress(report.progress, report.total, report.message.unwrap_or_default());
                }
                answer = &mut handle.rx => break answer,
            }
        };
        self.handle = None;
        answer.unwrap_or(Err(ServiceError::TransportClosed))
    }
}

impl Drop for PendingCall<'_> {
    fn drop(&mut self) {
        let (Some(handle), Ok(runtime)) = (self.handle.take(), tokio::runtime::Handle::try_current()) else { return };
        let connection = self.connection.clone();
        runtime.spawn(async move {
            let cancelled = handle.cancel(Some("nobody waits for the result any more".into()));
            // The connection is broken off, because the queue to a server that does not read would grow with every
            // call.
            if tokio::time::timeout(CANCEL_WITHIN, cancelled).await.is_err() {
                connection.break_off(Failure::NotReading);
            }
        });
    }
}
