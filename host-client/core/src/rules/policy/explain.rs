//! Explanations of a policy for people: which rules, manifest entries and budgets apply to a tool, and which patterns
//! fit no tool.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use relay_proto::spelling::nearest;
use relay_proto::{ToolName, ToolPatterns};

use super::{NumberedRule, Phase, Policy, Ruling, ToolBudget};
use crate::tool::{Effect, Manifest, ManifestChange};

/// Everything in a policy that applies to one tool; made by [`Policy::explain`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// The decision, and the line that it comes from.
    pub ruling: Ruling,
    /// All rules that match the tool, in their order. Unless a phase decided, the first one did.
    pub rules: Vec<Arc<str>>,
    /// The changes of the tool's manifest with their patterns, in the order in which they apply: later ones win.
    pub manifests: Vec<(String, ManifestChange)>,
    /// The budgets that a call counts against, with their patterns. That of the whole execution has the pattern `*`.
    pub budgets: Vec<(String, ToolBudget)>,
}

/// One pattern of a policy, and the number of tools that it fits; made by [`Policy::patterns`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PolicyPattern {
    /// The rule, phase, budget or manifest entry that has the pattern.
    pub place: String,
    /// The pattern.
    pub pattern: String,
    /// The number of tools that it fits.
    pub tools: usize,
    /// The name or pattern that was probably meant; `None`: the pattern fits a tool, or none is near.
    pub nearest: Option<String>,
}

/// A part of a policy that may not say what its author meant; made by [`Policy::warnings`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PolicyWarning {
    /// A pattern fits no tool.
    FitsNoTool(PolicyPattern),
    /// Entries of `[manifest]` give different effects to the same tools, and none of them names the tool itself.
    Overlap {
        /// The patterns of the entries with their effects. The last one applies.
        entries: Vec<(String, Effect)>,
        /// The first tool that all entries fit.
        tool: ToolName,
        /// The number of tools that all entries fit.
        tools: usize,
    },
}

impl fmt::Display for PolicyWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FitsNoTool(PolicyPattern { place, pattern, nearest, .. }) => {
                write!(f, "{place}: the pattern {pattern:?} fits no tool")?;
                nearest.as_ref().map_or(Ok(()), |nearest| write!(f, "; did you mean {nearest:?}?"))
            }
            Self::Overlap { entries, tool, tools } => {
                let said: Vec<_> =
                    entries.iter().map(|(pattern, effect)| format!("{pattern:?} says {effect}")).collect();
                let more = if *tools > 1 { format!(" and {} more", tools - 1) } else { String::new() };
                write!(f, "several manifest entries fit {tool}{more}: {}", said.join(", "))?;
                let applies = entries.last().map_or("none", |(_, effect)| effect.as_str());
                write!(f, "; {applies} applies. An entry for the tool's own name would decide")
            }
        }
    }
}

impl Policy {
    /// Explains what the policy says about one tool in a phase; `None`: without a phase. `manifest` is the tool's as
    /// this policy has changed it, as [`Host::tools`](crate::Host::tools) returns it.
    ///
    /// ```
    /// use host_client_core::{Manifest, Policy, ToolName};
    ///
    /// let policy = Policy::new().deny(["git.push"], "nothing leaves this machine").allow(["git.*"]);
    /// let explained = policy.explain(&ToolName::new("git", "push")?, &Manifest::default(), None);
    /// assert_eq!(&*explained.ruling.rule, "rule 1: deny git.push");
    /// assert_eq!(explained.rules.len(), 2, "the second rule matches, too");
    /// # Ok::<_, relay_proto::id::InvalidToolName>(())
    /// ```
    pub fn explain(&self, tool: &ToolName, manifest: &Manifest, phase: Option<Phase>) -> Explanation {
        let matching = self.rules.iter().filter(|it| it.matches(tool, manifest, phase));
        let manifests = self.manifests.iter().filter(|(patterns, _)| patterns.allow(tool));
        let all = ToolBudget { calls: self.budget.calls, bytes_read: self.budget.bytes_read };
        let fits = |pattern: &str| ToolPatterns::new(Some(vec![pattern.to_owned()])).allow(tool);
        let budgets = self.budget.tools.iter().filter(|(pattern, _)| fits(pattern));
        let budgets = budgets.map(|(pattern, budget)| (pattern.clone(), *budget));
        Explanation {
            ruling: self.decide(tool, manifest, phase),
            rules: matching.map(|it| Arc::clone(&it.line)).collect(),
            manifests: manifests.map(|(patterns, change)| (joined(patterns), change.clone())).collect(),
            budgets: std::iter::once(("*".to_owned(), all))
                .chain(budgets)
                .filter(|(_, budget)| *budget != ToolBudget::default())
                .collect(),
        }
    }

