//! Sequences, acknowledgements, and peers that lie about them.

use std::time::{Duration, Instant};

use relay_proto::wire::message::Payload;
use relay_proto::wire::{self, SessionLoss};
use serde_json::json;

use super::peer::{Peer, SUBJECT, Ticket, execute, feed};
use crate::suite::wire::{call_state, success};
use crate::support::start_relay;

#[tokio::test]
async fn what_was_not_received_comes_again_as_it_was() {
    let relay = start_relay(&[]).await;
    let (mut peer, _) = Peer::hello(&relay, &["a.b"]).await;
    let code = "console.log('said'); return await Promise.all([1, 2].map((n) => mcp.call('a.b', {n})))";
    peer.send(execute("e", code)).await;
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(peer.message().await);
    }
    let ticket = Ticket { received: 1, ..peer.ticket() };
    drop(peer);
    let (mut peer, _) = ticket.resume(&relay).await.unwrap();
    for before in seen {
        let mut again = peer.message().await;
        // The time that is left is fresh, and so is what it acknowledges.
        if let (Some(Payload::ToolCall(again)), Some(Payload::ToolCall(before))) = (&mut again.payload, &before.payload)
        {
            assert!(again.remaining_ms > 0 && again.remaining_ms <= before.remaining_ms, "{again:?}");
            again.remaining_ms = before.remaining_ms;
        }
        assert_eq!(wire::Message { acknowledged: before.acknowledged, ..again }, before);
    }
}

#[tokio::test]
async fn a_host_sends_again_what_the_relay_has_not_received_and_no_more() {
    let relay = start_relay(&[]).await;
    let (mut peer, _) = Peer::hello(&relay, &["a.b"]).await;
    peer.send(execute("e", "return await mcp.call('a.b')")).await;
    let call = peer.call().await;
    let ticket = peer.ticket();
    drop(peer);
    let (mut peer, resumed) = ticket.resume(&relay).await.unwrap();
    assert_eq!(resumed.received, 2);
    // A message that the relay has is out of order now.
    let execute = execute("e", "return await mcp.call('a.b')");
    peer.send_unnumbered(wire::Message { sequence: 2, ..execute.into() }).await;
    peer.send_unnumbered(wire::Message { sequence: 3, ..success(&call.id, "1").into() }).await;
    assert_eq!(peer.error().await.code, "PROTOCOL_ERROR");
}

#[tokio::test]
async fn a_host_that_lies_about_what_it_received_is_told_of_the_gap() {
    let relay = start_relay(&[]).await;
    // What was sent is 2 (welcome and the call); what was acknowledged is 2.
    for received in [3, 99, u64::MAX, 1, 0] {
        let (mut peer, _) = Peer::hello(&relay, &["a.b"]).await;
        peer.send(execute("e", "return await mcp.call('a.b')")).await;
        let call = peer.call().await;
        // With the message's acknowledgement the relay keeps nothing.
        peer.send(call_state(&call, wire::CallStatus::Started)).await;
        let acknowledged = peer.acknowledgement().await;
        assert_eq!(acknowledged, 3);
        let ticket = Ticket { received, ..peer.ticket() };
        drop(peer);
        let refused = ticket.resume(&relay).await.unwrap_err();
        assert_eq!((refused.code.as_str(), refused.loss()), ("SESSION_LOST", SessionLoss::Gap), "received {received}");
    }
}

#[tokio::test]
async fn an_acknowledgement_of_what_was_never_sent_ends_the_session() {
    let relay = start_relay(&[]).await;
    for acknowledged in [2, 99, u64::MAX] {
        let (mut peer, _) = Peer::hello(&relay, &[]).await;
        peer.acknowledge(acknowledged).await;
        assert_eq!(peer.error().await.code, "PROTOCOL_ERROR", "{acknowledged}");
    }
    let (mut peer, _) = Peer::hello(&relay, &[]).await;
    peer.send_unnumbered(wire::Message { sequence: 2, acknowledged: 2, ..Payload::Ping(wire::Ping::default()).into() })
        .await;
    assert_eq!(peer.error().await.code, "PROTOCOL_ERROR");
    // One that goes back is old news.
    let (mut peer, _) = Peer::hello(&relay, &[]).await;
    peer.send(execute("e", "return 1")).await;
    peer.result().await;
    for acknowledged in [2, 1, 0, 2] {
        peer.acknowledge(acknowledged).await;
    }
    peer.send(execute("f", "return 2")).await;
    assert_eq!(peer.result().await, json!(2));
}

#[tokio::test]
async fn a_relay_that_has_nothing_to_say_acknowledges_within_a_second() {
    let relay = start_relay(&[]).await;
    let (mut peer, _) = Peer::hello(&relay, &["a.b"]).await;
    peer.send(execute("e", "return await mcp.call('a.b')")).await;
    let call = peer.call().await;
    peer.send(call_state(&call, wire::CallStatus::Started)).await;
    let sent = Instant::now();
    assert_eq!(peer.acknowledgement().await, 3);
    assert!(sent.elapsed() < Duration::from_secs(3), "{:?}", sent.elapsed());

    // After 64 messages it does not wait for the second.
    let burst = (4..4 + 128).map(|sequence| wire::Message {
        sequence,
        acknowledged: 2,
        ..call_state(&call, wire::CallStatus::Started).into()
    });
    let sent = Instant::now();
    feed(&mut peer.raw, burst).await;
    let first = peer.acknowledgement().await;
    assert!((67..=131).contains(&first), "{first}");
    assert!(sent.elapsed() < Duration::from_secs(1), "{:?}", sent.elapsed());
}

#[tokio::test]
async fn the_same_execution_sent_again_is_the_same_and_another_is_a_fault() {
    let relay = start_relay(&[]).await;
    let (mut peer, _) = Peer::hello(&relay, &["a.b"]).await;
    for _ in 0..3 {
        peer.send(execute("e", "return await mcp.call('a.b')")).await;
    }
    let call = peer.call().await;
    peer.answer(&call, "1").await;
    assert_eq!(peer.result().await, json!(1), "one call, one result");
    peer.send(execute("e", "return 2")).await;
    assert_eq!(peer.error().await.code, "PROTOCOL_ERROR");
}

#[tokio::test]
async fn a_cancel_may_come_twice() {
    let relay = start_relay(&[]).await;
    let (mut peer, _) = Peer::hello(&relay, &["a.b"]).await;
    peer.send(execute("e", "return await mcp.call('a.b')")).await;
    peer.call().await;
    let cancel = || Payload::Cancel(wire::Cancel { execution_id: "e".into(), ..wire::Cancel::default() });
    peer.send(cancel()).await;
    let mut ticket = peer.ticket();
    drop(peer);
    let token = relay.token(&["--subject", SUBJECT]).await.unwrap();
    let (mut peer, resumed) = ticket.resume_with(&relay, &token).await.unwrap();
    // It may have been lost on the way; then it is resent with its sequence.
    if resumed.received == 3 {
        peer.send(cancel()).await;
    } else {
        peer.send_unnumbered(wire::Message { sequence: 3, ..cancel().into() }).await;
        peer.send(cancel()).await;
    }
    let error = loop {
        match peer.payload().await {
            Payload::Error(error) => break error,
            Payload::Cancel(_) => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((error.code.as_str(), error.execution_id.as_str()), ("CANCELLED", "e"));
    ticket = peer.ticket();
    assert!(ticket.received > 2);
    peer.send(execute("f", "return 2")).await;
    assert_eq!(peer.result().await, json!(2));
}
