//! One rule of a policy.

use std::fmt;

use super::{Phase, Verdict};
use crate::tool::Effect;

/// One rule: a verdict on the calls of some tools, in every phase and with every effect unless it is narrowed.
///
/// ```
/// use host_client_core::rules::policy::Rule;
/// use host_client_core::{Effect, Phase, Policy};
///
/// let commits = Rule::allow(["git.*"]).effects([Effect::Mutating]).phase(Phase::Write);
/// let policy = Policy::new().deny(["git.push"], "nothing leaves this machine").rule(commits);
/// assert!(policy.check().is_ok());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    tools: Vec<String>,
    effects: Option<Vec<Effect>>,
    phase: Option<Phase>,
    pub(super) verdict: Verdict,
    pub(super) reason: Option<String>,
}

impl Rule {
    /// Lets calls of the tools run that one of these patterns fits, such as `github.*`.
    pub fn allow<S: Into<String>>(tools: impl IntoIterator<Item = S>) -> Self {
        Self::new(Verdict::Allow, tools)
    }

    /// Denies calls of the tools that one of these patterns fits. The code reads the reason.
    pub fn deny<S: Into<String>>(tools: impl IntoIterator<Item = S>, reason: impl Into<String>) -> Self {
        Self { reason: Some(reason.into()), ..Self::new(Verdict::Deny, tools) }
    }

    /// Has a person decide about calls of the tools that one of these patterns fits.
    pub fn ask<S: Into<String>>(tools: impl IntoIterator<Item = S>) -> Self {
        Self::new(Verdict::Ask, tools)
    }

    pub(super) fn new<S: Into<String>>(verdict: Verdict, tools: impl IntoIterator<Item = S>) -> Self {
        let tools = tools.into_iter().map(Into::into).collect();
        Self { tools, effects: None, phase: None, verdict, reason: None }
    }

    /// Narrows the rule to tools with one of these effects; tools whose effect is unknown have none of them.
    #[must_use]
    pub fn effects(mut self, effects: impl IntoIterator<Item = Effect>) -> Self {
        self.effects = Some(effects.into_iter().collect());
        self
    }

    /// Narrows the rule to executions in this phase.
    #[must_use]
    pub fn phase(mut self, phase: Phase) -> Self {
        self.phase = Some(phase);
        self
    }

    pub(super) fn patterns(&self) -> &[String] {
        &self.tools
    }

    /// Returns whether effect and phase fit. The tool's name is checked by the patterns.
    pub(super) fn fits(&self, effect: Option<Effect>, phase: Option<Phase>) -> bool {
        let effect_fits = match (&self.effects, effect) {
            (None, _) => true,
            (Some(effects), Some(effect)) => effects.contains(&effect),
            (Some(_), None) => false,
        };
        effect_fits && (self.phase.is_none() || self.phase == phase)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verdict, self.tools.join(", "))
    }
}
