//! Tests that redacted parts are in no file, whatever the arguments look like.

use std::fs;

use host_client::audit::{Audit, AuditConfig, AuditError, CodeRecord, Decision, Hash, Redaction};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::Log;

/// Long and odd enough to be found only where it was put.
const SECRET: &str = "hunter2-zq8XW!";

fn redaction(tools: &str, path: &str) -> Redaction {
    Redaction { tools: vec![tools.into()], path: path.into() }
}

fn written(log: &Log) -> String {
    let files = fs::read_dir(log.folder.path()).unwrap();
    files.map(|file| fs::read_to_string(file.unwrap().path()).unwrap()).collect()
}

#[test]
fn a_wrong_redaction_is_refused_before_anything_is_written() {
    let log = Log::new();
    let redact = vec![redaction("*", "$.ok"), redaction("*", "password")];
    let error = Audit::open(AuditConfig { redact, ..log.config() }).unwrap_err();
    assert!(matches!(&error, AuditError::Redaction { path, .. } if path == "password"), "{error}");
    assert!(!log.path().exists());
}

#[test]
fn large_arguments_are_redacted_or_left_out() {
    let log = Log::new();
    let redact = vec![redaction("bank.*", "$.password")];
    let audit = Audit::open(AuditConfig { redact, ..log.config() }).unwrap();
    for (call, size) in [(1, 100_000), (2, 2_000_000)] {
        let arguments = json!({"password": SECRET, "rest": "x".repeat(size)});
        log.decide(&audit, call, Decision::Allow, &arguments).unwrap();
    }
    let lines = log.lines();
    assert_eq!(
        (&lines[1]["arguments"]["password"], &lines[1]["arguments_note"]),
        (&json!("[redacted]"), &json!("shortened"))
    );
    assert_eq!((&lines[2]["arguments"], &lines[2]["arguments_note"]), (&Value::Null, &json!("too_large_to_redact")));
    assert_eq!(lines[2].get("arguments_sha256"), None, "a hash would let a secret be guessed");
    assert!(!written(&log).contains(SECRET));
}

#[test]
fn other_tools_are_recorded_as_they_are() {
    let log = Log::new();
    let audit = Audit::open(AuditConfig { redact: vec![redaction("mail.*", "$.password")], ..log.config() }).unwrap();
    log.decide(&audit, 1, Decision::Allow, &json!({"password": SECRET})).unwrap();
    assert!(written(&log).contains(SECRET));
}

