//! Tests of mistakes: the exit status, and the message for the stranger who made them.

use host_client::LocalRelay;
use serde_json::json;

use super::folder::{Folder, finish};

#[tokio::test]
async fn wrong_usage_is_2_and_says_what_would_be_right() {
    let folder = Folder::new();
    folder
        .file("x.js", "1")
        .file("bytes.js", [0xff, 0xfe])
        .file("large.js", vec![b' '; (4 << 20) + 1])
        .file("policy.toml", "[default]\nreadonly = \"allow\"\n")
        .file("not.json", "{\"mcpServers\": ")
        .file("two.json", r#"{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}"#)
        .servers(json!({"workspace": {"command": "x"}}));
    let cases: &[(&[&str], &[&str])] = &[
        (&["run"], &["<FILE>", "--help"]),
        (&["walk"], &["walk", "--help"]),
        (&["run", "nothing.js"], &["nothing.js cannot be read: No such file", "relay-host run -"]),
        (&["run", "bytes.js"], &["bytes.js cannot be read", "UTF-8"]),
        (&["run", "large.js"], &["large.js cannot be read", "more than 4194304 bytes"]),
        (&["run", "x.js", "--limit", "walls=1"], &["no limit named \"walls\"", "wall_ms", "approval_ms"]),
        (&["run", "x.js", "--limit", "wall_ms"], &["NAME=VALUE, such as wall_ms=5000"]),
        (&["run", "x.js", "--limit", "wall_ms=soon"], &["\"soon\" is no number"]),
        (&["run", "x.js", "--phase", "dig"], &["discover, write"]),
        (&["run", "x.js", "--relay", "ws://127.0.0.1:1/ws"], &["--token <TOKEN>"]),
        (&["run", "x.js", "--relay", "relay.example", "--token", "t"], &["relay.example", "wss://"]),
        (&["run", "x.js", "--relay", "ws://192.0.2.1/ws", "--token", "t"], &["in the clear", "wss://"]),
        (&["run", "x.js", "--relay", "wss://a/ws", "--token", "t", "--ca-file", "ca.pem"], &["ca.pem cannot be read"]),
        (&["run", "x.js", "--policy", "nothing.toml"], &["nothing.toml cannot be read"]),
        (&["run", "x.js", "--policy", "policy.toml"], &["policy.toml", "line 2", "readonly", "read_only"]),
        (&["run", "x.js", "--mcp", "nothing.json"], &["nothing.json cannot be read"]),
        (&["run", "x.js", "--mcp", "not.json"], &["not.json is not a JSON object", "line 1"]),
        (&["run", "x.js", "--mcp", "two.json"], &["two servers are named \"a\""]),
        (&["run", "x.js", "--mcp", "mcp.json", "--workspace", "."], &["\"workspace\"", "mcp.json", "another"]),
        (&["run", "x.js", "--workspace", "nothing"], &["nothing"]),
        (&["run", "x.js", "--writable", "**"], &["--workspace <FOLDER>"]),
        (&["run", "x.js", "--fetch", "http://a b"], &["http://a b"]),
        (&["run", "x.js", "--openapi", "shop.json"], &["\"shop.json\" is not NAME=FILE", "shop=openapi.yaml"]),
        (&["run", "x.js", "--openapi", "shop=shop.json"], &["shop.json"]),
        (&["run", "x.js", "--redact", "a.*=$.b"], &["--audit <FILE>"]),
        (&["run", "x.js", "--audit", "log", "--redact", "a.*"], &["not TOOLS=PATH, such as bank.*=$.card"]),
        (&["run", "x.js", "--audit", "log", "--redact", "a.*=b["], &["the redaction \"b[\""]),
        (&["run", "x.js", "--audit", "no/such/log"], &["no/such/log", "cannot be written"]),
        (&["run", "x.js", "--audit", "x.js"], &["x.js is no audit log"]),
        (&["call", "workspace.ls", "{\"a\": }"], &["the arguments are no JSON", "column 7"]),
        (&["audit", "verify", "nothing"], &["nothing cannot be read"]),
        (&["audit", "show", "nothing"], &["nothing cannot be read"]),
        (&["audit", "verify", "x.js", "--head", "12"], &["64 lowercase hexadecimal digits"]),
        (&["completions", "cmd"], &["bash", "zsh", "fish"]),
    ];
    for (arguments, words) in cases {
        folder.run(arguments).await.says(2, words);
    }
    assert!(folder.processes().is_empty(), "{:?}", folder.processes());
}

#[tokio::test]
async fn code_that_fails_is_1_and_is_told_where() {
    let folder = Folder::new();
    let cases: &[(&str, &[&str])] = &[
        ("return 1 +", &["SYNTAX_ERROR", "line 1"]),
        ("const a = 1;\nnull.x", &["EVAL_ERROR: TypeError", "(line 2, column 6)"]),
        ("return 1n", &["NOT_SERIALIZABLE"]),
        ("await new Promise(() => {})", &["UNSETTLED"]),
        ("await mcp.call('nobody.there')", &["CHECK_FAILED", "- line 1, column 7: there is no server \"nobody\""]),
        (
            "await mcp.call('nobody.' + 'there')",
            &["there is no server \"nobody\"", "\n  tool: nobody.there, UNKNOWN_SERVER\n"],
        ),
    ];
    for (code, words) in cases {
        folder.run_with(code, &["run", "-"]).await.says(1, words);
    }
}

#[tokio::test]
async fn no_relay_and_no_permission_are_3() {
    let folder = Folder::new();
    // A port that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nobody = format!("ws://{free}/ws");
    let ended = folder.run(&["run", "-", "--relay", &nobody, "--token", "t"]).await;
    ended.says(3, &[&format!("no relay answers at {nobody}"), "refused"]);

    let relay = LocalRelay::start().await.unwrap();
    let url = format!("ws://{}/ws", relay.address());
    let expired = relay.token(&["--subject", "me", "--ttl", "1s", "--audience", "others"]).await;
    let tokens = ["bad".to_owned(), expired.unwrap_or_else(|_| "a.b.c".into())];
    for token in tokens {
        let ended = folder.run(&["run", "-", "--relay", &url, "--token", &token]).await;
        ended.says(3, &["the relay does not accept the token"]);
    }
    let elsewhere = format!("ws://{}/elsewhere", relay.address());
    folder.run(&["run", "-", "--relay", &elsewhere, "--token", "t"]).await.says(3, &["404"]);

    let mut command = folder.command(&["run", "-"]);
    command.env("SANDBOX_RELAY_BIN", "/nowhere/sandbox-relay");
    let words = ["there is no program /nowhere/sandbox-relay", "cargo build", "SANDBOX_RELAY_BIN", "--relay"];
    finish(command, "1").await.says(3, &words);
}

#[tokio::test]
async fn completions_are_scripts_of_their_shells() {
    let folder = Folder::new();
    for shell in ["bash", "zsh", "fish"] {
        let ended = folder.run(&["completions", shell]).await;
        assert_eq!((ended.status, &*ended.err), (Some(0), ""), "{ended:?}");
        assert!(ended.out.contains("relay-host") && ended.out.contains("serve-mcp"), "{shell}");
        folder.file("script", &ended.out);
        // Not every machine has all of them; their scripts come from one library.
        let parsed = std::process::Command::new(shell).arg("-n").arg(folder.path("script")).output();
        match parsed {
            Ok(parsed) => assert!(parsed.status.success(), "{shell}: {}", String::from_utf8_lossy(&parsed.stderr)),
            Err(error) => assert!(shell != "bash" && error.kind() == std::io::ErrorKind::NotFound, "{shell}: {error}"),
        }
    }
}

#[tokio::test]
async fn help_has_examples_and_exit_status() {
    let folder = Folder::new();
    let help = folder.run(&["--help"]).await;
    assert!(help.status == Some(0) && help.out.contains("Exit status: 0 done") && help.out.contains("Examples:"));
    for command in ["run", "tools", "call", "audit"] {
        let help = folder.run(&[command, "--help"]).await;
        assert!(help.status == Some(0) && help.out.contains(&format!("relay-host {command} ")), "{}", help.out);
    }
}