    /// Returns every pattern of the policy with the number of `tools` that it fits.
    pub fn patterns(&self, tools: &[ToolName]) -> Vec<PolicyPattern> {
        let of_rules = self.rules.iter().flat_map(|NumberedRule { rule, line, .. }| {
            rule.patterns().iter().map(|pattern| (line.to_string(), pattern.clone()))
        });
        let of_phase = self.write_phase.iter().map(|pattern| ("the phase write".to_owned(), pattern.to_owned()));
        let of_budget = self.budget.tools.keys().map(|pattern| ("the budget".to_owned(), pattern.clone()));
        let of_manifests = self
            .manifests
            .iter()
            .flat_map(|(patterns, _)| patterns.iter().map(|pattern| ("the manifests".to_owned(), pattern.to_owned())));
        let mut seen = BTreeMap::new();
        let all = of_rules.chain(of_phase).chain(of_budget).chain(of_manifests);
        // An entry of the manifests stands there once for each of its fields.
        all.filter(|it| seen.insert(it.clone(), ()).is_none())
            .map(|(place, pattern)| {
                let patterns = ToolPatterns::new(Some(vec![pattern.clone()]));
                let fitting = tools.iter().filter(|tool| patterns.allow(tool)).count();
                let nearest = (fitting == 0).then(|| meant(&pattern, tools)).flatten();
                PolicyPattern { place, pattern, tools: fitting, nearest }
            })
            .collect()
    }

    /// Returns what its author should look at, given all the tools that there are: patterns that fit none of them, and
    /// manifest entries that contradict each other. A pattern that begins with `*` names no server and may wait for
    /// tools to come: it is left out.
    ///
    /// ```
    /// use host_client_core::{Policy, ToolName};
    ///
    /// let policy = Policy::new().deny(["tiem.*", "*.delete_*"], "never");
    /// let warnings = policy.warnings(&[ToolName::new("time", "now")?]);
    /// assert_eq!(
    ///     warnings[0].to_string(),
    ///     r#"rule 1: deny tiem.*, *.delete_*: the pattern "tiem.*" fits no tool; did you mean "time.*"?"#
    /// );
    /// assert_eq!(warnings.len(), 1);
    /// # Ok::<_, relay_proto::id::InvalidToolName>(())
    /// ```
    pub fn warnings(&self, tools: &[ToolName]) -> Vec<PolicyWarning> {
        let idle = self.patterns(tools).into_iter().filter(|it| it.tools == 0 && !it.pattern.starts_with('*'));
        idle.map(PolicyWarning::FitsNoTool).chain(self.overlaps(tools)).collect()
    }

    /// Returns the manifest entries that give different effects to the same tools, once for each set of entries.
    fn overlaps(&self, tools: &[ToolName]) -> Vec<PolicyWarning> {
        let mut found: BTreeMap<Vec<(String, Effect)>, (&ToolName, usize)> = BTreeMap::new();
        for tool in tools {
            let fitting = self.manifests.iter().filter(|(patterns, _)| patterns.allow(tool));
            let said = fitting.filter_map(|(patterns, change)| Some((joined(patterns), change.effect?)));
            let said: Vec<_> = said.collect();
            let differs = said.iter().any(|(_, effect)| said.first().is_some_and(|(_, first)| first != effect));
            let is_named = said.last().is_some_and(|(pattern, _)| pattern == tool.as_str());
            if differs && !is_named {
                found.entry(said).or_insert((tool, 0)).1 += 1;
            }
        }
        let warning = |(entries, (tool, tools)): (_, (&ToolName, usize))| PolicyWarning::Overlap {
            entries,
            tool: tool.clone(),
            tools,
        };
        found.into_iter().map(warning).collect()
    }
}

