//! `policy`: patterns that fit nothing, entries that contradict each other, and the decision about one tool.

use serde_json::json;

use super::folder::Folder;

const POLICY: &str = r#"
[[rule]]
tools = ["fake.die", "fkae.*"]
decision = "deny"
reason = "not today"

[[rule]]
tools = ["fake.*", "*.remove"]
effects = ["mutating"]
decision = "allow"

[manifest."fake.*"]
effect = "mutating"

[manifest."*.echo"]
effect = "read_only"
timeout_ms = 5_000

[budget.tools."fake.*"]
calls = 3
"#;
const FROM: [&str; 4] = ["--policy", "policy.toml", "--mcp", "mcp.json"];

#[tokio::test]
async fn a_policy_is_checked_against_the_tools_that_there_are() {
    let folder = Folder::new();
    folder.fake_server("plain").file("policy.toml", POLICY);
    let checked = folder.run(&[&["policy", "check"], &FROM[..]].concat()).await;
    assert_eq!(checked.status, Some(1), "{checked:?}");
    for line in ["  fake.die  1 tool", "  fkae.*    no tool", "  *.remove  no tool"] {
        assert!(checked.out.lines().any(|it| it == line), "{line:?} is not in {}", checked.out);
    }
    assert!(checked.out.starts_with("policy.toml line 2: deny fake.die, fkae.*\n"), "{}", checked.out);
    let warnings: Vec<_> = checked.err.lines().collect();
    assert_eq!(warnings.len(), 2, "the pattern of no server may wait for tools to come: {warnings:?}");
    assert!(warnings[0].contains("the pattern \"fkae.*\" fits no tool; did you mean \"fake.*\"?"), "{warnings:?}");
    assert!(
        warnings[1].contains("\"*.echo\" says read_only, \"fake.*\" says mutating; mutating applies"),
        "{warnings:?}"
    );

    let json = folder.run(&[&["policy", "check", "--json"], &FROM[..]].concat()).await;
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(json["warnings"].as_array().map(Vec::len), Some(2), "{json}");

    let run = folder.run_with("return 1", &[&["run", "-"], &FROM[..]].concat()).await;
    let told: Vec<_> = run.err.lines().collect();
    assert_eq!((run.status, told.len()), (Some(0), 2), "{run:?}");
    assert!(told.iter().all(|line| line.starts_with("relay-host: warning: ")), "{run:?}");

    folder.file("policy.toml", "[[rule]]\ntools = [\"fake.*\"]\ndecision = \"ask\"");
    let fine = folder.run(&[&["policy", "check"], &FROM[..]].concat()).await;
    assert_eq!((fine.status, &*fine.err), (Some(0), ""), "{fine:?}");
    let lines: Vec<_> = fine.out.lines().collect();
    assert!(matches!(lines[..], ["policy.toml line 1: ask fake.*", count] if count.ends_with(" tools")), "{fine:?}");
}

#[tokio::test]
async fn the_decision_about_a_tool_is_explained() {
    let folder = Folder::new();
    folder.fake_server("plain").file("policy.toml", POLICY);
    let explain = async |words: &[&str]| folder.run(&[&["policy", "explain"], words, &FROM[..]].concat()).await;
    let denied = explain(&["fake.die"]).await;
    let lines: Vec<_> = denied.out.lines().collect();
    assert_eq!(
        lines,
        [
            "tool       fake.die",
            "effect     mutating",
            "decision   deny: not today",
            "because    policy.toml line 2: deny fake.die, fkae.*",
            "also fits  policy.toml line 7: allow fake.*, *.remove",
            "manifest   fake.*: {\"effect\":\"mutating\"}",
            "budget     fake.*: {\"calls\":3}",
        ]
    );
    let phase = explain(&["fake.echo", "--phase", "discover", "--json"]).await;
    let phase: serde_json::Value = serde_json::from_str(&phase.out).unwrap();
    assert_eq!((&phase["decision"], &phase["because"]), (&json!("deny"), &json!("phase discover")), "{phase}");
    assert_eq!(phase["effect"], "mutating", "the more careful entry applies: {phase}");
    let error = explain(&["fake.ecko"]).await;
    assert!(error.status == Some(2) && error.err.contains("fake.echo"), "{error:?}");
}

#[tokio::test]
async fn a_redaction_that_fits_no_tool_is_told_and_one_of_a_server_that_failed_is_not() {
    let folder = Folder::new();
    folder.servers(json!({"fake": folder.fake("plain"), "gone": {"command": "/nonexistent/server"}}));
    let redacted = |pattern: &str| format!("{pattern}=$.secret");
    let (wrong, late, right) = (redacted("fkae.*"), redacted("gone.*"), redacted("fake.echo"));
    let arguments = [
        "run", "-", "--mcp", "mcp.json", "--audit", "a.jsonl", "--redact", &wrong, "--redact", &late, "--redact",
        &right,
    ];
    let ended = folder.run_with("return 1", &arguments).await;
    let warnings: Vec<_> = ended.err.lines().filter(|line| line.contains("warning")).collect();
    assert_eq!(warnings.len(), 1, "{ended:?}");
    assert!(warnings[0].contains("--redact fkae.*=$.secret") && warnings[0].contains("redacts nothing"), "{ended:?}");
}
