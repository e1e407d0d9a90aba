//! Runs that go on with another token.

use host_client::runs::{RunState, RunVerdict, decide};
use host_client::{Client, ClientConfig, ExecuteRequest, LazyClient, LocalRelay, Policy, TokenRequest};
use relay_test_support::within;
use serde_json::json;

use crate::stage::{Folder, Ledger, nothing, runs};

#[tokio::test]
async fn a_call_with_an_answer_in_the_journal_needs_no_permission_of_todays_token() {
    let (folder, ledger) = (Folder::new(), Ledger::default());
    let relay = LocalRelay::start().await.unwrap();
    let policy = || Policy::new().ask(["t.again"]).allow(["*"]);
    let connect = async |tools: &[&str]| {
        let token = relay.token_for(&TokenRequest::new("ada").tools(tools.iter().copied())).await.unwrap();
        let host = folder.host(crate::stage::tools(&ledger, nothing)).await.policy(policy());
        let config = ClientConfig::new(relay.url(), token);
        runs(LazyClient::new(host, move |host| Client::connect(config.clone(), host)))
    };
    let first = connect(&[]).await;
    let code = "const {n} = await mcp.call('t.step', {n: 1}); await mcp.call('t.again', {n: 2});
        try { await mcp.call('t.step', {n: 3}) } catch (error) { return [n, error.code] }";
    let run = within(first.start(ExecuteRequest::new(code))).await.unwrap();
    assert_eq!(within(run.settled()).await, RunState::WaitingForApproval(vec![2]));
    within(first.leave()).await;
    let second = connect(&["t.again"]).await;
    decide(second.journal(), run.id(), 2, RunVerdict::Approve, "Bo").await.unwrap();
    let run = within(second.resume(run.id())).await.unwrap();
    assert_eq!(within(run.outcome()).await.unwrap().value().unwrap(), json!([1, "UNKNOWN_TOOL"]));
    ledger.assert_each_once([1, 2]);
}
