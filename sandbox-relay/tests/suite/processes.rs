//! The relay's processes: they come back to where they were, whatever dies.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use host_client::{ErrorCode, ExecuteRequest};
use serde_json::json;

use crate::suite::wire::Raw;
use crate::support::{Fixture, assert_code, connect, tools, until, within};

/// The living or unreaped children of a process, by id.
fn children(pid: u32) -> BTreeSet<u32> {
    let mut children = BTreeSet::new();
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return children };
    for task in tasks.flatten() {
        let text = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        children.extend(text.split_ascii_whitespace().map(|pid| pid.parse::<u32>().unwrap()));
    }
    children
}

fn command_line(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default().replace('\0', " ")
}

fn zygote(relay: u32) -> Option<u32> {
    // A worker is a copy of it, and has its command line; the oldest is the forking process itself.
    children(relay).into_iter().find(|pid| command_line(*pid).contains("internal-zygote"))
}

fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

/// `at_rest` says how many processes the relay has when it has nothing to do.
async fn come_back_to_the_baseline(fixture: Fixture, at_rest: usize, executions: usize) {
    let relay = fixture.relay.process_id().unwrap();
    for _ in 0..5 {
        fixture.value("return 1").await;
    }
    until(|| children(relay).len() == at_rest && children(relay).into_iter().all(is_alive)).await;
    let open = descriptors(relay);
    for n in 0..executions {
        match n % 4 {
            0 => drop(fixture.run("throw 1").await),
            1 => drop(fixture.client.execute(ExecuteRequest::new("for(;;){}")).await.unwrap()),
            2 => drop(fixture.run("return [1, 2, 3]").await),
            _ => drop(fixture.run("await mcp.call('test.add', {a: 1, b: 1}); await new Promise(() => {})").await),
        }
    }
    // One more is the next forking process, which takes over at the next fork. A process comes and goes a moment before
    // or after its socket and its pidfd.
    until(|| {
        let now = children(relay);
        (at_rest..=at_rest + 1).contains(&now.len())
            && now.into_iter().all(is_alive)
            && descriptors(relay).abs_diff(open) <= 4
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn forked_workers_come_and_go_without_a_trace() {
    // The forking process is replaced several times on the way.
    let fixture = Fixture::start(&["--worker-stock", "2", "--worker-forks", "40"]).await;
    come_back_to_the_baseline(fixture, 3, 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn execd_workers_come_and_go_without_a_trace() {
    let fixture = Fixture::start(&["--worker-backend", "exec", "--worker-stock", "2"]).await;
    come_back_to_the_baseline(fixture, 2, 40).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_forking_process_is_replaced_when_it_dies_and_after_its_forks() {
    let fixture = Fixture::start(&["--worker-stock", "2"]).await;
    let relay = fixture.relay.process_id().unwrap();
    let first = zygote(relay).unwrap();
    kill(first);
    for n in 0..20 {
        assert_eq!(fixture.value(&format!("return {n}")).await, json!(n));
    }
    until(|| zygote(relay).is_some_and(|pid| pid != first)).await;

    let fixture = Fixture::start(&["--worker-stock", "2", "--worker-forks", "10"]).await;
    let relay = fixture.relay.process_id().unwrap();
    let first = zygote(relay).unwrap();
    // The successor takes over when it is warm, at the next fork.
    within(async {
        while is_alive(first) {
            fixture.value("return 1").await;
        }
    })
    .await;
    fixture.value("return 1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_dies_ends_its_own_execution() {
    let fixture = Fixture::start(&["--worker-stock", "1"]).await;
    let relay = fixture.relay.process_id().unwrap();
    let execution = fixture
        .client
        .execute(ExecuteRequest::new("await mcp.call('test.wait', {ms: 60000})").always_in_sandbox())
        .await
        .unwrap();
    until(|| fixture.seen.running.load(Ordering::SeqCst) == 1).await;
    // All but the forking process are killed, the stock with it.
    let forking = zygote(relay).unwrap();
    for worker in children(relay).into_iter().filter(|pid| *pid != forking && is_alive(*pid)) {
        kill(worker);
    }
    match within(execution).await.unwrap_err() {
        host_client::Error::Execution(error) => assert_code(&error, ErrorCode::WorkerLost),
        error => panic!("{error}"),
    }
    until(|| fixture.seen.dropped.load(Ordering::SeqCst) == 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_relay_dies_calls_end_at_once_and_no_process_is_left() {
    let mut fixture = Fixture::start(&[]).await;
    let relay = fixture.relay.process_id().unwrap();
    let execution = fixture
        .client
        .execute(ExecuteRequest::new("await mcp.call('test.wait', {ms: 60000})").always_in_sandbox())
        .await
        .unwrap();
    until(|| fixture.seen.running.load(Ordering::SeqCst) == 1).await;
    let children = children(relay);
    assert!(children.len() >= 2);
    let killed = Instant::now();
    fixture.relay.kill().await.unwrap();
    match within(execution).await.unwrap_err() {
        host_client::Error::Execution(error) => assert_code(&error, ErrorCode::SessionLost),
        error => panic!("{error}"),
    }
    assert!(killed.elapsed() < Duration::from_secs(10), "at once, not after a heartbeat");
    until(|| fixture.seen.dropped.load(Ordering::SeqCst) == 1).await;
    until(|| children.iter().all(|pid| !is_alive(*pid))).await;
    let lost = within(fixture.client.run(ExecuteRequest::new("return 1"))).await.unwrap_err();
    assert!(lost.code().is_some_and(|code| *code == ErrorCode::SessionLost), "{lost}");
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_host_goes_its_run_is_stopped_and_its_result_reaches_nobody() {
    let fixture = Fixture::start(&["--worker-stock", "2"]).await;
    let relay = fixture.relay.process_id().unwrap();
    // The forking process and two workers that wait.
    let at_rest = 3;
    let leaving = connect(&fixture.relay, tools(&fixture.seen)).await;
    until(|| children(relay).len() == at_rest).await;
    let execution = leaving.execute(ExecuteRequest::new("for(;;){}")).await.unwrap();
    until(|| children(relay).len() > at_rest).await;
    drop((execution, leaving));
    until(|| children(relay).len() == at_rest).await;

    // The same when it goes without a word.
    let mut raw = Raw::open(&fixture.relay).await;
    raw.execute("for(;;){}").await;
    until(|| children(relay).len() > at_rest).await;
    drop(raw);
    until(|| children(relay).len() == at_rest).await;
    assert_eq!(fixture.value("return 'mine'").await, json!("mine"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_has_one_descriptor_no_environment_and_no_secret() {
    let fixture = Fixture::start(&["--worker-stock", "3"]).await;
    let relay = fixture.relay.process_id().unwrap();
    until(|| children(relay).len() >= 4).await;
    let forking = zygote(relay).unwrap();
    let environment = std::fs::read(format!("/proc/{forking}/environ")).unwrap();
    assert!(environment.is_empty(), "{}", String::from_utf8_lossy(&environment));
    let workers: Vec<_> = children(relay).into_iter().filter(|pid| *pid != forking).collect();
    let locked = |pid: u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap_or_default();
        let no_processes = limits.lines().any(|line| line.starts_with("Max processes") && line.contains(" 0 "));
        descriptors(pid) == 1 && status.contains("NoNewPrivs:\t1") && no_processes
    };
    until(|| workers.iter().filter(|pid| is_alive(**pid)).all(|pid| locked(*pid))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_that_have_died_in_the_stock_get_no_code() {
    let fixture = Fixture::start(&["--worker-stock", "4"]).await;
    let relay = fixture.relay.process_id().unwrap();
    until(|| children(relay).len() == 5).await;
    let forking = zygote(relay).unwrap();
    let workers: Vec<_> = children(relay).into_iter().filter(|pid| *pid != forking).collect();
    for worker in &workers {
        kill(*worker);
    }
    // A signal takes a moment to end a process.
    until(|| !workers.iter().any(|worker| is_alive(*worker))).await;
    for n in 0..8 {
        assert_eq!(fixture.value(&format!("return {n}")).await, json!(n));
    }
}
