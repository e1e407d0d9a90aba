//! Sessions that survive their socket, seen by a host that speaks the wire by hand: who may go on with a session, from
//! where, and what that costs the relay.

mod bounds;
mod clocks;
mod counts;
mod jumps;
mod peer;
mod secrets;
mod takeover;

use relay_proto::wire;
use relay_proto::wire::message::Payload;
use serde_json::json;

use super::wire::Raw;
use crate::support::{start_relay, within};
use peer::{Peer, execute};

#[tokio::test]
async fn a_session_goes_on_over_another_socket() {
    let relay = start_relay(&[]).await;
    let (mut peer, welcome) = Peer::hello(&relay, &["a.b"]).await;
    assert_eq!((welcome.resume_secret.len(), welcome.epoch, welcome.resume_window_ms), (32, 1, 60_000));
    assert_eq!(welcome.unacknowledged_bytes, 16 << 20);
    peer.send(execute("e", "return [await mcp.call('a.b', {n: 1}), await mcp.call('a.b', {n: 2})]")).await;
    let first = peer.call().await;
    let mut ticket = peer.ticket();
    drop(peer);

    // The answer goes over the second socket, and the next call comes over it.
    let (mut peer, resumed) = ticket.resume(&relay).await.unwrap();
    assert!(resumed.epoch > 1 && resumed.secret.len() == 32, "{resumed:?}");
    assert_ne!(resumed.secret, welcome.resume_secret);
    assert_eq!((resumed.received, &resumed.executions[..]), (2, &["e".to_owned()][..]));
    assert!(resumed.expires_in_ms > 0 && resumed.limits == welcome.limits, "{resumed:?}");
    peer.answer(&first, "1").await;
    let second = peer.call().await;
    assert_eq!(&second.arguments[..], br#"{"n":2}"#);
    ticket = peer.ticket();
    drop(peer);

    // The same again, and the value comes over the third.
    let (mut peer, resumed) = ticket.resume(&relay).await.unwrap();
    assert_eq!(resumed.received, 3);
    peer.answer(&second, "2").await;
    assert_eq!(peer.result().await, json!([1, 2]));
    ticket = peer.ticket();
    drop(peer);
    let (_, resumed) = ticket.resume(&relay).await.unwrap();
    assert!(resumed.executions.is_empty(), "{resumed:?}");
}

#[tokio::test]
async fn a_host_that_has_its_welcome_alone_can_resume() {
    let relay = start_relay(&[]).await;
    let (peer, _) = Peer::hello(&relay, &["a.b"]).await;
    let ticket = peer.ticket();
    drop(peer);
    let (mut peer, resumed) = ticket.resume(&relay).await.unwrap();
    assert_eq!(resumed.received, 1);
    peer.send(execute("e", "return 7")).await;
    assert_eq!(peer.result().await, json!(7));
}

#[tokio::test]
async fn code_that_ends_meanwhile_keeps_its_outcome() {
    let relay = start_relay(&[]).await;
    let (mut peer, _) = Peer::hello(&relay, &[]).await;
    peer.send(execute("e", "console.log('said'); return 'done'")).await;
    let ticket = peer.ticket();
    drop(peer);
    let nothing_runs = async || peer::load(&relay).await == 0;
    crate::support::until_async(nothing_runs).await;
    let (mut peer, resumed) = ticket.resume(&relay).await.unwrap();
    assert!(resumed.executions.is_empty() || resumed.executions == ["e"], "{resumed:?}");
    assert_eq!(peer.output().await, "said");
    assert_eq!(peer.result().await, json!("done"));
}

#[tokio::test]
async fn a_session_that_is_closed_is_over() {
    let relay = start_relay(&[]).await;
    let (peer, _) = Peer::hello(&relay, &[]).await;
    let ticket = peer.ticket();
    peer.close().await;
    crate::support::until_async(async || peer::connected(&relay).await == 0).await;
    let refused = ticket.resume(&relay).await.unwrap_err();
    assert_eq!((refused.code.as_str(), refused.loss()), ("SESSION_LOST", wire::SessionLoss::Unknown));
}

#[tokio::test]
async fn a_session_that_broke_the_protocol_is_over() {
    let relay = start_relay(&[]).await;
    let (mut peer, _) = Peer::hello(&relay, &[]).await;
    let ticket = peer.ticket();
    peer.send(Payload::Welcome(wire::Welcome::default())).await;
    assert_eq!(peer.error().await.code, "PROTOCOL_ERROR");
    drop(peer);
    crate::support::until_async(async || peer::connected(&relay).await == 0).await;
    assert_eq!(ticket.resume(&relay).await.unwrap_err().loss(), wire::SessionLoss::Unknown);
}

#[tokio::test]
async fn the_feature_is_on_only_if_both_want_it() {
    let relay = start_relay(&[]).await;
    // A host of the version before lists nothing.
    let mut raw = Raw::open(&relay).await;
    let welcome = raw.hello(&[]).await;
    assert!(welcome.resume_secret.is_empty() && welcome.epoch == 0, "{welcome:?}");
    assert_eq!((welcome.resume_window_ms, welcome.unacknowledged_bytes), (0, 0));
    assert!(welcome.features.iter().any(|feature| feature == "resume"), "it is offered");
    let ticket = peer::Ticket {
        session_id: welcome.session_id,
        epoch: 1,
        secret: vec![0; 32],
        sent: 1,
        received: 1,
        attempt: 0,
    };
    drop(raw);
    crate::support::until_async(async || peer::connected(&relay).await == 0).await;
    assert_eq!(ticket.resume(&relay).await.unwrap_err().loss(), wire::SessionLoss::Unknown);

    let relay = start_relay(&["--resume-window-ms", "0"]).await;
    let mut raw = Raw::open(&relay).await;
    let welcome = raw.hello_with(&[], &["resume"]).await;
    assert!(welcome.resume_secret.is_empty() && !welcome.features.iter().any(|it| it == "resume"), "{welcome:?}");
    drop(raw);
    assert_eq!(ticket.resume(&relay).await.unwrap_err().loss(), wire::SessionLoss::Unknown);
}

#[tokio::test]
async fn a_basic_peer_ends_with_its_socket() {
    let relay = start_relay(&[]).await;
    let mut raw = Raw::open(&relay).await;
    raw.execute("await mcp.call('host.a')").await;
    raw.call().await;
    assert_eq!(peer::load(&relay).await, 1);
    drop(raw);
    crate::support::until_async(async || peer::load(&relay).await == 0).await;
}

#[tokio::test]
async fn resume_is_the_first_message_of_a_socket_or_none() {
    let relay = start_relay(&[]).await;
    let (peer, _) = Peer::hello(&relay, &[]).await;
    let ticket = peer.ticket();
    // In a session of its own.
    let (mut other, _) = Peer::hello(&relay, &[]).await;
    other.send_unnumbered(ticket.message().into()).await;
    assert_eq!(other.error().await.code, "PROTOCOL_ERROR");
    // Twice over the same socket.
    let (mut twice, _) = ticket.resume(&relay).await.unwrap();
    twice.send_unnumbered(ticket.message().into()).await;
    assert_eq!(twice.error().await.code, "PROTOCOL_ERROR");
    // After an execution of a basic peer.
    let mut raw = Raw::open(&relay).await;
    raw.execute("await mcp.call('host.a')").await;
    raw.call().await;
    raw.send_message(ticket.message().into()).await;
    assert_eq!(raw.error().await.code, "PROTOCOL_ERROR");
    drop(peer);
}

#[tokio::test]
async fn the_token_of_the_new_socket_counts() {
    let relay = start_relay(&[]).await;
    let (peer, _) = Peer::hello(&relay, &["a.b", "a.c"]).await;
    let ticket = peer.ticket();
    drop(peer);
    let arguments = ["--subject", peer::SUBJECT, "--tools", "a.b", "--limit", "tool_calls=2"];
    let token = relay.token(&arguments).await.unwrap();
    let (mut peer, resumed) = ticket.resume_with(&relay, &token).await.unwrap();
    assert_eq!((resumed.limits["tool_calls"], &resumed.tools[..]), (2, &["a.b".to_owned()][..]));
    peer.send(execute("e", "return await mcp.call('a.c').catch((error) => error.code)")).await;
    assert_eq!(peer.result().await, json!("UNKNOWN_TOOL"));
    within(peer.close()).await;
}
