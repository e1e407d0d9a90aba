//! The spans of durable runs: they stand below those of the application.

use std::sync::{Arc, Mutex};

use host_client::ExecuteCode;
use relay_test_support::within;
use serde_json::json;
use tracing::span::{Attributes, Id};
use tracing::{Instrument as _, Subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry};

use crate::stage::{Folder, Ledger, Relays, nothing, runs, tools};

/// Keeps the names of spans and of their parents.
#[derive(Clone, Default)]
struct Parents(Arc<Mutex<Vec<(&'static str, &'static str)>>>);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Parents {
    fn on_new_span(&self, _: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let span = context.span(id).unwrap();
        let parent = span.parent().map_or("", |parent| parent.name());
        self.0.lock().unwrap().push((span.name(), parent));
    }
}

#[tokio::test]
async fn a_run_that_a_model_begins_is_below_the_span_of_its_call() {
    let (folder, relays) = (Folder::new(), Relays::default());
    let client = relays.client(folder.host(tools(&Ledger::default(), nothing)).await);
    let tool = ExecuteCode::new(client.clone()).durable(runs(client));
    let parents = Parents::default();
    let _subscriber = tracing::subscriber::set_default(Registry::default().with(parents.clone()));
    let turn = tracing::info_span!("turn_of_the_agent");
    let report = within(tool.call(json!({"code": "return 1"})).instrument(turn)).await;
    assert_eq!(report.text, "1");
    let names = parents.0.lock().unwrap();
    assert!(names.contains(&("durable_run", "turn_of_the_agent")), "{names:?}");
}
