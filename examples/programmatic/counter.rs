//! Counts the tokens that would pass through a model's context if it called the tools itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use host_client::executor::{ToolRequest, ToolService};
use host_client::{ToolSpec, Tools};
use relay_study::measure::tokens;
use relay_study::ways::as_clients_show;
use serde_json::json;
use tower::util::BoxCloneSyncService;
use tower::{Layer, ServiceExt as _};

/// Counts calls as a model would write them, and their results. Clones count together.
#[derive(Debug, Clone)]
pub(crate) struct Counter {
    /// The number of tools.
    pub(crate) tools: usize,
    /// The number of tokens of their definitions.
    pub(crate) definitions: u64,
    calls: Arc<AtomicU64>,
}

impl Counter {
    /// Creates a counter for the tools that there are now.
    pub(crate) fn of(tools: &Tools) -> Self {
        let specs = tools.specs();
        Self { tools: specs.len(), definitions: specs.iter().map(tokens_of).sum(), calls: Arc::default() }
    }

    /// Returns the layer that counts, around the service that runs tools.
    pub(crate) fn layer(&self) -> impl Layer<ToolService, Service = ToolService> + use<> {
        let counter = self.clone();
        tower::layer::layer_fn(move |service: ToolService| {
            let (written, read) = (counter.clone(), counter.clone());
            let counted = service
                .map_request(move |request: ToolRequest| {
                    written.add(
                        &json!({"name": request.context.tool.as_str(), "arguments": request.arguments}).to_string(),
                    );
                    request
                })
                .map_response(move |result: Bytes| {
                    read.add(&as_clients_show(serde_json::from_slice(&result).unwrap_or_default()));
                    result
                });
            BoxCloneSyncService::new(counted)
        })
    }

    /// Returns the number of tokens of the calls and their results so far.
    pub(crate) fn tokens(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    fn add(&self, text: &str) {
        self.calls.fetch_add(tokens(text), Ordering::Relaxed);
    }
}

/// Counts the tokens of a tool's definition, as a model is given it.
fn tokens_of(spec: &ToolSpec) -> u64 {
    let definition = json!({"name": spec.name, "description": spec.description, "input_schema": spec.input_schema});
    tokens(&definition.to_string())
}
