//! Clients on standard input that send what is no MCP, or wait for what is.

use serde_json::json;

use super::raw::Raw;
use super::setup::Setup;

#[tokio::test]
async fn junk_is_passed_over_and_answered_with_nothing_but_json_rpc() {
    let setup = Setup::new();
    let mut raw = Raw::start(&setup).await;
    for junk in ["\n", "hello\n", "{\n", "[]\n", "\u{0}\u{1b}[2J\n", "{\"jsonrpc\":\"2.0\"}\n", "null\n", "42\n"] {
        raw.write(junk).await;
    }
    raw.write(&format!("{}\n", "[".repeat(100_000))).await;
    raw.write(&format!("{}\n", "x".repeat(17 << 20))).await;
    raw.send(json!({"id": 7, "result": {}})).await;
    raw.send(json!({"id": 1, "method": "no/such/method"})).await;
    let answer = raw.answer(1).await;
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
    raw.send(json!({"id": 2, "method": "tools/call", "params": {"name": "execute_code", "arguments": [1]}})).await;
    raw.send(json!({"id": 3, "method": "tools/call", "params": {"name": "execute_code"}})).await;
    let answer = raw.answer(3).await;
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    raw.execute(4, "return 1").await;
    assert_eq!(raw.answer(4).await["result"]["structuredContent"]["result"], 1);
}

#[tokio::test]
async fn a_client_is_told_of_other_tools() {
    let setup = Setup::new().allowing_all();
    let mut raw = Raw::start(&setup).await;
    raw.execute(1, "await mcp.call('fake.change', {})").await;
    while raw.next().await.unwrap()["method"] != "notifications/tools/list_changed" {}
    raw.send(json!({"id": 2, "method": "tools/list"})).await;
    let listed = raw.answer(2).await;
    let description = listed["result"]["tools"][0]["description"].as_str().unwrap();
    assert!(description.contains("\nfake.fresh(") && !description.contains("\nfake.echo("), "{description}");
}
