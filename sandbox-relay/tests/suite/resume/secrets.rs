//! Who may go on with a session: the subject that has its newest secret, and nobody else learns that it exists.

use std::sync::Arc;

use relay_proto::wire::SessionLoss;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::peer::{Peer, SUBJECT, Ticket, connected, execute};
use crate::support::{start_relay, until_async};

#[tokio::test]
async fn strangers_get_the_answer_for_a_session_that_never_was() {
    let relay = start_relay(&[]).await;
    let (mut peer, _) = Peer::hello(&relay, &["a.b"]).await;
    peer.send(execute("e", "return await mcp.call('a.b')")).await;
    let call = peer.call().await;
    let good = peer.ticket();
    drop(peer);
    let own = relay.token(&["--subject", SUBJECT]).await.unwrap();
    let foreign = relay.token(&["--subject", "other"]).await.unwrap();
    let never = Ticket { session_id: "never".into(), ..good.clone() };
    let expected = never.resume_with(&relay, &own).await.unwrap_err();
    assert_eq!((expected.code.as_str(), expected.loss()), ("SESSION_LOST", SessionLoss::Unknown));

    let with_secret = |secret: &[u8]| Ticket { secret: secret.to_vec(), ..good.clone() };
    let mut flipped = good.secret.clone();
    flipped[31] ^= 1;
    let long = [&good.secret[..], &[0]].concat();
    let strangers = [
        ("another secret", with_secret(&[7; 32]), &own),
        ("one bit of it", with_secret(&flipped), &own),
        ("no secret", with_secret(b""), &own),
        ("half of it", with_secret(&good.secret[..16]), &own),
        ("more than it", with_secret(&long), &own),
        ("an older epoch with no secret", Ticket { epoch: 0, ..with_secret(b"") }, &own),
        ("a received that was never sent", Ticket { received: 99, ..with_secret(&[7; 32]) }, &own),
        ("another subject with the secret", good.clone(), &foreign),
        ("another subject without it", with_secret(&[7; 32]), &foreign),
        ("no id", Ticket { session_id: String::new(), ..good.clone() }, &own),
        ("a long id", Ticket { session_id: "x".repeat(60), ..good.clone() }, &own),
    ];
    for (name, ticket, token) in strangers {
        let refused = ticket.resume_with(&relay, token).await.unwrap_err();
        assert_eq!(refused, expected, "{name}");
    }

    // Nothing has moved: the host goes on with what it had.
    let (mut peer, resumed) = good.resume_with(&relay, &own).await.unwrap();
    assert_eq!(resumed.epoch, 2);
    peer.answer(&call, "1").await;
    assert_eq!(peer.result().await, json!(1));
}

#[tokio::test]
async fn ten_thousand_wrong_secrets_move_nothing() {
    let relay = Arc::new(start_relay(&["--address-connections", "1000"]).await);
    let (mut peer, _) = Peer::hello(&relay, &["a.b"]).await;
    peer.send(execute("e", "let sum = 0; for (;;) { const n = await mcp.call('a.b'); if (!n) return sum; sum += n }"))
        .await;
    let token: Arc<str> = relay.token(&["--subject", SUBJECT]).await.unwrap().into();
    let pid = relay.process_id().unwrap();
    let descriptors = || std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    let at_rest = descriptors();
    let (good, places, mut attempts) = (peer.ticket(), Arc::new(Semaphore::new(8)), JoinSet::new());
    for number in 0..10_000_u64 {
        let place = Arc::clone(&places).acquire_owned().await.unwrap();
        // Every epoch that a guesser may try.
        let secret = number.to_be_bytes().repeat(4);
        let ticket = Ticket { epoch: number % 4, secret, received: number % 3, ..good.clone() };
        let (relay, token) = (Arc::clone(&relay), Arc::clone(&token));
        attempts.spawn(async move {
            let refused = ticket.resume_with(&relay, &token).await.unwrap_err();
            drop(place);
            refused.loss()
        });
        // Meanwhile the session works.
        if number % 100 == 0 {
            let call = peer.call().await;
            peer.answer(&call, "1").await;
        }
    }
    while let Some(loss) = attempts.join_next().await {
        assert_eq!(loss.unwrap(), SessionLoss::Unknown);
    }
    let call = peer.call().await;
    peer.answer(&call, "0").await;
    assert_eq!(peer.result().await, json!(100));
    let ticket = peer.ticket();
    drop(peer);
    let (_peer, resumed) = ticket.resume_with(&relay, &token).await.unwrap();
    assert_eq!(resumed.epoch, 2, "no attempt has raised it");
    until_async(async || connected(&relay).await == 1).await;
    // Workers that are made ahead hold two each.
    crate::support::until(|| descriptors() <= at_rest + 40).await;
}

#[tokio::test]
async fn a_resumed_that_was_lost_locks_nobody_out() {
    let relay = start_relay(&[]).await;
    let token = relay.token(&["--subject", SUBJECT]).await.unwrap();
    let (mut peer, _) = Peer::hello(&relay, &["a.b"]).await;
    peer.send(execute("e", "return await mcp.call('a.b')")).await;
    let call = peer.call().await;
    let first = peer.ticket();
    drop(peer);
    // The host never learns of these.
    let mut newest = first.epoch;
    for _ in 0..3 {
        let (_, resumed) = first.resume_with(&relay, &token).await.unwrap();
        assert!(resumed.epoch > newest, "{resumed:?}");
        newest = resumed.epoch;
    }
    // It learns of this one, and loses the connection before it has said a word.
    let (peer, _) = first.resume_with(&relay, &token).await.unwrap();
    let second = peer.ticket();
    drop(peer);
    let (mut peer, _) = second.resume_with(&relay, &token).await.unwrap();
    peer.answer(&call, "1").await;
    assert_eq!(peer.result().await, json!(1));
    // With the first message of an epoch, those before it are over.
    for old in [&first, &second] {
        let refused = old.resume_with(&relay, &token).await.unwrap_err();
        assert_eq!((refused.code.as_str(), refused.loss()), ("SESSION_LOST", SessionLoss::Epoch));
    }
    // And they moved nothing.
    peer.send(execute("f", "return 2")).await;
    assert_eq!(peer.result().await, json!(2));
}

#[tokio::test]
async fn an_epoch_and_a_secret_count_together_alone() {
    let relay = start_relay(&[]).await;
    let token = relay.token(&["--subject", SUBJECT]).await.unwrap();
    let (peer, _) = Peer::hello(&relay, &[]).await;
    let first = peer.ticket();
    drop(peer);
    let (mut peer, _) = first.resume_with(&relay, &token).await.unwrap();
    peer.send(execute("e", "return 1")).await;
    peer.result().await;
    let second = peer.ticket();
    for (epoch, secret) in [(second.epoch, &first.secret), (first.epoch, &second.secret), (99, &second.secret)] {
        let mixed = Ticket { epoch, secret: secret.clone(), ..second.clone() };
        mixed.resume_with(&relay, &token).await.unwrap_err();
    }
    peer.send(execute("f", "return 2")).await;
    assert_eq!(peer.result().await, json!(2));
}
