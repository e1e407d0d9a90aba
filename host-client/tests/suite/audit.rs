//! The audit log through its public doors: what is in it, what is not, and that nobody can change it unseen.

mod crash;
mod redaction;
mod tamper;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use host_client::Usage;
use host_client::audit::show::{Filter, Shown};
use host_client::audit::{
    Arguments, Audit, AuditConfig, AuditError, CallApproval, CallCompletion, CallDecision, CodeRecord, Decision,
    ExecutionEnd, ExecutionStart, Hash, Origin, SyncMode, Verdict, records, series, verify,
};
use host_client::{Code, Effect, ErrorCode, ExecutionId, LimitName, LimitOverrides, TraceContext};
use relay_proto::{CallId, ToolPatterns};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A folder for a log.
struct Log {
    folder: TempDir,
    execution: ExecutionId,
}

impl Log {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), execution: ExecutionId::from(7) }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("audit.jsonl")
    }

    fn config(&self) -> AuditConfig {
        AuditConfig::new(self.path())
    }

    fn open(&self) -> Audit {
        Audit::open(self.config()).unwrap()
    }

    fn origin(&self) -> Origin<'_> {
        let code_sha256 = Hash::of(b"code");
        Origin { subject: "alice", caller: None, session: "s1", execution: &self.execution, code_sha256 }
    }

    fn start(&self, audit: &Audit, code: &str) -> Result<(), AuditError> {
        let mut limits = LimitOverrides::default();
        limits.set(LimitName::WallMs, 500);
        let trace = Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".parse::<TraceContext>().unwrap());
        audit.execution(&ExecutionStart { origin: self.origin(), client: "app/1", code, limits: &limits, trace })
    }

    fn decide(&self, audit: &Audit, call: u64, decision: Decision, value: &Value) -> Result<(), AuditError> {
        audit.decision(&CallDecision {
            origin: self.origin(),
            call: CallId(call),
            tool: "bank.pay",
            effect: Some(Effect::Mutating),
            arguments: Arguments::Value { value, bytes: value.to_string().len() },
            decision,
            rule: "ask bank.*",
            reason: None,
        })
    }

    fn approve(&self, audit: &Audit, call: u64, verdict: Verdict) -> Result<(), AuditError> {
        let (origin, waited) = (self.origin(), Duration::from_secs(2));
        let approver = Some("bob");
        audit.approval(&CallApproval { origin, call: CallId(call), tool: "bank.pay", verdict, approver, waited })
    }

    fn complete(&self, audit: &Audit, call: u64, error: Option<&Code>) -> Result<(), AuditError> {
        audit.completion(&CallCompletion {
            origin: self.origin(),
            call: CallId(call),
            tool: "bank.pay",
            error,
            duration: Duration::from_micros(1234),
            arguments_bytes: 12,
            result_bytes: 34,
        })
    }

    fn end(&self, audit: &Audit) -> Result<(), AuditError> {
        let usage = Usage { tool_calls: 1, cpu: Duration::from_millis(3), ..Usage::default() };
        let (origin, duration) = (self.origin(), Duration::from_millis(5));
        audit.end(&ExecutionEnd { origin, error: None, duration, result_bytes: 4, usage })
    }

    fn pair(&self, audit: &Audit, call: u64) -> Result<(), AuditError> {
        self.decide(audit, call, Decision::Allow, &json!({"amount": 1}))?;
        self.complete(audit, call, None)
    }

    fn series(&self) -> Vec<PathBuf> {
        series(&self.path()).unwrap()
    }

    fn verify(&self) -> host_client::audit::verify::Verified {
        verify(&self.series(), None).unwrap()
    }

    fn lines(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.path()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

#[test]
fn a_line_says_who_what_when_and_under_which_rule() {
    let log = Log::new();
    let audit = log.open();
    log.start(&audit, "code").unwrap();
    log.decide(&audit, 1, Decision::Ask, &json!({"to": "x"})).unwrap();
    log.approve(&audit, 1, Verdict::Once).unwrap();
    log.complete(&audit, 1, Some(&Code::from(ErrorCode::ToolFailed))).unwrap();
    log.end(&audit).unwrap();
    let head = audit.head();

    let mut lines = log.lines();
    let mut prev = json!("0".repeat(64));
    for (line, seq) in lines.iter_mut().zip(1..) {
        let line = line.as_object_mut().unwrap();
        assert_eq!((line.remove("seq").unwrap(), line.remove("prev").unwrap()), (json!(seq), prev));
        prev = line.remove("hash").unwrap();
        let time = line.remove("time").unwrap();
        assert!(humantime::parse_rfc3339(time.as_str().unwrap()).is_ok() && time.as_str().unwrap().len() == 27);
    }
    assert_eq!(head, (6, prev.as_str().unwrap().parse().unwrap()));
    let opened = lines.remove(0);
    assert_eq!((&opened["kind"], &opened["reason"]), (&json!("opened"), &json!("start")));
    assert_eq!((&opened["process"], &opened["torn"]), (&json!(std::process::id()), &Value::Null));
    assert!(!opened["host"].as_str().unwrap().is_empty());
    let with_origin = |record: Value| {
        let origin = json!({"subject": "alice", "session": "s1", "execution": "7", "code_sha256": Hash::of(b"code")});
        let mut all = origin.as_object().unwrap().clone();
        all.extend(record.as_object().unwrap().clone());
        Value::Object(all)
    };
    let expected = [
        json!({"kind": "execution", "client": "app/1", "limits": {"wall_ms": 500}, "code_bytes": 4, "code": "code",
            "trace": "0af7651916cd43dd8448eb211c80319c"}),
        json!({"kind": "decision", "call": 1, "tool": "bank.pay", "effect": "mutating", "decision": "ask",
            "rule": "ask bank.*", "arguments_bytes": 10, "arguments": {"to": "x"}}),
        json!({"kind": "approval", "call": 1, "tool": "bank.pay", "verdict": "once", "approver": "bob",
            "waited_us": 2_000_000}),
        json!({"kind": "completion", "call": 1, "tool": "bank.pay", "outcome": "TOOL_FAILED", "duration_us": 1234,
            "arguments_bytes": 12, "result_bytes": 34}),
        json!({"kind": "end", "outcome": "ok", "duration_us": 5000, "result_bytes": 4, "usage": {"queue_us": 0,
            "wall_us": 0, "cpu_us": 3000, "tool_calls": 1, "output_bytes": 0, "memory_bytes": 0}}),
    ];
    for (line, expected) in lines.into_iter().zip(expected) {
        assert_eq!(line, with_origin(expected));
    }
    let verified = log.verify();
    assert!(verified.is_whole() && verified.unfinished.is_empty(), "{verified}");
    assert_eq!((verified.records, verified.executions, verified.calls), (6, 1, 1));
    assert_eq!(verified.last.unwrap().hash, head.1);
}

#[test]
fn a_log_has_one_writer_and_belongs_to_its_owner() {
    let log = Log::new();
    let audit = log.open();
    let error = Audit::open(log.config()).unwrap_err();
    assert!(matches!(error, AuditError::InUse { .. }), "{error}");
    assert!(error.to_string().contains("stop that one, or name another file"), "{error}");
    assert_eq!(fs::metadata(log.path()).unwrap().permissions().mode() & 0o777, 0o600);
    drop(audit.clone());
    assert!(Audit::open(log.config()).is_err(), "a clone holds it");
    drop(audit);
    log.pair(&log.open(), 1).unwrap();
    assert_eq!(log.verify().records, 4);
    assert!(log.verify().is_whole());
}

#[test]
fn a_full_file_is_followed_by_another_and_the_chain_goes_on() {
    let log = Log::new();
    let open = |keep| Audit::open(AuditConfig { rotate_bytes: 4_000, keep, ..log.config() }).unwrap();
    let audit = open(None);
    let mut call = 0;
    while log.series().len() < 3 {
        call += 1;
        log.pair(&audit, call).unwrap();
    }
    drop(audit);
    // A rotation that a crash stopped half way: the full file has its new name, and there is no other yet.
    fs::rename(log.path(), log.folder.path().join("audit.jsonl.000003")).unwrap();
    let audit = open(None);
    while log.series().len() < 5 {
        call += 1;
        log.pair(&audit, call).unwrap();
    }
    let verified = log.verify();
    assert!(verified.is_whole() && verified.unfinished.is_empty(), "{verified}");
    assert_eq!(verified.calls, call);
    assert_eq!(verified.first.as_ref().unwrap().seq, 1);
    assert_eq!((verified.last.unwrap().seq, verified.records), (audit.head().0, audit.head().0));
    for file in log.series() {
        let first = fs::read_to_string(&file).unwrap().lines().next().unwrap().to_owned();
        assert_eq!(serde_json::from_str::<Value>(&first).unwrap()["kind"], "opened", "{}", file.display());
        assert!(fs::metadata(&file).unwrap().len() < 5_000);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }
    drop(audit);

    let audit = open(Some(2));
    let before = log.series().len();
    while log.series()[0].ends_with("audit.jsonl.000001") {
        call += 1;
        log.pair(&audit, call).unwrap();
    }
    assert!(before > 3 && log.series().len() == 3, "two full ones and the one that is written");
    let verified = log.verify();
    assert!(verified.is_whole() && verified.first.unwrap().seq > 1, "what is left is whole, and says where it begins");
}

#[test]
fn many_threads_write_one_chain() {
    const THREADS: u64 = 8;
    const PAIRS: u64 = 5_000;
    let log = Log::new();
    let audit = Audit::open(AuditConfig { rotate_bytes: 8 << 20, ..log.config() }).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (audit, log) = (audit.clone(), &log);
            scope.spawn(move || {
                for pair in 0..PAIRS {
                    log.pair(&audit, thread * PAIRS + pair).unwrap();
                }
            });
        }
    });
    let verified = log.verify();
    assert!(verified.is_whole() && verified.unfinished.is_empty(), "{verified}");
    assert_eq!(verified.calls, THREADS * PAIRS);
    assert!(log.series().len() > 1);
}

