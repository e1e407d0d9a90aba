//! A policy as a TOML file, or as JSON with the same members; the format is described in [`mod@super`].

use std::collections::BTreeMap;
use std::path::Path;

use relay_proto::ToolPatterns;
use serde::Deserialize;
use toml::Spanned;

use super::error::PolicyError;
use super::manifests::careful_last;
use super::{Budget, Defaults, NumberedRule, Phase, Policy, Rule, Verdict};
use crate::tool::{Effect, ManifestChange};

/// The maximum size of a policy file, in bytes.
const MAX_BYTES: usize = 1 << 20;

/// The members of a policy. `R` is a rule: in TOML it knows its place.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyFile<R> {
    #[serde(default)]
    default: DefaultsFile,
    #[serde(default = "Vec::new")]
    rule: Vec<R>,
    #[serde(default)]
    phase: PhasesFile,
    #[serde(default)]
    budget: Budget,
    #[serde(default)]
    manifest: BTreeMap<String, ManifestChange>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct DefaultsFile {
    read_only: Option<Verdict>,
    mutating: Option<Verdict>,
    privileged: Option<Verdict>,
    unknown: Option<Verdict>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleFile {
    tools: Vec<String>,
    effects: Option<Vec<Effect>>,
    phase: Option<Phase>,
    decision: Verdict,
    reason: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct PhasesFile {
    #[serde(default)]
    write: WritePhaseFile,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct WritePhaseFile {
    #[serde(default)]
    tools: Vec<String>,
}

impl Policy {
    /// Reads a policy file; the format is described in [`mod@crate::rules::policy`].
    ///
    /// # Errors
    /// - [`PolicyError::Unreadable`]: the file cannot be read.
    /// - [`PolicyError::Invalid`]: it is no policy; the text names the line and what could stand there.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, PolicyError> {
        let path = path.as_ref();
        let unreadable = |error| PolicyError::Unreadable { path: path.to_owned(), error };
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        Self::parse(&text, &path.display().to_string())
    }

    /// Parses a policy in TOML. Errors and rulings name `origin` as its source.
    ///
    /// # Errors
    /// [`PolicyError::Invalid`]: it is no policy; the text names the line and what could stand there.
    pub fn parse(text: &str, origin: &str) -> Result<Self, PolicyError> {
        let invalid = |reason: String| PolicyError::Invalid { origin: origin.to_owned(), reason };
        if text.len() > MAX_BYTES {
            return Err(invalid(format!("it has {} bytes; at most {MAX_BYTES} are read", text.len())));
        }
        let file: PolicyFile<Spanned<RuleFile>> =
            toml::from_str(text).map_err(|error| invalid(error.to_string().trim().to_owned()))?;
        file.policy(origin, |rule, _| {
            let at = rule.span().start;
            let line = text.get(..at).unwrap_or_default().matches('\n').count() + 1;
            (rule.into_inner(), format!("line {line}"))
        })
    }

    /// Reads a policy from JSON with the members of a policy file, such as `{"rule": [{"tools": ["*"], "decision": "ask"}]}`.
    /// Errors and rulings name `origin` as its source, and rules by their number.
    ///
    /// # Errors
    /// [`PolicyError::Invalid`]: it is no policy; the text says what could stand there.
    pub fn from_json(json: &serde_json::Value, origin: &str) -> Result<Self, PolicyError> {
        let invalid = |reason: String| PolicyError::Invalid { origin: origin.to_owned(), reason };
        let file = PolicyFile::<RuleFile>::deserialize(json).map_err(|error| invalid(error.to_string()))?;
        file.policy(origin, |rule, number| (rule, format!("rule {number}")))
    }
}

impl<R> PolicyFile<R> {
    /// Makes the policy. `placed` tells a rule and its number, from 1, as a rule and its place.
    fn policy(self, origin: &str, placed: impl Fn(R, usize) -> (RuleFile, String)) -> Result<Policy, PolicyError> {
        let file = self;
        let invalid = |reason: String| PolicyError::Invalid { origin: origin.to_owned(), reason };
        let mut rules = Vec::new();
        for (index, rule) in file.rule.into_iter().enumerate() {
            let (rule, place) = placed(rule, index + 1);
            rules.push(rule.rule(origin, &place).map_err(invalid)?);
        }
        let usual = Defaults::default();
        let defaults = Defaults {
            read_only: file.default.read_only.unwrap_or(usual.read_only),
            mutating: file.default.mutating.unwrap_or(usual.mutating),
            privileged: file.default.privileged.unwrap_or(usual.privileged),
            unknown: file.default.unknown.unwrap_or(usual.unknown),
        };
        let check = |place: &str, patterns: &[String]| {
            ToolPatterns::checked(patterns).map_err(|error| invalid(format!("{place}: {error}")))
        };
        let write_phase = check("[phase.write]", &file.phase.write.tools)?;
        for pattern in file.budget.tools.keys() {
            check(&format!("[budget.tools.{pattern:?}]"), std::slice::from_ref(pattern))?;
        }
        let manifests = careful_last(file.manifest).into_iter().map(|(pattern, change)| {
            Ok((check(&format!("[manifest.{pattern:?}]"), std::slice::from_ref(&pattern))?, change))
        });
        let manifests = manifests.collect::<Result<_, PolicyError>>()?;
        Ok(Policy { rules, defaults, write_phase, budget: file.budget, manifests, invalid: None })
    }
}

impl RuleFile {
    fn rule(self, origin: &str, place: &str) -> Result<NumberedRule, String> {
        let Self { tools, effects, phase, decision, reason } = self;
        if tools.is_empty() {
            return Err(format!("{place}: the rule names no tools; [\"*\"] would be all"));
        }
        let patterns = ToolPatterns::checked(&tools).map_err(|error| format!("{place}: {error}"))?;
        if effects.as_ref().is_some_and(Vec::is_empty) {
            return Err(format!("{place}: the rule has an empty list of effects, so that nothing would fit it"));
        }
        let mut rule = match (decision, reason) {
            (Verdict::Deny, Some(reason)) => Rule::deny(tools, reason),
            (verdict, None) => Rule::new(verdict, tools),
            (_, Some(_)) => {
                return Err(format!("{place}: the rule has a reason, but only what is denied is given one"));
            }
        };
        if let Some(effects) = effects {
            rule = rule.effects(effects);
        }
        if let Some(phase) = phase {
            rule = rule.phase(phase);
        }
        let line = format!("{origin} {place}: {rule}").into();
        Ok(NumberedRule { tools: patterns, rule, line })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use relay_proto::ToolName;

    use super::*;
    use crate::rules::policy::Decision;
    use crate::tool::Manifest;

    /// The example in the documentation of the policy.
    fn example() -> String {
        let text = include_str!("../policy.rs").lines().filter_map(|line| line.strip_prefix("//!"));
        let lines = text.skip_while(|line| !line.contains("```toml")).skip(1).take_while(|line| !line.contains("```"));
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_example_is_one() {
        let policy = Policy::parse(&example(), "policy.toml").unwrap();
        let decide = |tool: &str, phase| {
            let manifest = Manifest { effect: Some(Effect::Mutating), ..Manifest::default() };
            policy.decide(&ToolName::try_from(tool.to_owned()).unwrap(), &manifest, phase)
        };
        let ruling = decide("git.push", None);
        assert_eq!(ruling.decision, Decision::Deny { reason: "nothing leaves this machine".into() });
        assert_eq!(&*ruling.rule, "policy.toml line 7: deny git.push, *.delete_*");
        assert_eq!(decide("git.commit", None).decision, Decision::Ask, "no phase is not the phase write");
        assert!(matches!(decide("git.commit", Some(Phase::Write)).decision, Decision::Deny { .. }), "not offered");
        assert_eq!(decide("fs.apply_patch", Some(Phase::Write)).decision, Decision::Ask);
        assert_eq!(policy.budget.tools["web.*"].calls, Some(20));
        assert_eq!(policy.manifests[0].1.effect, Some(Effect::ReadOnly));
    }

    #[test]
    fn of_entries_that_overlap_the_more_careful_wins_and_a_name_beats_patterns() {
        let manifest = |text: &str, tool: &str| {
            let policy = Policy::parse(text, "policy.toml").unwrap();
            let tools = crate::Tools::new();
            let spec = crate::ToolSpec::new(tool, "", serde_json::json!({"type": "object"}));
            tools.add_with(spec, |_arguments, _context| async { Ok("1".into()) }).unwrap();
            let host = crate::Host::new(tools).policy(policy);
            host.tools().spec(tool).unwrap().manifest
        };
        // Neither the order in the file nor that of the alphabet decides.
        for text in [
            "[manifest.\"time.*\"]\neffect = \"read_only\"\n[manifest.\"*.get_current_time\"]\neffect = \"mutating\"",
            "[manifest.\"*.get_current_time\"]\neffect = \"mutating\"\n[manifest.\"time.*\"]\neffect = \"read_only\"",
            "[manifest.\"time.*\"]\neffect = \"mutating\"\n[manifest.\"*.get_current_time\"]\neffect = \"read_only\"",
        ] {
            assert_eq!(manifest(text, "time.get_current_time").effect, Some(Effect::Mutating), "{text}");
        }
        let text = r#"
            [manifest."a.*"]
            effect = "privileged"
            timeout_ms = 1_000
            result_bytes = 10
            overflow = "cut"
            concurrency = 4
            callable_from_code = true
            [manifest."*.b"]
            effect = "read_only"
            timeout_ms = 2_000
            result_bytes = 20
            overflow = "fail"
            concurrency = 2
            callable_from_code = false
            [manifest."a.c"]
            effect = "read_only"
        "#;
        let expected = Manifest {
            effect: Some(Effect::Privileged),
            timeout: std::time::Duration::from_secs(1),
            result_bytes: 10,
            overflow: crate::tool::Overflow::Fail,
            concurrency: Some(2),
            callable_from_code: false,
            ..Manifest::default()
        };
        assert_eq!(manifest(text, "a.b"), expected);
        let exception = manifest(text, "a.c");
        assert_eq!(
            (exception.effect, exception.result_bytes),
            (Some(Effect::ReadOnly), 10),
            "an exception, in one field"
        );
    }

    #[test]
    fn json_has_the_members_of_a_file_and_names_rules_by_their_place() {
        let json = serde_json::json!({
            "default": {"unknown": "deny"},
            "rule": [{"tools": ["a.*"], "decision": "allow"}, {"tools": ["git.push"], "decision": "deny", "reason": "no"}],
            "budget": {"calls": 5},
            "manifest": {"time.*": {"effect": "read_only"}},
        });
        let policy = Policy::from_json(&json, "the policy").unwrap();
        let tool = ToolName::try_from("git.push".to_owned()).unwrap();
        let ruling = policy.decide(&tool, &Manifest::default(), None);
        assert_eq!(ruling.decision, Decision::Deny { reason: "no".into() });
        assert_eq!(&*ruling.rule, "the policy rule 2: deny git.push");
        assert_eq!((policy.budget.calls, policy.manifests.len()), (Some(5), 1));
        for (json, words) in [
            (serde_json::json!({"rules": []}), ["rules", "`rule`"]),
            (serde_json::json!({"rule": [{"tools": ["ops"], "decision": "deny"}]}), ["rule 1", "ops"]),
        ] {
            let error = Policy::from_json(&json, "the policy").unwrap_err().to_string();
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        for (text, words) in [
            ("[default]\nreadonly = \"allow\"", ["line 2", "readonly", "read_only"]),
            ("[[rule]]\ntools = [\"*\"]\ndecision = \"maybe\"", ["line 3", "maybe", "`allow`"]),
            ("[[rule]]\ntools = []\ndecision = \"ask\"", ["line 1", "no tools", "all"]),
            ("[[rule]]\ntools = [\"git_push\"]\ndecision = \"deny\"", ["line 1", "git_push", "server.tool"]),
            ("[manifest.\"ops\"]\neffect = \"read_only\"", ["[manifest.\"ops\"]", "can fit no tool", "server.tool"]),
            ("[budget.tools.\"ops\"]\ncalls = 1", ["[budget.tools.\"ops\"]", "can fit no tool", "server.tool"]),
            ("[phase.write]\ntools = [\"ops\"]", ["[phase.write]", "can fit no tool", "server.tool"]),
            ("[[rule]]\ntools = [\"*\"]\neffects = []\ndecision = \"deny\"", ["line 1", "effects", "nothing"]),
            ("[[rule]]\ntools = [\"*\"]\ndecision = \"ask\"\nreason = \"x\"", ["line 1", "reason", "denied"]),
            ("[[rule]]\ndecision = \"ask\"", ["line 1", "tools", "missing"]),
            ("[budget]\ncall = 5", ["line 2", "call", "`calls`"]),
            ("[manifest.\"a.*\"]\neffect = \"readonly\"", ["line 2", "readonly", "`read_only`"]),
            ("[phases]", ["line 1", "phases", "`phase`"]),
            ("rules = 3", ["line 1", "rules", "`rule`"]),
            ("what", ["line 1", "policy.toml", ""]),
        ] {
            let error = Policy::parse(text, "policy.toml").unwrap_err().to_string();
            assert!(words.iter().all(|word| error.contains(word)), "{text}\n{error}");
        }
        let error = Policy::from_file("/nowhere/policy.toml").unwrap_err().to_string();
        assert!(error.contains("/nowhere/policy.toml"), "{error}");
    }
}
