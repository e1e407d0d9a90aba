//! Sessions that cannot go on: each ends in a typed reason, and what nobody knows is said to be unknown.

use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use host_client::{Client, ConnectionState, Error, ErrorCode, Event, ExecuteRequest, LocalRelay, SessionLoss};
use relay_test_support::fault::{Break, FaultProxy, Script};
use relay_test_support::within;

use super::{Runs, Scene, config};

/// Starts code whose call never ends, and returns the execution when the tool runs.
async fn waiting(scene: &Scene) -> (host_client::Execution, host_client::EventStream) {
    let request = ExecuteRequest::new("return await mcp.call('t.wait', {n: 0})").always_in_sandbox();
    let (execution, mut events) = within(scene.client.execute(request)).await.unwrap().with_events();
    within(async { while !matches!(events.next().await, Some(Event::ToolCallStarted { .. })) {} }).await;
    (execution, events)
}

/// Fails unless the session is lost for this reason, the open call is reported as unknown, and it ran once.
async fn assert_lost(
    scene: &Scene,
    (execution, events): (host_client::Execution, host_client::EventStream),
    loss: Option<SessionLoss>,
) {
    let (outcome, events) = within(async { tokio::join!(execution, events.collect::<Vec<_>>()) }).await;
    let error = outcome.unwrap_err();
    assert!(error.code().is_some_and(|code| *code == ErrorCode::SessionLost), "{error}");
    let unknown = events
        .iter()
        .any(|event| matches!(event, Event::ToolCallFailed { code, .. } if *code == ErrorCode::OutcomeUnknown));
    assert!(unknown, "{events:?}");
    let ConnectionState::Lost { loss: told, .. } = scene.client.state() else { panic!("{:?}", scene.client.state()) };
    assert_eq!(told, loss);
    scene.runs.assert_each_once(1);
    assert!(scene.client.is_over());
    let next = scene.run("return 1").await.unwrap_err();
    assert!(next.code().is_some_and(|code| *code == ErrorCode::SessionLost), "{next}");
}

#[tokio::test]
async fn a_relay_that_does_not_know_the_session_ends_it() {
    let scene = Scene::start(|_| Script::clean()).await;
    let other = within(LocalRelay::start()).await.unwrap();
    let waiting = waiting(&scene).await;
    scene.proxy.redirect(other.address());
    scene.proxy.break_all(Break::Reset);
    // Relays of their own secrets: the token is not good there.
    let (execution, _events) = waiting;
    let error = within(execution).await.unwrap_err();
    assert!(error.code().is_some_and(|code| *code == ErrorCode::SessionLost), "{error}");
    assert!(matches!(scene.client.state(), ConnectionState::Lost { loss: None, .. }), "{:?}", scene.client.state());
}

#[tokio::test]
async fn a_relay_that_was_restarted_does_not_know_the_session() {
    const SECRET: &str = "a secret that both relays have, long enough";
    let relay = async || within(LocalRelay::builder().env("RELAY_JWT_SECRET", SECRET).start()).await.unwrap();
    let (first, second) = (relay().await, relay().await);
    let proxy = FaultProxy::start(first.address(), |_| Script::clean()).await.unwrap();
    let runs = Runs::default();
    let client = within(Client::connect(config(&first, &proxy).await, runs.tools())).await.unwrap();
    let scene = Scene { relay: first, proxy, client, runs };
    let waiting = waiting(&scene).await;
    scene.proxy.redirect(second.address());
    scene.proxy.break_all(Break::Finish);
    assert_lost(&scene, waiting, Some(SessionLoss::Unknown)).await;
}

#[tokio::test]
async fn a_client_that_is_dropped_without_a_connection_ends_its_session_at_once() {
    // Longer than the test may take: neither the window nor the pause before the next attempt ends here.
    let (pause, window) = (Duration::from_secs(600), Duration::from_secs(3_600));
    let configure = |config: &mut host_client::ClientConfig| {
        config.backoff = host_client::Backoff { first: pause, most: pause };
        config.resume = Some(window);
    };
    let scene = Scene::start_with(&["--resume-window-ms", "3600000"], |_| Script::clean(), configure).await;
    let waiting = waiting(&scene).await;
    scene.proxy.refuse(true);
    scene.proxy.break_all(Break::Reset);
    // The first attempt is made at once, and fails; the next would come in ten minutes.
    within(scene.proxy.until(|fates| fates.len() == 2 && fates[1].is_over)).await;
    scene.reconnecting().await;
    scene.proxy.refuse(false);
    drop((waiting, scene.client));
    nothing_runs(&scene.relay).await;
    within(scene.proxy.until(|fates| fates.iter().all(|fate| fate.is_over))).await;
    assert_eq!(scene.proxy.fates().len(), 3, "one attempt");
}

