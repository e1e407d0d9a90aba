//! The `mcpServers` file format: what it says, and every error that names its place.

use std::io::Write as _;

use host_client::{Error, McpConfig, McpServers, ServerState, Tools};
use serde_json::json;

use super::relay::Relay;
use super::{PATIENCE, fake, is_connected, options};

/// The problem of a file, or that of its one server.
fn error(servers: &str) -> String {
    match McpConfig::from_json(&format!("{{\"mcpServers\": {servers}}}"), "mcp.json") {
        Err(error) => error.to_string(),
        Ok(config) => {
            assert_eq!(config.names().count(), 0, "{servers}");
            config.problems().map(|(server, problem)| format!("mcp.json: the server {server:?}: {problem}")).collect()
        }
    }
}

#[test]
fn errors_name_file_server_and_key() {
    for (servers, expected) in [
        (r#"{"a": {}}"#, r#"mcp.json: the server "a": it needs "command" (a program) or "url" (streamable HTTP)"#),
        (r#"{"a": {"command": "x", "url": "https://x"}}"#, r#"it has both "command" and "url"; remove one of them"#),
        (r#"{"a": {"command": 7}}"#, r#"the server "a": command has to be a text"#),
        (r#"{"a": {"command": "x", "args": "y"}}"#, "args has to be an array of texts"),
        (r#"{"a": {"command": "x", "args": ["y", 7]}}"#, "args[1] has to be a text"),
        (r#"{"a": {"command": "x", "env": []}}"#, "env has to be an object of texts"),
        (r#"{"a": {"command": "x", "env": {"PORT": 7}}}"#, "env.PORT has to be a text"),
        (r#"{"a": {"command": "x", "disabled": "yes"}}"#, "disabled has to be true or false"),
        (r#"{"a": {"command": "x", "command": "y"}}"#, "command stands there twice"),
        (r#"{"a": {"url": "https://x", "trust_annotations": "yes"}}"#, "trust_annotations has to be true or false"),
        (r#"{"a": 7}"#, "its entry has to be an object"),
        (r#"{"mcp": {"command": "x"}}"#, r#"the server "mcp": its name is reserved"#),
        (r#"{"": {"command": "x"}}"#, r#"the server "": a server's name is not empty"#),
        (
            r#"{"a": {"type": "sse", "url": "https://x"}}"#,
            "use the server's streamable HTTP address with type \"http\"",
        ),
        (r#"{"a": {"type": "stdio", "url": "https://x"}}"#, r#"type "stdio" does not fit"#),
        (r#"{"a": {"url": "ftp://x"}}"#, "url has to be an address such as https://host/mcp"),
        (r#"{"a": {"url": "https://me:secret@x"}}"#, "without a user or password in it"),
        (r#"{"a": {"url": "http://x/mcp", "headers": {"A": "b"}}}"#, "url has to begin with https://"),
        (r#"{"a": {"url": "https://x", "headers": {"a b": "c"}}}"#, "headers.a b cannot be sent"),
        (r#"{"a": {"url": "https://x", "headers": {"A": "b\nc"}}}"#, "headers.A cannot be sent"),
        (
            r#"{"a": {"command": "x", "env": {"K": "${SURELY_NOT_SET}"}}}"#,
            "env.K: the environment variable SURELY_NOT_SET is not set; set it, or write ${SURELY_NOT_SET:-default}",
        ),
        (r#"{"a": {"command": "${input:key}"}}"#, "command: ${input:key} is no variable"),
        (
            r#"{"a": {"command": "${workspaceFolder}/x", "args": ["${env:HOME}"]}}"#,
            "variable workspaceFolder is not set",
        ),
        (
            r#"{"a": {"command": "x", "env": {"K": "${env:SURELY_NOT_SET}"}}}"#,
            "the environment variable SURELY_NOT_SET",
        ),
        (r#"{"a": {"command": "${HOME"}}"#, "command: a \"${\" is not closed by a \"}\""),
        (
            r#"{"a": {"command": "x"}, "a": {"url": "https://y/mcp"}}"#,
            r#"two servers are named "a": the program "x" and the address "https://y/mcp"; give one of them another name"#,
        ),
    ] {
        let error = error(servers);
        assert!(error.starts_with("mcp.json: ") && error.contains(expected), "{servers}: {error}");
    }
    let error = McpConfig::from_json(r#"{"servers": {}}"#, "mcp.json").unwrap_err().to_string();
    assert!(error.contains("exactly one object \"mcpServers\""), "{error}");
    let error = McpConfig::from_json("{\n  \"mcpServers\": oops", "mcp.json").unwrap_err().to_string();
    assert!(error.contains("mcp.json is not a JSON object") && error.contains("line 2"), "{error}");
    let error = McpConfig::from_file("/nowhere/mcp.json").unwrap_err().to_string();
    assert!(error.contains("/nowhere/mcp.json cannot be read"), "{error}");
}

#[test]
fn what_other_clients_write_is_taken() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let servers = json!({
        "plain": {"command": "x", "autoApprove": ["y"], "env": null},
        "off": {"disabled": true, "command": "${SURELY_NOT_SET}"},
        "web": {"type": "streamable-http", "url": "https://x/mcp", "headers": {"Authorization": "Bearer ${PATH}"}},
        "here": {"url": "http://127.0.0.1:1/mcp", "headers": {"Authorization": "x"}},
        "defaults": {"command": "${SURELY_NOT_SET:-x}", "args": ["--home=${env:HOME}", "$PATH", "${SURELY_NOT_SET:-}"]},
    });
    write!(file, "\u{feff}{}", json!({"$schema": "x", "mcpServers": servers})).unwrap();
    let config = McpConfig::from_file(file.path()).unwrap();
    assert_eq!(config.names().collect::<Vec<_>>(), ["defaults", "here", "plain", "web"]);
    let shown = format!("{config:?}");
    assert!(!shown.contains("Bearer"), "{shown}");
}

#[tokio::test]
async fn one_bad_entry_leaves_the_others_alone_and_is_named() {
    let mut entries = json!({
        "good": fake("plain"),
        "com.example.git": fake("plain"),
        "com_example_git": fake("plain"),
        "old": {"type": "sse", "url": "https://old.example/sse"},
        "keyed": {"command": "x", "env": {"KEY": "${SURELY_NOT_SET}"}},
        "local": {"command": "x"},
        "": {"command": "x"},
    });
    entries["good"]["env"] = json!({"WHOSE": "${env:HOME}"});
    let tools = Tools::new();
    let servers = McpServers::with_options(&tools, options());
    servers.start(super::config(entries)).unwrap();
    let status = servers.ready(PATIENCE).await;
    for name in ["good", "com_example_git", "com_example_git_2"] {
        assert!(is_connected(&servers, name), "{status:?}");
    }
    let of = |name: &str| status.iter().find(|status| status.name == name).unwrap();
    assert_eq!(of("com_example_git_2").origin, "the MCP server \"com.example.git\" of mcp.json");
    for (name, expected) in [
        ("old", "streamable HTTP address"),
        ("keyed", "set it, or write ${SURELY_NOT_SET:-default}"),
        ("local", "reserved"),
        ("", "not empty"),
    ] {
        let state = &of(name).state;
        assert!(matches!(state, ServerState::Invalid { reason } if reason.contains(expected)), "{name}: {state}");
    }
    let mut relay = Relay::start(&tools).await;
    let environment = relay.call("good.environment", json!({})).await.unwrap();
    assert_eq!(environment["WHOSE"], json!(std::env::var("HOME").unwrap()));
    // Code that calls a tool of a bad one is told what is wrong.
    let (code, message) = relay.fail("keyed.search", json!({})).await;
    assert!(code == "UNKNOWN_TOOL" && message.contains("environment variable SURELY_NOT_SET"), "{message}");
}

#[tokio::test]
async fn a_name_that_is_taken_names_both_origins_and_nothing_starts() {
    let tools = Tools::new();
    let _mount = tools.mount("git", "the OpenAPI document git.yaml").unwrap();
    let servers = McpServers::with_options(&tools, options());
    let error = servers.start(super::config(json!({"first": fake("plain"), "git": fake("plain")}))).unwrap_err();
    assert!(matches!(error, Error::Tool { .. }));
    let error = error.to_string();
    assert!(error.contains("git.yaml") && error.contains("the MCP server \"git\" of mcp.json"), "{error}");
    assert!(servers.status().is_empty());
    assert!(tools.mount("first", "somebody else").is_ok());
}
