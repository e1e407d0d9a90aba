//! Two sockets that want the same session: the later one has it, and the earlier one is out first.

use futures_util::StreamExt as _;
use relay_proto::frame;
use relay_proto::wire::message::Payload;
use relay_proto::wire::{self, SessionLoss};
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use super::peer::{Peer, SUBJECT, Ticket, execute, feed};
use crate::suite::wire::success;
use crate::support::{start_relay, within};

/// Reads until the socket has ended, and returns the error that it was told; `None`: it ended without one.
async fn last_word(peer: &mut Peer) -> Option<wire::Error> {
    let mut told = None;
    while let Some(Ok(message)) = within(peer.raw.0.next()).await {
        let Message::Binary(bytes) = message else { continue };
        match frame::decode(bytes).unwrap().payload {
            Some(Payload::Error(error)) if error.execution_id.is_empty() => told = Some(error),
            // A message that was on its way.
            _ => assert!(told.is_none(), "the error is the last word"),
        }
    }
    told
}

#[tokio::test]
async fn the_later_socket_has_the_session() {
    let relay = start_relay(&[]).await;
    let token = relay.token(&["--subject", SUBJECT]).await.unwrap();
    let (mut old, _) = Peer::hello(&relay, &["a.b"]).await;
    old.send(execute("e", "return [await mcp.call('a.b'), await mcp.call('a.b')]")).await;
    let call = old.call().await;
    let (mut new, resumed) = old.ticket().resume_with(&relay, &token).await.unwrap();
    assert_eq!(resumed.received, 2);
    let told = last_word(&mut old).await;
    assert!(told.as_ref().is_none_or(|error| error.code == "SESSION_LOST"), "{told:?}");

    new.answer(&call, "1").await;
    let call = new.call().await;
    new.answer(&call, "2").await;
    assert_eq!(new.result().await, json!([1, 2]));
}

/// What the old socket sends before it notices, in the same instant as the takeover, counts wholly or not at all.
#[tokio::test]
async fn what_the_old_socket_still_sends_is_taken_once_or_dropped() {
    let relay = start_relay(&[]).await;
    let token = relay.token(&["--subject", SUBJECT]).await.unwrap();
    for _ in 0..20 {
        let (mut old, _) = Peer::hello(&relay, &["a.b"]).await;
        old.send(execute("e", "return await Promise.all([1, 2, 3].map(() => mcp.call('a.b')))")).await;
        let calls = [old.call().await, old.call().await, old.call().await];
        let ticket = old.ticket();
        let answers: Vec<_> = (3..)
            .zip(&calls)
            .map(|(sequence, call)| wire::Message { sequence, acknowledged: 4, ..success(&call.id, "1").into() })
            .collect();
        let sending = feed(&mut old.raw, answers.clone());
        let (resumed, ()) = tokio::join!(ticket.resume_with(&relay, &token), sending);
        let (mut new, resumed) = resumed.unwrap();
        assert!((2..=5).contains(&resumed.received), "{resumed:?}");
        // The host resends what the relay has not received, as it was.
        let missing = answers.into_iter().filter(|answer| answer.sequence > resumed.received);
        feed(&mut new.raw, missing).await;
        assert_eq!(new.result().await, json!([1, 1, 1]));
        new.close().await;
    }
}

#[tokio::test]
async fn of_two_that_resume_at_once_one_goes_on() {
    let relay = start_relay(&[]).await;
    let token = relay.token(&["--subject", SUBJECT]).await.unwrap();
    for _ in 0..20 {
        let (mut peer, _) = Peer::hello(&relay, &["a.b"]).await;
        peer.send(execute("e", "return await mcp.call('a.b')")).await;
        let call = peer.call().await;
        let ticket = peer.ticket();
        drop(peer);
        let both = tokio::join!(ticket.try_resume_with(&relay, &token), ticket.try_resume_with(&relay, &token));
        // The one that came first was let in, too, or is out before it was.
        let mut there: Vec<_> = [both.0, both.1].into_iter().flatten().flatten().collect();
        there.sort_by_key(|(_, resumed)| resumed.epoch);
        let (mut later, _) = there.pop().unwrap();
        if let Some((mut earlier, _)) = there.pop() {
            last_word(&mut earlier).await;
        }
        later.answer(&call, "7").await;
        assert_eq!(later.result().await, json!(7));
        let refused = ticket.resume_with(&relay, &token).await.unwrap_err();
        assert_eq!(refused.loss(), SessionLoss::Epoch);
        later.close().await;
    }
}

