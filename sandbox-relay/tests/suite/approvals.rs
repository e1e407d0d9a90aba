//! Executions that wait for people: they hold no place among those that run, and take one again before they go on.

use std::time::{Duration, Instant};

use host_client::LocalRelay;
use relay_proto::wire::message::Payload;
use relay_proto::wire::{self, CallStatus};
use serde_json::json;

use crate::suite::programs::http;
use crate::suite::wire::{Raw, call_state, success};
use crate::support::{start_relay, until_async, within};

/// A peer with a tool `a.b` that counts its messages.
struct Peer {
    raw: Raw,
    sent: u64,
}

impl Peer {
    async fn open(relay: &LocalRelay) -> Self {
        let mut raw = Raw::open(relay).await;
        raw.hello(&["a.b"]).await;
        Self { raw, sent: 1 }
    }

    async fn send(&mut self, payload: Payload) {
        self.sent += 1;
        self.raw.send_message(wire::Message { sequence: self.sent, ..payload.into() }).await;
    }

    async fn execute(&mut self, id: &str, code: &str, limits: &[(&str, u64)]) {
        let execute = wire::Execute {
            code: code.into(),
            execution_id: id.into(),
            bindings: vec!["timers".into(), "console".into()],
            limits: limits.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
            ..wire::Execute::default()
        };
        self.send(Payload::Execute(execute)).await;
    }

    /// Takes the next call, and says that a person is asked.
    async fn asks(&mut self) -> wire::ToolCall {
        let call = self.raw.call().await;
        self.send(call_state(&call, CallStatus::AwaitingApproval)).await;
        call
    }

    /// Says that the person agreed, and answers the call.
    async fn agree(&mut self, call: &wire::ToolCall) {
        self.send(call_state(call, CallStatus::Started)).await;
        self.send(success(&call.id, "1")).await;
    }

    /// The id, the value and the usage of the execution that ends next.
    async fn ended(&mut self) -> (String, serde_json::Value, wire::Usage) {
        match self.raw.payload().await {
            Payload::Result(it) => (it.execution_id, serde_json::from_slice(&it.data).unwrap(), it.usage.unwrap()),
            other => panic!("{other:?}"),
        }
    }
}

/// Waits until so many executions run, wait in the queue, and wait for people without a place.
async fn until_load(relay: &LocalRelay, executions: u64, queued: u64, parked: u64) {
    until_async(async || {
        let (_, health) = http(relay, "/health").await;
        [&health["executions"], &health["queued"], &health["waiting_for_people"]]
            == [&json!(executions), &json!(queued), &json!(parked)]
    })
    .await;
}

const ONE_CALL: &str = "return await mcp.call('a.b')";

#[tokio::test]
async fn what_waits_for_people_stalls_nobody() {
    for places in ["--session-executions", "--subject-executions", "--executions"] {
        let relay = start_relay(&[places, "2"]).await;
        let mut peer = Peer::open(&relay).await;
        let mut asked = Vec::new();
        for n in 0..6 {
            peer.execute(&format!("waits-{n}"), ONE_CALL, &[]).await;
            asked.push(peer.asks().await);
        }
        until_load(&relay, 0, 0, 6).await;
        peer.execute("quick", "return 1 + 1", &[]).await;
        assert_eq!(peer.ended().await.1, json!(2), "{places}");
        for call in &asked {
            peer.agree(call).await;
        }
        let mut ended = Vec::new();
        for _ in &asked {
            ended.push(peer.ended().await.0);
        }
        ended.sort();
        assert_eq!(ended, (0..6).map(|n| format!("waits-{n}")).collect::<Vec<_>>(), "{places}");
        until_load(&relay, 0, 0, 0).await;
    }
}

#[tokio::test]
async fn who_comes_back_waits_for_a_place_and_its_time_does_not_run() {
    let relay = start_relay(&["--executions", "1"]).await;
    let mut peer = Peer::open(&relay).await;
    peer.execute("first", "await mcp.call('a.b'); return await mcp.call('a.b')", &[("wall_ms", 400)]).await;
    let of_first = peer.asks().await;
    peer.execute("second", ONE_CALL, &[]).await;
    let of_second = peer.raw.call().await;
    assert_eq!(of_second.execution_id, "second");
    peer.execute("third", "return 3", &[]).await;
    peer.agree(&of_first).await;
    until_load(&relay, 1, 1, 1).await;
    // Longer than the first one may run.
    let held = Instant::now();
    tokio::time::sleep(Duration::from_millis(600)).await;
    let held = u64::try_from(held.elapsed().as_micros()).unwrap();
    peer.send(success(&of_second.id, "2")).await;
    assert_eq!(peer.ended().await.0, "second", "the first one goes on when it has a place, and not before");
    let call = peer.raw.call().await;
    assert_eq!(call.execution_id, "first", "before the third, which has not run yet");
    peer.send(success(&call.id, "5")).await;
    let (id, value, usage) = peer.ended().await;
    assert_eq!((id.as_str(), value), ("first", json!(5)));
    // When the relay hears of the answer is not for the test to say: until then, the time is that of the approval.
    assert!(usage.queue_us > 0 && usage.queue_us + usage.approval_us >= held && usage.wall_us < 400_000, "{usage:?}");
    assert_eq!(peer.ended().await.1, json!(3));
}

