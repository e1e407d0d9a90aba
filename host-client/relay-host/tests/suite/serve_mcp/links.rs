//! Approvals by links, in the place of questions to the client.

use serde_json::json;

use super::python::Client;
use super::setup::Setup;
use super::within;
use crate::cli::links::{SECRET, decide, receiver};

const ASKS: &str = "return (await mcp.call('fake.echo', {a: 1})).arguments.a";

#[tokio::test]
async fn where_a_webhook_is_named_its_link_decides_and_the_client_is_not_asked() {
    let (url, mut messages) = receiver().await;
    for is_durable in [false, true] {
        let mut setup = Setup::new();
        if is_durable {
            let journal = setup.path("runs.db");
            setup = setup.flag("--durable").option("--journal", journal.to_str().unwrap());
        }
        let setup = setup
            .option("--approval-webhook", &url)
            .option("--approval-webhook-secret", SECRET.1)
            .option("--approval-webhook-network", "127.0.0.0/8")
            .option("--approval-listen", "127.0.0.1:0");
        // The first is asked by requests, the second one in rounds.
        for mut client in [Client::asked_by_requests(&setup).await, Client::asking(&setup).await] {
            client.ready().await;
            for (decision, expected) in [("approve", json!(1)), ("deny", json!(null))] {
                let id = client.begin("execute_code", json!({"code": ASKS})).await;
                let message = within(messages.recv()).await.unwrap();
                assert_eq!(message["data"]["tool"], "fake.echo");
                let page = decide(message["data"]["link"].as_str().unwrap(), decision).await;
                assert!(
                    page.contains(if decision == "approve" { "<h1>Approved</h1>" } else { "<h1>Denied</h1>" }),
                    "{page}"
                );
                let ended = client.end(id).await;
                assert_eq!(ended["result"]["structuredContent"]["result"], expected, "{ended}");
                assert!(!client.was_asked());
            }
            client.close().await;
        }
    }
}