#[tokio::test]
async fn a_session_is_taken_over_while_it_is_replayed() {
    let relay = start_relay(&[]).await;
    let token = relay.token(&["--subject", SUBJECT]).await.unwrap();
    let (mut peer, _) = Peer::hello(&relay, &["a.b"]).await;
    let code =
        "return (await Promise.all(Array.from({length: 60}, (_, n) => mcp.call('a.b', {n, text: 'x'.repeat(50_000)}))))
        .reduce((a, b) => a + b, 0)";
    peer.send(execute("e", code)).await;
    peer.call().await;
    // All calls have arrived at none of these sockets: each is dropped after some of them.
    let mut ticket = peer.ticket();
    ticket.received = 1;
    drop(peer);
    for read in [0, 1, 7, 30] {
        let (mut peer, _) = ticket.resume_with(&relay, &token).await.unwrap();
        for _ in 0..read {
            peer.call().await;
        }
        // Nothing is acknowledged, so that all of it comes again.
        let next = peer.ticket();
        (ticket.epoch, ticket.secret) = (next.epoch, next.secret);
        drop(peer);
    }
    let (mut peer, _) = ticket.resume_with(&relay, &token).await.unwrap();
    for n in 0..60 {
        let call = peer.call().await;
        assert!(call.arguments.starts_with(format!("{{\"n\":{n},").as_bytes()), "call {n} comes in its order");
        peer.answer(&call, &n.to_string()).await;
    }
    assert_eq!(peer.result().await, json!(59 * 30));
}

/// The old socket is full, for nobody reads it: it cannot hold up the one that comes after it.
#[tokio::test]
async fn an_old_socket_that_nobody_reads_is_no_obstacle() {
    let relay = start_relay(&[]).await;
    let token = relay.token(&["--subject", SUBJECT]).await.unwrap();
    let (mut old, _) = Peer::hello(&relay, &["a.b"]).await;
    let code = "const text = 'x'.repeat(1_000_000);
        return (await Promise.all(Array.from({length: 12}, () => mcp.call('a.b', text)))).length";
    old.send(execute("e", code)).await;
    old.call().await;
    let ticket = old.ticket();
    // More is on its way than the socket takes.
    let (mut new, _) = ticket.resume_with(&relay, &token).await.unwrap();
    let mut calls = Vec::new();
    while calls.len() < 11 {
        calls.push(new.call().await);
    }
    new.close().await;
    drop(old);
}

/// A host gives an attempt up and makes another, and the first one reaches the relay last: it must not throw its own host out.
#[tokio::test]
async fn an_attempt_that_comes_late_takes_nothing_over() {
    let relay = start_relay(&[]).await;
    let token = relay.token(&["--subject", SUBJECT]).await.unwrap();
    let (mut peer, _) = Peer::hello(&relay, &["a.b"]).await;
    peer.send(execute("e", "return await mcp.call('a.b')")).await;
    let call = peer.call().await;
    let ticket = peer.ticket();
    drop(peer);
    let attempt = |attempt| Ticket { attempt, ..ticket.clone() };
    let (mut peer, _) = attempt(2).resume_with(&relay, &token).await.unwrap();
    for late in [1, 2] {
        let refused = attempt(late).resume_with(&relay, &token).await.unwrap_err();
        assert_eq!(refused.loss(), SessionLoss::Epoch, "attempt {late}");
    }
    peer.answer(&call, "1").await;
    assert_eq!(peer.result().await, json!(1));
    let newest = Ticket { attempt: 3, ..peer.ticket() };
    drop(peer);
    let (mut peer, _) = newest.resume_with(&relay, &token).await.unwrap();
    peer.send(execute("f", "return 2")).await;
    assert_eq!(peer.result().await, json!(2));
}
