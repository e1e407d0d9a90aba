//! How many tokens would pass through a model's context if it called the tools itself.

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
    /// How many tools there are.
    pub(crate) tools: usize,
    /// How many tokens their definitions have.
    pub(crate) definitions: u64,
    calls: Arc<AtomicU64>,
}

impl Counter {
    /// For the tools that there are now.
    pub(crate) fn of(tools: &Tools) -> Self {
        let specs = tools.specs();
        Self { tools: specs.len(), definitions: specs.iter().map(tokens_of).sum(), calls: Arc::default() }
    }

    /// The step that counts, around the one that runs tools.
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

    /// How many tokens the calls and their results have so far.
    pub(crate) fn tokens(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    fn add(&self, text: &str) {
        self.calls.fetch_add(tokens(text), Ordering::Relaxed);
    }
}

/// A tool as a model is told of it.
fn tokens_of(spec: &ToolSpec) -> u64 {
    let definition = json!({"name": spec.name, "description": spec.description, "input_schema": spec.input_schema});
    tokens(&definition.to_string())
}
