//! The typed options of a token.

use std::time::Duration;

use relay_proto::LimitName;

use super::LimitOverrides;

/// The options of a token that is to be made; for [`LocalRelay::token_for`](crate::LocalRelay::token_for).
///
/// ```
/// use std::time::Duration;
/// use host_client_core::LimitName;
/// use host_client_core::local::TokenRequest;
///
/// let request = TokenRequest::new("alice")
///     .ttl(Duration::from_secs(15 * 60))
///     .tools(["github.*", "files.read"])
///     .limit(LimitName::WallMs, 5_000);
/// # drop(request);
/// ```
#[derive(Debug, Clone)]
#[must_use = "a token is made by `LocalRelay::token_for`"]
pub struct TokenRequest {
    subject: String,
    ttl: Option<Duration>,
    tools: Vec<String>,
    limits: LimitOverrides,
    jit: bool,
}

/// The settings that all tokens of a relay share.
#[derive(Debug, Clone, Default)]
pub(super) struct Grants {
    /// Defaults of limits.
    pub(super) limits: LimitOverrides,
    /// Maxima of limits.
    pub(super) max_limits: LimitOverrides,
    /// `true`: the relay lets V8 compile to machine code.
    pub(super) jit: bool,
}

impl TokenRequest {
    /// Asks for a token for this subject that is good for an hour and lets it use all tools, within the relay's limits.
    pub fn new(subject: impl Into<String>) -> Self {
        Self { subject: subject.into(), ttl: None, tools: Vec::new(), limits: LimitOverrides::default(), jit: false }
    }

    /// Sets the time until the token expires, in whole seconds, rounded up; the default is 1 h.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Adds patterns of tools, such as `github.*`: other tools do not exist for it. Without any pattern, all tools
    /// exist.
    pub fn tools<S: Into<String>>(mut self, patterns: impl IntoIterator<Item = S>) -> Self {
        self.tools.extend(patterns.into_iter().map(Into::into));
        self
    }

    /// Sets a limit in the place of its default, in the unit of its name.
    pub fn limit(mut self, name: LimitName, value: u64) -> Self {
        self.limits.set(name, value);
        self
    }

    /// Sets whether V8 may compile its code to machine code, where the relay allows it, too; the default is `false`.
    pub fn jit(mut self, allowed: bool) -> Self {
        self.jit = allowed;
        self
    }

    /// Returns the arguments of `sandbox-relay token`.
    pub(super) fn arguments(&self, grants: &Grants) -> Vec<String> {
        let mut arguments = vec![format!("--subject={}", self.subject)];
        if let Some(ttl) = self.ttl {
            let seconds = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
            arguments.push(format!("--ttl={seconds}s"));
        }
        arguments.extend(self.tools.iter().map(|pattern| format!("--tools={pattern}")));
        for name in LimitName::ALL {
            let asked = self.limits.get(*name).or(grants.limits.get(*name));
            let value = match (asked, grants.max_limits.get(*name)) {
                (asked, None) => asked,
                (asked, Some(most)) => Some(asked.unwrap_or(name.default_value()).min(most)),
            };
            arguments.extend(value.map(|value| format!("--limit={name}={value}")));
        }
        arguments.extend(self.jit.then(|| "--jit".to_owned()));
        arguments
    }
}
