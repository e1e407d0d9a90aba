//! The rules: which tool calls run, which never do, and which a person is asked about.
//!
//! Rules are tried in their order; the first that fits decides. What none fits is decided by the tool's effect: reading runs,
//! everything else is asked about. A tool of [`Mode::Privileged`] is asked about even where a rule allows it.

mod error;
#[cfg(feature = "policy-file")]
mod file;
mod spending;

use std::fmt;
use std::sync::Arc;

use relay_proto::{ToolName, ToolPatterns};
use serde::{Deserialize, Serialize};

use crate::tool::ManifestChange;
use crate::tool::{Effect, Manifest, Mode};

pub use error::PolicyError;
pub use spending::Budget;
pub(crate) use spending::Spending;

/// What becomes of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It runs.
    Allow,
    /// It does not.
    Deny {
        /// Why, for the code and its author.
        reason: String,
    },
    /// A person decides.
    Ask,
}

/// A decision without its reason, as policies name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It runs.
    Allow,
    /// It does not.
    Deny,
    /// A person decides.
    Ask,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::Ask => "ask",
        })
    }
}

/// Which tools an execution is offered at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Looking around: tools that read, and no others.
    Discover,
    /// Changing things: tools that read, and those that [`Policy::in_write_phase`] names.
    Write,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Discover => "discover",
            Self::Write => "write",
        })
    }
}

/// A decision, and the line of the policy that it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruling {
    /// What becomes of the call.
    pub decision: Decision,
    /// Where that stands, for people and the audit.
    pub rule: Arc<str>,
}

/// The rules of one application. Clones share them.
#[derive(Debug, Clone)]
pub struct Policy {
    rules: Vec<Rule>,
    defaults: Defaults,
    write_phase: ToolPatterns,
    pub(crate) budget: Budget,
    /// What it changes in the manifests of tools.
    pub(crate) manifests: Vec<(String, ManifestChange)>,
}

#[derive(Debug, Clone)]
struct Rule {
    tools: ToolPatterns,
    /// Nothing is any effect, the unknown one included.
    effects: Option<Vec<Effect>>,
    /// Nothing is any phase, none included.
    phase: Option<Phase>,
    verdict: Verdict,
    reason: Option<String>,
    line: Arc<str>,
}

/// What holds where no rule fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Defaults {
    read_only: Verdict,
    mutating: Verdict,
    privileged: Verdict,
    unknown: Verdict,
}

impl Default for Defaults {
    fn default() -> Self {
        Self { read_only: Verdict::Allow, mutating: Verdict::Ask, privileged: Verdict::Ask, unknown: Verdict::Ask }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            rules: Vec::new(),
            defaults: Defaults::default(),
            write_phase: ToolPatterns::new(Some(Vec::new())),
            budget: Budget::default(),
            manifests: Vec::new(),
        }
    }
}

impl Policy {
    /// No rules: reading runs, everything else is asked about.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets calls run of tools that one of these patterns fits, such as `github.*`.
    #[must_use]
    pub fn allow<S: Into<String>>(self, tools: impl IntoIterator<Item = S>) -> Self {
        self.rule(Verdict::Allow, tools, None)
    }

    /// Lets no calls run of tools that one of these patterns fits. The code reads the reason.
    #[must_use]
    pub fn deny<S: Into<String>>(self, tools: impl IntoIterator<Item = S>, reason: impl Into<String>) -> Self {
        self.rule(Verdict::Deny, tools, Some(reason.into()))
    }

    /// Has a person decide about calls of tools that one of these patterns fits.
    #[must_use]
    pub fn ask<S: Into<String>>(self, tools: impl IntoIterator<Item = S>) -> Self {
        self.rule(Verdict::Ask, tools, None)
    }

    /// Changes what holds for an effect where no rule fits; nothing is the unknown one.
    #[must_use]
    pub fn by_effect(mut self, effect: Option<Effect>, verdict: Verdict) -> Self {
        *self.defaults.of(effect) = verdict;
        self
    }

