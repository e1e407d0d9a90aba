//! Credit, seen by a host that speaks the wire by hand: the relay sends no more than was granted, and takes no more than it
//! has granted.

use std::time::Duration;

use host_client::LocalRelay;
use relay_proto::wire;
use relay_proto::wire::message::Payload;
use serde_json::json;

use super::wire::{Raw, success};
use crate::support::start_relay;

/// A host that grants tool calls, and counts what it sends.
struct Granting {
    raw: Raw,
    sent: u64,
}

impl Granting {
    async fn start(relay: &LocalRelay, count: u64, bytes: u64) -> (Self, wire::Credit) {
        let mut raw = Raw::open(relay).await;
        let tools = vec![wire::Tool { name: "a.b".into(), ..wire::Tool::default() }];
        let credit = Some(wire::Credit { count, bytes });
        let features = vec!["credit".into()];
        let hello = wire::Hello { protocol_version: 1, tools, features, credit, ..wire::Hello::default() };
        raw.send_message(wire::Message { sequence: 1, ..Payload::Hello(hello).into() }).await;
        match raw.payload().await {
            Payload::Welcome(welcome) => (Self { raw, sent: 1 }, welcome.credit.unwrap()),
            other => panic!("{other:?}"),
        }
    }

    async fn send(&mut self, payload: Payload) {
        self.sent += 1;
        self.raw.send_message(wire::Message { sequence: self.sent, ..payload.into() }).await;
    }

    async fn execute(&mut self, id: &str, code: &str, limits: &[(&str, u64)]) {
        let limits = limits.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        let (code, execution_id) = (code.into(), id.into());
        self.send(Payload::Execute(wire::Execute { code, execution_id, limits, ..wire::Execute::default() })).await;
    }

    async fn grant(&mut self, count: u64, bytes: u64) {
        self.send(Payload::Credit(wire::Credit { count, bytes })).await;
    }

    /// Returns the next message but credit.
    async fn next(&mut self) -> Payload {
        loop {
            match self.raw.payload().await {
                Payload::Credit(_) => {}
                payload => return payload,
            }
        }
    }

    async fn call(&mut self) -> wire::ToolCall {
        match self.next().await {
            Payload::ToolCall(call) => call,
            other => panic!("{other:?}"),
        }
    }

