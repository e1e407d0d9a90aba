//! The example as a person uses it: three processes, one after the other, over one journal.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;

#[test]
fn a_payment_is_made_by_another_process_than_the_one_that_began_it() {
    let folder = tempfile::tempdir().unwrap();
    let waiting = run(folder.path(), &["begin"]);
    let id = waiting.strip_suffix(" waits for a person: call [2]\n").unwrap();
    let approved = "approved: books.pay {\"amount\":7,\"to\":\"Ada\"}\n";
    assert_eq!(run(folder.path(), &["decide", id]), approved);
    let paid = run(folder.path(), &["go-on"]);
    let receipt = format!("{{\"paid\":{{\"key\":\"{id}-2\",\"payment\":{{\"amount\":7,\"to\":\"Ada\"}}}}}}");
    assert_eq!(paid, format!("{id}: {receipt}\n"));
    assert_eq!(run(folder.path(), &["go-on"]), "", "there is nothing left to do");
}

/// Runs the example to its end, and returns what it prints.
fn run(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_approval_next_week"))
        .arg("--journal")
        .arg(folder.join("runs.db"))
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
