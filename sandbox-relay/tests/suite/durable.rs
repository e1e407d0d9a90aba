//! Durable runs: what a host by hand has recorded on one relay gives the same calls and the same outcome on another.

mod host;
mod random;
mod refused;
mod waiting;

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::time::Duration;

use host_client::LocalRelay;
use relay_proto::wire;

use crate::support::start_relay;
use host::{End, Host, Journal, Plan, after, at_once};

/// Maximum number of beginnings of one journal that are run again.
const MAX_CUTS: usize = 25;

/// Answers after up to 8 ms, in an order that only `seed` knows.
fn in_any_order(seed: u64) -> impl FnMut(&wire::ToolCall) -> Plan {
    move |call| {
        let mut hasher = DefaultHasher::new();
        (seed, call.index).hash(&mut hasher);
        after(Duration::from_millis(hasher.finish() % 9), call)
    }
}

/// Two relays: one records, the other runs again.
struct Relays([LocalRelay; 2]);

impl Relays {
    async fn start() -> Self {
        Self([start_relay(&[]).await, start_relay(&[]).await])
    }

    /// Records a run on one relay, runs its whole journal again on the other, and then every beginning of the journal.
    async fn record_and_repeat(&self, mut journal: Journal, seed: u64) -> (End, Journal) {
        let mut cuts = vec![journal.clone()];
        let mut recording = Host::connect(&self.0[0]).await;
        let end = recording.run_noting(&mut journal, in_any_order(seed), |journal| cuts.push(journal.clone())).await;
        let mut repeating = Host::connect(&self.0[1]).await;
        assert_eq!(repeating.welcome.build, recording.welcome.build, "a journal of one is good for the other");
        let mut repeated = journal.clone();
        // What a loser of a race does at the very end is not recorded: the run was over.
        let newest = *journal.calls.last_key_value().unwrap().0;
        let unanswered = |call: &wire::ToolCall| -> Plan {
            assert!(call.index > newest || journal.calls.contains_key(&call.index), "{call:?} was not made before");
            None
        };
        let again = repeating.run(&mut repeated, unanswered).await;
        assert_eq!(outcome(&again), outcome(&end), "{}", journal.request.code);
        repeated.calls.retain(|index, _| *index <= newest);
        assert_eq!(repeated.calls, journal.calls);
        for cut in cuts.iter().step_by(cuts.len().div_ceil(MAX_CUTS)) {
            let mut cut = cut.clone();
            let known = cut.steps.clone();
            let end = repeating.run(&mut cut, at_once).await;
            if let End::Error(error) = &end {
                assert_ne!(error.code, "REPLAY_DIVERGED", "{error:?} in {}", journal.request.code);
            }
            assert!(cut.steps.starts_with(&known), "a record only grows");
        }
        (end, journal)
    }
}

/// Returns the value, or the error's code and text.
fn outcome(end: &End) -> Result<&[u8], (&str, &str)> {
    match end {
        End::Result(data) => Ok(data),
        End::Error(error) => Err((&error.code, &error.error)),
    }
}

/// Makes a program whose last call tells the value, so that everything before it is recorded.
fn program(body: &str) -> String {
    format!(
        "const call = (n) => mcp.call('t.echo', {{n, at: Date.now(), random: Math.random()}});
         const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
         const value = await (async () => {{ {body} }})();
         await mcp.call('t.end', {{value}});
         return value;"
    )
}

