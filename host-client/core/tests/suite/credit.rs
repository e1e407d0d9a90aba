//! Credit: a relay sends no more calls than the host can take, and the host no more executions than the relay can.

use std::time::Duration;

use host_client_core::{CallCapacity, Client, ClientConfig, ConnectionState, ErrorCode, ExecuteRequest};
use relay_proto::wire;
use relay_proto::wire::message::Payload;
use relay_test_support::within;

use crate::relay::{Link, Relay, counted};

fn request() -> ExecuteRequest {
    ExecuteRequest::new("the code").always_in_sandbox()
}

/// Connects a client that takes this number of calls at a time, at a relay that takes this number of executions.
async fn connected(relay: &mut Relay, calls: u32, executions: u64) -> (Client, Link) {
    let call_capacity = CallCapacity { calls, ..CallCapacity::default() };
    let queue_timeout = Duration::from_millis(300);
    let config = ClientConfig { call_capacity, queue_timeout, ..relay.config() };
    let change = |welcome: &mut wire::Welcome| {
        welcome.features.push("credit".into());
        welcome.credit = Some(wire::Credit { count: executions, bytes: 1 << 20 });
    };
    relay.connect_with(counted().host, config, change).await
}

#[tokio::test]
async fn a_relay_that_calls_beyond_its_credit_ends_the_session() {
    let mut relay = Relay::start().await;
    let (client, mut link) = connected(&mut relay, 3, 8).await;
    let _execution = client.execute(request()).await.unwrap();
    let id = relay.execution(&mut link).await;
    for number in 1..=4 {
        relay.call(&mut link, number, &id, "a.slow").await;
    }
    assert_eq!(link.close_code().await, Some(1_000));
    let mut changes = client.state_changes();
    while !client.is_over() {
        within(changes.next()).await;
    }
    let ConnectionState::Lost { reason, .. } = client.state() else { panic!() };
    assert!(reason.contains("without credit for it"), "{reason}");
}

#[tokio::test]
async fn answered_and_cancelled_calls_give_their_credit_back() {
    let mut relay = Relay::start().await;
    let (client, mut link) = connected(&mut relay, 4, 8).await;
    let _execution = client.execute(request()).await.unwrap();
    let id = relay.execution(&mut link).await;
    let mut left = 4;
    for number in 1..=40 {
        while left == 0 {
            match relay.next(&mut link).await {
                Some(Payload::Credit(credit)) => left += credit.count,
                Some(Payload::ToolResult(_)) => {}
                other => panic!("{other:?}"),
            }
        }
        left -= 1;
        let is_cancelled = number % 2 == 0;
        relay.call(&mut link, number, &id, if is_cancelled { "a.slow" } else { "a.count" }).await;
        if is_cancelled {
            let cancel = wire::Cancel { execution_id: id.clone(), call_id: number.to_string(), ..Default::default() };
            relay.send(&mut link, Payload::Cancel(cancel)).await;
        }
    }
}

#[tokio::test]
async fn executions_wait_for_the_relays_credit() {
    let mut relay = Relay::start().await;
    let (client, mut link) = connected(&mut relay, 4, 1).await;
    let first = client.execute(request()).await.unwrap();
    let id = relay.execution(&mut link).await;
    let error = within(client.execute(request())).await.unwrap_err();
    assert_eq!(error.error_code(), Some(ErrorCode::Overloaded), "{error}");
    assert!(error.is_retryable() && error.to_string().contains("nothing was run"), "{error}");
    relay.end(&mut link, &id).await;
    within(first).await.unwrap();
    relay.send(&mut link, Payload::Credit(wire::Credit { count: 3, bytes: 30 })).await;
    for _ in 0..3 {
        let (execution, id) = tokio::join!(client.execute(request()), relay.execution(&mut link));
        relay.end(&mut link, &id).await;
        within(execution.unwrap()).await.unwrap();
    }
    // A relay that grants without end is none that counts.
    relay.send(&mut link, Payload::Credit(wire::Credit { count: u64::MAX, bytes: u64::MAX })).await;
    assert_eq!(link.close_code().await, Some(1_000));
}
