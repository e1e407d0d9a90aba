//! The W3C trace that an execution and its calls belong to.
//!
//! With the feature `opentelemetry`, and a layer of `tracing-opentelemetry` in the application, it is the trace of our
//! spans: the context that the relay and the tools are sent names a span that is exported. Without either, it is the
//! trace that the request names, or a new one.

use relay_proto::TraceContext;
use tracing::Span;

use crate::random::new_trace;

/// Places the span of an execution in the trace `parent`; `None`: the current span is its parent. Returns the context that its
/// calls belong to.
pub(crate) fn begin(span: &Span, parent: Option<TraceContext>) -> TraceContext {
    exported::begin(span, parent).or(parent).unwrap_or_else(new_trace)
}

/// Returns the context of a call's own span, for the requests that its tool sends to others.
pub(crate) fn of_call(span: &Span, execution: TraceContext, call: u64) -> TraceContext {
    exported::of(span).unwrap_or_else(|| execution.child(call))
}

#[cfg(feature = "opentelemetry")]
mod exported {
    use opentelemetry::Context;
    use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState};
    use relay_proto::TraceContext;
    use tracing::Span;
    use tracing_opentelemetry::OpenTelemetrySpanExt as _;

    /// Sets the parent of a span that has just begun, where one is given, and returns the span's own context.
    pub(super) fn begin(span: &Span, parent: Option<TraceContext>) -> Option<TraceContext> {
        if let Some(parent) = parent.and_then(remote) {
            // Fails only where there is no layer that exports spans.
            let _ = span.set_parent(Context::new().with_remote_span_context(parent));
        }
        of(span)
    }

    /// Returns the context of a span; `None`: no layer exports it.
    pub(super) fn of(span: &Span) -> Option<TraceContext> {
        let context = span.context();
        let context = context.span().span_context().clone();
        let flags = context.trace_flags().to_u8();
        let text = || format!("00-{}-{}-{flags:02x}", context.trace_id(), context.span_id());
        context.is_valid().then(|| text().parse().ok()).flatten()
    }

    fn remote(context: TraceContext) -> Option<SpanContext> {
        let text = context.to_string();
        let mut parts = text.split('-').skip(1);
        let trace = TraceId::from_hex(parts.next()?).ok()?;
        let span = SpanId::from_hex(parts.next()?).ok()?;
        let flags = TraceFlags::new(u8::from_str_radix(parts.next()?, 16).ok()?);
        Some(SpanContext::new(trace, span, flags, true, TraceState::default()))
    }
}

#[cfg(not(feature = "opentelemetry"))]
mod exported {
    use relay_proto::TraceContext;
    use tracing::Span;

    pub(super) fn begin(_span: &Span, _parent: Option<TraceContext>) -> Option<TraceContext> {
        None
    }

    pub(super) fn of(_span: &Span) -> Option<TraceContext> {
        None
    }
}
