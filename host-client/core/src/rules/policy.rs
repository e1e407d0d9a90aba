//! The policy: which tool calls run, which never do, and which a person is asked about.
//!
//! Rules are tried in their order; the first that fits decides. A call that no rule fits is decided by the tool's effect: reading
//! runs, everything else is asked about. A tool of [`Mode::Privileged`] is asked about even where a rule allows it.
//!
//! A policy is built ([`Policy::new`]) or read from a TOML file ([`Policy::from_file`], feature `policy-file`). The file can say:
//!
//! ```toml
//! [default]                      # what no rule decides, by effect: these are the defaults
//! read_only = "allow"
//! mutating = "ask"
//! privileged = "ask"
//! unknown = "ask"
//!
//! [[rule]]                       # the first that fits decides
//! tools = ["git.push", "*.delete_*"]
//! decision = "deny"
//! reason = "nothing leaves this machine"
//!
//! [[rule]]
//! tools = ["git.*"]
//! effects = ["mutating"]         # only tools with one of these
//! phase = "write"                # only in this phase
//! decision = "allow"
//!
//! [phase.write]                  # the tools that change things and are offered in this phase
//! tools = ["fs.apply_patch"]
//!
//! [budget]                       # of each execution
//! calls = 500
//! bytes_read = 50_000_000
//! bytes_returned = 100_000
//! [budget.tools."web.*"]         # shared by the tools that the pattern fits
//! calls = 20
//!
//! [manifest."time.*"]            # what is known of tools that others wrote
//! effect = "read_only"
//! timeout_ms = 5_000
//! ```
//!
//! If several entries of `[manifest]` match a tool, their order in the file does not matter. For each field, the entry
//! with the tool's full name decides; without one, the most careful value among the matching patterns. The most careful
//! value is the effect with the widest reach (`privileged`, then `mutating`, then `read_only`), the lowest limit,
//! `overflow = "fail"`, and `callable_from_code = false`.
mod error;
mod explain;
#[cfg(feature = "policy-file")]
mod file;
#[cfg(feature = "policy-file")]
mod manifests;
mod rule;
mod spending;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;

use std::fmt;
use std::sync::Arc;

use relay_proto::{InvalidToolPattern, ToolName, ToolPatterns};
use serde::{Deserialize, Serialize};

use crate::tool::ManifestChange;
use crate::tool::{Effect, Manifest, Mode};

pub use error::PolicyError;
pub use explain::{Explanation, PolicyPattern, PolicyWarning};
pub use rule::Rule;
pub(crate) use spending::Spending;
pub use spending::{Budget, ToolBudget};

/// The decision about a tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The call runs.
    Allow,
    /// The call does not run.
    Deny {
        /// The reason, for the code and its author.
        reason: String,
    },
    /// A person decides.
    Ask,
}

/// A decision without its reason, as policies name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The call runs.
    Allow,
    /// The call does not run.
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

/// Phase of an execution: it limits the tools that the execution is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Offers tools that read, and no others.
    Discover,
    /// Offers tools that read, and those that [`Policy::in_write_phase`] names.
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
    /// The decision.
    pub decision: Decision,
    /// The rule, default or phase that decided, for people and the audit.
    pub rule: Arc<str>,
}

/// The rules of one application. Clones share them.
#[derive(Debug, Clone)]
pub struct Policy {
    rules: Vec<NumberedRule>,
    defaults: Defaults,
    write_phase: ToolPatterns,
    pub(crate) budget: Budget,
    /// Changes of the manifests of the tools that a set of patterns fits, in their order.
    pub(crate) manifests: Vec<(ToolPatterns, ManifestChange)>,
    /// The first pattern that can fit no tool, with its place; `None`: all can. [`Policy::check`] returns it as an
    /// error.
    invalid: Option<(String, InvalidToolPattern)>,
}

/// A rule with its patterns, and its place for people and the audit.
#[derive(Debug, Clone)]
struct NumberedRule {
    tools: ToolPatterns,
    rule: Rule,
    line: Arc<str>,
}

/// The verdicts on calls that no rule fits, by the tool's effect.
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
            invalid: None,
        }
    }
}

impl Policy {
    /// Creates a policy without rules: reading runs, everything else is asked about.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets calls of the tools run that one of these patterns fits, such as `github.*`.
    #[must_use]
    pub fn allow<S: Into<String>>(self, tools: impl IntoIterator<Item = S>) -> Self {
        self.rule(Rule::allow(tools))
    }

