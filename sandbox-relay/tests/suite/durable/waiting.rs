//! What a relay says of a run that waits, and a host that ends it meanwhile and runs it again when its time has come.

use std::time::Duration;

use relay_proto::wire;
use relay_proto::wire::message::Payload;
use serde_json::json;

use super::host::{Host, Journal, Plan, after, at_once, host_time_ms};
use super::program;
use crate::support::start_relay;

const HOUR_MS: i64 = 3_600_000;

impl Journal {
    fn waiting_after(mut self, ms: u64) -> Self {
        self.request.durable.as_mut().unwrap().waiting_after_ms = ms;
        self
    }
}

#[tokio::test]
async fn a_run_that_sleeps_for_hours_is_ended_and_run_again_when_its_timer_is_due() {
    let relays = [start_relay(&[]).await, start_relay(&[]).await];
    let code = program(&format!(
        "const began = Date.now(), at = () => Math.round((Date.now() - began) / {HOUR_MS} * 10) / 10;
         const all = [(await call(0)).n];
         await sleep({HOUR_MS}); all.push(at());
         await sleep(2 * {HOUR_MS}); all.push(at(), (await call(1)).n);
         return all"
    ));
    let mut journal = Journal::new(&code, &["timers"]).waiting_after(60_000);
    for (attempt, hours) in [(0, 0), (1, 1), (2, 3)] {
        journal.clock_offset_ms = hours * HOUR_MS;
        let mut host = Host::connect(&relays[attempt % 2]).await;
        if attempt < 2 {
            let left = host.run_until_waiting(&mut journal, at_once).await.unwrap();
            let (hour, most) = (u64::try_from(HOUR_MS).unwrap(), [1, 2][attempt]);
            assert!(((most * hour - 60_000)..=most * hour).contains(&left), "{left}");
        } else {
            let end = host.run(&mut journal, at_once).await;
            assert_eq!(end.json(), json!([0, 1, 3, 1]), "the clock is that of the steps");
        }
    }
    assert_eq!(journal.waiting.len(), 2, "once for each wait: {:?}", journal.waiting);
}

#[tokio::test]
async fn a_wait_for_an_answer_is_told_once_when_it_lasts() {
    let relay = start_relay(&[]).await;
    let mut host = Host::connect(&relay).await;
    let mut journal = Journal::new(&program("return [(await call(1)).n, (await call(2)).n]"), &[]).waiting_after(30);
    host.begin(journal.execute()).await;
    for n in 1..=3_u64 {
        let Payload::ToolCall(call) = host.payload().await else { panic!("call {n} does not come") };
        assert_eq!(call.index, n);
        let Payload::Waiting(waiting) = host.payload().await else { panic!("wait {n} does not come") };
        assert_eq!((waiting.timer_in_ms, waiting.steps.len()), (None, 0), "the steps came with the call");
        // What comes after the answer is the next call: this wait was told once.
        let Some((_, answer)) = at_once(&call) else { panic!("no answer") };
        host.answer(&mut journal, &call, answer).await;
    }
    assert!(matches!(host.payload().await, Payload::Result(_)));
}

#[tokio::test]
async fn nothing_is_told_of_short_waits_nor_to_a_host_that_does_not_want_it() {
    let relay = start_relay(&[]).await;
    let mut host = Host::connect(&relay).await;
    let body = "for (let n = 0; n < 10; n++) { await sleep(3); await call(n) } return 'done'";
    let soon = |call: &wire::ToolCall| -> Plan { after(Duration::from_millis(3), call) };
    for waiting_after in [0, 60_000] {
        let mut journal = Journal::new(&program(body), &["timers"]).waiting_after(waiting_after);
        assert_eq!(host.run(&mut journal, soon).await.json(), "done");
        assert_eq!(journal.waiting, []);
    }
}

