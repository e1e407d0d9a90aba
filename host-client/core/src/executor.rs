//! The step of a call that runs its tool, as a [`tower::Service`] that applications can wrap in layers
//! ([`Host::layer`](crate::Host::layer)).

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

/// A call that is about to run: the policy allowed it, its arguments fit the tool's schema, it has the approval that it
/// needs, and the audit recorded it.
pub struct ToolRequest {
    /// The call's origin, deadline and trace.
    pub context: CallContext,
    /// The arguments of the call.
    pub arguments: Value,
    pub(crate) registered: Arc<Registered>,
}

impl ToolRequest {
    /// Returns the tool's manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.registered.spec.manifest
    }
}

impl fmt::Debug for ToolRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolRequest").field("context", &self.context).finish_non_exhaustive()
    }
}

/// The service that runs tools, with all layers around it. Responses are UTF-8 JSON. If a layer fails with an error of
/// its own, the call fails with `TOOL_FAILED`.
pub type ToolService = BoxCloneSyncService<ToolRequest, Bytes, BoxError>;

/// The innermost service, which waits for the tool's concurrency limit and calls the tool.
#[derive(Debug, Clone, Copy)]
struct Executor;

/// A tool's error while it passes through the layers, which know only boxed errors.
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
                Some(places) => {
                    context.life.wait_turn();
                    let place = places.acquire().await?;
                    if !context.life.take_turn() {
                        return Err("it was not run: nobody waits for it any more".into());
                    }
                    Some(place)
                }
                None => None,
            };
            Ok(registered.tool.call(arguments, context).await.map_err(ToolFailure)?)
        })
    }
}

/// Creates a service without layers.
pub(crate) fn service() -> ToolService {
    BoxCloneSyncService::new(Executor)
}

/// Wraps a service in a layer.
pub(crate) fn layered<L>(service: ToolService, layer: &L) -> ToolService
where
    L: Layer<ToolService>,
    L::Service: Service<ToolRequest, Response = Bytes> + Clone + Send + Sync + 'static,
    <L::Service as Service<ToolRequest>>::Error: Into<BoxError>,
    <L::Service as Service<ToolRequest>>::Future: Send + 'static,
{
    BoxCloneSyncService::new(layer.layer(service).map_err(Into::into))
}

/// Runs a call with a service.
///
/// # Errors
/// The code and message of the tool's error, or `TOOL_FAILED` and the message of a layer's error.
pub(crate) async fn run(service: ToolService, request: ToolRequest) -> Result<Bytes, (ErrorCode, String)> {
    service.oneshot(request).await.map_err(|error| match error.downcast::<ToolFailure>() {
        Ok(failure) => failure.0.into_parts(),
        Err(error) => ToolError::new(error.to_string()).into_parts(),
    })
}
