//! Somebody changes the log: each change is found, and named where it is.

use std::fs;

use host_client::audit::verify::{ProblemKind, Verified};
use host_client::audit::{Audit, AuditConfig, AuditError, Hash, verify};

use super::Log;

/// A log of twenty records, as lines with their newlines.
fn twenty(log: &Log) -> Vec<Vec<u8>> {
    let audit = log.open();
    log.start(&audit, "return 1").unwrap();
    for call in 1..=9 {
        log.pair(&audit, call).unwrap();
    }
    let bytes = fs::read(log.path()).unwrap();
    let lines: Vec<Vec<u8>> = bytes.split_inclusive(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
    assert_eq!(lines.len(), 20);
    lines
}

fn verify_bytes(log: &Log, bytes: &[u8], kept: Option<Hash>) -> Verified {
    fs::write(log.path(), bytes).unwrap();
    verify(&log.series(), kept).unwrap()
}

#[test]
fn a_change_of_any_byte_is_found_in_its_line() {
    let log = Log::new();
    let lines = twenty(&log);
    let mut bytes = lines.concat();
    let mut at = 0;
    for (line, number) in lines.iter().zip(1..) {
        for _ in line {
            bytes[at] ^= 1;
            let verified = verify_bytes(&log, &bytes, None);
            bytes[at] ^= 1;
            assert!(!verified.is_whole(), "byte {at}");
            assert_eq!(verified.problems[0].line, number, "byte {at}: {verified}");
            at += 1;
        }
    }
    assert!(verify_bytes(&log, &bytes, None).is_whole());
}

#[test]
fn lines_that_are_removed_moved_copied_or_put_in_are_found() {
    let log = Log::new();
    let lines = twenty(&log);
    let kinds = |change: &dyn Fn(&mut Vec<Vec<u8>>)| -> Vec<(u64, ProblemKind)> {
        let mut lines = lines.clone();
        change(&mut lines);
        let verified = verify_bytes(&log, &lines.concat(), None);
        verified.problems.into_iter().map(|problem| (problem.line, problem.kind)).collect()
    };
    use ProblemKind::{Changed, Missing, NoBeginning, OutOfPlace, Unchained};
    assert_eq!(kinds(&|_| {}), []);
    assert_eq!(kinds(&|lines| drop(lines.remove(4))), [(5, Missing { from: 5, to: 5 })]);
    assert_eq!(kinds(&|lines| drop(lines.drain(4..10))), [(5, Missing { from: 5, to: 10 })]);
    assert_eq!(kinds(&|lines| drop(lines.remove(0))), [(1, NoBeginning)]);
    let copied = kinds(&|lines| lines.insert(5, lines[4].clone()));
    assert_eq!(copied, [(6, OutOfPlace { seq: 5, expected: 6 })]);
    let swapped = kinds(&|lines| lines.swap(4, 5));
    assert_eq!(
        swapped,
        [(5, Missing { from: 5, to: 5 }), (6, OutOfPlace { seq: 5, expected: 7 }), (7, Missing { from: 6, to: 6 })]
    );
    assert_eq!(kinds(&|lines| lines.insert(5, b"{}\n".to_vec())), [(6, Changed)]);
    assert_eq!(kinds(&|lines| lines.insert(5, b"\n".to_vec())), [(6, Changed)]);
    assert_eq!(
        kinds(&|lines| lines.insert(5, [&vec![b'x'; 40 << 20][..], b"\n"].concat())),
        [(6, Changed)],
        "in memory that does not grow"
    );

    // A line of another log that is whole in itself, with the same number.
    let other = twenty(&Log::new());
    assert_eq!(kinds(&|lines| lines[4].clone_from(&other[4])), [(5, Unchained { seq: 5 }), (6, Unchained { seq: 6 })]);
    // Two lines changed, and one removed behind them.
    let both = kinds(&|lines| {
        lines[4][10] ^= 1;
        lines[5][10] ^= 1;
        lines.remove(6);
    });
    assert_eq!(both, [(5, Changed), (6, Changed), (7, Missing { from: 7, to: 7 })]);
}

#[test]
fn an_end_that_was_cut_is_found_by_a_kept_hash() {
    let log = Log::new();
    let lines = twenty(&log);
    let whole = verify_bytes(&log, &lines.concat(), None);
    let kept = whole.last.unwrap().hash;
    assert!(whole.has_kept.is_none() && verify_bytes(&log, &lines.concat(), Some(kept)).is_whole());
    let cut = lines[..19].concat();
    assert!(verify_bytes(&log, &cut, None).is_whole(), "nothing in the file itself can tell");
    let verified = verify_bytes(&log, &cut, Some(kept));
    assert!(!verified.is_whole() && verified.to_string().contains("the log was cut"), "{verified}");
    for end in 0..lines[19].len() {
        let verified = verify_bytes(&log, &[&cut, &lines[19][..end]].concat(), None);
        assert_eq!(verified.is_whole(), end == 0, "{end} bytes of the last line");
    }
    assert_eq!(verify_bytes(&log, b"", None).problems[0].kind, ProblemKind::Empty);
}

#[test]
fn a_file_of_a_series_that_is_gone_is_found() {
    let log = Log::new();
    let audit = Audit::open(AuditConfig { rotate_bytes: 3_000, ..log.config() }).unwrap();
    let mut call = 0;
    while log.series().len() < 5 {
        call += 1;
        log.pair(&audit, call).unwrap();
    }
    assert!(log.verify().is_whole());
    let mut files = log.series();
    files.swap(1, 2);
    assert!(!verify(&files, None).unwrap().is_whole(), "files in another order");
    fs::remove_file(log.folder.path().join("audit.jsonl.000002")).unwrap();
    let verified = log.verify();
    let problem = &verified.problems[0];
    assert!(problem.file.ends_with("audit.jsonl.000003") && problem.line == 1, "{verified}");
    assert!(matches!(problem.kind, ProblemKind::Missing { .. }), "{verified}");
    assert_eq!(verified.problem_count, 1);
}

#[test]
fn what_is_no_log_is_not_touched() {
    let log = Log::new();
    let lines = twenty(&log);
    let mut changed = lines.concat();
    let last = changed.len() - 100;
    changed[last] ^= 1;
    for bytes in [&b"some notes"[..], b"some notes\n", b"{}\n", b"\n", b"\0\0\0", &changed] {
        fs::write(log.path(), bytes).unwrap();
        let error = Audit::open(log.config()).unwrap_err();
        assert!(matches!(error, AuditError::NotALog { .. }), "{error}");
        assert_eq!(fs::read(log.path()).unwrap(), bytes);
    }
    let folder = log.folder.path().to_owned();
    assert!(matches!(Audit::open(AuditConfig::new(&folder)).unwrap_err(), AuditError::Write { .. }));
    assert!(Audit::open(AuditConfig::new(folder.join("none/audit.jsonl"))).is_err());
    fs::remove_file(log.path()).unwrap();
    std::os::unix::fs::symlink("/dev/full", log.path()).unwrap();
    assert!(matches!(Audit::open(log.config()).unwrap_err(), AuditError::NotALog { .. }));
}
