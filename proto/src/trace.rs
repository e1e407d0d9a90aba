//! W3C trace context, version 00.

use std::fmt;
use std::str::FromStr;

/// A W3C `traceparent`, version 00: the ids of a trace and of a span in it, and the flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceContext {
    trace_id: u128,
    span_id: u64,
    flags: u8,
}

/// Reports a text that is no `traceparent` of version 00.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a W3C traceparent: 00-<32 hex digits>-<16 hex digits>-<2 hex digits>, ids not zero")]
pub struct InvalidTraceparent;

impl TraceContext {
    /// Placeholder for an execution without a trace: not sampled.
    pub const NONE: Self = Self { trace_id: 1, span_id: 1, flags: 0 };

    /// Starts a sampled trace from two random numbers; 0 becomes 1.
    pub fn new(trace_id: u128, span_id: u64) -> Self {
        // Zero is no id.
        Self { trace_id: trace_id.max(1), span_id: span_id.max(1), flags: 1 }
    }

    /// Derives a span of the same trace from this one and a number, such as that of a call. Different numbers give
    /// different spans.
    #[must_use]
    pub fn child(self, number: u64) -> Self {
        // Multiplying by an odd number and xoring with a shift are both invertible.
        let mixed = (self.span_id ^ number.wrapping_add(1)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self { span_id: (mixed ^ (mixed >> 32)).max(1), ..self }
    }

    /// Returns the id of the trace as 32 hexadecimal digits.
    pub fn trace_id(self) -> String {
        format!("{:032x}", self.trace_id)
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace_id, self.span_id, self.flags)
    }
}

impl FromStr for TraceContext {
    type Err = InvalidTraceparent;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.len() != 55 {
            return Err(InvalidTraceparent);
        }
        let parts: Vec<&str> = text.split('-').collect();
        let ["00", trace, span, flags] = parts[..] else { return Err(InvalidTraceparent) };
        let is_hex = |part: &str| part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if (trace.len(), span.len(), flags.len()) != (32, 16, 2) || ![trace, span, flags].into_iter().all(is_hex) {
            return Err(InvalidTraceparent);
        }
        let trace_id = u128::from_str_radix(trace, 16).map_err(|_| InvalidTraceparent)?;
        let span_id = u64::from_str_radix(span, 16).map_err(|_| InvalidTraceparent)?;
        let flags = u8::from_str_radix(flags, 16).map_err(|_| InvalidTraceparent)?;
        if trace_id == 0 || span_id == 0 {
            return Err(InvalidTraceparent);
        }
        Ok(Self { trace_id, span_id, flags })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_traceparent_is_read_and_written_and_nothing_else_is() {
        let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let context: TraceContext = text.parse().unwrap();
        assert_eq!(context.to_string(), text);
        assert_ne!(context.child(1), context.child(2));
        assert_eq!(context.child(1).trace_id(), context.trace_id());
        for wrong in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            assert_eq!(wrong.parse::<TraceContext>(), Err(InvalidTraceparent), "{wrong}");
        }
    }
}
