//! MCP servers as tools: real ones, ones that misbehave, ones over HTTP and in this process.

mod config;
mod faults;
mod http;
mod progress;
mod real;
mod relay;
mod results;
mod service;

use std::path::Path;
use std::time::{Duration, Instant};

use host_client::{McpConfig, McpOptions, McpServers, ServerState, Tools};
use relay_test_support::{PATIENCE, within};
use serde_json::{Value, json};

/// Waits until something holds.
async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "it never comes about: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Options that touch nothing outside the test.
fn options() -> McpOptions {
    McpOptions { catalogues: None, ..McpOptions::default() }
}

/// The entry of the server in `fake.py`, in one of its modes.
fn fake(mode: &str) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/mcp/fake.py");
    json!({"command": "python3", "args": [script, mode]})
}

fn config(servers: Value) -> McpConfig {
    McpConfig::from_json(&json!({"mcpServers": servers}).to_string(), "mcp.json").unwrap()
}

/// These servers, after their first try.
async fn started(servers: Value) -> (Tools, McpServers) {
    started_with(servers, options()).await
}

async fn started_with(servers: Value, options: McpOptions) -> (Tools, McpServers) {
    let tools = Tools::new();
    let mcp = McpServers::with_options(&tools, options);
    mcp.start(config(servers)).unwrap();
    mcp.ready(PATIENCE).await;
    (tools, mcp)
}

fn state(servers: &McpServers, name: &str) -> ServerState {
    servers.status().into_iter().find(|status| status.name == name).unwrap().state
}

fn is_connected(servers: &McpServers, name: &str) -> bool {
    matches!(state(servers, name), ServerState::Connected { .. })
}

/// The reason why a server is not available.
fn reason(servers: &McpServers, name: &str) -> String {
    match state(servers, name) {
        ServerState::Failed { reason, .. } | ServerState::GivenUp { reason } => reason,
        ServerState::Starting { after: Some(reason), .. } => reason,
        other => panic!("it is available: {other}"),
    }
}
