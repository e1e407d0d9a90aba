//! What is kept for a host that is away, or that never acknowledges: all of it, within its bounds.

use std::time::Duration;

use host_client::LocalRelay;
use relay_proto::wire;
use relay_proto::wire::message::Payload;
use serde_json::json;

use super::peer::{Peer, SUBJECT, Ticket, connected, detached, execute, limited, load};
use crate::suite::wire::Raw;
use crate::support::{start_relay, until_async};

/// Returns the relay's resident memory in bytes.
fn resident(relay: &LocalRelay) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", relay.process_id().unwrap())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Makes 60 calls at once, of 1 MB each.
const LARGE_CALLS: &str = "const text = 'x'.repeat(1_000_000);
    const all = await Promise.all(Array.from({length: 60}, (_, n) => mcp.call('a.b', {n, text})));
    return all.reduce((a, b) => a + b, 0)";

#[tokio::test]
async fn a_host_that_is_away_loses_no_call_and_costs_no_more_than_its_share() {
    let relay = start_relay(&[]).await;
    let (mut peer, welcome) = Peer::hello(&relay, &["a.b"]).await;
    let kept = welcome.unacknowledged_bytes;
    let before = resident(&relay);
    let limits = [("heap_bytes", 512 << 20), ("memory_bytes", 1 << 30), ("arguments_bytes", 10 << 20)];
    peer.send(limited("e", LARGE_CALLS, &limits)).await;
    let first = peer.call().await;
    let ticket = peer.ticket();
    drop(peer);
    // Time for all of it to be made, were there no bound.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let grown = resident(&relay).saturating_sub(before);
    assert!(grown < 2 * kept + (16 << 20), "{} MB for {} MB kept", grown >> 20, kept >> 20);
    let (mut peer, _) = ticket.resume(&relay).await.unwrap();
    peer.answer(&first, "0").await;
    for n in 1..60 {
        let call = peer.call().await;
        assert!(call.arguments.starts_with(format!("{{\"n\":{n},").as_bytes()), "call {n} comes in its order");
        peer.answer(&call, &n.to_string()).await;
    }
    assert_eq!(peer.result().await, json!(59 * 30));
}

#[tokio::test]
async fn a_host_that_never_acknowledges_is_sent_no_more_than_is_kept() {
    let relay = start_relay(&[]).await;
    let (mut peer, welcome) = Peer::hello(&relay, &["a.b"]).await;
    let limits = [("heap_bytes", 512 << 20), ("memory_bytes", 1 << 30), ("arguments_bytes", 10 << 20)];
    peer.send(limited("e", LARGE_CALLS, &limits)).await;
    let (mut calls, mut bytes) = (Vec::new(), 0);
    while let Ok(call) = tokio::time::timeout(Duration::from_millis(500), peer.call()).await {
        bytes += call.arguments.len() as u64;
        calls.push(call);
    }
    assert!(!calls.is_empty() && bytes <= welcome.unacknowledged_bytes + (2 << 20), "{} calls", calls.len());
    // Others are served meanwhile.
    let (mut other, _) = Peer::hello(&relay, &[]).await;
    other.send(execute("f", "return 2")).await;
    assert_eq!(other.result().await, json!(2));
    // It goes on where it stood, with the acknowledgement alone.
    peer.acknowledge(peer.ticket().received).await;
    while calls.len() < 60 {
        let call = peer.call().await;
        peer.acknowledge(peer.ticket().received).await;
        calls.push(call);
    }
    for (n, call) in calls.iter().enumerate() {
        peer.answer(call, &n.to_string()).await;
    }
    assert_eq!(peer.result().await, json!(59 * 30));
}

/// The acknowledgement that makes room may stand behind a question whose answer waits for room.
#[tokio::test]
async fn an_answer_that_waits_for_room_does_not_keep_the_relay_from_reading_on() {
    let relay = start_relay(&[]).await;
    let limits = ["--limit", "tool_calls_in_flight=1024", "--limit", "tool_calls=1024"];
    let token = relay.token(&[&["--subject", SUBJECT], &limits[..]].concat()).await.unwrap();
    let (mut peer, _) = Peer::hello_over(Raw::open_with_token(&relay, &token).await.unwrap(), &["a.b"]).await;
    // More calls than are kept and queued.
    let code = "await Promise.all(Array.from({length: 1_024}, () => mcp.call('a.b')))";
    for id in ["1", "2", "3", "4", "5"] {
        peer.send(execute(id, code)).await;
    }
    let mut calls = 0;
    while tokio::time::timeout(Duration::from_millis(500), peer.call()).await.is_ok() {
        calls += 1;
    }
    assert!((3_000..5_120).contains(&calls), "{calls}");
    let ping = wire::Message {
        sequence: peer.ticket().sent + 1,
        acknowledged: 1,
        ..Payload::Ping(wire::Ping { id: "there?".into() }).into()
    };
    peer.send_unnumbered(ping).await;
    peer.acknowledge(peer.ticket().received).await;
    let pong = loop {
        match peer.payload().await {
            Payload::ToolCall(_) => calls += 1,
            other => break other,
        }
        peer.acknowledge(peer.ticket().received).await;
    };
    assert_eq!(pong, Payload::Pong(wire::Pong { id: "there?".into() }));
    assert!(calls <= 5_120);
}

