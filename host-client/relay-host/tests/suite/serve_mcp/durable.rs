//! Runs that outlast their request, their session and the server.

use std::path::Path;

use serde_json::{Value, json};
use tokio::process::Command;

use super::python::Client;
use super::setup::{RELAY_HOST, Setup};
use super::within;

/// A call that needs an approval, and works.
const ASKS: &str = "return (await mcp.call('fake.echo', {a: 1})).arguments.a";

pub(crate) fn durable() -> Setup {
    let setup = Setup::new();
    let journal = journal(&setup);
    setup.flag("--durable").option("--journal", journal).option("--passivate-after", "1")
}

fn journal(setup: &Setup) -> String {
    setup.path("runs.sqlite").to_str().unwrap().to_owned()
}

/// Runs `relay-host runs`, and returns what it prints.
pub(crate) async fn runs(setup: &Setup, arguments: &[&str]) -> Value {
    let mut command = Command::new(RELAY_HOST);
    command.arg("runs").args(arguments).args(["--json", "--journal", &journal(setup)]);
    let output = within(command.output()).await.unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Checks that a report is a handle, and returns the run.
pub(crate) fn handle(report: &Value) -> String {
    let structured = &report["structuredContent"];
    assert_eq!(
        (&structured["status"], &structured["for"], &report["isError"]),
        (&json!("waiting"), &json!("a person's approval of fake.echo"), &json!(false)),
        "{report}"
    );
    structured["run"].as_str().unwrap().to_owned()
}

pub(crate) async fn wait(client: &mut Client, run: &str, seconds: u64) -> Value {
    client.call("wait_for_run", json!({"run": run, "seconds": seconds})).await
}

#[tokio::test]
async fn a_person_at_the_client_is_asked_while_a_request_waits() {
    let setup = durable();
    let mut client = Client::asked_by_requests(&setup).await;
    client.ready().await;
    let names = client.list().await;
    let names: Vec<_> = names.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names[4..], ["wait_for_run", "cancel_run"]);
    let id = client.begin("execute_code", json!({"code": ASKS})).await;
    assert!(client.question().await["message"].as_str().unwrap().contains("fake.echo"));
    client.allow("once").await;
    assert_eq!(client.end(id).await["result"]["structuredContent"]["result"], 1);
    assert!(!client.progress(id).is_empty());
    assert_eq!(runs(&setup, &["list", "--all"]).await, json!([]), "it leaves nothing in the journal");

    // Nobody answers in time: the question is withdrawn, and asked again with the next request.
    let id = client.begin("execute_code", json!({"code": ASKS})).await;
    client.question().await;
    client.hear(|said| said.get("withdrawn").is_some()).await;
    let run = handle(&client.end(id).await["result"]);
    assert_eq!(client.call("wait_for_run", json!({})).await["structuredContent"]["runs"][0]["run"], run.as_str());
    let id = client.begin("wait_for_run", json!({"run": run})).await;
    client.question().await;
    client.answer("decline", Value::Null).await;
    let ended = client.end(id).await["result"].take();
    assert!(
        ended["isError"] == true && ended["content"][0]["text"].as_str().unwrap().contains("the user said no"),
        "{ended}"
    );
    client.close().await;
}

#[tokio::test]
async fn a_handle_works_after_a_restart_and_people_decide_elsewhere() {
    let setup = durable();
    let mut client = Client::over_stdio(&setup).await;
    client.ready().await;
    let run = handle(&client.execute(ASKS).await);
    client.close().await;
    assert_eq!(runs(&setup, &["list"]).await[0]["status"], "waiting");

    let mut client = Client::over_stdio(&setup).await;
    client.ready().await;
    handle(&wait(&mut client, &run, 5).await);
    runs(&setup, &["approve", &run, "1", "--by", "Ada"]).await;
    let ended = wait(&mut client, &run, 60).await;
    assert_eq!(ended["structuredContent"]["result"], 1, "{ended}");
    let unknown = wait(&mut client, "0123456789abcdef", 60).await;
    assert!(unknown["isError"] == true, "{unknown}");

    let run = handle(&client.execute(ASKS).await);
    let cancelled = client.call("cancel_run", json!({"run": run})).await;
    assert_eq!(cancelled["structuredContent"]["status"], "cancelled");
    client.close().await;
    assert!(Path::new(&journal(&setup)).exists());
}

#[tokio::test]
async fn a_request_that_is_cancelled_cancels_its_run() {
    let setup = durable();
    let mut client = Client::asked_by_requests(&setup).await;
    client.ready().await;
    let id = client.begin("execute_code", json!({"code": ASKS})).await;
    client.question().await;
    client.cancel(id).await;
    assert_eq!(client.end(id).await["cancelled"], true);
    client.hear(|said| said.get("withdrawn").is_some()).await;
    // The run ends a moment after its question.
    let since = std::time::Instant::now();
    while client.call("wait_for_run", json!({})).await["structuredContent"]["runs"] != json!([]) {
        assert!(since.elapsed() < super::PATIENCE, "it goes on");
    }
    client.close().await;
}