#[test]
fn code_and_arguments_of_any_size_are_recorded_in_bounds() {
    let log = Log::new();
    let audit = log.open();
    log.start(&audit, &"\u{1}".repeat(4 << 20)).unwrap();
    log.start(&audit, &"x".repeat((4 << 20) + 1)).unwrap();
    log.decide(&audit, 1, Decision::Deny, &json!({"text": "x".repeat(9 << 20), "amount": 3})).unwrap();
    drop(audit);
    let audit = Audit::open(AuditConfig { code: CodeRecord::HashOnly, ..log.config() }).unwrap();
    log.start(&audit, "let secret = 1").unwrap();
    let (bytes, origin) = (5, log.origin());
    let unread = CallDecision {
        origin,
        call: CallId(2),
        tool: &"x".repeat(5_000),
        effect: None,
        arguments: Arguments::Unread { bytes },
        decision: Decision::Deny,
        rule: "",
        reason: Some("not JSON"),
    };
    audit.decision(&unread).unwrap();
    let lines = log.lines();
    assert_eq!(lines[1]["code"].as_str().unwrap().len(), 4 << 20);
    assert_eq!((&lines[2]["code"], &lines[2]["code_bytes"]), (&Value::Null, &json!((4 << 20) + 1)));
    assert_eq!((&lines[3]["arguments"]["amount"], &lines[3]["arguments_note"]), (&json!(3), &json!("shortened")));
    assert!(lines[3].to_string().len() < 70_000);
    assert_eq!((&lines[5]["code"], &lines[5]["code_bytes"]), (&Value::Null, &json!(14)));
    assert_eq!((&lines[6]["arguments"], &lines[6]["arguments_note"]), (&Value::Null, &json!("unread")));
    assert_eq!(lines[6]["tool"], format!("{}…", "x".repeat(1024)));
    assert!(log.verify().is_whole());
}

