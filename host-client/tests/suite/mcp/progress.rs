//! Progress that MCP servers report, as events of the execution whose code calls.

use futures_util::StreamExt as _;
use host_client::{Client, Event, ExecuteRequest, Host, LocalRelay, Policy};
use relay_test_support::within;
use serde_json::json;

use super::{fake, started};

#[tokio::test]
async fn what_a_server_reports_of_its_progress_becomes_events_of_the_call() {
    let (tools, servers) = started(json!({"fake": fake("progress")})).await;
    let relay = within(LocalRelay::start()).await.unwrap();
    let host = Host::new(tools).policy(Policy::new().allow(["*"]));
    let client = within(Client::connect(relay.client_config().await.unwrap(), host)).await.unwrap();
    let code = "await mcp.call('fake.count', {to: 3}); return await mcp.call('fake.count', {to: 2})";
    let request = ExecuteRequest::new(code).always_in_sandbox();
    let (execution, events) = within(client.execute(request)).await.unwrap().with_events();
    let (outcome, events) = within(async { tokio::join!(execution, events.collect::<Vec<_>>()) }).await;
    assert_eq!(outcome.unwrap().value().unwrap(), json!("done"));
    let mut reports: Vec<_> = events
        .into_iter()
        .filter_map(|event| match event {
            Event::ToolCallProgress { id, tool, done, total, message } => {
                Some(format!("{id} {tool} {done} of {} {message}", total.unwrap_or_default()))
            }
            _ => None,
        })
        .collect();
    // The MCP library handles notifications side by side.
    reports.sort();
    let expected = [
        "1 fake.count 1 of 3 step 1",
        "1 fake.count 2 of 3 step 2",
        "1 fake.count 3 of 3 step 3",
        "2 fake.count 1 of 2 step 1",
        "2 fake.count 2 of 2 step 2",
    ];
    assert_eq!(reports, expected);
    servers.close().await;
}
