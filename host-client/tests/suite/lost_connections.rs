//! Real relays whose connections are cut, that shut down, and that are killed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use host_client::{
    Backoff, Client, ClientConfig, ConnectionState, Effect, ErrorCode, ExecuteRequest, LazyClient, LocalRelay,
    SessionLoss, ToolError, Tools,
};
use relay_test_support::fault::{Break, FaultProxy, Place, Script, Way};
use relay_test_support::within;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Map, Value, json};
use tokio::sync::Notify;

const SECRET: &str = "a secret for these tests, of 32 bytes and more";

async fn relay() -> LocalRelay {
    LocalRelay::builder().env("RELAY_JWT_SECRET", SECRET).argument("--drain-ms=30000").start().await.unwrap()
}

fn terminate(relay: &LocalRelay) {
    let pid = Pid::from_raw(relay.process_id().unwrap().cast_signed()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
}

/// The settings of a client of a relay behind this proxy.
async fn config(relay: &LocalRelay, proxy: &FaultProxy) -> ClientConfig {
    let backoff = Backoff { first: Duration::from_millis(1), most: Duration::from_millis(20) };
    ClientConfig {
        url: proxy.url(),
        backoff,
        resume: Some(Duration::from_secs(60)),
        ..relay.client_config().await.unwrap()
    }
}

/// The tool `a.count`, which returns how often it ran.
fn counted() -> (Tools, Arc<AtomicUsize>) {
    let (tools, ran) = (Tools::new(), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&ran);
    let count = move |_: Map<String, Value>| {
        let count = count.fetch_add(1, Ordering::SeqCst) + 1;
        async move { Ok::<_, ToolError>(count) }
    };
    tools.add("a.count", "Counts its calls", Effect::ReadOnly, count).unwrap();
    (tools, ran)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_over_connections_that_break_everywhere_makes_each_call_once() {
    let relay = relay().await;
    let plan = |number| {
        let way = [Way::ToHost, Way::ToRelay][number % 2];
        let place = [Place::Before, Place::Inside, Place::After][number % 3];
        let how = [Break::Reset, Break::Finish][(number / 6) % 2];
        Script::clean().cut(way, 4 + number as u64 % 7, place, how)
    };
    let proxy = FaultProxy::start(relay.address(), plan).await.unwrap();
    let (tools, ran) = counted();
    let client = within(Client::connect(config(&relay, &proxy).await, tools)).await.unwrap();
    let code = "const seen = [];
                for (let i = 0; i < 60; i++) seen.push(await mcp.call('a.count'));
                for (let i = 0; i < 10; i++) seen.push(...await Promise.all([1, 2, 3, 4].map(() => mcp.call('a.count'))));
                return seen.sort((a, b) => a - b)";
    let outcome = within(client.run(ExecuteRequest::new(code))).await.unwrap();
    assert_eq!(outcome.value().unwrap(), json!((1..=100).collect::<Vec<_>>()));
    assert_eq!(ran.load(Ordering::SeqCst), 100);
    assert!(proxy.fates().len() > 10, "{}", proxy.fates().len());
}

/// Runs code in eight tasks until it is over. Each returns the number of its runs.
fn ask(client: &LazyClient, is_over: &Arc<AtomicBool>) -> Vec<tokio::task::JoinHandle<usize>> {
    let asking = |_| {
        let (client, is_over) = (client.clone(), Arc::clone(is_over));
        tokio::spawn(async move {
            let mut ran = 0;
            while !is_over.load(Ordering::SeqCst) {
                client.run(ExecuteRequest::new("return 1")).await.unwrap();
                ran += 1;
            }
            ran
        })
    };
    (0..8).map(asking).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_cross_the_end_of_a_relay_go_to_the_next_one() {
    let (mut old, new) = (relay().await, relay().await);
    let proxy = FaultProxy::start(old.address(), |_| Script::clean()).await.unwrap();
    let config = config(&old, &proxy).await;
    let client = LazyClient::new(Tools::new(), move |host| Client::connect(config.clone(), host));
    let is_over = Arc::new(AtomicBool::new(false));
    let asking = ask(&client, &is_over);
    within(client.run(ExecuteRequest::new("return 1"))).await.unwrap();
    proxy.redirect(new.address());
    terminate(&old);
    within(old.wait()).await.unwrap();
    for _ in 0..20 {
        within(client.run(ExecuteRequest::new("return 1"))).await.unwrap();
    }
    is_over.store(true, Ordering::SeqCst);
    for asking in asking {
        assert!(within(asking).await.unwrap() > 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_a_relay_shuts_down_new_requests_go_to_the_next_one_and_none_fails() {
    let (old, new) = (relay().await, relay().await);
    let proxy = FaultProxy::start(old.address(), |_| Script::clean()).await.unwrap();
    let (tools, gate, begun) = (Tools::new(), Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (opened, begins) = (Arc::clone(&gate), Arc::clone(&begun));
    let wait = move |_: Map<String, Value>| {
        let opened = Arc::clone(&opened);
        begins.notify_one();
        async move {
            opened.notified().await;
            Ok::<_, ToolError>("open")
        }
    };
    tools.add("a.wait", "Waits for the gate", Effect::ReadOnly, wait).unwrap();
    let config = config(&old, &proxy).await;
    let client = LazyClient::new(tools, move |host| Client::connect(config.clone(), host));

    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.run(ExecuteRequest::new("return (await mcp.call('a.wait')) + 1").always_in_sandbox()).await }
    });
    within(begun.notified()).await;
    let first = within(client.lease()).await.unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let asking = ask(&client, &is_over);
    // New connections reach the other relay from now on.
    proxy.redirect(new.address());
    terminate(&old);
    let mut changes = first.state_changes();
    while !first.is_draining() {
        tokio::task::yield_now().await;
    }
    // All go on at the new relay.
    within(proxy.until(|fates| fates.len() > 1)).await;
    for _ in 0..20 {
        within(client.run(ExecuteRequest::new("return 1"))).await.unwrap();
    }
    is_over.store(true, Ordering::SeqCst);
    for asking in asking {
        assert!(within(asking).await.unwrap() > 0);
    }
    assert!(!first.is_over(), "it runs where it began");
    gate.notify_one();
    assert_eq!(within(waiting).await.unwrap().unwrap().value().unwrap(), "open1");
    match within(changes.next()).await {
        Some(ConnectionState::Lost { loss: Some(SessionLoss::Drained), .. }) => {}
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_was_killed_and_came_back_does_not_know_the_session() {
    let (mut old, new) = (relay().await, relay().await);
    let proxy = FaultProxy::start(old.address(), |_| Script::clean()).await.unwrap();
    let (tools, _) = counted();
    let client = within(Client::connect(config(&old, &proxy).await, tools)).await.unwrap();
    let execution = client.execute(ExecuteRequest::new("for (;;) await mcp.call('a.count')")).await.unwrap();
    proxy.redirect(new.address());
    old.kill().await.unwrap();
    let error = within(execution).await.unwrap_err();
    assert_eq!(error.error_code(), Some(ErrorCode::SessionLost), "{error}");
    let ConnectionState::Lost { loss, reason } = client.state() else { panic!("{:?}", client.state()) };
    assert_eq!(loss, Some(SessionLoss::Unknown), "{reason}");
}