#[test]
fn what_never_ended_is_named() {
    let log = Log::new();
    let audit = Audit::open(AuditConfig { sync: SyncMode::EveryRecord, ..log.config() }).unwrap();
    log.start(&audit, "code").unwrap();
    let arguments = json!({});
    for (call, decision) in [(1, Decision::Allow), (2, Decision::Ask), (3, Decision::Ask), (4, Decision::Deny)] {
        log.decide(&audit, call, decision, &arguments).unwrap();
    }
    log.approve(&audit, 3, Verdict::Session).unwrap();
    log.pair(&audit, 5).unwrap();
    drop(audit);
    let audit = log.open();
    log.pair(&audit, 6).unwrap();
    let verified = log.verify();
    assert!(verified.is_whole(), "a crash is no change of the log");
    let calls: Vec<_> =
        verified.unfinished.iter().map(|it| (it.call.as_ref().map(|it| it.0), it.may_have_run)).collect();
    assert_eq!(calls, [(None, true), (Some(1), true), (Some(2), false), (Some(3), true), (Some(4), false)]);
    assert!(verified.to_string().contains("call 2 of \"bank.pay\" in the execution \"7\""), "{verified}");

    log.complete(&audit, 99, None).unwrap();
    let verified = log.verify();
    assert!(verified.problems[0].to_string().ends_with("ends something that was never begun"), "{verified}");
}

