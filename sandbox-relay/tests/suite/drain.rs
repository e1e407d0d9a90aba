//! A relay that shuts down: it says so, lets run what runs, and begins nothing; and what waits no longer than its host wants.

use host_client::LocalRelay;
use relay_proto::wire;
use relay_proto::wire::message::Payload;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::wire::{Raw, success};
use crate::support::{start_relay, within};

fn execute(id: &str, code: &str, begin_within_ms: u64) -> Payload {
    let (code, execution_id) = (code.into(), id.into());
    Payload::Execute(wire::Execute { code, execution_id, begin_within_ms, ..wire::Execute::default() })
}

fn terminate(relay: &LocalRelay) {
    let pid = Pid::from_raw(relay.process_id().unwrap().cast_signed()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
}

/// Reads the announcement of the end and the ping behind it. Returns both.
async fn announcement(raw: &mut Raw) -> (wire::GoAway, wire::Ping) {
    match (raw.payload().await, raw.payload().await) {
        (Payload::GoAway(go_away), Payload::Ping(ping)) => (go_away, ping),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_relay_that_shuts_down_says_so_and_lets_run_what_runs() {
    let relay = start_relay(&["--drain-ms", "30000"]).await;
    let mut raw = Raw::open(&relay).await;
    raw.hello_with(&["a.b"], &["go_away"]).await;
    raw.send_message(wire::Message { sequence: 2, ..execute("e", "return await mcp.call('a.b')", 0).into() }).await;
    let call = raw.call().await;
    terminate(&relay);
    let (go_away, _ping) = announcement(&mut raw).await;
    assert!((1..=30_000).contains(&go_away.deadline_ms) && !go_away.reason.is_empty(), "{go_away:?}");
    raw.send_message(wire::Message { sequence: 3, ..execute("f", "return 2", 0).into() }).await;
    let refused = raw.error().await;
    assert_eq!((refused.code.as_str(), refused.execution_id.as_str()), ("DRAINING", "f"));
    raw.send_message(wire::Message { sequence: 4, ..success(&call.id, "1").into() }).await;
    match raw.payload().await {
        Payload::Result(result) => assert_eq!((&result.data[..], &*result.execution_id), (&b"1"[..], "e")),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_execution_that_crosses_the_end_of_an_idle_session_is_refused() {
    let relay = start_relay(&["--drain-ms", "30000"]).await;
    let mut raw = Raw::open(&relay).await;
    raw.hello_with(&["a.b"], &["go_away"]).await;
    terminate(&relay);
    let (_, wire::Ping { id }) = announcement(&mut raw).await;
    // The host sends this before it reads the announcement; the answer to the ping comes behind it.
    raw.send_message(wire::Message { sequence: 2, ..execute("e", "return 1", 0).into() }).await;
    raw.send_message(wire::Message { sequence: 3, ..Payload::Pong(wire::Pong { id }).into() }).await;
    let refused = raw.error().await;
    assert_eq!((refused.code.as_str(), refused.execution_id.as_str()), ("DRAINING", "e"));
    let close = raw.close().await;
    assert_eq!(close.code, CloseCode::Away);
}

#[tokio::test]
async fn an_idle_session_whose_host_answers_nothing_does_not_hold_up_the_end() {
    let relay = start_relay(&["--drain-ms", "120000"]).await;
    let mut raw = Raw::open(&relay).await;
    raw.hello_with(&["a.b"], &["go_away"]).await;
    terminate(&relay);
    announcement(&mut raw).await;
    // `close` waits for less time than the drain lasts.
    assert_eq!(raw.close().await.code, CloseCode::Away);
}

#[tokio::test]
async fn a_host_that_does_not_ask_is_told_nothing_new() {
    let relay = start_relay(&["--drain-ms", "30000"]).await;
    let mut raw = Raw::open(&relay).await;
    raw.hello(&["a.b"]).await;
    raw.send_message(wire::Message { sequence: 2, ..execute("e", "return await mcp.call('a.b')", 0).into() }).await;
    let call = raw.call().await;
    terminate(&relay);
    // The next message is the result, as before.
    raw.send_message(wire::Message { sequence: 3, ..success(&call.id, "1").into() }).await;
    match within(raw.payload()).await {
        Payload::Result(result) => assert_eq!(&result.data[..], b"1"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_session_that_is_away_does_not_hold_up_the_end() {
    let relay = start_relay(&["--drain-ms", "30000"]).await;
    let mut raw = Raw::open(&relay).await;
    raw.hello_with(&["a.b"], &["resume"]).await;
    raw.send_message(wire::Message { sequence: 2, ..execute("e", "return await mcp.call('a.b')", 0).into() }).await;
    raw.call().await;
    drop(raw);
    let since = std::time::Instant::now();
    let mut relay = relay;
    terminate(&relay);
    within(async {
        while relay.is_running() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    })
    .await;
    assert!(since.elapsed() < std::time::Duration::from_secs(10), "{:?}", since.elapsed());
}

#[tokio::test]
async fn what_does_not_begin_in_time_does_not_begin() {
    let relay = start_relay(&["--executions", "1"]).await;
    let mut raw = Raw::open(&relay).await;
    let welcome = raw.hello(&["a.b"]).await;
    assert!(welcome.features.iter().any(|feature| feature == "begin_within"), "{welcome:?}");
    raw.send_message(wire::Message { sequence: 2, ..execute("e", "return await mcp.call('a.b')", 300).into() }).await;
    let call = raw.call().await;
    raw.send_message(wire::Message { sequence: 3, ..execute("f", "return 2", 300).into() }).await;
    raw.send_message(wire::Message { sequence: 4, ..execute("g", "return 3", 0).into() }).await;
    let error = raw.error().await;
    assert_eq!((error.code.as_str(), error.execution_id.as_str()), ("OVERLOADED", "f"));
    // The first one began in time, however long it takes.
    raw.send_message(wire::Message { sequence: 5, ..success(&call.id, "1").into() }).await;
    for expected in [json!(1), json!(3)] {
        match raw.payload().await {
            Payload::Result(result) => {
                assert_eq!(serde_json::from_slice::<serde_json::Value>(&result.data).unwrap(), expected);
            }
            other => panic!("{other:?}"),
        }
    }
}
