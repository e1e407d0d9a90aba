//! Programs made at random, whose answers come in any order: recorded on one relay, cut anywhere, run again on another.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use relay_proto::wire;
use tokio::runtime::Runtime;

use super::host::{End, Host, Journal, at_once};
use super::{Relays, in_any_order, outcome, program};
use crate::support::start_relay;

/// An expression whose value is a promise.
fn expression() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        4 => (0..9_u8).prop_map(|n| format!("call({n})")),
        2 => (0..6_u8).prop_map(|ms| format!("sleep({ms}).then(() => ['slept', Date.now()])")),
        1 => (0..9_u8).prop_map(|n| format!("mcp.call('t.fail', {{n: {n}}}).catch((e) => e.message)")),
        1 => Just("mcp.call('t.nothing').catch((e) => [e.code, Date.now()])".to_owned()),
        1 => (0..9_u8).prop_map(|n| format!("(async () => {{ console.log({n}, Math.random()); return {n} }})()")),
        1 => Just("mcp.call('local.twice', {n: Math.random()})".to_owned()),
        1 => Just("mcp.call('t.never').catch((e) => [e.code, Date.now()])".to_owned()),
        1 => (0..9_u8).prop_map(|n| format!("mcp.search('{n}')")),
        1 => Just("(async () => [__getToolInterface('t.echo'), Date.now()])()".to_owned()),
        1 => Just("new Promise((resolve) => {
                let ticks = 0;
                const id = setInterval(() => { if (++ticks === 3) { clearInterval(id); resolve(Date.now()) } }, 2);
            })".to_owned()),
    ];
    leaf.prop_recursive(3, 24, 5, |inner| {
        let some = prop::collection::vec(inner.clone(), 1..5).prop_map(|all| all.join(", "));
        prop_oneof![
            some.clone().prop_map(|all| format!("Promise.all([{all}])")),
            some.clone().prop_map(|all| format!("Promise.race([{all}])")),
            some.clone().prop_map(|all| format!("Promise.any([{all}])")),
            some.prop_map(|all| format!("Promise.allSettled([{all}])")),
            (inner.clone(), inner.clone())
                .prop_map(|(a, b)| format!("(async () => [await {a}, await mcp.call('t.echo', {{n: await {b}}})])()")),
            inner.prop_map(|it| format!("{it}.then((it) => mcp.call('t.echo', {{it}}))")),
        ]
    })
}

/// Number of programs; `PROPTEST_CASES` replaces it.
fn config() -> Config {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(12);
    Config { cases, failure_persistence: None, max_shrink_iters: 40, ..Config::default() }
}

#[test]
fn whatever_the_program_and_wherever_it_is_cut_it_goes_on_as_it_began() {
    let runtime = Runtime::new().unwrap();
    let relays = runtime.block_on(Relays::start());
    let cases = (prop::collection::vec(expression(), 1..5), any::<u64>(), 0..40_u64, 1..12_u64);
    TestRunner::new(config())
        .run(&cases, |(expressions, seed, stop_after_ms, in_flight)| {
            let all: Vec<_> = expressions.iter().map(|it| format!("all.push(await {it});")).collect();
            // Which of several errors ends a program is recorded only if a call tells it.
            let body =
                format!("const all = []; try {{ {} }} catch (e) {{ all.push(String(e)) }} return all", all.join("\n"));
            let code = program(&body);
            let limits = [("tool_calls_in_flight", in_flight), ("tool_call_ms", 80)];
            let mut journal = Journal::new(&code, &["timers", "console", "introspection"]).limited(&limits);
            let twice = "async ({n}) => (await mcp.call('t.echo', {n: n * 2})).n";
            journal.request.local_tools = [("twice".to_owned(), twice.to_owned())].into();
            runtime.block_on(async {
                relays.record_and_repeat(journal.clone(), seed).await;
                stop_and_go_on(&relays, journal, seed, Duration::from_millis(stop_after_ms)).await;
            });
            Ok(())
        })
        .unwrap();
}

/// A change of a record: a byte that is another, one that is gone, or a part that comes twice.
#[derive(Debug, Clone, Copy)]
enum Damage {
    Other(u8),
    Gone,
    Twice,
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![any::<u8>().prop_map(Damage::Other), Just(Damage::Gone), Just(Damage::Twice)]
}

fn damaged(mut steps: Vec<u8>, place: usize, damage: Damage) -> Vec<u8> {
    let place = place % steps.len();
    match damage {
        Damage::Other(byte) => steps[place] = byte,
        Damage::Gone => drop(steps.remove(place)),
        Damage::Twice => steps.extend_from_within(place..),
    }
    steps
}

#[test]
fn a_damaged_record_ends_its_own_run_and_nothing_else() {
    let runtime = Runtime::new().unwrap();
    let relay = runtime.block_on(start_relay(&[]));
    let code = program(
        "const all = []; const interval = setInterval(() => all.push(Date.now()), 2);
         for (let n = 0; n < 5; n++) all.push(await Promise.race([call(n), sleep(2), call(n)]), __getToolInterface('t'));
         clearInterval(interval); return all",
    );
    let mut journal = Journal::new(&code, &["timers", "introspection"]).limited(&[("wall_ms", 2_000)]);
    runtime.block_on(async { Host::connect(&relay).await.run(&mut journal, in_any_order(3)).await }).json();
    let cases = (any::<usize>(), damage());
    let config = Config { cases: config().cases * 5, ..config() };
    TestRunner::new(config)
        .run(&cases, |(place, damage)| {
            let mut journal = Journal { steps: damaged(journal.steps.clone(), place, damage), ..journal.clone() };
            // Other calls than before have this index now.
            journal.calls.clear();
            journal.request.durable = Some(wire::Durable { again: true, ..wire::Durable::default() });
            let end = runtime.block_on(async { Host::connect(&relay).await.run(&mut journal, at_once).await });
            if let End::Error(error) = end {
                let expected = ["REPLAY_DIVERGED", "INVALID_INPUT", "TIMEOUT"];
                prop_assert!(expected.contains(&error.code.as_str()), "{:?}", error);
            }
            Ok(())
        })
        .unwrap();
}

/// Cancels a run at any time, and goes on with what was recorded until then, on either relay.
async fn stop_and_go_on(relays: &Relays, mut journal: Journal, seed: u64, stop_after: Duration) {
    let stopped = tokio::time::sleep(stop_after);
    let mut host = Host::connect(&relays.0[0]).await;
    let first = host.run_stopped(&mut journal, in_any_order(seed), |_| {}, stopped).await;
    let mut ends = Vec::new();
    for relay in relays.0.iter().rev() {
        let end = Host::connect(relay).await.run(&mut journal, at_once).await;
        assert!(!matches!(&end, End::Error(error) if error.code == "REPLAY_DIVERGED"), "{end:?} after {first:?}");
        ends.push(end);
    }
    assert_eq!(outcome(&ends[0]), outcome(&ends[1]), "the second run is that of the first: {}", journal.request.code);
}