#[tokio::test]
async fn who_computes_keeps_its_place_and_who_wakes_up_takes_one_again() {
    let relay = start_relay(&["--executions", "1"]).await;
    let mut peer = Peer::open(&relay).await;
    let code = "const asked = mcp.call('a.b'); await new Promise((done) => setTimeout(done, 0));
        const end = Date.now() + 500; while (Date.now() < end); console.log('computed'); return await asked";
    peer.execute("computes", code, &[]).await;
    let call = peer.asks().await;
    peer.execute("next", ONE_CALL, &[]).await;
    let Payload::Output(output) = peer.raw.payload().await else { panic!("the next one began meanwhile") };
    assert_eq!(output.items[0].text, "computed");
    let next = peer.raw.call().await;
    assert_eq!(next.execution_id, "next");
    // An answer without a word about the state is one, too.
    peer.send(success(&next.id, "1")).await;
    assert_eq!(peer.ended().await.0, "next");
    peer.agree(&call).await;
    assert_eq!(peer.ended().await.0, "computes");

    // A timer ends the wait: what it does next waits for a place.
    let code = "await Promise.race([mcp.call('a.b'), new Promise((done) => setTimeout(done, 300))]);
        return await mcp.call('a.b')";
    peer.execute("gives-up", code, &[]).await;
    let _asked = peer.asks().await;
    until_load(&relay, 0, 0, 1).await;
    let second = peer.raw.call().await;
    until_load(&relay, 1, 0, 0).await;
    peer.send(success(&second.id, "7")).await;
    let Payload::Cancel(_) = peer.raw.payload().await else { panic!("the first call is cancelled") };
    assert_eq!(peer.ended().await.1, json!(7));
}

#[tokio::test]
async fn over_the_bound_a_place_is_kept_and_ends_leave_nothing_behind() {
    // No worker is so small.
    let relay = start_relay(&["--executions", "1", "--approval-memory", "1"]).await;
    let mut peer = Peer::open(&relay).await;
    peer.execute("waits", ONE_CALL, &[]).await;
    let call = peer.asks().await;
    peer.execute("next", "return 2", &[]).await;
    until_load(&relay, 1, 1, 0).await;
    let early = tokio::time::timeout(Duration::from_millis(300), peer.raw.payload()).await;
    assert!(early.is_err(), "{early:?}");
    peer.agree(&call).await;
    assert_eq!(peer.ended().await.0, "waits");
    assert_eq!(peer.ended().await.0, "next");

    // However a wait ends, no place and no memory stay taken.
    let relay = start_relay(&["--executions", "1"]).await;
    let mut peer = Peer::open(&relay).await;
    peer.execute("cancelled", ONE_CALL, &[]).await;
    peer.asks().await;
    until_load(&relay, 0, 0, 1).await;
    let cancel = wire::Cancel { execution_id: "cancelled".into(), ..wire::Cancel::default() };
    peer.send(Payload::Cancel(cancel)).await;
    until_load(&relay, 0, 0, 0).await;
    peer.execute("times-out", ONE_CALL, &[("approval_ms", 200)]).await;
    while !matches!(peer.raw.payload().await, Payload::ToolCall(call) if call.execution_id == "times-out") {}
    drop(peer);
    until_load(&relay, 0, 0, 0).await;
    let mut peer = Peer::open(&relay).await;
    peer.execute("times-out", ONE_CALL, &[("approval_ms", 200)]).await;
    peer.asks().await;
    let mut ended = Vec::new();
    while ended.len() < 2 {
        ended.push(within(peer.raw.payload()).await);
    }
    let [Payload::Cancel(_), Payload::Error(error)] = &ended[..] else { panic!("{ended:?}") };
    assert_eq!(error.tool_code, "APPROVAL_TIMEOUT");
    until_load(&relay, 0, 0, 0).await;
}
