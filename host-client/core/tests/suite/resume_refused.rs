//! Relays that refuse to resume a session, and relays that lie about it: each ends in a typed reason.

use std::time::{Duration, Instant};

use host_client_core::{Backoff, Client, ClientConfig, ConnectionState, Error, ErrorCode, ExecuteRequest, SessionLoss};
use relay_proto::wire;
use relay_proto::wire::message::Payload;
use relay_test_support::within;

use crate::relay::{Relay, call, counted, secret};

/// Waits until the session is lost.
async fn lost(client: &Client) -> (Option<SessionLoss>, String) {
    let mut changes = client.state_changes();
    loop {
        if let ConnectionState::Lost { loss, reason } = client.state() {
            return (loss, reason.to_string());
        }
        within(changes.next()).await.unwrap();
    }
}

#[tokio::test]
async fn every_reason_of_a_relay_is_a_type() {
    let reasons = [
        (wire::SessionLoss::Unknown as i32, SessionLoss::Unknown),
        (wire::SessionLoss::Expired as i32, SessionLoss::Expired),
        (wire::SessionLoss::Epoch as i32, SessionLoss::Epoch),
        (wire::SessionLoss::Gap as i32, SessionLoss::Gap),
        (wire::SessionLoss::Moved as i32, SessionLoss::Moved),
        (wire::SessionLoss::Drained as i32, SessionLoss::Drained),
        (99, SessionLoss::Other(99)),
    ];
    for (sent, expected) in reasons {
        let mut relay = Relay::start().await;
        let (client, mut link) = relay.connect(counted().host).await;
        let execution = client.execute(ExecuteRequest::new("the code").always_in_sandbox()).await.unwrap();
        relay.execution(&mut link).await;
        drop(link);
        let (mut link, _resume) = relay.asked().await;
        let error = wire::Error {
            error: "the reason in words".into(),
            code: ErrorCode::SessionLost.as_str().into(),
            loss: sent,
            ..wire::Error::default()
        };
        link.plain(Payload::Error(error)).await;
        link.close(1_008).await;
        let (loss, reason) = lost(&client).await;
        assert_eq!(loss, Some(expected));
        assert!(reason.contains("the reason in words") && reason.contains(&expected.to_string()), "{reason}");
        let error = within(execution).await.unwrap_err();
        assert_eq!(error.error_code(), Some(ErrorCode::SessionLost), "{error}");
    }
}

#[tokio::test]
async fn an_answer_to_resume_that_cannot_be_true_ends_the_session() {
    type Lie = fn(&mut wire::Resumed);
    let lies: [(Lie, Option<SessionLoss>); 5] = [
        (|resumed| resumed.received = 99, Some(SessionLoss::Gap)),
        (|resumed| resumed.received = 0, Some(SessionLoss::Gap)),
        (|resumed| resumed.epoch = 1, None),
        (|resumed| resumed.secret = b"short".as_slice().into(), None),
        (|resumed| resumed.secret = vec![1; 1 << 10].into(), None),
    ];
    for (lie, expected) in lies {
        let mut relay = Relay::start().await;
        let (client, link) = relay.connect(counted().host).await;
        drop(link);
        let (mut link, _resume) = relay.asked().await;
        relay.epoch = 2;
        let mut resumed = relay.resumed();
        lie(&mut resumed);
        link.plain(Payload::Resumed(resumed)).await;
        assert_eq!(link.close_code().await, Some(1_000), "the relay learns that the session is over");
        let (loss, reason) = lost(&client).await;
        assert_eq!(loss, expected, "{reason}");
    }
}

#[tokio::test]
async fn an_acknowledgement_of_what_was_never_sent_ends_the_session() {
    let mut relay = Relay::start().await;
    let (client, mut link) = relay.connect(counted().host).await;
    link.write(&wire::Message { acknowledged: 2, ..wire::Message::default() }).await;
    assert_eq!(link.close_code().await, Some(1_000));
    let (loss, reason) = lost(&client).await;
    assert!(loss.is_none() && reason.contains("acknowledged what it was not sent"), "{reason}");
}

