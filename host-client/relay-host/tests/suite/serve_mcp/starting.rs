//! Servers that start slowly: nobody waits for them who does not need them.

use serde_json::{Value, json};

use super::eventually;
use super::raw::Raw;
use super::setup::Setup;

async fn description(raw: &mut Raw, id: u64) -> String {
    raw.send(json!({"id": id, "method": "tools/list"})).await;
    raw.answer(id).await["result"]["tools"][0]["description"].as_str().unwrap().to_owned()
}

fn result(answer: &Value) -> &Value {
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    &answer["result"]["structuredContent"]["result"]
}

#[tokio::test]
async fn a_client_is_answered_before_its_servers_have_started() {
    let setup = Setup::starting_slowly().allowing_all();
    let mut raw = Raw::start(&setup).await;
    let described = description(&mut raw, 1).await;
    assert!(described.contains("Still starting, so that their tools are not known yet: fake"), "{described}");
    raw.send(json!({"id": 2, "method": "tools/call", "params": {"name": "search_tools", "arguments": {"query": "x"}}}))
        .await;
    let found = raw.answer(2).await;
    let starting = found["result"]["structuredContent"]["still_starting"][0].as_str().unwrap();
    assert!(starting.starts_with("fake (since "), "{found}");
    raw.execute(3, "return 1 + 1").await;
    assert_eq!(*result(&raw.answer(3).await), 2);

    // Code that names the server waits for it.
    raw.execute(4, "return (await mcp.call('fake.echo', {a: 1})).arguments").await;
    raw.execute(5, "return 2 + 2").await;
    assert_eq!(*result(&raw.answer(5).await), 4);
    std::fs::write(setup.path("go"), "").unwrap();
    let mut is_told = false;
    let answer = loop {
        let message = raw.next().await.unwrap();
        is_told |= message["method"] == "notifications/tools/list_changed";
        if message["id"] == 4 {
            break message;
        }
    };
    assert_eq!(*result(&answer), json!({"a": 1}));
    while !is_told {
        is_told = raw.next().await.unwrap()["method"] == "notifications/tools/list_changed";
    }
    let described = description(&mut raw, 6).await;
    assert!(described.contains("\nfake.echo(") && !described.contains("Still starting"), "{described}");

    // Its tools are known from then on, and a call waits for it.
    drop(raw);
    let is_kept = || std::fs::read_dir(setup.path("cache/sandbox-relay/catalogue")).is_ok_and(|it| it.count() > 0);
    eventually("its tools are kept", is_kept).await;
    std::fs::remove_file(setup.path("go")).unwrap();
    let mut raw = Raw::start(&setup).await;
    assert!(description(&mut raw, 1).await.contains("\nfake.echo("));
    raw.execute(2, "return (await mcp.call('fake.echo', {a: 2})).arguments").await;
    while raw.next().await.unwrap()["params"]["message"] != "fake.echo …" {}
    std::fs::write(setup.path("go"), "").unwrap();
    assert_eq!(*result(&raw.answer(2).await), json!({"a": 2}));
}

#[tokio::test]
async fn a_server_that_hangs_is_waited_for_no_longer_than_said() {
    let setup = Setup::starting_slowly().allowing_all().option("--start-timeout", "1");
    let mut raw = Raw::start(&setup).await;
    raw.execute(1, "try { await mcp.call('fake.echo', {}) } catch (e) { return e.code }").await;
    assert_eq!(*result(&raw.answer(1).await), "UNKNOWN_SERVER");
    // It was not ended for that.
    std::fs::write(setup.path("go"), "").unwrap();
    while raw.next().await.unwrap()["method"] != "notifications/tools/list_changed" {}
    raw.execute(2, "return (await mcp.call('fake.echo', {a: 1})).arguments").await;
    assert_eq!(*result(&raw.answer(2).await), json!({"a": 1}));
    drop(raw);

    std::fs::remove_file(setup.path("go")).unwrap();
    let mut raw = Raw::start(&setup).await;
    raw.execute(1, "try { await mcp.call('fake.echo', {}) } catch (e) { return e.message }").await;
    let answer = raw.answer(1).await;
    let message = result(&answer).as_str().unwrap();
    assert!(message.starts_with("the MCP server \"fake\" is still starting, since "), "{message}");
}
