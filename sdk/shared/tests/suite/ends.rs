//! Cancelled code, closed hosts, and relays that are not there.

use std::sync::atomic::Ordering;
use std::time::Duration;

use relay_sdk::{ErrorKind, RequestOptions};
use serde_json::json;

use crate::{host, request};

const WITHIN: Duration = Duration::from_secs(20);

async fn bounded<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(WITHIN, future).await.expect("it ends in time")
}

#[tokio::test]
async fn cancelling_and_dropping_stop_the_code_and_its_functions() {
    let (host, calls) = host(json!({}), None).await;
    let waits = "console.log('begun'); await mcp.call('demo.read', {do: 'wait'})";
    let run = host.execute(request(waits), None).unwrap();
    bounded(calls.waits.notified()).await;
    run.cancel();
    let error = bounded(run.outcome()).await.unwrap_err();
    assert_eq!((error.kind, error.code.as_str()), (ErrorKind::Script, "CANCELLED"));
    assert_eq!(error.calls[0].tool, "demo.read");

    let run = host.execute(request(waits), None).unwrap();
    bounded(calls.waits.notified()).await;
    drop(run);
    bounded(async {
        while calls.dropped.load(Ordering::SeqCst) < 2 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    // Code that has not begun is cancelled as well.
    let run = host.execute(request(waits), None).unwrap();
    run.cancel();
    assert_eq!(bounded(run.outcome()).await.unwrap_err().code, "CANCELLED");
}

#[tokio::test]
async fn closing_ends_what_runs_and_later_calls_say_so() {
    let (host, calls) = host(json!({}), None).await;
    let run = host.execute(request("await mcp.call('demo.read', {do: 'wait'})"), None).unwrap();
    let talk = host.conversation().unwrap();
    bounded(calls.waits.notified()).await;
    let process = bounded(host.relay_process()).await.unwrap();
    bounded(host.close(Duration::from_secs(5))).await;
    assert_eq!(bounded(run.outcome()).await.unwrap_err().code, "CANCELLED");
    assert!(!std::path::Path::new(&format!("/proc/{process}/exe")).exists(), "the relay has ended");
    assert_eq!(host.execute(request("return 1"), None).unwrap_err().kind, ErrorKind::Closed);
    assert_eq!(host.call("demo.read", &json!({"a": 1})).await.unwrap_err().kind, ErrorKind::Closed);
    assert_eq!(talk.call("execute_code", json!({"code": "return 1"})).await.unwrap_err().kind, ErrorKind::Closed);
    assert_eq!(host.runs().unwrap_err().kind, ErrorKind::Closed);
}

#[tokio::test]
async fn a_closed_host_leaves_its_files_to_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let options = || json!({"audit": path("audit.jsonl"), "journal": path("runs.db")});
    let (first, _) = host(options(), None).await;
    let other = first.with_tools(Vec::new()).unwrap();
    let talk = first.conversation().unwrap();
    for host in [&first, &other] {
        bounded(host.execute(request("return 1"), None).unwrap().outcome()).await.unwrap();
    }
    bounded(talk.call("execute_code", json!({"code": "return 1"}))).await.unwrap();
    bounded(first.close(Duration::from_secs(5))).await;
    // The handles are still there, and so is what a script may keep of them.
    let (second, _) = host(options(), None).await;
    assert_eq!(bounded(second.execute(request("return 2"), None).unwrap().outcome()).await.unwrap().json, "2");
    assert_eq!(other.execute(request("return 1"), None).unwrap_err().kind, ErrorKind::Closed);
    assert_eq!(
        first.add_tool(crate::description("demo.late", "read_only"), crate::Calls::shared()).unwrap_err().kind,
        ErrorKind::Closed
    );
    drop(talk);
}

#[tokio::test]
async fn an_absent_relay_is_named_with_what_to_do() {
    let relay = json!({"relay": {"url": "ws://127.0.0.1:1/ws", "token": "t", "connect_timeout_ms": 2000}});
    let (elsewhere, _) = host(relay, None).await;
    let error = bounded(elsewhere.execute(request("return 1"), None).unwrap().outcome()).await.unwrap_err();
    assert_eq!((error.kind, error.code.as_str(), error.retryable), (ErrorKind::Connection, "UNREACHABLE", true));
    let (own, _) = host(json!({"relay": {"program": "/nowhere/sandbox-relay"}}), None).await;
    let error = bounded(own.execute(request("return 1"), None).unwrap().outcome()).await.unwrap_err();
    assert_eq!((error.kind, error.code.as_str()), (ErrorKind::Connection, "LOCAL_RELAY"));
    assert!(error.text.contains("/nowhere/sandbox-relay"), "{error}");
    // A single call needs no relay.
    let one = RequestOptions { code: "return await mcp.call('demo.read', {a: 1})".into(), ..RequestOptions::default() };
    drop(own.execute(one, None).unwrap());
}

#[test]
fn a_panic_is_an_error() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let error = runtime.block_on(relay_sdk::runtime::run::<()>(async { panic!("broken") })).unwrap_err();
    assert_eq!((error.kind, error.text.as_str()), (ErrorKind::Internal, "a fault of this library: broken"));
}