    /// Names the tools that change things and are offered in the phase [`Phase::Write`].
    #[must_use]
    pub fn in_write_phase<S: Into<String>>(mut self, tools: impl IntoIterator<Item = S>) -> Self {
        self.write_phase = ToolPatterns::new(Some(tools.into_iter().map(Into::into).collect()));
        self
    }

    /// Gives every execution this budget.
    #[must_use]
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    fn rule<S: Into<String>>(
        mut self,
        verdict: Verdict,
        tools: impl IntoIterator<Item = S>,
        reason: Option<String>,
    ) -> Self {
        let tools: Vec<String> = tools.into_iter().map(Into::into).collect();
        let line = format!("rule {}: {verdict} {}", self.rules.len() + 1, tools.join(", ")).into();
        self.rules.push(Rule {
            tools: ToolPatterns::new(Some(tools)),
            effects: None,
            phase: None,
            verdict,
            reason,
            line,
        });
        self
    }

    /// Decides about a call of a tool in a phase.
    pub fn decide(&self, tool: &ToolName, manifest: &Manifest, phase: Option<Phase>) -> Ruling {
        let ruling = self.phase(tool, manifest, phase).unwrap_or_else(|| self.first(tool, manifest, phase));
        if ruling.decision == Decision::Allow && manifest.mode == Mode::Privileged {
            return Ruling { decision: Decision::Ask, rule: "a privileged tool always needs an approval".into() };
        }
        ruling
    }

    /// Whether the phase does not offer the tool.
    fn phase(&self, tool: &ToolName, manifest: &Manifest, phase: Option<Phase>) -> Option<Ruling> {
        let reads = manifest.effect == Some(Effect::ReadOnly);
        let reason = match phase? {
            _ if reads => return None,
            Phase::Write if self.write_phase.allow(tool) => return None,
            Phase::Discover => format!("{tool} is not offered in the phase discover, which has only tools that read"),
            Phase::Write => format!("{tool} is not among the tools that the phase write offers"),
        };
        Some(Ruling { decision: Decision::Deny { reason }, rule: format!("phase {}", phase?).into() })
    }

    fn first(&self, tool: &ToolName, manifest: &Manifest, phase: Option<Phase>) -> Ruling {
        let fits = |rule: &&Rule| {
            let effect_fits = match (&rule.effects, manifest.effect) {
                (None, _) => true,
                (Some(effects), Some(effect)) => effects.contains(&effect),
                (Some(_), None) => false,
            };
            effect_fits && (rule.phase.is_none() || rule.phase == phase) && rule.tools.allow(tool)
        };
        let (verdict, reason, line) = match self.rules.iter().find(fits) {
            Some(rule) => (rule.verdict, rule.reason.as_deref(), Arc::clone(&rule.line)),
            None => {
                let (verdict, line) = self.defaults.line(manifest.effect);
                (verdict, None, line.into())
            }
        };
        let decision = match verdict {
            Verdict::Allow => Decision::Allow,
            Verdict::Ask => Decision::Ask,
            Verdict::Deny => {
                Decision::Deny { reason: reason.map_or_else(|| format!("{tool} is not allowed"), str::to_owned) }
            }
        };
        Ruling { decision, rule: line }
    }
}

impl Defaults {
    fn of(&mut self, effect: Option<Effect>) -> &mut Verdict {
        match effect {
            Some(Effect::ReadOnly) => &mut self.read_only,
            Some(Effect::Mutating) => &mut self.mutating,
            Some(Effect::Privileged) => &mut self.privileged,
            None => &mut self.unknown,
        }
    }

