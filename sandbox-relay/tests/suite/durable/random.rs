//! Programs made at random, whose answers come in any order: recorded on one relay, cut anywhere, run again on another.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tokio::runtime::Runtime;

use super::host::{End, Host, Journal, at_once};
use super::{Relays, in_any_order, outcome, program};

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
