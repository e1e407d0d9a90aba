//! Time while nobody is connected: the window, and the clocks of executions that stand still within it.

use std::time::{Duration, Instant};

use host_client::LocalRelay;
use relay_proto::wire::message::Payload;
use relay_proto::wire::{self, SessionLoss};
use serde_json::json;

use super::peer::{Peer, SUBJECT, execute, limited, load};
use crate::suite::wire::{Raw, call_state};
use crate::support::{start_relay, until_async, within};

#[tokio::test]
async fn clocks_stand_still_while_nobody_is_connected() {
    let relay = start_relay(&[]).await;
    let (mut peer, _) = Peer::hello(&relay, &["a.b"]).await;
    let limits = [("wall_ms", 1_000), ("tool_call_ms", 800)];
    peer.send(limited("e", "await mcp.call('a.b'); return await mcp.call('a.b')", &limits)).await;
    let call = peer.call().await;
    let ticket = peer.ticket();
    drop(peer);
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let (mut peer, _) = ticket.resume(&relay).await.unwrap();
    peer.answer(&call, "1").await;
    let call = peer.call().await;
    assert!((1..=800).contains(&call.remaining_ms), "{call:?}");
    peer.answer(&call, "2").await;
    assert_eq!(peer.result().await, json!(2));
}

#[tokio::test]
async fn a_call_that_is_made_meanwhile_has_all_its_time() {
    let relay = start_relay(&[]).await;
    let (mut peer, _) = Peer::hello(&relay, &["a.b"]).await;
    let code = "await new Promise((go) => setTimeout(go, 100)); return await mcp.call('a.b')";
    let Payload::Execute(request) = limited("e", code, &[("tool_call_ms", 300)]) else { unreachable!() };
    peer.send(Payload::Execute(wire::Execute { bindings: vec!["timers".into()], ..request })).await;
    until_async(async || load(&relay).await == 1).await;
    let ticket = peer.ticket();
    drop(peer);
    tokio::time::sleep(Duration::from_millis(800)).await;
    let (mut peer, _) = ticket.resume(&relay).await.unwrap();
    let call = peer.call().await;
    assert!((1..=300).contains(&call.remaining_ms), "{call:?}");
    peer.answer(&call, "1").await;
    assert_eq!(peer.result().await, json!(1));
}

#[tokio::test]
async fn an_approval_has_its_time_when_the_host_is_back() {
    let relay = start_relay(&[]).await;
    let (mut peer, _) = Peer::hello(&relay, &["a.b"]).await;
    peer.send(limited("e", "return await mcp.call('a.b')", &[("approval_ms", 500), ("tool_call_ms", 500)])).await;
    let call = peer.call().await;
    peer.send(call_state(&call, wire::CallStatus::AwaitingApproval)).await;
    // The relay has it when it answers what comes after it.
    peer.send(Payload::Ping(wire::Ping::default())).await;
    assert!(matches!(peer.payload().await, Payload::Pong(_)));
    let ticket = peer.ticket();
    drop(peer);
    tokio::time::sleep(Duration::from_millis(1_000)).await;
    let (mut peer, _) = ticket.resume(&relay).await.unwrap();
    peer.send(call_state(&call, wire::CallStatus::Started)).await;
    peer.answer(&call, "1").await;
    assert_eq!(peer.result().await, json!(1));
}

/// A token has 5 s more than it says. It expires while nobody is connected, and a newer one of the same subject is as good.
#[tokio::test]
async fn a_token_that_expires_meanwhile_is_replaced() {
    let relay = start_relay(&[]).await;
    let short = relay.token(&["--subject", SUBJECT, "--ttl", "0s"]).await.unwrap();
    let raw = Raw::open_with_token(&relay, &short).await.unwrap();
    let (mut peer, _) = Peer::hello_over(raw, &["a.b"]).await;
    peer.send(execute("e", "return await mcp.call('a.b')")).await;
    let call = peer.call().await;
    let ticket = peer.ticket();
    drop(peer);
    tokio::time::sleep(Duration::from_millis(6_500)).await;
    Raw::open_to_resume(&relay, &short).await.unwrap_err();
    let (mut peer, resumed) = ticket.resume(&relay).await.unwrap();
    assert!(resumed.expires_in_ms > 60_000, "{resumed:?}");
    peer.answer(&call, "1").await;
    assert_eq!(peer.result().await, json!(1));
}

#[tokio::test]
async fn clocks_stand_still_for_no_longer_than_the_window_in_all() {
    let relay = start_relay(&["--resume-window-ms", "1000"]).await;
    let (mut peer, _) = Peer::hello(&relay, &["a.b"]).await;
    peer.send(limited("e", "return await mcp.call('a.b')", &[("wall_ms", 800)])).await;
    let _call = peer.call().await;
    // A host that is never there for long.
    let started = Instant::now();
    let error = loop {
        let ticket = peer.ticket();
        drop(peer);
        tokio::time::sleep(Duration::from_millis(400)).await;
        (peer, _) = ticket.resume(&relay).await.unwrap();
        // A message of this epoch, so that the next resume is another one.
        peer.acknowledge(2).await;
        if let Ok(error) = tokio::time::timeout(Duration::from_millis(1), peer.payload()).await {
            break error;
        }
        assert!(started.elapsed() < Duration::from_secs(30), "the clock stands still for ever");
    };
    assert!(format!("{error:?}").contains("TIMEOUT") || format!("{error:?}").contains("Cancel"), "{error:?}");
    assert!(started.elapsed() >= Duration::from_millis(1_700), "{:?}", started.elapsed());
}