    fn line(mut self, effect: Option<Effect>) -> (Verdict, &'static str) {
        let verdict = *self.of(effect);
        let line = match (effect, verdict) {
            (Some(Effect::ReadOnly), Verdict::Allow) => "default: allow read_only",
            (Some(Effect::ReadOnly), Verdict::Ask) => "default: ask read_only",
            (Some(Effect::ReadOnly), Verdict::Deny) => "default: deny read_only",
            (Some(Effect::Mutating), Verdict::Allow) => "default: allow mutating",
            (Some(Effect::Mutating), Verdict::Ask) => "default: ask mutating",
            (Some(Effect::Mutating), Verdict::Deny) => "default: deny mutating",
            (Some(Effect::Privileged), Verdict::Allow) => "default: allow privileged",
            (Some(Effect::Privileged), Verdict::Ask) => "default: ask privileged",
            (Some(Effect::Privileged), Verdict::Deny) => "default: deny privileged",
            (None, Verdict::Allow) => "default: allow unknown effects",
            (None, Verdict::Ask) => "default: ask unknown effects",
            (None, Verdict::Deny) => "default: deny unknown effects",
        };
        (verdict, line)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn decide(policy: &Policy, tool: &str, effect: Option<Effect>, phase: Option<Phase>) -> Verdict {
        let manifest = Manifest { effect, ..Manifest::default() };
        match policy.decide(&ToolName::try_from(tool.to_owned()).unwrap(), &manifest, phase).decision {
            Decision::Allow => Verdict::Allow,
            Decision::Ask => Verdict::Ask,
            Decision::Deny { .. } => Verdict::Deny,
        }
    }

    const READS: Option<Effect> = Some(Effect::ReadOnly);
    const CHANGES: Option<Effect> = Some(Effect::Mutating);

    #[test]
    fn without_rules_only_reading_runs() {
        let policy = Policy::new();
        for (effect, verdict) in [
            (READS, Verdict::Allow),
            (CHANGES, Verdict::Ask),
            (Some(Effect::Privileged), Verdict::Ask),
            (None, Verdict::Ask),
        ] {
            assert_eq!(decide(&policy, "a.b", effect, None), verdict, "{effect:?}");
        }
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let policy = Policy::new().deny(["git.push"], "not from here").allow(["git.*"]).ask(["*.read"]);
        assert_eq!(decide(&policy, "git.push", CHANGES, None), Verdict::Deny);
        assert_eq!(decide(&policy, "git.commit", CHANGES, None), Verdict::Allow);
        assert_eq!(decide(&policy, "fs.read", READS, None), Verdict::Ask);
        let name = ToolName::try_from("git.push".to_owned()).unwrap();
        let ruling = policy.decide(&name, &Manifest::default(), None);
        assert_eq!(ruling.decision, Decision::Deny { reason: "not from here".into() });
        assert_eq!(&*ruling.rule, "rule 1: deny git.push");
    }

    #[test]
    fn what_is_privileged_by_its_mode_is_always_asked_about() {
        let policy = Policy::new().allow(["*"]).by_effect(Some(Effect::Privileged), Verdict::Allow);
        let manifest = Manifest { mode: Mode::Privileged, ..Manifest::default() };
        let name = ToolName::try_from("sh.run".to_owned()).unwrap();
        assert_eq!(policy.decide(&name, &manifest, None).decision, Decision::Ask);
        let policy = Policy::new().deny(["*"], "no");
        assert!(matches!(policy.decide(&name, &manifest, None).decision, Decision::Deny { .. }));
    }

    #[test]
    fn a_phase_offers_what_it_is_for_whatever_the_rules_say() {
        let policy = Policy::new().allow(["*"]).in_write_phase(["fs.patch"]);
        for (tool, effect, discover, write) in [
            ("fs.read", READS, Verdict::Allow, Verdict::Allow),
            ("fs.patch", CHANGES, Verdict::Deny, Verdict::Allow),
            ("fs.delete", CHANGES, Verdict::Deny, Verdict::Deny),
            ("fs.odd", None, Verdict::Deny, Verdict::Deny),
        ] {
            assert_eq!(decide(&policy, tool, effect, Some(Phase::Discover)), discover, "{tool}");
            assert_eq!(decide(&policy, tool, effect, Some(Phase::Write)), write, "{tool}");
            assert_eq!(decide(&policy, tool, effect, None), Verdict::Allow, "{tool}");
        }
    }
}
