//! Clients on standard input that send what is no MCP, or wait for what is.

use serde_json::json;

use super::raw::Raw;
use super::setup::Setup;

#[tokio::test]
async fn what_is_no_request_is_answered_as_json_rpc_says() {
    let setup = Setup::new();
    let mut raw = Raw::start(&setup).await;
    for (junk, code) in [
        ("hello\n", -32700),
        ("{\n", -32700),
        ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\"\n", -32700),
        ("\u{0}\u{1b}[2J\n", -32700),
        ("[]\n", -32600),
        ("[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]\n", -32600),
        ("{\"jsonrpc\":\"2.0\"}\n", -32600),
        ("null\n", -32600),
        ("42\n", -32600),
        (&format!("{}\n", "[".repeat(5_000)), -32700),
        (&format!("{}{}\n", "[".repeat(5_000), "]".repeat(5_000)), -32700),
        (&format!("{}\n", "x".repeat(17 << 20)), -32600),
    ] {
        raw.write(junk).await;
        let answer = raw.next().await.unwrap();
        let start = &junk[..junk.len().min(40)];
        assert_eq!(answer["error"]["code"], code, "{start:?}: {answer}");
        assert!(answer["id"].is_null() && answer.as_object().unwrap().contains_key("id"), "{start:?}: {answer}");
    }
    // An id that can be read names the request; `ping` has a version of the protocol that there is not.
    raw.write("{\"jsonrpc\":\"1.0\",\"id\":\"a\",\"method\":\"ping\"}\n").await;
    let answer = raw.next().await.unwrap();
    assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(-32600), &json!("a")), "{answer}");
    // Answers, notifications and empty lines have no answer.
    for silent in [
        "\n",
        "  \r\n",
        "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"what?\"}}\n",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/of/others\"}\n",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":5}\n",
    ] {
        raw.write(silent).await;
    }
    raw.send(json!({"id": 1, "method": "ping"})).await;
    assert_eq!(raw.next().await.unwrap(), json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
    // Requests that are no requests of MCP.
    for (id, method, params, code) in [
        (2, "no/such/method", json!({}), -32601),
        (3, "tools/call", json!({"name": "execute_code", "arguments": [1]}), -32602),
        (4, "tools/call", json!({"arguments": {}}), -32602),
        (5, "tools/call", json!([1]), -32602),
        (6, "tools/call", json!({"name": "no_such_tool"}), -32602),
    ] {
        raw.send(json!({"id": id, "method": method, "params": params})).await;
        let answer = raw.answer(id).await;
        assert_eq!(answer["error"]["code"], code, "{method} {params}: {answer}");
    }
    raw.send(json!({"id": 7, "method": "tools/call"})).await;
    assert_eq!(raw.answer(7).await["error"]["code"], -32602);
    raw.send(json!({"id": 8, "method": "tools/call", "params": {"name": "execute_code"}})).await;
    let answer = raw.answer(8).await;
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    raw.execute(9, "return 1").await;
    assert_eq!(raw.answer(9).await["result"]["structuredContent"]["result"], 1);
}

#[tokio::test]
async fn a_client_is_told_of_other_tools() {
    let setup = Setup::new().allowing_all();
    let mut raw = Raw::start(&setup).await;
    raw.execute(1, "await mcp.call('fake.change', {})").await;
    // The first change is that the server has started.
    for id in 2.. {
        while raw.next().await.unwrap()["method"] != "notifications/tools/list_changed" {}
        raw.send(json!({"id": id, "method": "tools/list"})).await;
        let listed = raw.answer(id).await;
        let description = listed["result"]["tools"][0]["description"].as_str().unwrap();
        if description.contains("\nfake.fresh(") {
            assert!(!description.contains("\nfake.echo("), "{description}");
            break;
        }
    }
}
