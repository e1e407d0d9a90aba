//! The step that runs a tool, as a [`tower::Service`]: an application puts layers of its own around it.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use relay_proto::ErrorCode;
use serde_json::Value;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Layer, Service, ServiceExt};

use crate::tool::Manifest;
use crate::tool::Registered;
use crate::tool::{CallContext, ToolError};

/// A call that has passed everything before it runs: the policy, its schema, an approval where one was needed, the audit.
pub struct ToolRequest {
    /// Where the call comes from.
    pub context: CallContext,
    /// The arguments.
    pub arguments: Value,
    pub(crate) registered: Arc<Registered>,
}

impl ToolRequest {
    /// What is known of the tool.
    pub fn manifest(&self) -> &Manifest {
        &self.registered.spec.manifest
    }
}

impl fmt::Debug for ToolRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolRequest").field("context", &self.context).finish_non_exhaustive()
    }
}

/// What runs tools, with all layers around it. The answer is UTF-8 JSON. A layer's own errors become `TOOL_FAILED`.
pub type ToolService = BoxCloneSyncService<ToolRequest, Bytes, BoxError>;

/// The innermost service: it calls the tool.
#[derive(Debug, Clone, Copy)]
struct Executor;

/// A tool's error on its way through layers.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct ToolFailure(ToolError);

impl Service<ToolRequest> for Executor {
    type Response = Bytes;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Bytes, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: ToolRequest) -> Self::Future {
        let ToolRequest { context, arguments, registered } = request;
        Box::pin(async move {
            let _place = match &registered.places {
                Some(places) => Some(places.acquire().await?),
                None => None,
            };
            Ok(registered.tool.call(arguments, context).await.map_err(ToolFailure)?)
        })
    }
}

/// A service that runs tools and nothing else.
pub(crate) fn service() -> ToolService {
    BoxCloneSyncService::new(Executor)
}

/// Puts a layer around a service.
pub(crate) fn layered<L>(service: ToolService, layer: &L) -> ToolService
where
    L: Layer<ToolService>,
    L::Service: Service<ToolRequest, Response = Bytes> + Clone + Send + Sync + 'static,
    <L::Service as Service<ToolRequest>>::Error: Into<BoxError>,
    <L::Service as Service<ToolRequest>>::Future: Send + 'static,
{
    BoxCloneSyncService::new(layer.layer(service).map_err(Into::into))
}

/// Runs a call through a service.
pub(crate) async fn run(service: ToolService, request: ToolRequest) -> Result<Bytes, (ErrorCode, String)> {
    service.oneshot(request).await.map_err(|error| match error.downcast::<ToolFailure>() {
        Ok(failure) => failure.0.into_parts(),
        Err(error) => ToolError::new(error.to_string()).into_parts(),
    })
}
