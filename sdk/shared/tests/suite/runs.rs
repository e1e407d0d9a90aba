//! Durable runs, which another host goes on with.

use std::time::Duration;

use serde_json::json;

use crate::{host, request};

#[tokio::test]
async fn a_run_waits_for_a_person_and_goes_on_in_another_host() {
    let folder = tempfile::tempdir().unwrap();
    let options = json!({
        "journal": folder.path().join("runs.db"),
        "durable": {"passivate_after_ms": 50},
    });
    let (first, _) = host(options.clone(), None).await;
    let runs = first.runs().unwrap();
    let started = relay_sdk::runtime::run(async move {
        let run = runs.start(request("return (await mcp.call('demo.change', {a: 7})).sum"), None).await?;
        let state = run.settled().await;
        Ok((run.id(), state))
    });
    let (id, state) = started.await.unwrap();
    assert_eq!(state, json!({"state": "waiting_for_approval", "calls": [1]}));
    first.close(Duration::from_secs(10)).await;

    let (second, _) = host(options, None).await;
    let runs = second.runs().unwrap();
    let shown = runs.show(&id).await.unwrap();
    assert_eq!((&shown["status"], &shown["waiting"]), (&json!("waiting"), &json!([1])));
    assert_eq!(runs.list(true, 10).await.unwrap()[0].id, id);
    runs.decide(&id, 1, (true, None), "Ada").await.unwrap();
    let gone_on = relay_sdk::runtime::run({
        let (runs, id) = (runs.clone(), id.clone());
        async move { runs.resume(&id).await?.outcome().await }
    });
    let outcome = tokio::time::timeout(Duration::from_secs(30), gone_on).await.unwrap().unwrap();
    assert_eq!(outcome.json, "8");
    assert!(runs.decide(&id, 1, (true, None), "Ada").await.unwrap_err().text.contains("nobody is asked"));
    second.close(Duration::from_secs(10)).await;
}