/// Returns the processor time that the relay itself has used.
fn processor_time(relay: &LocalRelay) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", relay.process_id().unwrap())).unwrap();
    // Behind the name, which ends with the last bracket: user and system time are the 12th and 13th field, in 1/100 s.
    let fields: Vec<_> = stat.rsplit_once(')').unwrap().1.split_ascii_whitespace().collect();
    Duration::from_millis(10 * (fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()))
}

/// Once the time for standing still is used up, the relay has nothing to do until the host is back.
#[tokio::test]
async fn clocks_that_go_on_without_a_host_keep_the_relay_from_nothing() {
    let relay = start_relay(&["--resume-window-ms", "1500"]).await;
    let (mut peer, _) = Peer::hello(&relay, &["a.b"]).await;
    peer.send(limited("e", "return await mcp.call('a.b')", &[("cpu_ms", 100)])).await;
    let call = peer.call().await;
    let ticket = peer.ticket();
    drop(peer);
    tokio::time::sleep(Duration::from_millis(1_000)).await;
    let (mut peer, _) = ticket.resume(&relay).await.unwrap();
    peer.acknowledge(2).await;
    let ticket = peer.ticket();
    drop(peer);
    // The clocks stand still for 500 ms more, and go on then.
    tokio::time::sleep(Duration::from_millis(600)).await;
    let before = processor_time(&relay);
    tokio::time::sleep(Duration::from_millis(600)).await;
    let used = processor_time(&relay).saturating_sub(before);
    assert!(used < Duration::from_millis(200), "{used:?} in 600 ms");
    let (mut peer, _) = ticket.resume(&relay).await.unwrap();
    peer.answer(&call, "1").await;
    assert_eq!(peer.result().await, json!(1));
}

#[tokio::test]
async fn cpu_time_never_stands_still() {
    let relay = start_relay(&[]).await;
    let (mut peer, _) = Peer::hello(&relay, &[]).await;
    peer.send(limited("e", "for (;;);", &[("cpu_ms", 300), ("wall_ms", 60_000)])).await;
    until_async(async || load(&relay).await == 1).await;
    let ticket = peer.ticket();
    drop(peer);
    // It ends while nobody is there.
    until_async(async || load(&relay).await == 0).await;
    let (mut peer, _) = ticket.resume(&relay).await.unwrap();
    assert_eq!(peer.error().await.code, "CPU_LIMIT");
}

#[tokio::test]
async fn a_window_that_is_over_ends_what_runs() {
    let relay = start_relay(&["--resume-window-ms", "300", "--executions", "1"]).await;
    let (mut peer, welcome) = Peer::hello(&relay, &["a.b"]).await;
    assert_eq!(welcome.resume_window_ms, 300);
    peer.send(execute("e", "return await mcp.call('a.b')")).await;
    peer.call().await;
    let mut ticket = peer.ticket();
    drop(peer);
    // The relay's one place is taken until then.
    let (mut other, _) = Peer::hello(&relay, &[]).await;
    let started = Instant::now();
    other.send(execute("f", "return 2")).await;
    assert_eq!(other.result().await, json!(2));
    assert!(started.elapsed() >= Duration::from_millis(200), "{:?}", started.elapsed());
    let refused = ticket.resume(&relay).await.unwrap_err();
    assert_eq!((refused.code.as_str(), refused.loss()), ("SESSION_LOST", SessionLoss::Expired));
    // Without its secret it is as if it had never been.
    ticket.secret[0] ^= 1;
    let refused = ticket.resume(&relay).await.unwrap_err();
    assert_eq!(refused.loss(), SessionLoss::Unknown);
}

/// Resumes at every point around the end of the window: each attempt goes on or is refused, and none hangs.
#[tokio::test]
async fn at_the_windows_edge_a_session_goes_on_or_is_lost() {
    let relay = start_relay(&["--resume-window-ms", "100"]).await;
    let (mut went_on, mut lost) = (0, 0);
    let token = relay.token(&["--subject", SUBJECT]).await.unwrap();
    for step in 0..40_u64 {
        let (mut peer, _) = Peer::hello(&relay, &["a.b"]).await;
        peer.send(execute("e", "return await mcp.call('a.b')")).await;
        let call = peer.call().await;
        let ticket = peer.ticket();
        drop(peer);
        tokio::time::sleep(Duration::from_millis(80 + step)).await;
        match within(ticket.resume_with(&relay, &token)).await {
            Ok((mut peer, _)) => {
                peer.answer(&call, "1").await;
                assert_eq!(peer.result().await, json!(1));
                went_on += 1;
            }
            Err(refused) => {
                assert_eq!(refused.loss(), SessionLoss::Expired);
                lost += 1;
            }
        }
    }
    assert!(went_on + lost == 40 && lost > 0, "{went_on} went on, {lost} were lost");
    until_async(async || load(&relay).await == 0).await;
}