#[tokio::test]
async fn a_window_that_is_over_ends_the_session() {
    let scene = Scene::start_with(&["--resume-window-ms", "200"], |_| Script::clean(), |_| {}).await;
    let waiting = waiting(&scene).await;
    scene.proxy.refuse(true);
    scene.proxy.break_all(Break::Reset);
    // The relay gives the execution up by itself.
    nothing_runs(&scene.relay).await;
    scene.proxy.refuse(false);
    assert_lost(&scene, waiting, Some(SessionLoss::Expired)).await;
}

#[tokio::test]
async fn a_library_that_finds_no_relay_gives_up_in_time() {
    let patience = Duration::from_millis(500);
    let scene = Scene::start_with(&[], |_| Script::clean(), |config| config.resume = Some(patience)).await;
    let waiting = waiting(&scene).await;
    scene.proxy.refuse(true);
    let since = Instant::now();
    scene.proxy.break_all(Break::Reset);
    assert_lost(&scene, waiting, Some(SessionLoss::Expired)).await;
    // It makes no attempt that would come too late.
    assert!((patience / 2..Duration::from_secs(10)).contains(&since.elapsed()), "{:?}", since.elapsed());
}

#[tokio::test]
async fn it_can_be_off_at_either_end() {
    let at_the_host = Scene::start_with(&[], |_| Script::clean(), |config| config.resume = None).await;
    let at_the_relay = Scene::start_with(&["--resume-window-ms", "0"], |_| Script::clean(), |_| {}).await;
    for scene in [at_the_host, at_the_relay] {
        let waiting = waiting(&scene).await;
        scene.proxy.break_all(Break::Reset);
        assert_lost(&scene, waiting, None).await;
        assert_eq!(scene.proxy.fates().len(), 1, "it did not try again");
        nothing_runs(&scene.relay).await;
    }
}

#[tokio::test]
async fn a_client_that_is_dropped_ends_its_session_at_once() {
    let scene = Scene::start(|_| Script::clean()).await;
    let Scene { relay, proxy, client, .. } = scene;
    let request = ExecuteRequest::new("return await mcp.call('t.wait', {n: 0})").always_in_sandbox();
    let execution = within(client.execute(request)).await.unwrap();
    drop((execution, client));
    nothing_runs(&relay).await;
    within(proxy.until(|fates| fates.iter().all(|fate| fate.is_over))).await;
    assert_eq!(proxy.fates().len(), 1);
}

/// A client that is dropped while it looks for its relay looks no further.
#[tokio::test]
async fn a_client_that_is_dropped_reconnects_no_more() {
    let Scene { relay: _relay, proxy, client, .. } = Scene::start(|_| Script::clean()).await;
    proxy.refuse(true);
    proxy.break_all(Break::Reset);
    super::reconnecting(&client).await;
    drop(client);
    // Attempts that were on their way may still come.
    let mut attempts = proxy.fates().len();
    loop {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let now = proxy.fates().len();
        if now == attempts {
            break;
        }
        assert!(now < 1_000, "it goes on and on");
        attempts = now;
    }
}

/// What needs no relay is not touched by a relay's end.
#[tokio::test]
async fn short_paths_work_without_a_relay() {
    let scene = Scene::start(|_| Script::clean()).await;
    scene.proxy.refuse(true);
    scene.proxy.break_all(Break::Reset);
    scene.reconnecting().await;
    let outcome = within(scene.client.run(ExecuteRequest::new("return await mcp.call('t.step', {n: 0})"))).await;
    assert_eq!(outcome.map_err(|error: Error| error.to_string()).unwrap().value().unwrap(), "0: ");
}

/// Waits until a relay runs no execution.
pub(super) async fn nothing_runs(relay: &LocalRelay) {
    within(async {
        loop {
            let health = health(relay).await;
            if health["executions"] == 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

async fn health(relay: &LocalRelay) -> serde_json::Value {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = tokio::net::TcpStream::connect(relay.address()).await.unwrap();
    stream.write_all(b"GET /health HTTP/1.1\r\nHost: relay\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}