    async fn result(&mut self) -> serde_json::Value {
        match self.next().await {
            Payload::Result(result) => serde_json::from_slice(&result.data).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    /// Returns the code of the error that comes next.
    async fn error(&mut self) -> String {
        match self.next().await {
            Payload::Error(error) => error.code,
            other => panic!("{other:?}"),
        }
    }

    /// Fails if the relay has anything to say: a few pings go there and back first.
    async fn hears_nothing(&mut self) {
        for _ in 0..5 {
            self.send(Payload::Ping(wire::Ping::default())).await;
            assert!(matches!(self.next().await, Payload::Pong(_)));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

const FIVE: &str = "return await Promise.all([1, 2, 3, 4, 5].map((n) => mcp.call('a.b', {n})))";

#[tokio::test]
async fn calls_wait_for_their_number() {
    let relay = start_relay(&[]).await;
    let (mut host, _) = Granting::start(&relay, 2, 1 << 20).await;
    host.execute("e", FIVE, &[]).await;
    let mut calls = vec![host.call().await, host.call().await];
    host.hears_nothing().await;
    // An answer alone grants nothing.
    host.send(success(&calls[0].id, "0")).await;
    host.hears_nothing().await;
    for more in [1, 2] {
        host.grant(more, 1 << 10).await;
        for _ in 0..more {
            calls.push(host.call().await);
        }
        host.hears_nothing().await;
    }
    for (n, call) in calls.iter().enumerate().skip(1) {
        host.send(success(&call.id, &n.to_string())).await;
    }
    assert_eq!(host.result().await, json!([0, 1, 2, 3, 4]), "they came in their order");
}

#[tokio::test]
async fn calls_wait_for_their_bytes() {
    let relay = start_relay(&[]).await;
    let (mut host, _) = Granting::start(&relay, 100, 1_000).await;
    let code = "return await Promise.all([1, 2, 3].map((n) => mcp.call('a.b', {text: 'x'.repeat(600)})))";
    host.execute("e", code, &[]).await;
    // A call may go while anything is left: 389 after the first, and 222 too few after the second.
    let mut calls = vec![host.call().await, host.call().await];
    assert_eq!(calls[0].arguments.len(), 611);
    host.hears_nothing().await;
    host.grant(0, 222).await;
    host.hears_nothing().await;
    host.grant(0, 1).await;
    calls.push(host.call().await);
    for call in calls {
        host.send(success(&call.id, "1")).await;
    }
    assert_eq!(host.result().await, json!([1, 1, 1]));
}

#[tokio::test]
async fn the_clock_of_a_call_starts_when_it_is_sent() {
    let relay = start_relay(&[]).await;
    let (mut host, _) = Granting::start(&relay, 0, 0).await;
    host.execute("e", "return await mcp.call('a.b')", &[("tool_call_ms", 400)]).await;
    tokio::time::sleep(Duration::from_millis(800)).await;
    host.grant(1, 100).await;
    let call = host.call().await;
    assert!((300..=400).contains(&call.remaining_ms), "{call:?}");
    host.send(success(&call.id, "1")).await;
    assert_eq!(host.result().await, json!(1));
}

#[tokio::test]
async fn a_call_that_is_never_granted_ends_with_its_execution() {
    let relay = start_relay(&[]).await;
    let (mut host, _) = Granting::start(&relay, 0, 0).await;
    host.execute("e", FIVE, &[("wall_ms", 300)]).await;
    assert_eq!(host.error().await, "TIMEOUT");
    // It can be cancelled, too, and nothing of it comes later.
    host.execute("f", FIVE, &[]).await;
    host.send(Payload::Cancel(wire::Cancel { execution_id: "f".into(), ..wire::Cancel::default() })).await;
    assert_eq!(host.error().await, "CANCELLED");
    host.grant(100, 1 << 20).await;
    host.hears_nothing().await;
    host.execute("g", "return await mcp.call('a.b')", &[]).await;
    let call = host.call().await;
    assert_eq!(call.execution_id, "g");
    host.send(success(&call.id, "1")).await;
    assert_eq!(host.result().await, json!(1));
}

#[tokio::test]
async fn a_host_that_grants_nothing_holds_up_nobody_else() {
    let relay = start_relay(&[]).await;
    let (mut stingy, _) = Granting::start(&relay, 0, 0).await;
    for n in 0..4 {
        stingy.execute(&format!("e{n}"), FIVE, &[]).await;
    }
    let (mut other, _) = Granting::start(&relay, 100, 1 << 20).await;
    other.execute("f", "return await mcp.call('a.b')", &[]).await;
    let call = other.call().await;
    other.send(success(&call.id, "1")).await;
    assert_eq!(other.result().await, json!(1));
    // Code that makes no calls needs none.
    stingy.execute("g", "return 2", &[]).await;
    assert_eq!(stingy.result().await, json!(2));
}

#[tokio::test]
async fn more_credit_than_anybody_needs_is_a_fault() {
    let relay = start_relay(&[]).await;
    let (mut host, _) = Granting::start(&relay, 1 << 40, 1 << 40).await;
    host.grant(0, 0).await;
    host.execute("e", FIVE, &[]).await;
    for _ in 0..5 {
        let call = host.call().await;
        host.send(success(&call.id, "1")).await;
    }
    assert_eq!(host.result().await, json!([1, 1, 1, 1, 1]));
    for (count, bytes) in [(1 << 40, 0), (0, 1 << 40), (u64::MAX, 0), (0, u64::MAX)] {
        let (mut host, _) = Granting::start(&relay, 100, 100).await;
        host.grant(count, bytes).await;
        assert_eq!(host.error().await, "PROTOCOL_ERROR", "{count} calls, {bytes} bytes");
    }
}

#[tokio::test]
async fn a_host_that_sends_more_code_than_it_was_granted_breaks_the_protocol() {
    let relay = start_relay(&["--subject-queue", "1000"]).await;
    let (mut host, granted) = Granting::start(&relay, 0, 0).await;
    assert!((1..=512).contains(&granted.count) && granted.bytes > 0, "{granted:?}");
    // None of them ends.
    for n in 0..=granted.count {
        host.execute(&format!("e{n}"), "await mcp.call('a.b')", &[]).await;
    }
    assert_eq!(host.error().await, "PROTOCOL_ERROR");

    let (mut host, granted) = Granting::start(&relay, 0, 0).await;
    let code = format!("await mcp.call('a.b') // {}", "x".repeat(900_000));
    let fitting = granted.bytes.div_ceil(code.len() as u64);
    for n in 0..=fitting {
        host.execute(&format!("e{n}"), &code, &[]).await;
    }
    let error = loop {
        match host.next().await {
            Payload::Error(error) if error.execution_id.is_empty() => break error.code,
            // Sources that wait are bounded, too.
            Payload::Error(error) => assert_eq!(error.code, "OVERLOADED"),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(error, "PROTOCOL_ERROR");
}

#[tokio::test]
async fn what_has_ended_is_granted_again() {
    let relay = start_relay(&[]).await;
    let (mut host, mut left) = Granting::start(&relay, 0, 0).await;
    for n in 0..left.count + 10 {
        left.count -= 1;
        host.execute(&format!("e{n}"), "return 1", &[]).await;
        let mut is_running = true;
        while is_running || left.count == 0 {
            match host.raw.payload().await {
                Payload::Result(_) => is_running = false,
                Payload::Credit(more) => left.count += more.count,
                other => panic!("{other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn credit_is_for_those_who_asked_for_it() {
    let relay = start_relay(&[]).await;
    let mut raw = Raw::open(&relay).await;
    let welcome = raw.hello(&[]).await;
    assert!(welcome.credit.is_none() && welcome.features.iter().any(|feature| feature == "credit"), "{welcome:?}");
    let credit = Payload::Credit(wire::Credit { count: 1, bytes: 1 });
    raw.send_message(wire::Message { sequence: 2, ..credit.into() }).await;
    assert_eq!(raw.error().await.code, "PROTOCOL_ERROR");
}
