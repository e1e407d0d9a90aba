//! `doctor`: what works, what does not, and what to do.

use serde_json::{Value, json};

use super::folder::{Folder, finish};

#[tokio::test]
async fn a_configuration_that_works_has_no_problem() {
    let folder = Folder::new();
    folder.fake_server("plain").file("policy.toml", "[manifest.\"fake.*\"]\neffect = \"mutating\"");
    let from = ["doctor", "--mcp", "mcp.json", "--policy", "policy.toml", "--audit", "log", "--workspace", "."];
    let ended = folder.run(&from).await;
    assert_eq!((ended.status, &*ended.err), (Some(0), ""), "{ended:?}");
    for line in [
        "ok       the policy policy.toml\n",
        "ok       the audit log log does not exist yet, and can be created\n",
        "ok       the file mcp.json\n",
        "ok       the MCP server \"fake\": connected, ",
        " tools of 2 servers; the effect of each is known\n",
        "ok       a relay of its own runs code; a program took ",
        "warning  there is no terminal",
    ] {
        assert!(ended.out.contains(line), "{line:?} is not in {}", ended.out);
    }
    assert!(!ended.out.contains("problem"), "{}", ended.out);
    assert!(!folder.path("log").exists(), "it writes nothing");
    assert!(folder.processes().is_empty(), "{:?}", folder.processes());
}

#[tokio::test]
async fn each_problem_is_named_with_what_to_do_and_hides_no_other() {
    let folder = Folder::new();
    folder.servers(json!({
        "fake": folder.fake("plain"),
        "gone": {"command": "/nonexistent/server"},
        "evil": folder.fake("hostile"),
    }));
    folder.file("policy.toml", "[[rules]]").file("shop.yaml", "no document").file("broken.json", "{");
    let arguments = [
        "doctor",
        "--json",
        "--mcp",
        "mcp.json",
        "--mcp",
        "broken.json",
        "--policy",
        "policy.toml",
        "--openapi",
        "shop=shop.yaml",
        "--workspace",
        "nowhere",
        "--audit",
        "no/folder/log",
        "--redact",
        "fkae.*=$.x",
    ];
    let mut command = folder.command(&arguments);
    command.env("SANDBOX_RELAY_BIN", "/nowhere/sandbox-relay");
    let ended = finish(command, "").await;
    assert_eq!((ended.status, &*ended.err), (Some(1), ""), "{ended:?}");
    let findings: Vec<Value> = serde_json::from_str(&ended.out).unwrap();
    let find = |state: &str, word: &str| {
        let fits = |it: &&Value| it["state"] == state && it["text"].as_str().unwrap().contains(word);
        findings.iter().find(fits).unwrap_or_else(|| panic!("no {state} about {word:?} in {findings:#?}"))
    };
    for word in ["policy.toml", "broken.json", "shop", "nowhere", "no/folder", "\"gone\"", "/nowhere/sandbox-relay"] {
        assert!(find("problem", word)["todo"].is_string());
    }
    assert_eq!(find("ok", "\"fake\": connected, ")["todo"], Value::Null);
    assert!(find("warning", "fkae.*")["text"].as_str().unwrap().contains("redacts nothing"));
    assert!(find("warning", "that nobody declared")["todo"].as_str().unwrap().contains("[manifest."));

    // Nothing that a server says takes over the terminal, or looks like a finding of its own.
    let shown = folder.run(&["doctor", "--mcp", "mcp.json"]).await;
    assert!(!shown.out.contains(['\u{1b}', '\u{7}']), "{shown:?}");
    let begins = ["ok       ", "warning  ", "problem  ", "         do: "];
    assert!(shown.out.lines().all(|line| begins.iter().any(|begin| line.starts_with(begin))), "{shown:?}");
}

#[tokio::test]
async fn a_relay_that_refuses_is_a_problem() {
    let folder = Folder::new();
    let ended = folder.run(&["doctor", "--relay", "ws://127.0.0.1:9/ws", "--token", "x"]).await;
    assert_eq!(ended.status, Some(1), "{ended:?}");
    assert!(
        ended.out.contains("problem  the relay ws://127.0.0.1:9/ws: ")
            && ended.out.contains("do: see that the relay runs")
    );
    assert!(ended.out.contains("warning  there are no tools"), "{ended:?}");
}
