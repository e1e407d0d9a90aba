//! `call`: one tool, without code and without a relay.

use serde_json::json;

use super::folder::{Folder, finish};

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