const PROGRAMS: [(&str, &[&str]); 14] = [
    // One after the other, with the time and chance in the arguments.
    ("const all = []; for (let n = 0; n < 8; n++) all.push(await call(n)); return all", &[]),
    // Together, more of them than are in flight at once.
    ("return Promise.all(Array.from({length: 50}, async (_, n) => [await call(n), Date.now()]))", &[]),
    // The order in which answers come is what the code returns.
    (
        "const order = []; await Promise.all(Array.from({length: 20}, (_, n) => call(n).then((it) => order.push(it.n))));
         return order",
        &[],
    ),
    // Losers go on, and the winner decides what is called next.
    (
        "const all = [];
         for (let n = 0; n < 6; n++) {
             const first = await Promise.race([call(1), call(2), call(3)]);
             all.push(first.n, (await mcp.call('t.echo', {first})).first.n);
         }
         return all",
        &[],
    ),
    (
        "const fails = () => mcp.call('t.fail', {});
         const any = await Promise.any([fails(), call(1), call(2)]);
         return [any, await Promise.any([fails(), fails()]).catch((e) => e.errors.map((e) => e.message))]",
        &[],
    ),
    // Refused by the relay, by the worker, by the tool.
    (
        "const settled = await Promise.allSettled([
             call(1), mcp.call('t.fail', {a: 1}), mcp.call('t.nothing'), mcp.call('u.nothing'), mcp.call('no name'),
             mcp.call('t.echo', {n: 1n}), call(2)]);
         return settled.map(({value, reason}) => value ?? [reason.code, reason.message])",
        &[],
    ),
    // Timers, cleared ones too, and calls between.
    (
        "const order = []; let ticks = 0;
         const cleared = setTimeout(() => order.push('never'), 3);
         const ended = new Promise((resolve) => {
             const interval = setInterval(() => {
                 order.push(['tick', Date.now()]);
                 if (++ticks === 4) { clearInterval(interval); resolve(); }
             }, 2);
         });
         clearTimeout(cleared);
         await Promise.all([sleep(5).then(() => call('slept')), call(1), sleep(0), ended]);
         for (let n = 0; n < 4; n++) { await sleep(n); order.push(await call(n)); }
         return order",
        &["timers"],
    ),
    // A time-out by a timer, won by either.
    (
        "const all = [];
         for (let n = 0; n < 8; n++) {
             const late = Symbol();
             const first = await Promise.race([call(n), sleep(4).then(() => late)]);
             all.push(first === late ? ['late', await call('late')] : first);
         }
         return all",
        &["timers"],
    ),
    // Time-outs by the relay.
    (
        "const never = () => mcp.call('t.never').catch((e) => [e.code, Date.now()]);
         return [await never(), await Promise.all([never(), call(1), never()])]",
        &[],
    ),
    // What is printed, with answers in it.
    (
        "await Promise.all(Array.from({length: 10}, async (_, n) => { await call(n); console.log(n, Date.now()) }));
         console.time('t'); await call(0); console.timeEnd('t'); return Math.random()",
        &["console"],
    ),
    (
        "store.set('count', (store.get('count') ?? 0) + 1);
         await call(store.get('count')); store.set('keys', store.keys()); return store.get('keys')",
        &["store"],
    ),
    ("return [Object.keys(servers), await t.echo({n: 1}), await servers.t.echo({n: 2})]", &["servers"]),
    // Questions for which the code stands still, between others for which it does not.
    (
        "const open = [call(1), call(2), mcp.search('x')];
         const first = __getToolInterface('t.echo'), second = __interfaces;
         return [first, second, await Promise.race(open), await Promise.all(open)]",
        &["introspection"],
    ),
    // An error that nobody catches ends it.
    ("await call(1); await Promise.all([call(2), mcp.call('t.fail', {fatal: 1}), call(3)])", &[]),
];

#[tokio::test]
async fn a_recorded_run_makes_the_same_calls_on_another_relay_wherever_its_journal_ends() {
    let relays = Relays::start().await;
    for (number, (body, bindings)) in PROGRAMS.iter().enumerate() {
        let mut limits = vec![("tool_calls_in_flight", 16)];
        limits.extend(body.contains("t.never").then_some(("tool_call_ms", 100)));
        let journal = Journal::new(&program(body), bindings).limited(&limits);
        let (end, journal) = relays.record_and_repeat(journal, number as u64).await;
        let fails = body.contains("fatal");
        assert_eq!(matches!(end, End::Error(_)), fails, "{body}: {end:?}");
        assert!(!journal.steps.is_empty(), "{body}");
    }
}

#[tokio::test]
async fn local_tools_run_again_with_the_code() {
    let relays = Relays::start().await;
    let body = "const all = await Promise.all([1, 2, 3].map((n) => mcp.call('local.twice', {n})));
                return [all, await call(all.length)]";
    let mut journal = Journal::new(&program(body), &["timers"]);
    let twice = "async ({n}) => { const {n: same} = await mcp.call('t.echo', {n}); return [same * 2, Math.random()] }";
    journal.request.local_tools = [("twice".to_owned(), twice.to_owned())].into();
    let (end, journal) = relays.record_and_repeat(journal, 1).await;
    assert_eq!(end.json()[0].as_array().unwrap().len(), 3);
    assert_eq!(journal.calls.len(), 5);
}
