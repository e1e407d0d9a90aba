//! The story of an approval that comes a week later: a program over three real MCP servers, which nothing keeps alive
//! meanwhile.

use serde_json::{Value, json};

use super::folder::{Ended, Folder, finish};
use crate::scene;

/// Reads from all three servers, asks, and writes with what it has read before it asked.
const CODE: &str = "
    const path = folder + '/a.txt';
    const [now, log, file] = await Promise.all([
        mcp.call('time.get_current_time', {timezone: 'UTC'}),
        mcp.call('git.git_log', {repo_path: folder, max_count: 1}),
        mcp.call('files.read_text_file', {path}),
    ]);
    const seen = {now: JSON.stringify(now), dice: Math.random(), log: JSON.stringify(log).includes('first')};
    await mcp.call('files.write_file', {path: folder + '/b.txt', content: file.content + seen.now});
    const after = await mcp.call('files.read_text_file', {path: folder + '/b.txt'});
    return {...seen, kept: after.content === file.content + seen.now}";
const WITH: [&str; 6] = ["--mcp", "mcp.json", "--policy", "policy.toml", "--audit", "audit.jsonl"];
const JOURNAL: [&str; 2] = ["--journal", "runs.db"];

#[tokio::test]
async fn an_approval_next_week_finds_the_run_as_it_was() {
    let folder = Folder::new();
    let root = folder.path("").canonicalize().unwrap();
    scene::prepare(&root);
    let code = format!("const folder = {:?};{CODE}", root.to_str().unwrap());
    folder.file("story.js", code).file("policy.toml", scene::POLICY).servers(scene::servers(&root));
    let begin = [&["run", "story.js", "--durable", "--passivate-after", "1"], &WITH[..], &JOURNAL].concat();
    let began = folder.run(&begin).await;
    assert_eq!((began.status, &*began.out), (Some(4), ""), "{began:?}");
    assert!(folder.processes().is_empty(), "host, relay and servers are gone: {:?}", folder.processes());
    let id = began.err.lines().find_map(|line| line.strip_prefix("run ")).unwrap();

    let listed = in_days(&folder, 6, &["runs", "list", "--json"]).await.value();
    assert_eq!((&listed[0]["run"], &listed[0]["status"]), (&json!(id), &json!("waiting")), "{listed}");
    let shown = in_days(&folder, 6, &["runs", "show", id, "--json"]).await.value();
    let asked = &shown["calls"][3];
    assert_eq!((&asked["tool"], &asked["call"]), (&json!("files.write_file"), &json!(4)), "{shown}");
    assert!(asked["arguments"]["content"].as_str().unwrap().starts_with("first line\n"), "{asked}");
    assert!(!folder.path("b.txt").exists());
    // What has been read is on record: the run does not read it again.
    folder.file("a.txt", "another line\n");
    let approved = in_days(&folder, 6, &["runs", "approve", &id[..10], "4", "--by", "Ada"]).await;
    assert!(approved.status == Some(0) && approved.out.contains("call 4 is approved"), "{approved:?}");
    let value = in_days(&folder, 6, &[&["runs", "resume", id], &WITH[..]].concat()).await.value();
    assert_eq!((&value["kept"], &value["log"]), (&json!(true), &json!(true)), "{value}");
    let written = folder.read("b.txt");
    assert_eq!(written, asked["arguments"]["content"].as_str().unwrap());
    assert!(written.starts_with("first line\n") && written.contains(value["now"].as_str().unwrap()), "{written}");

    let verified = folder.run(&["audit", "verify", "audit.jsonl"]).await;
    assert!(verified.status == Some(0) && verified.out.contains("whole"), "{verified:?}");
    let records = folder.read("audit.jsonl");
    let done = |tool: &str| {
        let records = records.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        records.filter(|it| it["kind"] == "completion" && it["tool"] == tool && it["outcome"] == "ok").count()
    };
    for tool in ["time.get_current_time", "git.git_log", "files.write_file"] {
        assert_eq!(done(tool), 1, "{tool} ran once: {records}");
    }
    assert!(records.contains("\"Ada\""), "{records}");
}

#[tokio::test]
async fn an_approval_that_comes_too_late_finds_the_call_denied() {
    let folder = Folder::new();
    folder.fake_server("plain");
    let code = "return await mcp.call('fake.echo').catch((error) => error.code)";
    let with = ["--mcp", "mcp.json"];
    let begin = [&["run", "-", "--durable", "--passivate-after", "1"], &with[..], &JOURNAL].concat();
    let began = folder.run_with(code, &begin).await;
    let id = began.err.lines().find_map(|line| line.strip_prefix("run ")).unwrap();
    let ended = in_days(&folder, 8, &[&["runs", "resume", id], &with[..]].concat()).await;
    assert_eq!(ended.value(), "APPROVAL_TIMEOUT");
    in_days(&folder, 8, &["runs", "approve", id, "1"]).await.says(2, &["nobody is asked about call 1"]);
}

/// Runs the program, and all that it starts, on the day so many days from today.
async fn in_days(folder: &Folder, days: u32, arguments: &[&str]) -> Ended {
    let ahead = format!("+{days}d");
    finish(folder.command_by(&["setsid", "faketime", "-f", &ahead], &[arguments, &JOURNAL].concat()), "").await
}