#[tokio::test]
async fn a_call_that_comes_again_with_something_else_in_it_does_not_run() {
    let mut relay = Relay::start().await;
    let counted = counted();
    let (client, mut link) = relay.connect(counted.host).await;
    let execution = client.execute(ExecuteRequest::new("the code").always_in_sandbox()).await.unwrap();
    let id = relay.execution(&mut link).await;
    relay.call(&mut link, 1, &id, "a.count").await;
    relay.result(&mut link).await;
    drop(link);
    let mut link = relay.resume().await;
    relay.send(&mut link, call(1, &id, "a.slow")).await;
    assert_eq!(link.close_code().await, Some(1_000));
    assert_eq!(within(execution).await.unwrap_err().error_code(), Some(ErrorCode::SessionLost));
    assert_eq!(counted.ran.load(std::sync::atomic::Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_welcome_that_offers_to_resume_without_a_secret_is_refused() {
    type Lie = fn(&mut wire::Welcome);
    let lies: [Lie; 3] = [
        |welcome| welcome.resume_secret.clear(),
        |welcome| welcome.resume_secret = vec![1; 33].into(),
        |welcome| welcome.epoch = 0,
    ];
    for lie in lies {
        let mut relay = Relay::start().await;
        let (refused, _link) = tokio::join!(Client::connect(relay.config(), counted().host), relay.welcome(lie));
        let error = refused.unwrap_err();
        assert!(matches!(&error, Error::Refused(reason) if reason.contains("resume")), "{error}");
    }
}

#[tokio::test]
async fn a_fixed_token_that_is_not_accepted_any_more_ends_the_session_at_once() {
    for status in [401, 403] {
        let mut relay = Relay::start().await;
        let (client, link) = relay.connect(counted().host).await;
        let since = Instant::now();
        drop(link);
        relay.refuse(status).await;
        let (loss, reason) = lost(&client).await;
        assert_eq!(loss, None, "{reason}");
        assert!(since.elapsed() < Duration::from_secs(30), "it does not try until the window ends");
    }
}

#[tokio::test]
async fn a_relay_without_room_and_a_proxy_without_a_relay_are_asked_again() {
    let mut relay = Relay::start().await;
    let (client, link) = relay.connect(counted().host).await;
    drop(link);
    for status in [429, 503, 502, 404, 302] {
        relay.refuse(status).await;
    }
    let mut link = relay.resume().await;
    let request = ExecuteRequest::new("the code").always_in_sandbox();
    let (execution, id) = tokio::join!(client.execute(request), relay.execution(&mut link));
    relay.end(&mut link, &id).await;
    within(execution.unwrap()).await.unwrap();
}

#[tokio::test]
async fn a_relay_that_resumes_and_drops_is_asked_less_and_less_often() {
    let mut relay = Relay::start().await;
    let backoff = Backoff { first: Duration::from_millis(10), most: Duration::from_millis(80) };
    let config = ClientConfig { backoff, ..relay.config() };
    let (client, link) = relay.connect_with(counted().host, config, |_| {}).await;
    drop(link);
    let since = Instant::now();
    for _ in 0..6 {
        drop(relay.resume().await);
    }
    // At once, and after 10, 20, 40, 80 and 80 ms and what chance adds.
    assert!(since.elapsed() >= Duration::from_millis(230), "{:?}", since.elapsed());
    // A session that went on in earnest is resumed at once again.
    let mut link = relay.resume().await;
    relay.send(&mut link, Payload::Ping(wire::Ping { id: "1".into() })).await;
    assert!(matches!(relay.next(&mut link).await, Some(Payload::Pong(_))));
    drop(link);
    relay.resume().await;
    assert!(!client.is_over());
}

#[tokio::test]
async fn a_relay_that_answers_nothing_does_not_hold_the_host_longer_than_the_window() {
    let mut relay = Relay::start().await;
    let window = Some(Duration::from_millis(300));
    let config = ClientConfig { resume: window, ..relay.config() };
    let (client, link) = relay.connect_with(counted().host, config, |it| it.resume_window_ms = u64::MAX).await;
    let since = Instant::now();
    drop(link);
    let (_link, resume) = relay.asked().await;
    assert_eq!(resume.secret, secret(1));
    let (loss, reason) = lost(&client).await;
    assert_eq!(loss, Some(SessionLoss::Expired), "{reason}");
    assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
}
