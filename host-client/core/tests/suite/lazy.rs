//! A client that connects when it is needed: once for all that wait, and elsewhere when its relay shuts down.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use host_client_core::{Client, Error, ErrorCode, ExecuteRequest, LazyClient};
use relay_proto::wire;
use relay_proto::wire::message::Payload;
use relay_test_support::within;

use crate::relay::{Relay, counted};

fn request() -> ExecuteRequest {
    ExecuteRequest::new("the code").always_in_sandbox()
}

#[tokio::test]
async fn all_that_wait_share_one_attempt_to_connect() {
    let attempts = Arc::new(AtomicUsize::new(0));
    let counted_attempts = Arc::clone(&attempts);
    let client = LazyClient::new(counted().host, move |_| {
        counted_attempts.fetch_add(1, Ordering::SeqCst);
        async {
            // All others ask meanwhile.
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            let error = std::io::Error::from(std::io::ErrorKind::TimedOut);
            Err(Error::Unreachable { url: "ws://there".into(), error })
        }
    });
    let asking = (0..8).map(|_| {
        let client = client.clone();
        tokio::spawn(async move { client.lease().await })
    });
    for asked in asking.collect::<Vec<_>>() {
        let error = within(asked).await.unwrap().unwrap_err();
        assert!(matches!(&error, Error::Unreachable { url, .. } if url == "ws://there"), "{error}");
        assert!(error.is_timeout());
    }
    assert_eq!(attempts.load(Ordering::SeqCst), 1);
    // The next one is another attempt.
    within(client.lease()).await.unwrap_err();
    assert_eq!(attempts.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn an_attempt_that_nobody_waits_for_is_given_up() {
    let attempts = Arc::new(AtomicUsize::new(0));
    let counted_attempts = Arc::clone(&attempts);
    let client = LazyClient::new(counted().host, move |_| {
        let is_first = counted_attempts.fetch_add(1, Ordering::SeqCst) == 0;
        async move {
            if is_first {
                std::future::pending::<()>().await;
            }
            Err(Error::Unauthenticated)
        }
    });
    let first = tokio::spawn({
        let client = client.clone();
        async move { client.lease().await.map(drop) }
    });
    while attempts.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    assert!(matches!(within(client.lease()).await, Err(Error::Unauthenticated)));
}

#[tokio::test]
async fn a_relay_that_shuts_down_is_left_and_what_runs_there_ends_there() {
    let mut old = Relay::start().await;
    let (address, config) = (old.address(), old.config());
    let client = LazyClient::new(counted().host, move |host| Client::connect(config.clone(), host));
    let (lease, mut old_link) = tokio::join!(client.lease(), old.welcome(|_| {}));
    let lease = lease.unwrap();
    let running = lease.execute(request()).await.unwrap();
    let id = old.execution(&mut old_link).await;
    old.send(&mut old_link, Payload::GoAway(wire::GoAway { deadline_ms: 8_000, reason: "restart".into() })).await;
    while !lease.is_draining() {
        tokio::task::yield_now().await;
    }
    // Another relay takes over its address.
    drop(old.unlisten());
    let mut new = Relay::at(address).await;
    let serve = async {
        let mut link = new.welcome(|welcome| welcome.session_id = "another".into()).await;
        for _ in 0..5 {
            let id = new.execution(&mut link).await;
            new.end(&mut link, &id).await;
        }
        link
    };
    let ask = async {
        for _ in 0..5 {
            client.run(request()).await.unwrap();
        }
    };
    let ((), _link) = within(async { tokio::join!(ask, serve) }).await;
    old.end(&mut old_link, &id).await;
    assert_eq!(within(running).await.unwrap().value().unwrap(), 7);
}

#[tokio::test]
async fn a_request_that_crosses_the_announcement_goes_to_the_next_relay() {
    let mut relay = Relay::start().await;
    let config = relay.config();
    let client = LazyClient::new(counted().host, move |host| Client::connect(config.clone(), host));
    let asked = tokio::spawn({
        let client = client.clone();
        async move { client.run(request()).await }
    });
    let mut link = relay.welcome(|_| {}).await;
    let id = relay.execution(&mut link).await;
    let error = wire::Error {
        error: "the relay shuts down".into(),
        code: ErrorCode::Draining.as_str().into(),
        execution_id: id,
        ..wire::Error::default()
    };
    relay.send(&mut link, Payload::Error(error)).await;
    let mut new = relay.again();
    let mut link = new.welcome(|_| {}).await;
    let id = new.execution(&mut link).await;
    new.end(&mut link, &id).await;
    assert_eq!(within(asked).await.unwrap().unwrap().value().unwrap(), 7);
}
