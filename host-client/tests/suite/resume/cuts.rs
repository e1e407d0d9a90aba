//! Connections that break at every message of a run: each call runs once, and the outcome is the same bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use host_client::{Client, ClientConfig, ConnectionState, Event, ExecuteRequest, LocalRelay};
use relay_test_support::fault::{Break, Fate, FaultProxy, Place, Script, Way};
use relay_test_support::within;
use tokio::task::JoinSet;

use super::{Runs, Scene, parallel, sequential, undisturbed};

const CALLS: usize = 200;

/// Every connection lets this direction carry one message more than what it takes to resume, so that each message of the
/// run is the one at which a connection breaks.
async fn cut_at_every_message(code: &str, way: Way, place: Place, later: u64) {
    // Hello or resume is 1, in either direction.
    let message = match place {
        Place::After => 2,
        Place::Before | Place::Inside => 3,
    };
    let how = |number| if number % 2 == 0 { Break::Reset } else { Break::Finish };
    let plan = move |number: usize| Script::clean().cut(way, message + number as u64 % (later + 1), place, how(number));
    let case = format!("{way:?} {place:?} {later}");
    let scene = Scene::start(plan).await;
    let outcome = scene.run(code).await.unwrap_or_else(|error| panic!("{case}: {error}"));
    let expected = undisturbed(code).await;
    assert!(outcome.json == expected.json, "{case}: {:?}", outcome.json);
    assert_eq!(outcome.output, expected.output, "{case}");
    scene.runs.assert_each_once(CALLS);
    let least = CALLS / (usize::try_from(later).unwrap() + 1) / 2;
    assert!(scene.breaks() >= least, "{case}: {} of at least {least} breaks", scene.breaks());
}

#[tokio::test]
async fn after_every_message_to_the_host() {
    cut_at_every_message(&sequential(CALLS), Way::ToHost, Place::After, 0).await;
}

#[tokio::test]
async fn after_every_message_to_the_relay() {
    cut_at_every_message(&sequential(CALLS), Way::ToRelay, Place::After, 0).await;
}

#[tokio::test]
async fn before_every_message_to_the_host() {
    cut_at_every_message(&sequential(CALLS), Way::ToHost, Place::Before, 0).await;
}

#[tokio::test]
async fn before_every_message_to_the_relay() {
    cut_at_every_message(&sequential(CALLS), Way::ToRelay, Place::Before, 0).await;
}

#[tokio::test]
async fn in_the_middle_of_every_message_to_the_host() {
    cut_at_every_message(&sequential(CALLS), Way::ToHost, Place::Inside, 0).await;
}

#[tokio::test]
async fn in_the_middle_of_every_message_to_the_relay() {
    cut_at_every_message(&sequential(CALLS), Way::ToRelay, Place::Inside, 0).await;
}

#[tokio::test]
async fn at_walking_messages_of_parallel_calls() {
    for way in [Way::ToHost, Way::ToRelay] {
        for place in [Place::Before, Place::Inside, Place::After] {
            cut_at_every_message(&parallel(CALLS), way, place, 12).await;
        }
    }
}

/// Neither end hears anything: each finds out by its heartbeat.
#[tokio::test]
async fn silence_is_found_out_and_survived() {
    let plan = |number| match number {
        0 => Script::clean().cut(Way::ToRelay, 10, Place::After, Break::Silence),
        // On a busy machine a connection may be given up before it falls silent.
        1..=4 => Script::clean().cut(Way::ToHost, 10, Place::Before, Break::Silence),
        _ => Script::clean(),
    };
    let heartbeat = Duration::from_millis(100);
    let scene = Scene::start_with(&["--heartbeat-ms", "100"], plan, |config| config.heartbeat = heartbeat).await;
    let outcome = scene.run(&sequential(CALLS)).await.unwrap();
    assert!(outcome.json == undisturbed(&sequential(CALLS)).await.json);
    scene.runs.assert_each_once(CALLS);
    assert!(scene.breaks() >= 2, "{:?}", scene.proxy.fates());
}

/// The host is let in and never learns it, several times in a row.
#[tokio::test]
async fn a_resumed_that_is_lost_locks_nobody_out() {
    for place in [Place::Before, Place::Inside] {
        let plan = move |number| match number {
            0 => Script::clean().cut(Way::ToHost, 10, Place::After, Break::Reset),
            1..=4 => Script::clean().cut(Way::ToHost, 1, place, Break::Reset),
            _ => Script::clean(),
        };
        let scene = Scene::start(plan).await;
        let outcome = scene.run(&sequential(CALLS)).await.unwrap();
        assert!(outcome.json == undisturbed(&sequential(CALLS)).await.json);
        scene.runs.assert_each_once(CALLS);
        assert_eq!(scene.proxy.fates().len(), 6);
    }
}

/// Connections break in their handshake, in their first message, and before anything.
#[tokio::test]
async fn attempts_that_fail_are_followed_by_others() {
    let plan = |number| match number {
        0 => Script::clean().cut(Way::ToRelay, 10, Place::After, Break::Reset),
        1 => Script::refused(),
        2 => Script::clean().cut(Way::ToRelay, 0, Place::Inside, Break::Reset),
        3 => Script::clean().cut(Way::ToHost, 0, Place::Before, Break::Finish),
        4 => Script::clean().cut(Way::ToHost, 0, Place::Inside, Break::Reset),
        5 => Script::clean().cut(Way::ToRelay, 1, Place::Before, Break::Reset),
        6 => Script::clean().cut(Way::ToRelay, 1, Place::Inside, Break::Finish),
        7 => Script::clean().cut(Way::ToHost, 1, Place::After, Break::Reset),
        _ => Script::clean(),
    };
    let scene = Scene::start(plan).await;
    let outcome = scene.run(&sequential(CALLS)).await.unwrap();
    assert!(outcome.json == undisturbed(&sequential(CALLS)).await.json);
    scene.runs.assert_each_once(CALLS);
    assert_eq!(scene.proxy.fates().len(), 9);
}

