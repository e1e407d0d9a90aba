//! Tools that share a state and are registered together.

use std::sync::Arc;

use crate::tool::Tool;

/// Tools that share a state and are registered together by [`Tools::add_set`](crate::Tools::add_set).
///
/// The attribute `#[host_client::tools]` over an `impl` implements this. By hand, return a list of tools:
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use host_client_core::tool::spec::CallFuture;
/// use host_client_core::{CallContext, Tool, ToolSet, ToolSpec, Tools};
/// use serde_json::{Value, json};
///
/// struct Next(Arc<AtomicU64>);
///
/// impl Tool for Next {
///     fn spec(&self) -> ToolSpec {
///         ToolSpec::new("counter.next", "Counts up", json!({"type": "object"}))
///     }
///
///     fn call(&self, _arguments: Value, _context: CallContext) -> CallFuture {
///         let number = self.0.fetch_add(1, Ordering::Relaxed);
///         Box::pin(async move { Ok(number.to_string().into()) })
///     }
/// }
///
/// struct Counter { number: Arc<AtomicU64> }
///
/// impl ToolSet for Counter {
///     fn tools(self: Arc<Self>) -> Vec<Arc<dyn Tool>> {
///         vec![Arc::new(Next(Arc::clone(&self.number)))]
///     }
/// }
///
/// let tools = Tools::new();
/// tools.add_set(Counter { number: Arc::default() })?;
/// assert!(tools.spec("counter.next").is_some());
/// # Ok::<_, host_client_core::Error>(())
/// ```
pub trait ToolSet: Send + Sync + 'static {
    /// Returns the tools, each of which shares the state.
    fn tools(self: Arc<Self>) -> Vec<Arc<dyn Tool>>;
}

impl<S: ToolSet> ToolSet for Arc<S> {
    fn tools(self: Arc<Self>) -> Vec<Arc<dyn Tool>> {
        S::tools(Arc::clone(&self))
    }
}