#[tokio::test]
async fn small_messages_are_bounded_by_their_number() {
    let relay = start_relay(&[]).await;
    let (mut peer, _) = Peer::hello(&relay, &[]).await;
    // A line of output each, at most as often as the worker yields.
    let code = "for (let n = 0; n < 6_000; n++) { console.log(n); await null } return 'all'";
    let mut ticket = peer.ticket();
    peer.send(limited("e", code, &[("output_count", 100_000), ("output_bytes", 4 << 20)])).await;
    ticket.sent += 1;
    drop(peer);
    let (mut peer, mut lines) = (ticket.resume(&relay).await.unwrap().0, 0);
    let value = loop {
        match peer.payload().await {
            Payload::Output(output) => {
                for item in output.items {
                    assert_eq!(item.text, lines.to_string(), "nothing is lost and nothing comes twice");
                    lines += 1;
                }
                peer.acknowledge(peer.ticket().received).await;
            }
            Payload::Result(result) => break result,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((&value.data[..], lines), (&b"\"all\""[..], 6_000));
}

#[tokio::test]
async fn a_session_that_is_away_counts_as_one_of_its_subject() {
    let relay = start_relay(&["--subject-connections", "2"]).await;
    let token = relay.token(&["--subject", SUBJECT]).await.unwrap();
    let (mut one, _) = Peer::hello(&relay, &["a.b"]).await;
    one.send(execute("e", "return await mcp.call('a.b')")).await;
    let call = one.call().await;
    let (two, _) = Peer::hello(&relay, &[]).await;
    let ticket = one.ticket();
    drop(one);
    // There is no room for a third session, and there is for the one that comes back.
    until_async(async || detached(&relay).await == 1).await;
    Raw::open_with_token(&relay, &token).await.unwrap_err();
    let (mut one, _) = ticket.resume_with(&relay, &token).await.unwrap();
    one.answer(&call, "1").await;
    assert_eq!(one.result().await, json!(1));
    Raw::open_with_token(&relay, &token).await.unwrap_err();
    // Sockets that may only resume are few, and may do nothing else.
    let mut idle = Vec::new();
    while let Ok(raw) = Raw::open_to_resume(&relay, &token).await {
        idle.push(raw);
        assert!(idle.len() <= 8, "no end of sockets");
    }
    let mut raw = idle.pop().unwrap();
    let hello = wire::Hello { protocol_version: 1, ..wire::Hello::default() };
    raw.send_message(wire::Message { sequence: 1, ..Payload::Hello(hello).into() }).await;
    assert_eq!(raw.error().await.code, "PROTOCOL_ERROR");
    drop((idle, two));
}

#[tokio::test]
async fn many_sessions_that_are_away_end_with_their_window() {
    let relay = start_relay(&["--resume-window-ms", "500", "--subject-connections", "200"]).await;
    let token = relay.token(&["--subject", SUBJECT]).await.unwrap();
    let pid = relay.process_id().unwrap();
    let descriptors = || std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    let at_rest = descriptors();
    let mut tickets: Vec<Ticket> = Vec::new();
    for _ in 0..100 {
        let raw = Raw::open_with_token(&relay, &token).await.unwrap();
        let (mut peer, _) = Peer::hello_over(raw, &["a.b"]).await;
        peer.send(execute("e", "return 'x'.repeat(100_000)")).await;
        tickets.push(peer.ticket());
    }
    until_async(async || connected(&relay).await + detached(&relay).await == 0).await;
    until_async(async || load(&relay).await == 0).await;
    // Workers that are made ahead hold two each.
    crate::support::until(|| descriptors() <= at_rest + 40).await;
    for ticket in tickets {
        ticket.resume_with(&relay, &token).await.unwrap_err();
    }
}
