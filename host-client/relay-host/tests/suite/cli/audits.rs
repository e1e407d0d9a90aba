//! `--audit`, `--redact` and `audit`: what is written down, and what happens when it cannot be.

use serde_json::Value;

use super::folder::{Folder, finish};

const ALLOW: &str = "[default]\nunknown = \"allow\"";
const WITH: [&str; 6] = ["--mcp", "mcp.json", "--policy", "allow.toml", "--audit", "log"];

#[tokio::test]
async fn a_run_is_recorded_shown_and_verified() {
    let folder = Folder::new();
    folder.fake_server("plain").file("allow.toml", ALLOW);
    let code = "return (await mcp.call('fake.echo', {card: '4111 1111', name: 'Ann'})).arguments";
    let arguments = [&["run", "-", "--redact", "fake.*=$.card"][..], &WITH].concat();
    assert_eq!(folder.run_with(code, &arguments).await.value()["card"], "4111 1111");
    let shown = folder.run(&["audit", "show", "log"]).await;
    let kinds: Vec<_> = shown.out.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
    assert_eq!(kinds, ["opened", "execution", "decision", "completion", "end"], "{shown:?}");
    assert!(shown.out.contains("fake.echo allow"), "{shown:?}");

    let records = folder.run(&["audit", "show", "log", "--json"]).await.out;
    assert_eq!(records, folder.read("log"));
    let records: Vec<Value> = records.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let decision = &records[2];
    assert!(decision.to_string().contains("Ann") && !decision.to_string().contains("4111 1111"), "{decision}");
    let execution = records[1]["execution"].as_str().unwrap();
    let of_one = folder.run(&["audit", "show", "log", "--execution", execution]).await;
    assert_eq!(of_one.out.lines().count(), 4, "{of_one:?}");

    let head = records[4]["hash"].as_str().unwrap();
    let verified = folder.run(&["audit", "verify", "log", "--head", head]).await;
    assert_eq!(verified.status, Some(0), "{verified:?}");
    assert!(verified.out.contains("the kept record is in it\nwhole\n"), "{verified:?}");
    let cut = folder.read("log").lines().take(4).map(|line| format!("{line}\n")).collect::<String>();
    let cut = folder.file("cut", cut).run(&["audit", "verify", "cut", "--head", head]).await;
    assert!(cut.status == Some(1) && cut.out.contains("NOT WHOLE") && cut.err.is_empty(), "{cut:?}");
    let changed = folder.read("log").replace("fake.echo", "fake.ecHo");
    let changed = folder.file("changed", changed).run(&["audit", "verify", "changed"]).await;
    assert!(changed.status == Some(1) && changed.out.contains("was changed"), "{changed:?}");
}

/// A file that may not grow is answered as a full disk is, where the signal for it is ignored.
async fn on_a_full_disk(folder: &Folder, bytes: usize, arguments: &[&str], input: &str) -> super::folder::Ended {
    let limited = "trap '' XFSZ; exec prlimit --fsize=\"$0\" \"$@\"";
    let command = folder.command_by(&["setsid", "sh", "-c", limited, &bytes.to_string()], arguments);
    finish(command, input).await
}

#[tokio::test]
async fn on_a_full_disk_nothing_runs() {
    let folder = Folder::new();
    folder.fake_server("plain").file("allow.toml", ALLOW);
    let call = |size: usize| {
        let arguments = format!("{{\"text\": \"{}\"}}", "x".repeat(size));
        [&["call", "fake.wait", &arguments].map(str::to_owned)[..], &WITH.map(str::to_owned)].concat()
    };
    let arguments = call(1_000);
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    // There is room for the record that the log was opened: then not for the execution's, then not for the decision's.
    let ended = on_a_full_disk(&folder, 1_000, &arguments, "").await;
    ended.says(1, &["nothing was run: the audit log log cannot be written"]);
    assert!(!folder.read("notes").contains("waiting"), "the tool ran");
    let first = folder.read("log");
    std::fs::remove_file(folder.path("log")).unwrap();
    let ended = on_a_full_disk(&folder, 2_500, &arguments, "").await;
    assert!(ended.status == Some(1) && ended.err.contains("INTERNAL: fake.wait was not run"), "{ended:?}");
    assert!(!folder.read("notes").contains("waiting"), "the tool ran");
    let kinds = |log: &str| {
        let records = log.lines().map(|line| serde_json::from_str::<Value>(line).expect("no half of a record stays"));
        records.map(|record| record["kind"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(
        (kinds(&first), kinds(&folder.read("log"))),
        (vec!["opened".into()], ["opened", "execution", "end"].map(str::to_owned).into())
    );
    let ended = on_a_full_disk(&folder, 0, &["call", "fake.wait", "--audit", "new", "--mcp", "mcp.json"], "").await;
    ended.says(2, &["the audit log new cannot be written"]);
}

#[tokio::test]
async fn what_is_redacted_in_arguments_is_not_in_the_code_that_the_program_writes() {
    let folder = Folder::new();
    folder.fake_server("plain").file("allow.toml", "[default]\nunknown = \"allow\"");
    let call = r#"{"path": "a", "content": "hunter2"}"#;
    let code = format!("return await mcp.call('fake.echo', {call})");
    let json = format!(r#"{{"tool": "fake.echo", "arguments": {call}}}"#);
    folder
        .file("x.js", code)
        .file("y.js", json)
        .file("z.js", format!("const a = {call}; return mcp.call('fake.echo', a)"));
    let hash = ["--audit-code", "hash"];
    let (call, run) = (["call", "fake.echo", call], |file| ["run", file]);
    for (log, words, more) in [
        ("call.jsonl", &call[..], &[][..]),
        ("x.jsonl", &run("x.js"), &[]),
        ("y.jsonl", &run("y.js"), &[]),
        ("z.jsonl", &run("z.js"), &hash),
    ] {
        let usual = ["--mcp", "mcp.json", "--policy", "allow.toml", "--redact", "fake.*=$.content", "--audit", log];
        let ended = folder.run(&[words, &usual, more].concat()).await;
        assert!(ended.out.contains("hunter2") && ended.status == Some(0), "the tool gets it: {ended:?}");
        let written = folder.read(log);
        assert!(!written.contains("hunter2") && written.contains("[redacted]"), "{log}: {written}");
    }
}