#[tokio::test]
async fn an_application_sees_it_and_need_not_care() {
    let scene = Scene::start(|number| match number {
        0 => Script::clean().cut(Way::ToHost, 10, Place::After, Break::Reset),
        1 => Script::clean().cut(Way::ToHost, 20, Place::After, Break::Finish),
        _ => Script::clean(),
    })
    .await;
    assert!(matches!(scene.client.state(), ConnectionState::Connected), "{:?}", scene.client.state());
    let request = ExecuteRequest::new(sequential(CALLS)).always_in_sandbox();
    let (execution, events) = within(scene.client.execute(request)).await.unwrap().with_events();
    let (outcome, events) = within(async { tokio::join!(execution, events.collect::<Vec<_>>()) }).await;
    outcome.unwrap();
    let seen: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::Disconnected { reason, .. } => Some(!reason.is_empty()),
            Event::Resumed { .. } => Some(true),
            _ => None,
        })
        .collect();
    assert_eq!(seen, [true; 4], "each break is told, and each return");
    let first = events.iter().find(|event| matches!(event, Event::Disconnected { .. } | Event::Resumed { .. }));
    assert!(matches!(first, Some(Event::Disconnected { .. })), "{first:?}");
    assert!(matches!(scene.client.state(), ConnectionState::Connected), "{:?}", scene.client.state());
}

/// Code that comes while there is no connection waits for one.
#[tokio::test]
async fn code_that_comes_meanwhile_waits() {
    let scene = Scene::start(|_| Script::clean()).await;
    scene.proxy.refuse(true);
    scene.proxy.break_all(Break::Reset);
    scene.reconnecting().await;
    let client = scene.client.clone();
    let running = tokio::spawn(async move { client.run(ExecuteRequest::new("return 7").always_in_sandbox()).await });
    // It has found nothing for a while.
    within(scene.proxy.until(|fates| fates.len() > 5)).await;
    assert!(!running.is_finished());
    scene.proxy.refuse(false);
    assert_eq!(within(running).await.unwrap().unwrap().value().unwrap(), 7);
    assert!(matches!(scene.client.state(), ConnectionState::Connected), "{:?}", scene.client.state());
}

/// Large messages cross cuts as small ones do.
#[tokio::test]
async fn large_results_cross_cuts() {
    let code = "const all = [];
        for (let n = 0; n < 20; n++) all.push((await mcp.call('t.step', {n})).length);
        return 'x'.repeat(3_000_000) + all";
    let plan = |number: usize| match number {
        0..=3 => Script::clean().cut(Way::ToHost, 22, Place::Inside, Break::Reset),
        _ => Script::clean().cut_after(Duration::from_secs(30), Break::Reset),
    };
    let scene = Scene::start(plan).await;
    let outcome = scene.run(code).await.unwrap();
    assert!(outcome.json == undisturbed(code).await.json);
    scene.runs.assert_each_once(20);
}

/// The short form of `cargo xtask soak --cuts 1000`.
#[tokio::test]
async fn random_cuts_under_load_leave_nothing_behind() {
    const BREAKS: usize = 100;
    let plan = |number| Script::random(15, number);
    let heartbeat = Duration::from_millis(200);
    let relay = within(LocalRelay::builder().argument("--heartbeat-ms=200").start()).await.unwrap();
    let pid = relay.process_id().unwrap();
    let descriptors = || std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    let at_rest = descriptors();
    let proxy = FaultProxy::start(relay.address(), plan).await.unwrap();
    let expected = undisturbed(&parallel(40)).await;
    let mut lanes = JoinSet::new();
    let (on, done) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicUsize::new(0)));
    for _ in 0..4 {
        let (config, expected, on, done) =
            (super::config(&relay, &proxy).await, expected.json.clone(), Arc::clone(&on), Arc::clone(&done));
        lanes.spawn(async move {
            let config = ClientConfig { heartbeat, ..config };
            while on.load(Ordering::Relaxed) {
                // The first connection may break, too.
                let runs = Runs::default();
                let Ok(client) = Client::connect(config.clone(), runs.tools()).await else { continue };
                for _ in 0..5 {
                    let request = ExecuteRequest::new(parallel(40)).always_in_sandbox();
                    let outcome = within(client.run(request)).await.unwrap();
                    assert!(outcome.json == expected, "{:?}", outcome.json);
                }
                assert_eq!(*runs.0.lock().unwrap(), vec![5; 40], "each of 40 calls in each of 5 runs");
                done.fetch_add(5, Ordering::Relaxed);
            }
        });
    }
    let broken = |fates: &[Fate]| fates.iter().filter(|fate| fate.broken.is_some()).count();
    tokio::select! {
        () = within(proxy.until(|fates| broken(fates) >= BREAKS)) => {}
        Some(ended) = lanes.join_next() => ended.unwrap(),
    }
    on.store(false, Ordering::Relaxed);
    while let Some(ended) = within(lanes.join_next()).await {
        ended.unwrap();
    }
    assert!(done.load(Ordering::Relaxed) > 0);
    // The sessions were closed with their clients, and nothing waits for a window to end. Workers that are made ahead hold two
    // each.
    within(async {
        while descriptors() > at_rest + 40 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    super::ends::nothing_runs(&relay).await;
}
