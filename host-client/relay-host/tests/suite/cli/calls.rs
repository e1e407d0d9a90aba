//! `call`: one tool, without code and without a relay.

use serde_json::json;

use super::folder::{Folder, finish};
use super::terminal::Terminal;

const ALLOW: &str = "rule = [{tools = [\"fake.echo\"], decision = \"allow\"}]";

#[tokio::test]
async fn a_tool_is_called_without_a_relay() {
    let folder = Folder::new();
    folder.fake_server("plain").file("allow.toml", ALLOW).file("note", "x");
    let arguments = ["call", "fake.echo", "{\"b\": 1, \"a\": \"ä\"}", "--mcp", "mcp.json", "--policy", "allow.toml"];
    let mut command = folder.command(&arguments);
    command.env("SANDBOX_RELAY_BIN", "/nowhere/sandbox-relay");
    assert_eq!(finish(command, "").await.value()["arguments"], json!({"b": 1, "a": "ä"}));
    let listed = folder.run(&["call", "workspace.ls", "--workspace", "."]).await.value();
    assert!(listed.to_string().contains("\"note\""), "no arguments are {{}}: {listed}");
}

#[tokio::test]
async fn what_is_wrong_with_a_call_is_told() {
    let folder = Folder::new();
    folder.file("deny.toml", "rule = [{tools = [\"*\"], decision = \"deny\", reason = \"it is Sunday\"}]");
    let call = async |more: &[&str]| folder.run(&[&["call"], more, &["--workspace", "."]].concat()).await;
    call(&["workspace.reed"]).await.says(1, &["UNKNOWN_TOOL", "did you mean \"read\"?"]);
    call(&["workspce.read"]).await.says(1, &["UNKNOWN_SERVER", "did you mean \"workspace\"?"]);
    call(&["workspace"]).await.says(1, &["INVALID_TOOL_NAME"]);
    call(&["workspace.grep", "{\"pattern\": 1}"]).await.says(1, &["INVALID_ARGUMENTS", "/pattern"]);
    call(&["workspace.ls", "{}", "--policy", "deny.toml"]).await.says(1, &["TOOL_DENIED", "it is Sunday"]);
}

#[tokio::test]
async fn where_nobody_can_be_asked_the_answer_says_how_to_allow_it() {
    let folder = Folder::new();
    folder.fake_server("plain");
    let error = folder.run(&["call", "fake.echo", "{}", "--mcp", "mcp.json"]).await.error(1);
    assert!(
        error.contains("APPROVAL_DENIED") && error.contains("no terminal") && error.contains("--policy"),
        "{error}"
    );
    // What it says to write is what helps.
    let line = error.trim_end().split_once("--policy names: ").unwrap().1;
    assert_eq!(line, ALLOW);
    folder.file("allow.toml", line);
    let arguments = ["call", "fake.echo", "{\"a\": 1}", "--mcp", "mcp.json", "--policy", "allow.toml"];
    assert_eq!(folder.run(&arguments).await.value()["arguments"], json!({"a": 1}));
    let code = "try { await mcp.call('fake.echo') } catch (error) { return [error.code, error.tool] }";
    let value = folder.run_with(code, &["run", "-", "--mcp", "mcp.json"]).await.value();
    assert_eq!(value, json!(["APPROVAL_DENIED", "fake.echo"]));
}

#[tokio::test]
async fn errors_of_servers_and_of_code_forge_no_line_and_reach_no_terminal() {
    let folder = Folder::new();
    folder.fake_server("hostile");
    let thrown = "throw new Error('\\u001b]0;owned\\u0007\\u202e gone\\nrelay-host: all is well')";
    folder.file("x.js", thrown).file("y.js", "await mcp.call('fake.fails')");
    for arguments in [&["call", "fake.fails"][..], &["run", "x.js"], &["run", "y.js"]] {
        let arguments = [arguments, &["--mcp", "mcp.json"]].concat();
        let error = folder.run(&arguments).await.error(1);
        assert!(!error.contains(['\u{1b}', '\u{7}', '\u{202e}']) && error.contains("\\u{1b}]0;owned"), "{error}");
        let lines: Vec<_> = error.lines().collect();
        assert!(error.contains("all is well") && lines[1..].iter().all(|line| line.starts_with("  ")), "{error}");
        // Where a terminal draws a progress line, as well.
        let terminal = Terminal::start(&folder, &arguments);
        let (status, seen) = terminal.ends().await;
        assert_eq!(status, Some(1), "{seen}");
        assert!(!seen.contains("\u{1b}]0;") && !seen.contains("\u{1b}[2J") && !seen.contains('\u{202e}'), "{seen:?}");
        assert!(seen.contains("\\u{1b}]0;owned"), "{seen:?}");
    }
}

#[tokio::test]
async fn files_are_created_deleted_and_renamed_where_a_flag_allows_it() {
    let (create, delete) = ("*** Add File: new.txt\n+x", "*** Delete File: old.txt");
    let rename = "*** Update File: old.txt\n*** Move to: moved.txt\n@@\n-old\n+new";
    for (flags, allowed) in [
        (&[][..], [false, false, false]),
        (&["--allow-create"], [true, false, false]),
        (&["--allow-delete"], [false, true, false]),
        (&["--allow-create", "--allow-delete"], [true, true, true]),
    ] {
        for (change, is_allowed) in [create, delete, rename].into_iter().zip(allowed) {
            let folder = Folder::new();
            folder.file("old.txt", "old\n").file("allow.toml", "[default]\nmutating = \"allow\"");
            let patch = json!({"patch": format!("*** Begin Patch\n{change}\n*** End Patch")}).to_string();
            let usual = [
                "call",
                "workspace.apply_patch",
                &patch,
                "--workspace",
                ".",
                "--writable",
                "*.txt",
                "--policy",
                "allow.toml",
            ];
            let ended = folder.run(&[&usual[..], flags].concat()).await;
            assert_eq!(ended.status, Some(if is_allowed { 0 } else { 1 }), "{flags:?} {change}: {ended:?}");
            let files =
                [folder.path("new.txt"), folder.path("old.txt"), folder.path("moved.txt")].map(|file| file.exists());
            let expected = match change {
                _ if !is_allowed => [false, true, false],
                change if change == create => [true, true, false],
                change if change == delete => [false, false, false],
                _ => [false, false, true],
            };
            assert_eq!(files, expected, "{flags:?} {change}");
        }
    }
    let folder = Folder::new();
    folder.run(&["tools", "--workspace", ".", "--allow-create"]).await.says(2, &["--writable"]);
}
