//! Cancelled requests, and clients that do not read.

use std::process::Command;

use serde_json::json;

use super::eventually;
use super::python::Client;
use super::raw::Raw;
use super::setup::{RELAY_HOST, Setup};

const WAITS: &str = "await mcp.call('fake.wait', {})";

#[tokio::test]
async fn a_cancelled_request_stops_its_execution_and_the_call_in_flight() {
    let setup = Setup::new().allowing_all();
    let audit = setup.path("audit.jsonl");
    let setup = setup.option("--audit", audit.to_str().unwrap());
    let mut client = Client::over_stdio(&setup).await;
    let id = client.begin("execute_code", json!({"code": WAITS})).await;
    eventually("the tool runs", || setup.notes() == "waiting\n").await;
    client.cancel(id).await;
    // The server of the tool is told, too.
    eventually("the tool is cancelled", || setup.notes() == "waiting\ncancelled True\n").await;
    // Its place is free again: more of them than may run at once.
    for _ in 0..10 {
        let id =
            client.begin("execute_code", json!({"code": "await new Promise(() => mcp.call('fake.wait', {}))"})).await;
        client.hear(|said| said["id"] == id && said["message"] == "fake.wait …").await;
        client.cancel(id).await;
        assert_eq!(client.end(id).await["cancelled"], true);
    }
    assert_eq!(client.value("return 1").await, 1);
    client.close().await;

    let verify = Command::new(RELAY_HOST).args(["audit", "verify"]).arg(&audit).output().unwrap();
    assert!(verify.status.success(), "{verify:?}");
    let log = std::fs::read_to_string(&audit).unwrap();
    let cancelled = log.lines().filter(|line| line.contains("\"kind\":\"end\"") && line.contains("\"CANCELLED\""));
    assert_eq!(cancelled.count(), 11, "{log}");
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_up_no_tool() {
    let setup = Setup::new().allowing_all();
    let mut raw = Raw::start(&setup).await;
    // More progress than any pipe holds.
    raw.execute(1, "for (let i = 0; i < 990; i++) await mcp.call('fake.echo', {}); await mcp.call('fake.wait', {})")
        .await;
    eventually("all calls were made", || setup.notes() == "waiting\n").await;
    raw.send(json!({"method": "notifications/cancelled", "params": {"requestId": 1}})).await;
    eventually("the last one is cancelled", || setup.notes() == "waiting\ncancelled True\n").await;
    raw.send(json!({"id": 2, "method": "ping"})).await;
    let mut told = Vec::new();
    loop {
        let message = raw.next().await.unwrap();
        if message["id"] == 2 {
            break;
        }
        told.extend(message["params"]["progress"].as_f64());
    }
    assert!(told.len() > 100 && told.len() < 1_900, "{}", told.len());
    assert!(told.is_sorted_by(|a, b| a < b), "{told:?}");
}
