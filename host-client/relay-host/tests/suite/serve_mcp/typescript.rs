//! The official TypeScript SDK as a client, over standard input and output and over HTTP.

use std::path::Path;
use std::process::Stdio;

use host_client::local::{BINARY_VARIABLE, find_binary};
use serde_json::{Value, json};
use tokio::process::Command;

use super::setup::{RELAY_HOST, Setup};
use super::within;
use crate::servers::program;

const TOKEN: &str = "correct horse battery staple";

/// Runs a client made of a package, and returns what it saw.
async fn client(script: &str, package: &str, place: &Value, setup: &Setup) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/serve_mcp").join(script);
    // Programs of npm are in `node_modules/.bin`.
    let inspector = program("mcp-inspector");
    let packages = inspector.parent().and_then(Path::parent).unwrap();
    let mut command = Command::new("node");
    command.arg(script).arg(packages.join("@modelcontextprotocol").join(package)).arg(place.to_string());
    command.env(BINARY_VARIABLE, find_binary()).env("XDG_CACHE_HOME", setup.path("cache"));
    let output = within(command.stdin(Stdio::null()).kill_on_drop(true).output()).await.unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn check(seen: &Value) {
    assert_eq!(seen["tools"][0], "execute_code", "{seen}");
    assert_eq!(seen["value"]["structuredContent"]["result"], "TOOL_FAILED", "{seen}");
    let approved = &seen["approved"];
    assert_eq!(approved["structuredContent"]["result"], json!({"a": 1}), "{seen}");
    assert_eq!(approved["structuredContent"]["output"], "said\n", "{seen}");
    assert!(!seen["progress"].as_array().unwrap().is_empty(), "{seen}");
    assert_eq!(seen["asked"].as_array().unwrap().len(), 1, "the call that fails its check asks nobody: {seen}");
    assert!(seen["asked"][0].as_str().unwrap().contains("fake.echo"), "{seen}");
    let failed = &seen["failed"];
    assert!(failed["isError"] == true && failed["structuredContent"]["error"]["code"] == "CHECK_FAILED", "{seen}");
    assert!(seen["cancelled"].as_str().unwrap().contains("enough"), "{seen}");
    assert_eq!(seen["after"]["structuredContent"]["result"], 42, "{seen}");
}

#[tokio::test]
async fn the_typescript_sdk_calls_approves_and_cancels_over_stdio() {
    let setup = Setup::new();
    check(&client("client.mjs", "sdk", &json!({"command": RELAY_HOST, "args": setup.arguments()}), &setup).await);
}

#[tokio::test]
async fn the_typescript_sdk_calls_approves_and_cancels_over_http() {
    let setup = Setup::new().option("--http-token", TOKEN);
    let server = setup.serve_http().await;
    check(&client("client.mjs", "sdk", &json!({"url": server.url, "token": TOKEN}), &setup).await);
}

fn check_rounds(seen: &Value) {
    assert_eq!((&seen["revision"], &seen["tools"][0]), (&json!("2026-07-28"), &json!("execute_code")), "{seen}");
    let approved = &seen["approved"];
    assert_eq!(approved["structuredContent"]["result"], json!({"a": 1}), "{seen}");
    assert_eq!(approved["structuredContent"]["output"], "said\n", "{seen}");
    assert!(!seen["progress"].as_array().unwrap().is_empty(), "{seen}");
    assert_eq!(seen["asked"].as_array().unwrap().len(), 1, "{seen}");
    assert!(seen["asked"][0].as_str().unwrap().contains("fake.echo"), "{seen}");
    assert_eq!(seen["failed"]["structuredContent"]["error"]["code"], "CHECK_FAILED", "{seen}");
    assert!(seen["cancelled"].as_str().unwrap().contains("enough"), "{seen}");
    assert_eq!(seen["after"]["structuredContent"]["result"], 42, "{seen}");
}

#[tokio::test]
async fn the_newest_typescript_sdk_is_asked_in_rounds_over_stdio() {
    let setup = Setup::new();
    let place = json!({"command": RELAY_HOST, "args": setup.arguments()});
    check_rounds(&client("rounds.mjs", "client", &place, &setup).await);
}

#[tokio::test]
async fn the_newest_typescript_sdk_is_asked_in_rounds_over_http() {
    let setup = Setup::new().option("--http-token", TOKEN);
    let server = setup.serve_http().await;
    check_rounds(&client("rounds.mjs", "client", &json!({"url": server.url, "token": TOKEN}), &setup).await);
}
