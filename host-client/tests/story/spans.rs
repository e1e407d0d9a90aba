//! Keeps the spans that are traced, to be compared.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};

/// One span: its name, its parent's number, its fields.
#[derive(Debug, Clone, Default)]
pub(crate) struct Span {
    pub(crate) name: String,
    pub(crate) parent: Option<u64>,
    pub(crate) fields: BTreeMap<String, String>,
}

/// Keeps every span, by its number.
#[derive(Debug, Clone, Default)]
pub(crate) struct Kept(Arc<Mutex<BTreeMap<u64, Span>>>);

impl Kept {
    pub(crate) fn named(&self, name: &str) -> Vec<(u64, Span)> {
        let spans = self.0.lock().unwrap();
        spans.iter().filter(|(_, span)| span.name == name).map(|(id, span)| (*id, span.clone())).collect()
    }
}

impl Visit for Span {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.fields.insert(field.name().to_owned(), format!("{value:?}").trim_matches('"').to_owned());
    }
}

impl Subscriber for Kept {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && metadata.target().starts_with("host_client")
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut span = Span { name: attributes.metadata().name().to_owned(), ..Span::default() };
        span.parent = attributes.parent().map(Id::into_u64);
        attributes.record(&mut span);
        let mut spans = self.0.lock().unwrap();
        let id = spans.len() as u64 + 1;
        spans.insert(id, span);
        Id::from_u64(id)
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        values.record(self.0.lock().unwrap().get_mut(&id.into_u64()).unwrap());
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &tracing::Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