/// Returns the tool's name or the pattern of a whole server that was probably meant by a pattern without a match.
fn meant(pattern: &str, tools: &[ToolName]) -> Option<String> {
    let servers: std::collections::BTreeSet<_> = tools.iter().map(ToolName::server).collect();
    let (server, tool) = pattern.split_once('.')?;
    if servers.contains(server) {
        let names = tools.iter().filter(|it| it.server() == server).map(ToolName::tool);
        return nearest(tool.trim_matches('*'), names).map(|tool| format!("{server}.{tool}"));
    }
    // Names that differ in case alone are the nearest, whatever else there is.
    let same = servers.iter().find(|it| it.eq_ignore_ascii_case(server)).copied();
    let server = same.or_else(|| nearest(server, servers.iter().copied()))?;
    Some(format!("{server}.{tool}"))
}

/// Returns patterns as one text.
fn joined(patterns: &ToolPatterns) -> String {
    patterns.iter().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<ToolName> {
        names.iter().map(|&name| ToolName::try_from(name.to_owned()).unwrap()).collect()
    }

    #[test]
    fn patterns_without_a_tool_are_named_with_what_was_meant() {
        let tools = names(&["time.get_current_time", "git.push", "git.log"]);
        let policy = Policy::new()
            .deny(["Time.*", "git.psuh", "git.*"], "never")
            .in_write_phase(["giit.push"])
            .budget(super::super::Budget {
                tools: [("web.*".to_owned(), ToolBudget { calls: Some(1), bytes_read: None })].into(),
                ..Default::default()
            })
            .manifest(["tiem.*"], ManifestChange { effect: Some(Effect::ReadOnly), ..Default::default() });
        let found: Vec<_> = policy.warnings(&tools).iter().map(ToString::to_string).collect();
        let rule = "rule 1: deny Time.*, git.psuh, git.*";
        assert_eq!(
            found,
            [
                format!("{rule}: the pattern \"Time.*\" fits no tool; did you mean \"time.*\"?"),
                format!("{rule}: the pattern \"git.psuh\" fits no tool; did you mean \"git.push\"?"),
                "the phase write: the pattern \"giit.push\" fits no tool; did you mean \"git.push\"?".to_owned(),
                "the budget: the pattern \"web.*\" fits no tool".to_owned(),
                "the manifests: the pattern \"tiem.*\" fits no tool; did you mean \"time.*\"?".to_owned(),
            ]
        );
        let counts: Vec<_> = policy.patterns(&tools).into_iter().map(|it| (it.pattern, it.tools)).collect();
        assert!(counts.contains(&("git.*".to_owned(), 2)), "{counts:?}");
    }

    #[cfg(feature = "policy-file")]
    #[test]
    fn manifest_entries_that_contradict_each_other_are_told_once() {
        let tools = names(&["time.now", "time.zones", "git.log"]);
        let text = "[manifest.\"time.*\"]\neffect = \"read_only\"\n[manifest.\"*\"]\neffect = \"mutating\"\n\
            [manifest.\"git.*\"]\neffect = \"read_only\"\n[manifest.\"git.log\"]\neffect = \"read_only\"";
        let policy = Policy::parse(text, "policy.toml").unwrap();
        let found: Vec<_> = policy.warnings(&tools).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "several manifest entries fit time.now and 1 more: \"time.*\" says read_only, \"*\" says mutating; mutating \
              applies. An entry for the tool's own name would decide"
            ]
        );
    }
}
