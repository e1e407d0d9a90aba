//! The disk is full, or the process dies: no call without a record, and no log that cannot go on.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use host_client::audit::{Audit, AuditConfig, AuditError, Decision, Hash};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;

use super::Log;

/// The environment variable that tells a child of this program its folder.
const FOLDER: &str = "AUDIT_TEST_FOLDER";

/// One of the tests below as a process of its own. It ignores the signal that a too large file is answered with.
fn child(test: &str, folder: &OsStr) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", r#"trap "" XFSZ; exec "$@""#, "sh"]).arg(std::env::current_exe().unwrap());
    command.args(["--exact", "--ignored", "--nocapture", test]).env(FOLDER, folder);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// The path that a child is to write, in a process that is one.
fn given_path() -> PathBuf {
    let folder = std::env::var_os(FOLDER).expect("this is for a child of another test, and it is run there");
    PathBuf::from(folder).join("audit.jsonl")
}

fn limit(resource: Resource, current: Option<u64>) {
    setrlimit(resource, Rlimit { current, ..getrlimit(resource) }).unwrap();
}

#[test]
fn a_record_that_does_not_fit_on_the_disk_leaves_no_trace() {
    let log = Log::new();
    let output = child("audit::crash::writes_on_a_full_disk", log.folder.path().as_os_str()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let verified = log.verify();
    assert!(verified.is_whole() && verified.torn == 0 && verified.unfinished_count == 0, "{verified}");
    assert!(log.series().len() > 1);
}

/// A file that may not grow is answered as a full disk is: first with a part of the record, then with an error.
#[test]
#[ignore = "a child of a_record_that_does_not_fit_on_the_disk_leaves_no_trace"]
fn writes_on_a_full_disk() {
    let path = given_path();
    let audit = Audit::open(AuditConfig { rotate_bytes: 20_000, ..AuditConfig::new(&path) }).unwrap();
    let log = Log::new();
    log.pair(&audit, 1).unwrap();
    let before = fs::read(&path).unwrap();
    let head = audit.head();
    for room in [0, 1, 100, 300] {
        limit(Resource::Fsize, u64::try_from(before.len()).ok().map(|len| len + room));
        let error = log.pair(&audit, 2).unwrap_err();
        assert!(matches!(error, AuditError::Write { .. }), "{error}");
        assert_eq!((fs::read(&path).unwrap(), audit.head()), (before.clone(), head), "room for {room} bytes");
    }
    limit(Resource::Fsize, None);
    log.pair(&audit, 2).unwrap();

    // A full file, where no other can be created.
    let decide = |call| log.decide(&audit, call, Decision::Allow, &json!({}));
    limit(Resource::Nofile, Some(3));
    let refused = (3..1_000).find(|&call| decide(call).is_err()).unwrap();
    assert!(decide(refused).is_err() && fs::metadata(&path).unwrap().len() >= 20_000);
    limit(Resource::Nofile, Some(1_024));
    decide(refused).unwrap();
    (3..=refused).for_each(|call| log.complete(&audit, call, None).unwrap());
}

#[test]
fn a_killed_writer_leaves_a_log_that_goes_on() {
    let log = Log::new();
    for round in 1..=5_u64 {
        let mut writer =
            child("audit::crash::writes_until_it_is_killed", log.folder.path().as_os_str()).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        let goal = round * 200_000;
        while fs::metadata(log.path()).map_or(0, |metadata| metadata.len()) < goal {
            assert!(Instant::now() < deadline && writer.try_wait().unwrap().is_none(), "the writer does not write");
            std::thread::yield_now();
        }
        writer.kill().unwrap();
        writer.wait().unwrap();
    }
    drop(log.open());
    let verified = log.verify();
    assert!(verified.is_whole(), "{verified}");
    assert!(verified.calls > 1_000 && verified.unfinished_count <= 5, "{verified}");
}

#[test]
#[ignore = "a child of a_killed_writer_leaves_a_log_that_goes_on"]
fn writes_until_it_is_killed() {
    let audit = Audit::open(AuditConfig::new(given_path())).unwrap();
    let log = Log::new();
    for call in 0.. {
        log.pair(&audit, call).unwrap();
    }
}

#[test]
fn a_piece_of_a_record_is_cut_off_and_told_of() {
    let log = Log::new();
    log.pair(&log.open(), 1).unwrap();
    let whole = fs::read(log.path()).unwrap();
    let last = whole[..whole.len() - 1].iter().rposition(|&byte| byte == b'\n').unwrap() + 1;
    for end in [1, 3, 7, 50, whole.len() - last - 1] {
        let piece = &whole[last..last + end];
        fs::write(log.path(), [&whole, piece].concat()).unwrap();
        assert!(!log.verify().is_whole(), "until the log is opened");
        log.pair(&log.open(), 2).unwrap();
        let verified = log.verify();
        assert!(verified.is_whole() && verified.torn == 1 && verified.records == 6, "{verified}");
        let opened = &log.lines()[3];
        let text = String::from_utf8_lossy(piece);
        assert_eq!(opened["torn"], json!({"bytes": end, "sha256": Hash::of(piece), "text": text}));
    }
    // Nothing but a piece: the first record of all was torn.
    fs::write(log.path(), &whole[..40]).unwrap();
    drop(log.open());
    assert!(log.verify().is_whole() && log.verify().torn == 1);
}
