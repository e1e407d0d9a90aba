//! An application's own test, as its CI runs it: code calls the application's tools from the relay in a container, which is
//! started as in production and gone with the test.
//!
//! `RELAY_TEST_IMAGE` names the image; `cargo xtask test` sets it. By hand, with a container engine that runs:
//! `cargo xtask image && RELAY_TEST_IMAGE=sandbox-relay:local cargo test --package examples --test container`
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod notes;

use host_client::{Client, ExecuteRequest, Host, LimitName, LocalRelay, Policy, Tools};
use serde_json::json;

use notes::Notes;

#[tokio::test]
async fn code_keeps_notes_and_finds_them() {
    let image = std::env::var("RELAY_TEST_IMAGE").expect("RELAY_TEST_IMAGE names no image");
    let relay = LocalRelay::in_container(image).limit(LimitName::WallMs, 10_000).start().await.unwrap();

    let tools = Tools::new();
    tools.add_set(Notes::default()).unwrap();
    let host = Host::new(tools).policy(Policy::new().allow(["notes.*"]));
    let client = Client::connect(relay.client_config().await.unwrap(), host).await.unwrap();

    // Code as a model would write it.
    let code = "
        const texts = {monday: 'buy bread and salt', tuesday: 'sell salt', friday: 'rest'};
        for (const [title, text] of Object.entries(texts)) await mcp.call('notes.keep', {title, text});
        const found = await mcp.call('notes.search', {words: 'salt'});
        return found.map((note) => note.title)";
    let outcome = client.run(ExecuteRequest::new(code)).await.unwrap();
    assert_eq!(outcome.value().unwrap(), json!(["monday", "tuesday"]));

    let refused = client.run(ExecuteRequest::new("await mcp.call('notes.keep', {title: '', text: 'x'})")).await;
    assert!(refused.unwrap_err().to_string().contains("a note has a title"));
}
