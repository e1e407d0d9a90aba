//! Tokens from a source: renewed before they expire, and asked for again when they are not accepted.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use host_client_core::{Client, ClientConfig, Error, ExecuteRequest, LimitName, TokenSource};
use relay_proto::wire;
use relay_proto::wire::message::Payload;
use relay_test_support::within;

use crate::relay::{Relay, counted};

/// A source of the tokens `token 1`, `token 2` and so on.
fn source() -> (TokenSource, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let source = TokenSource::new(move || {
        let number = count.fetch_add(1, Ordering::SeqCst) + 1;
        async move { Ok(format!("token {number}\n")) }
    });
    (source, asked)
}

#[tokio::test]
async fn a_token_is_renewed_before_it_expires() {
    let mut relay = Relay::start().await;
    let (source, _) = source();
    let config = ClientConfig { token_source: Some(source), ..relay.config() };
    let (client, mut link) = relay
        .connect_with(counted().host, config, |welcome| {
            welcome.features.push("renew".into());
            welcome.expires_in_ms = 2_000;
        })
        .await;
    assert_eq!(relay.token, "token 1");
    for number in 2..=3 {
        match relay.next(&mut link).await {
            Some(Payload::Renew(renew)) => assert_eq!(renew.token, format!("token {number}")),
            other => panic!("{other:?}"),
        }
        let limits = [("tool_calls".to_owned(), number)].into();
        let renewed = wire::Renewed { expires_in_ms: 2_000, limits, ..wire::Renewed::default() };
        relay.send(&mut link, Payload::Renewed(renewed)).await;
    }
    // The grant of the newest token holds.
    while client.limits().get(LimitName::ToolCalls) != Some(3) {
        tokio::task::yield_now().await;
    }
    let request = ExecuteRequest::new("the code").always_in_sandbox();
    let (execution, id) = tokio::join!(client.execute(request), relay.execution(&mut link));
    relay.end(&mut link, &id).await;
    within(execution.unwrap()).await.unwrap();
}

#[tokio::test]
async fn a_token_that_is_not_accepted_when_resuming_is_replaced() {
    let mut relay = Relay::start().await;
    let (source, asked) = source();
    let config = ClientConfig { token_source: Some(source), ..relay.config() };
    let (client, link) = relay.connect_with(counted().host, config, |_| {}).await;
    drop(link);
    // A good token is shown again, without a question to its source.
    let link = relay.resume().await;
    assert_eq!((relay.token.as_str(), asked.load(Ordering::SeqCst)), ("token 1", 1));
    drop(link);
    relay.refuse(401).await;
    let mut link = relay.resume().await;
    assert_eq!(relay.token, "token 2");
    let request = ExecuteRequest::new("the code").always_in_sandbox();
    let (execution, id) = tokio::join!(client.execute(request), relay.execution(&mut link));
    relay.end(&mut link, &id).await;
    within(execution.unwrap()).await.unwrap();
}

#[tokio::test]
async fn a_token_that_has_expired_is_not_shown_again() {
    let mut relay = Relay::start().await;
    let (source, _) = source();
    let config = ClientConfig { token_source: Some(source), ..relay.config() };
    let (_client, link) = relay.connect_with(counted().host, config, |welcome| welcome.expires_in_ms = 1).await;
    drop(link);
    relay.resume().await;
    assert_eq!(relay.token, "token 2");
}

#[tokio::test]
async fn a_source_that_fails_says_why() {
    let relay = Relay::start().await;
    let seen = Arc::new(Mutex::new(0));
    let count = Arc::clone(&seen);
    let failed = Client::builder(format!("ws://{}/ws", relay.address()))
        .token(move || {
            *count.lock().unwrap() += 1;
            async { Err("the login service is away".into()) }
        })
        .connect(counted().host);
    let error = within(failed).await.unwrap_err();
    assert!(matches!(error, Error::Token(_)) && error.to_string().contains("the login service is away"), "{error}");
    assert!(error.is_connect() && error.is_auth());
    assert_eq!(*seen.lock().unwrap(), 1);
}