#[tokio::test]
async fn begun_tells_what_the_code_sees_of_its_session() {
    let relay = start_relay(&[]).await;
    let mut host = Host::connect(&relay).await;
    let mut first = Journal::new("store.set('a', [1]); return await mcp.call('t.echo')", &["store"]);
    host.run(&mut first, at_once).await.json();
    assert_eq!(first.begun.unwrap(), wire::Begun { execution_id: "run-1".into(), ..wire::Begun::default() });
    let code = "const before = store.get('a'); store.set('a', 'other'); store.set('b', 2);
                await mcp.call('t.echo'); return [before, store.keys(), Object.keys(t)]";
    let mut second = Journal::new(code, &["store", "servers"]);
    let end = host.run(&mut second, at_once).await;
    assert_eq!(end.json(), json!([[1], ["a", "b"], ["echo", "end", "fail", "never"]]));
    let begun = second.begun.clone().unwrap();
    assert_eq!(begun.store, [("a".to_owned(), b"[1]".to_vec().into())].into());
    assert_eq!(begun.tools.len(), 4);
    // A session whose store and tools are others: the code sees the old ones, and writes to its store.
    let mut other = Host::connect_with(&relay, &["t.echo"]).await;
    assert_eq!(other.run(&mut second, at_once).await, end);
    let mut reads = Journal::new("return [store.get('a'), store.get('b')]", &["store"]);
    assert_eq!(other.run(&mut reads, at_once).await.json(), json!(["other", 2]));
    // Without such a binding, there is nothing to tell.
    let mut plain = Journal::new("return 1", &["console", "timers"]);
    other.run(&mut plain, at_once).await.json();
    assert!(plain.begun.is_none());
}

#[tokio::test]
async fn a_timer_counts_from_when_it_is_set() {
    let relay = start_relay(&[]).await;
    let mut host = Host::connect(&relay).await;
    let mut journal = Journal::new(&program("await sleep(60); await call(1); await sleep(60); return 1"), &["timers"]);
    // As if the execution had waited for its turn: its clock still stands at the time of its beginning.
    journal.clock_offset_ms = 10_000;
    let since = std::time::Instant::now();
    host.run(&mut journal.clone(), at_once).await.json();
    assert!(since.elapsed() >= Duration::from_millis(120), "{:?}", since.elapsed());
    // One that began before has set its timer then, and does not begin to wait anew.
    let mut journal = Journal::new(&program("await sleep(600_000); return 1"), &["timers"]);
    journal.clock_offset_ms = 700_000;
    journal.request.durable.as_mut().unwrap().again = true;
    assert_eq!(host.run(&mut journal, at_once).await.json(), 1);
}

#[tokio::test]
async fn code_cannot_tell_what_is_not_recorded() {
    let relay = start_relay(&[]).await;
    let body = "const wrong = await mcp.call('echo', {}).catch((e) => e.message);
                return [wrong, typeof WeakRef, typeof FinalizationRegistry, typeof globalThis.WeakRef, await call(1)]";
    let mut journal = Journal::new(&program(body), &[]);
    let end = Host::connect(&relay).await.run(&mut journal, at_once).await;
    let value = end.json();
    assert!(!value[0].as_str().unwrap().contains("did you mean"), "tools may be others when it runs again: {value}");
    assert_eq!([&value[1], &value[2], &value[3]], [&json!("undefined"); 3]);
    let mut other = Host::connect_with(&relay, &["x.echo", "t.echo", "t.end"]).await;
    assert_eq!(other.run(&mut journal, at_once).await, end);
}

#[tokio::test]
async fn the_clock_is_the_hosts_and_stands_still_between_steps() {
    let relay = start_relay(&[]).await;
    let mut host = Host::connect(&relay).await;
    let began = host_time_ms();
    let body = "const began = Date.now(); let n = 0; while (n < 3e5) n++;
                const same = Date.now() === began; await sleep(20); const slept = Date.now() - began;
                await call(1); return [began, same, slept, new Date().getTime() >= began + slept]";
    let mut journal = Journal::new(&program(body), &["timers"]);
    let value = host.run(&mut journal, at_once).await.json();
    assert_eq!((&value[1], &value[3]), (&json!(true), &json!(true)));
    assert!(value[0].as_i64().unwrap() - began < HOUR_MS / 2, "not the machine's clock: {value}");
    assert!((20..HOUR_MS / 2).contains(&value[2].as_i64().unwrap()), "{value}");
}
