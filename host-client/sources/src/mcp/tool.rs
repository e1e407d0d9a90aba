//! Tool of an MCP server, and one call of it.

use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, RequestMetaObject, ServerResult, Tool as ListedTool,
};
use rmcp::service::{PeerRequestOptions, RequestHandle, ServiceError};
use serde_json::{Map, Value};

use super::content;
use super::failure::{Failure, Fate, fate};
use super::link::{Connection, Link};
use super::text::clip;
use host_client_core::tool::Effect;
use host_client_core::tool::{CallContext, CallFuture, Tool, ToolError, ToolSpec};

/// Maximum length of a description, in bytes. A longer one is cut.
const MAX_DESCRIPTION_BYTES: usize = 16 << 10;
/// Maximum length of a server's error message, in bytes. A longer one is cut.
const MAX_ERROR_BYTES: usize = 4 << 10;
/// Maximum time for a server to read the notification that a call is cancelled.
const CANCEL_WITHIN: Duration = Duration::from_secs(10);

/// Tool as its server listed it.
pub(super) struct McpTool {
    pub(super) link: Arc<Link>,
    pub(super) listed: ListedTool,
}

impl McpTool {
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
        // The annotation of a server is a hint; a policy may override it.
        spec.manifest.effect = listed.annotations.as_ref().map(|annotations| match annotations.read_only_hint {
            Some(true) => Effect::ReadOnly,
            _ => Effect::Mutating,
        });
        spec
    }

    fn call(&self, arguments: Value, context: CallContext) -> CallFuture {
        let link = Arc::clone(&self.link);
        let (name, full_name) = (self.listed.name.clone(), self.full_name());
        Box::pin(async move {
            let connection = link.connection()?;
            let arguments = match arguments {
                Value::Object(arguments) => arguments,
                Value::Null => Map::new(),
                _ => return Err(ToolError::new(format!("{full_name} takes an object of named arguments"))),
            };
            let mut meta = RequestMetaObject::new();
            meta.set_traceparent(context.trace.to_string());
            let params = CallToolRequestParams::new(name).with_arguments(arguments);
            match PendingCall::send(&connection, params, meta).await?.answer().await {
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
        ServiceError::McpError(error) => ToolError::new(clip(&error.message, MAX_ERROR_BYTES)),
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
            Ok(handle) => Ok(Self { handle: Some(handle), connection }),
            Err(_) => Err(ToolError::new(
                "the call was not sent, because the connection to the MCP server has just ended; try again in a few \
                 seconds",
            )),
        }
    }

    /// Waits for the answer.
    async fn answer(mut self) -> Result<ServerResult, ServiceError> {
        let Some(handle) = &mut self.handle else { return Err(ServiceError::TransportClosed) };
        let answer = (&mut handle.rx).await;
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
