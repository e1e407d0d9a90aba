//! Servers that people use.

use std::process::Command;

use host_client::Effect;
use serde_json::{Value, json};

use super::relay::Relay;
use super::{is_connected, started, state, within};
use crate::servers::program;

#[tokio::test]
async fn servers_of_npm_and_pypi_start_together_and_answer() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    std::fs::write(folder.join("a.txt"), "first line\n").unwrap();
    let git = |arguments: &[&str]| {
        let settings = ["-c", "user.name=t", "-c", "user.email=t@example.com"];
        let output = Command::new("git").current_dir(&folder).args(settings).args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    git(&["init", "--quiet"]);
    git(&["add", "."]);
    git(&["commit", "--quiet", "--message", "the first commit"]);

    let (tools, servers) = started(json!({
        "everything": {"command": program("mcp-server-everything"), "args": ["stdio"]},
        "files": {"command": program("mcp-server-filesystem"), "args": [folder]},
        "git": {"command": program("mcp-server-git"), "args": ["--repository", folder]},
        "time": {"command": program("mcp-server-time"), "args": ["--local-timezone", "UTC"]},
    }))
    .await;
    for name in ["everything", "files", "git", "time"] {
        assert!(is_connected(&servers, name), "{name}: {}", state(&servers, name));
    }
    let mut relay = Relay::start(&tools).await;

    assert_eq!(relay.call("everything.echo", json!({"message": "hi"})).await.unwrap(), json!("Echo: hi"));
    assert_eq!(relay.fail("everything.echo", json!({"message": 7})).await.0, "INVALID_ARGUMENTS");
    let structured = relay.call("everything.get-structured-content", json!({"location": "New York"})).await.unwrap();
    assert!(structured["temperature"].is_number(), "{structured}");
    let image = relay.call("everything.get-tiny-image", json!({})).await.unwrap();
    let kinds: Vec<_> = image.as_array().unwrap().iter().map(|item| item.get("type").and_then(Value::as_str)).collect();
    assert!(kinds.contains(&Some("image")) && kinds.contains(&None), "{image}");

    assert_eq!(tools.spec("files.read_text_file").unwrap().manifest.effect, Some(Effect::ReadOnly));
    assert_eq!(tools.spec("files.write_file").unwrap().manifest.effect, Some(Effect::Mutating));
    let text = relay.call("files.read_text_file", json!({"path": folder.join("a.txt")})).await.unwrap();
    assert_eq!(text, json!({"content": "first line\n"}));
    let (code, message) = relay.fail("files.read_text_file", json!({"path": "/etc/hostname"})).await;
    assert_eq!(code, "TOOL_FAILED");
    assert!(message.contains("Access denied"), "{message}");

    let log = relay.call("git.git_log", json!({"repo_path": folder})).await.unwrap();
    assert!(log.to_string().contains("the first commit"), "{log}");
    let time = relay.call("time.get_current_time", json!({"timezone": "Asia/Tokyo"})).await.unwrap();
    assert_eq!(time["timezone"], json!("Asia/Tokyo"));
    within(servers.close()).await;
    assert!(tools.specs().is_empty());
}
