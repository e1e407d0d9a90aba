//! Options that are wrong, and what their errors say.

use relay_sdk::{Functions, HostOptions, RequestOptions, SdkHost};
use serde_json::{Value, json};

use crate::request;

/// Returns the error of starting a host with these options.
async fn error(options: Value) -> String {
    let options = match HostOptions::from_json(&options.to_string()) {
        Ok(options) => options,
        Err(error) => return error.text,
    };
    match relay_sdk::runtime::run(SdkHost::start(options, Functions::default())).await {
        Ok(_) => panic!("the options are wrong"),
        Err(error) => error.text,
    }
}

#[tokio::test]
async fn what_is_wrong_is_named_with_what_could_stand_there() {
    for (options, words) in [
        (json!({"polcy": "x"}), ["polcy", "`policy`"]),
        (json!({"policy": "/nowhere/policy.toml"}), ["/nowhere/policy.toml", "cannot be read"]),
        (json!({"policy": {"rules": {"rule": [{"tools": ["*"], "decision": "maybe"}]}}}), ["maybe", "`allow`"]),
        (json!({"policy": {"rules": {"rule": [{"tools": ["ops"], "decision": "deny"}]}}}), ["rule 1", "server.tool"]),
        (json!({"mcp": "/nowhere/mcp.json"}), ["/nowhere/mcp.json", "cannot be read"]),
        (json!({"mcp": {"servers": {}}}), ["the option mcp", "mcpServers"]),
        (json!({"audit": {"path": "a.jsonl", "synchronise": true}}), ["synchronise", "`sync`"]),
        (json!({"audit": "/nowhere/at/all/audit.jsonl"}), ["/nowhere/at/all", "audit"]),
        (json!({"workspace": "/nowhere"}), ["/nowhere", ""]),
        (json!({"http": {"hosts": ["not a host"]}}), ["http.hosts", "not a host"]),
        (json!({"ui": 70_000}), ["ui", "65535"]),
        (json!({"ui": "8080"}), ["ui", "port"]),
        (json!({"ui": {"listen": "0.0.0.0:0"}}), ["ui", "127.0.0.1"]),
        (json!({"limits": {"wall": 5}}), ["wall", "wall_ms"]),
        (json!({"relay": {"url": "ws://127.0.0.1:1/ws"}}), ["relay.token", "function"]),
        (json!({"relay": {"token": "t"}}), ["relay.token", "relay.url"]),
        (
            json!({"relay": {"url": "ws://x/ws", "token": "t", "program": "p"}}),
            ["relay.program", "leave one of them out"],
        ),
    ] {
        let text = error(options.clone()).await;
        assert!(words.iter().all(|word| text.contains(word)), "{options}\n{text}");
    }
    let wrong = RequestOptions::from_json(r#"{"code": "1", "wall_ms": 5}"#).unwrap_err();
    assert!(wrong.text.contains("wall_ms") && wrong.text.contains("`limits`"), "{wrong}");
    let (host, _) = crate::host(json!({}), None).await;
    let wrong = RequestOptions { limits: [("wall".to_owned(), 5)].into(), ..request("return 1") };
    assert!(host.execute(wrong, None).unwrap_err().text.contains("wall_ms"));
    assert!(host.runs().unwrap_err().text.contains("journal"));
}