#[test]
fn a_log_is_shown_line_by_line() {
    let log = Log::new();
    let audit = log.open();
    log.start(&audit, "code").unwrap();
    log.decide(&audit, 1, Decision::Ask, &json!({})).unwrap();
    log.approve(&audit, 1, Verdict::Once).unwrap();
    let evil = Code::from("\u{1b}[2J\u{202e}".to_owned());
    log.complete(&audit, 1, Some(&evil)).unwrap();
    let show = |filter: Filter| -> Vec<String> {
        let shown = records(log.series(), filter).map(Result::unwrap);
        // The time has its own test.
        shown.map(|it| it.to_string().chars().skip(28).collect()).collect()
    };
    let all = show(Filter::default());
    assert_eq!(
        all,
        [
            "opened     - start",
            "execution  s1/7 by alice",
            "decision   s1/7/1 bank.pay ask",
            "approval   s1/7/1 bank.pay once bob",
            "completion s1/7/1 bank.pay \\u{1b}[2J\\u{202e} 1234 µs",
        ]
    );
    let kind = Some("decision".to_owned());
    assert_eq!(show(Filter { kind, ..Filter::default() }), all[2..3]);
    let tools = Some(ToolPatterns::new(Some(vec!["bank.*".into()])));
    assert_eq!(show(Filter { tools, ..Filter::default() }), all[2..]);
    let execution = Some("8".to_owned());
    assert!(show(Filter { execution, ..Filter::default() }).is_empty());
    for (session, shown) in [("s1", &all[1..]), ("s", &all[1..]), ("1", &[])] {
        assert_eq!(show(Filter { session: Some(session.to_owned()), ..Filter::default() }), *shown, "{session}");
    }
    let subject = Some("alice".to_owned());
    assert_eq!(show(Filter { subject, ..Filter::default() }), all[1..]);

    let text = fs::read_to_string(log.path()).unwrap();
    fs::write(log.path(), text.replacen("\"execution\"", "\"exEcution\"", 1)).unwrap();
    let shown: Vec<Shown> = records(log.series(), Filter::default()).map(Result::unwrap).collect();
    assert!(shown[1].to_string().ends_with("line 2: no record"), "{}", shown[1]);
    let Shown::Record(record) = &shown[2] else { panic!("{}", shown[2]) };
    assert_eq!(Some(record.json()), text.lines().nth(2));
}
