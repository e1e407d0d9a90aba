//! Tests of the server's end, after which nothing is left of it.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::processes::{family, find, gone};
use super::python::Client;
use super::raw::Raw;
use super::setup::Setup;
use super::{eventually, within};

const WAITS: &str = "await mcp.call('fake.wait', {})";

#[tokio::test]
async fn a_signal_ends_the_http_server_and_all_that_it_started() {
    for signal in [Signal::TERM, Signal::INT] {
        let setup = Setup::new().allowing_all();
        let mut server = setup.serve_http().await;
        let mut client = Client::over_http(&server, None).await;
        client.begin("execute_code", json!({"code": WAITS})).await;
        eventually("the tool runs", || setup.notes().starts_with("waiting\n")).await;
        let all = family(server.child.id().unwrap());
        find(&all, "fake.py");
        find(&all, "sandbox-relay serve");
        find(&all, "serve-mcp").signal(signal);
        assert!(within(server.child.wait()).await.unwrap().success());
        gone(&all).await;
    }
}

#[tokio::test]
async fn a_signal_ends_the_stdio_server_although_its_input_is_open() {
    let setup = Setup::new().allowing_all();
    let mut raw = Raw::start(&setup).await;
    raw.execute(1, WAITS).await;
    eventually("the tool runs", || setup.notes() == "waiting\n").await;
    let all = family(raw.child.id().unwrap());
    find(&all, "serve-mcp").signal(Signal::TERM);
    assert!(within(raw.child.wait()).await.unwrap().success());
    gone(&all).await;
}

#[tokio::test]
async fn a_signal_ends_it_before_anybody_spoke_on_a_socket() {
    // Some clients give sockets in the place of pipes, on which a blocked read cannot be given up.
    let setup = Setup::new();
    let (ours, theirs) = UnixStream::pair().unwrap();
    let output = OwnedFd::from(theirs.try_clone().unwrap());
    let mut child = setup.command().stdin(OwnedFd::from(theirs)).stdout(output).spawn().unwrap();
    let id = child.id().unwrap();
    eventually("its server is started", || family(id).iter().any(|it| it.command.contains("fake.py"))).await;
    let all = family(id);
    find(&all, "serve-mcp").signal(Signal::TERM);
    assert!(within(child.wait()).await.unwrap().success());
    gone(&all).await;
    drop(ours);
}

#[tokio::test]
async fn the_end_of_the_input_ends_the_server_and_all_that_it_started() {
    let setup = Setup::new().allowing_all();
    let audit = setup.path("audit.jsonl");
    let setup = setup.option("--audit", audit.to_str().unwrap());
    let mut raw = Raw::start(&setup).await;
    raw.execute(1, "return 1").await;
    assert_eq!(raw.answer(1).await["result"]["structuredContent"]["result"], 1);
    raw.execute(2, WAITS).await;
    eventually("the tool runs", || setup.notes() == "waiting\n").await;
    let all = family(raw.child.id().unwrap());
    find(&all, "sandbox-relay serve");
    let since = Instant::now();
    raw.input = None;
    let answer = raw.answer(2).await;
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("CANCELLED: "), "{text}");
    // The library waits for handlers for 5 s: the program is stopped before that.
    assert!(since.elapsed() < Duration::from_secs(4), "it took {:?}", since.elapsed());
    eventually("the tool is cancelled", || setup.notes() == "waiting\ncancelled True\n").await;
    assert!(within(raw.child.wait()).await.unwrap().success());
    gone(&all).await;
    let audit = std::fs::read_to_string(audit).unwrap();
    let ends: Vec<Value> = audit.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let outcomes: Vec<_> = ends.iter().filter(|end| end["kind"] == "end").map(|end| &end["outcome"]).collect();
    assert_eq!(outcomes, ["ok", "CANCELLED"]);
}

#[tokio::test]
async fn what_was_asked_before_the_end_of_the_input_is_answered() {
    let setup = Setup::new();
    let mut raw = Raw::start(&setup).await;
    raw.send(json!({"id": 1, "method": "tools/list"})).await;
    raw.execute(2, "return 1").await;
    raw.input = None;
    let mut answers = std::collections::BTreeMap::new();
    while let Some(answer) = raw.next().await {
        answers.extend(answer["id"].as_u64().map(|id| (id, answer.clone())));
    }
    assert_eq!(answers[&1]["result"]["tools"][0]["name"], "execute_code");
    // Code that had not ended is stopped.
    let text = answers[&2]["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text == "1" || text.starts_with("CANCELLED: "), "{text}");
    assert!(within(raw.child.wait()).await.unwrap().success());
}

#[tokio::test]
async fn the_sdk_leaves_nothing_behind() {
    let setup = Setup::new();
    let mut client = Client::over_stdio(&setup).await;
    assert_eq!(client.value("return 1").await, 1);
    let all = family(client.process());
    find(&all, "sandbox-relay serve");
    client.close().await;
    gone(&all).await;
}