    /// Denies calls of the tools that one of these patterns fits. The code reads the reason.
    #[must_use]
    pub fn deny<S: Into<String>>(self, tools: impl IntoIterator<Item = S>, reason: impl Into<String>) -> Self {
        self.rule(Rule::deny(tools, reason))
    }

    /// Has a person decide about calls of the tools that one of these patterns fits.
    #[must_use]
    pub fn ask<S: Into<String>>(self, tools: impl IntoIterator<Item = S>) -> Self {
        self.rule(Rule::ask(tools))
    }

    /// Adds a rule after those that there are. A [`Rule`] can be narrowed to effects and to a phase.
    #[must_use]
    pub fn rule(mut self, rule: Rule) -> Self {
        let line: Arc<str> = format!("rule {}: {rule}", self.rules.len() + 1).into();
        let tools = self.checked(&line, rule.patterns());
        self.rules.push(NumberedRule { tools, rule, line });
        self
    }

    /// Sets the verdict on tools with this effect where no rule fits; `None`: on tools whose effect is unknown. Unless set,
    /// tools that read are allowed and all others asked about.
    #[must_use]
    pub fn by_effect(mut self, effect: Option<Effect>, verdict: Verdict) -> Self {
        *self.defaults.of(effect) = verdict;
        self
    }

    /// Names the tools that change things and are offered in the phase [`Phase::Write`]; none unless set.
    #[must_use]
    pub fn in_write_phase<S: Into<String>>(mut self, tools: impl IntoIterator<Item = S>) -> Self {
        let tools: Vec<String> = tools.into_iter().map(Into::into).collect();
        self.write_phase = self.checked("the phase write", &tools);
        self
    }

    /// Sets the budget of each execution; there is none by default.
    #[must_use]
    pub fn budget(mut self, budget: Budget) -> Self {
        for pattern in budget.tools.keys() {
            self.checked("the budget", std::slice::from_ref(pattern));
        }
        self.budget = budget;
        self
    }

    /// Changes the manifests of the tools that one of these patterns fits: what is known of tools that others wrote. Later changes
    /// win over earlier ones.
    #[must_use]
    pub fn manifest<S: Into<String>>(mut self, tools: impl IntoIterator<Item = S>, change: ManifestChange) -> Self {
        let tools: Vec<String> = tools.into_iter().map(Into::into).collect();
        let tools = self.checked("a manifest", &tools);
        self.manifests.push((tools, change));
        self
    }

    /// Checks that every pattern can fit a tool. [`Client::connect`](crate::Client::connect) and [`Host::call`](crate::Host::call)
    /// check it, too: a rule that denies nothing is no policy.
    ///
    /// # Errors
    /// [`PolicyError::Pattern`]: a pattern can fit no tool.
    pub fn check(&self) -> Result<(), PolicyError> {
        match &self.invalid {
            None => Ok(()),
            Some((place, error)) => Err(PolicyError::Pattern { place: place.clone(), error: error.clone() }),
        }
    }

    /// Makes a set of patterns. One that can fit no tool is remembered for [`Policy::check`].
    fn checked(&mut self, place: &str, patterns: &[String]) -> ToolPatterns {
        if let Err(error) = ToolPatterns::checked(patterns) {
            self.invalid.get_or_insert_with(|| (place.to_owned(), error));
        }
        ToolPatterns::new(Some(patterns.to_vec()))
    }

    /// Decides about a call of a tool in a phase.
    pub fn decide(&self, tool: &ToolName, manifest: &Manifest, phase: Option<Phase>) -> Ruling {
        let ruling = self.phase(tool, manifest, phase).unwrap_or_else(|| self.first(tool, manifest, phase));
        if ruling.decision == Decision::Allow && manifest.mode == Mode::Privileged {
            return Ruling { decision: Decision::Ask, rule: "a privileged tool always needs an approval".into() };
        }
        ruling
    }

    /// Returns the denial of a tool that the phase does not offer; `None`: the phase offers it, or there is no phase.
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
        let (verdict, reason, line) = match self.rules.iter().find(|it| it.matches(tool, manifest, phase)) {
            Some(it) => (it.rule.verdict, it.rule.reason.as_deref(), Arc::clone(&it.line)),
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

impl NumberedRule {
    /// Returns whether the rule is about a call of a tool in a phase.
    fn matches(&self, tool: &ToolName, manifest: &Manifest, phase: Option<Phase>) -> bool {
        self.rule.fits(manifest.effect, phase) && self.tools.allow(tool)
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
