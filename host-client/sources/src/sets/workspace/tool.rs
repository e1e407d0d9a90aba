//! Tool of the workspace: typed arguments and result, with blocking work on a thread of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::failure::Failure;
use super::root::Root;
use host_client_core::tool::{CallContext, CallFuture, Tool, ToolSpec};
use host_client_core::tool::{Effect, Mode};

/// Maximum number of concurrent calls of one tool. Each call holds a thread.
const CONCURRENCY: usize = 8;

/// Function that does the work of a tool.
type Run<A, R> = fn(&Root, A, &Cancel) -> Result<R, Failure>;

/// Tool made of a function over the root.
pub(super) struct WorkspaceTool<A, R> {
    spec: ToolSpec,
    root: Arc<Root>,
    run: Run<A, R>,
}

/// Flag that is set when a call is cancelled. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Cancel(Arc<AtomicBool>);

/// Guard that sets the flag when the future of the call is dropped.
pub(super) struct CancelGuard(pub(super) Cancel);

impl Cancel {
    /// Checks that the call was not cancelled.
    ///
    /// # Errors
    /// [`Failure::Cancelled`].
    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.0.load(Ordering::Relaxed) { Err(Failure::Cancelled) } else { Ok(()) }
    }
}

impl Drop for CancelGuard {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

impl<A, R> WorkspaceTool<A, R>
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    R: Serialize + JsonSchema + 'static,
{
    /// Makes a tool with schemas of its types. A tool that writes runs one call at a time.
    pub(super) fn new(name: String, description: &str, effect: Effect, root: &Arc<Root>, run: Run<A, R>) -> Arc<Self> {
        let mut spec = ToolSpec::new(name, description, schemars::schema_for!(A).to_value())
            .output_schema(schemars::schema_for!(R).to_value())
            .effect(effect)
            .mode(Mode::RestrictedLocal);
        spec.manifest.concurrency = Some(if effect == Effect::ReadOnly { CONCURRENCY } else { 1 });
        Arc::new(Self { spec, root: Arc::clone(root), run })
    }
}

impl<A, R> Tool for WorkspaceTool<A, R>
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    R: Serialize + JsonSchema + 'static,
{
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    fn call(&self, arguments: Value, _context: CallContext) -> CallFuture {
        let (root, run) = (Arc::clone(&self.root), self.run);
        Box::pin(async move {
            let arguments = serde_json::from_value::<A>(arguments)?;
            let cancel = Cancel::default();
            let _guard = CancelGuard(cancel.clone());
            let work = move || {
                let result = run(&root, arguments, &cancel).map_err(Failure::into_tool_error)?;
                Ok(serde_json::to_vec(&result)?.into())
            };
            tokio::task::spawn_blocking(work).await?
        })
    }

    fn result_fits_by_type(&self) -> bool {
        true
    }
}
