//! Tests of decisions, and of policies that are built.

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

#[test]
fn a_rule_can_be_narrowed_to_effects_and_a_phase() {
    let policy = Policy::new()
        .rule(Rule::allow(["git.*"]).effects([Effect::Mutating]).phase(Phase::Write))
        .in_write_phase(["git.*"]);
    assert_eq!(decide(&policy, "git.commit", CHANGES, Some(Phase::Write)), Verdict::Allow);
    assert_eq!(decide(&policy, "git.commit", CHANGES, None), Verdict::Ask, "another phase");
    assert_eq!(decide(&policy, "git.odd", None, Some(Phase::Write)), Verdict::Ask, "another effect");
}

#[test]
fn a_pattern_that_can_fit_no_tool_is_told_with_its_place() {
    let budget =
        |pattern: &str| Budget { tools: [(pattern.to_owned(), ToolBudget::default())].into(), ..Budget::default() };
    for (policy, place) in [
        (Policy::new().allow(["a.*"]).deny(["b.c", "ops_deploy"], "never"), "rule 2: deny b.c, ops_deploy"),
        (Policy::new().in_write_phase(["ops_deploy"]), "the phase write"),
        (Policy::new().budget(budget("ops_deploy")), "the budget"),
        (Policy::new().manifest(["ops_deploy"], ManifestChange::default()), "a manifest"),
    ] {
        let error = policy.check().unwrap_err().to_string();
        assert!(error.starts_with(place) && error.contains("\"ops_deploy\" can fit no tool"), "{error}");
    }
    assert!(Policy::new().allow(["*"]).deny(["a.*"], "no").check().is_ok());
}