#[test]
fn code_that_is_one_call_is_redacted_as_its_arguments_are() {
    let json_call = format!(r#"{{"tool": "bank.pay", "arguments": {{"to": "Ada", "pin": "{SECRET}"}}}}"#);
    for code in [
        json_call.clone(),
        format!("```json\n{json_call}\n```"),
        format!("return await mcp.call('bank.pay', {{to: 'Ada', pin: '{SECRET}'}})"),
        format!("await bank.pay({{to: \"Ada\", pin: `{SECRET}`}})"),
        format!("async () => mcp.call('bank.pay', {{pin: '{SECRET}', to: 'Ada', pin: '{SECRET}'}})"),
    ] {
        let log = Log::new();
        let audit = Audit::open(AuditConfig { redact: vec![redaction("bank.*", "$.pin")], ..log.config() }).unwrap();
        log.start(&audit, &code).unwrap();
        let record = &log.lines()[1];
        let recorded: Value = serde_json::from_str(record["code"].as_str().unwrap()).unwrap();
        let arguments = json!({"to": "Ada", "pin": "[redacted]"});
        assert_eq!(recorded, json!({"tool": "bank.pay", "arguments": arguments}), "{code}");
        assert_eq!((&record["code_note"], &record["code_bytes"]), (&json!("redacted"), &json!(code.len())), "{code}");
        assert!(!written(&log).contains(SECRET), "{code}");
        let other = code.replace(SECRET, "12");
        assert_eq!(audit.code_hash(&code), audit.code_hash(&other), "a hash would let a secret be guessed: {code}");
        assert_ne!(audit.code_hash(&code), audit.code_hash(&code.replace("Ada", "Bob")), "{code}");
    }
}

#[test]
fn what_is_nearly_a_call_as_json_leaks_nothing_either() {
    for code in [
        format!(r#"{{"tool": "bank.pay", "args": {{"pin": "{SECRET}"}}}}"#),
        format!(r#"{{"tool": "bank.pay", "arguments": {{"pin": "{SECRET}"}}, "arguments": {{}}}}"#),
        format!(r#"{{"tool": "bankpay", "arguments": {{"pin": "{SECRET}"}}}}"#),
        format!(r#"{{"tool": "bank.pay", "arguments": {{"pin": "{SECRET}", "x": "{}"}}}}"#, "x".repeat(2_000_000)),
    ] {
        let log = Log::new();
        let audit = Audit::open(AuditConfig { redact: vec![redaction("bank.*", "$.pin")], ..log.config() }).unwrap();
        log.start(&audit, &code).unwrap();
        assert!(!written(&log).contains(SECRET), "{}", &code[..60]);
    }
}

#[test]
fn other_code_is_recorded_as_it_is_or_by_its_hash_alone() {
    let code = format!("const pin = '{SECRET}'; return await mcp.call('bank.pay', {{pin}})");
    for (code, tools) in [(&*code, "bank.*"), ("return await mcp.call('mail.send', {pin: 1})", "bank.*")] {
        let log = Log::new();
        let audit = Audit::open(AuditConfig { redact: vec![redaction(tools, "$.pin")], ..log.config() }).unwrap();
        log.start(&audit, code).unwrap();
        assert_eq!((&log.lines()[1]["code"], log.lines()[1].get("code_note")), (&json!(code), None), "{code}");
        assert_eq!(audit.code_hash(code), Hash::of(code.as_bytes()), "anybody can compute it");
    }
    let log = Log::new();
    let audit = Audit::open(AuditConfig { code: CodeRecord::HashOnly, ..log.config() }).unwrap();
    log.start(&audit, &code).unwrap();
    assert_eq!(log.lines()[1].get("code"), None);
    assert!(!written(&log).contains(SECRET));
}

/// Any JSON; names and texts are of all kinds, the secret not among them.
fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from)
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::from),
            btree_map("[a-z/~'\"\\\\.é ]{0,4}", inner, 0..5).prop_map(|members| members.into_iter().collect()),
        ]
    })
}

/// Puts the secret, in some wrapping, under `token` at some depth.
fn with_secret() -> impl Strategy<Value = Value> {
    let secret = prop_oneof![
        Just(json!(SECRET)),
        Just(json!([SECRET, {"token": SECRET}])),
        Just(json!({"deep": {"er": SECRET}})),
        Just(json!(format!("Bearer {SECRET}\n"))),
    ];
    let around = vec(("[a-z/~'\"\\\\.é ]{0,4}", any::<bool>()), 0..5);
    (secret, around, anything()).prop_map(|(secret, around, beside)| {
        around.into_iter().fold(json!({"token": secret, "beside": beside}), |inner, (name, is_list)| {
            if is_list { json!([beside.clone(), inner]) } else { json!({name: inner, "more": 1}) }
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_redacted_secret_is_in_no_file(arguments in with_secret()) {
        let log = Log::new();
        let redact = vec![redaction("bank.*", "$..token")];
        let audit = Audit::open(AuditConfig { redact, ..log.config() }).unwrap();
        log.decide(&audit, 1, Decision::Allow, &arguments).unwrap();
        let written = written(&log);
        prop_assert!(written.contains("[redacted]"));
        prop_assert!(!written.contains(SECRET), "{}", written);
        prop_assert!(log.verify().is_whole());
    }
}
