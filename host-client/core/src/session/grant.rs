//! The limits and tools that a token allows.

use std::collections::BTreeMap;

use relay_proto::{LimitName, LimitOverrides, ToolPatterns};

/// The limits and tools that a token allows.
#[derive(Debug, Clone, Default)]
pub(crate) struct TokenGrant {
    /// The limits of an execution that asks for nothing lower.
    pub(crate) limits: LimitOverrides,
    /// The patterns of the tools that exist for its executions.
    pub(crate) tools: ToolPatterns,
}

impl TokenGrant {
    pub(crate) fn new(limits: &BTreeMap<String, u64>, tools: &[String]) -> Self {
        let tools = ToolPatterns::new((!tools.is_empty()).then(|| tools.to_vec()));
        Self { limits: known_limits(limits), tools }
    }

    /// Returns the limit that holds for a request: the lowest of the token's, the maximum and the request's.
    pub(crate) fn effective_limit(&self, asked: &LimitOverrides, name: LimitName) -> u64 {
        let session = self.limits.get(name).unwrap_or(u64::MAX);
        session.min(name.maximum()).min(asked.get(name).unwrap_or(u64::MAX).max(name.minimum()))
    }
}

/// Returns the limits whose names this version knows, without the others.
fn known_limits(limits: &BTreeMap<String, u64>) -> LimitOverrides {
    let mut known = LimitOverrides::default();
    for (name, value) in limits {
        if let Ok(name) = name.parse() {
            known.set(name, *value);
        }
    }
    known
}
