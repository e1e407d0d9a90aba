//! Relays are killed while they run a durable run's code. Each tool runs once, and the outcome is that of an undisturbed run.

use std::sync::Arc;
use std::time::Duration;

use host_client::{Client, ClientConfig, ExecuteRequest, LazyClient, LocalRelay, Run};
use relay_test_support::within;
use serde_json::Value;

use crate::stage::{Folder, Ledger, Relays, nothing, runs, tools};

/// Calls of all kinds: in parallel, in races, in a row; with timers, errors, random numbers, times, local tools, output and the
/// session's store.
const CODE: &str = "
    const seen = [];
    console.log('begins');
    const all = await Promise.all(Array.from({length: 50}, (_, n) => mcp.call('t.step', {n, extra: Math.random()})));
    seen.push(all.map(({n, text}) => n + text).join());
    const first = await Promise.race([mcp.call('t.slow', {n: 50}), mcp.call('t.step', {n: 51, extra: Date.now()})]);
    seen.push(first.n);
    seen.push(await new Promise(done => setTimeout(() => done('timer'), 30)));
    try { await mcp.call('t.fail', {n: 52}) } catch (error) { seen.push(error.message) }
    const any = await Promise.any([mcp.call('t.fail', {n: 53}), mcp.call('t.step', {n: 54, extra: Math.random()})]);
    seen.push(any.n);
    seen.push(await mcp.call('local.double', 21));
    store.set('last', any.n);
    const settled = await Promise.allSettled([mcp.call('t.step', {n: 55}), mcp.call('t.fail', {n: 56})]);
    seen.push(settled.map(it => it.status));
    const ticks = [];
    await new Promise(done => {
        const timer = setInterval(async () => {
            const n = 57 + ticks.length;
            ticks.push(n);
            if (ticks.length === 3) { clearInterval(timer); done() }
            await mcp.call('t.step', {n, extra: [Date.now(), Math.random()]});
        }, 15);
    });
    for (let n = 60; n < 66; n++) {
        const {text} = await mcp.call('t.step', {n, extra: [Date.now(), Math.random(), store.get('last')]});
        seen.push(text);
        console.log(`${n} is done`);
    }
    return seen;";

fn request() -> ExecuteRequest {
    ExecuteRequest::new(CODE).bindings(["console", "timers", "store"]).local_tool("double", "n => 2 * n")
}

async fn outcome(run: &Run) -> (Value, Vec<String>) {
    let outcome = within(run.outcome()).await.unwrap();
    let output = outcome.output.iter().map(|item| item.text.clone()).collect();
    (outcome.value().unwrap(), output)
}

/// Returns the outcome without any fault.
async fn undisturbed() -> (Value, Vec<String>) {
    let (folder, relays, ledger) = (Folder::new(), Relays::default(), Ledger::default());
    let runs = runs(relays.client(folder.host(tools(&ledger, nothing)).await));
    let run = within(runs.start(request())).await.unwrap();
    let outcome = outcome(&run).await;
    ledger.assert_each_once(0..66);
    outcome
}

/// The victim of a fault.
#[derive(Clone, Copy)]
enum Victim {
    Relay,
    Workers,
}

/// Runs the code, and kills the victim that `kills` names for a call, before the call is answered.
async fn disturbed(kills: impl Fn(usize) -> Option<Victim> + Send + Sync + 'static) -> (Value, Vec<String>) {
    let (folder, relays, ledger) = (Folder::new(), Relays::default(), Ledger::default());
    let (killed, kills) = (relays.clone(), Arc::new(kills));
    let each = move |count| {
        let (relays, kills) = (killed.clone(), Arc::clone(&kills));
        async move {
            match kills(count) {
                Some(Victim::Relay) => relays.kill().await,
                Some(Victim::Workers) => relays.kill_workers().await,
                None => {}
            }
        }
    };
    let runs = runs(relays.client(folder.host(tools(&ledger, each)).await));
    let run = within(runs.start(request())).await.unwrap();
    let mut events = run.events();
    let watcher = tokio::spawn(async move {
        let mut told = Vec::new();
        while let Some(event) = events.next().await {
            if let host_client::Event::Output(item) = event {
                told.push(item.text);
            }
        }
        told
    });
    let outcome = outcome(&run).await;
    ledger.assert_each_once(0..66);
    // Output is told once, whatever runs again.
    assert_eq!(within(watcher).await.unwrap(), outcome.1);
    outcome
}

#[tokio::test]
async fn a_relay_that_is_killed_in_every_call_of_one_run_changes_nothing() {
    assert_eq!(disturbed(|_| Some(Victim::Relay)).await, undisturbed().await);
}

#[tokio::test]
async fn a_relay_that_is_killed_once_changes_nothing_wherever_that_is() {
    let whole = undisturbed().await;
    for call in [1, 2, 25, 50, 52, 54, 57, 59, 60, 62, 65] {
        assert_eq!(
            disturbed(move |count| (count == call).then_some(Victim::Relay)).await,
            whole,
            "killed in call {call}"
        );
    }
}

#[tokio::test]
async fn workers_that_are_killed_change_nothing() {
    let kills = |count: usize| count.is_multiple_of(6).then_some(Victim::Workers);
    assert_eq!(disturbed(kills).await, undisturbed().await);
}

#[tokio::test]
async fn a_relay_that_is_killed_between_calls_changes_nothing() {
    let (folder, relays, ledger) = (Folder::new(), Relays::default(), Ledger::default());
    let runs = runs(relays.client(folder.host(tools(&ledger, nothing)).await));
    let whole = undisturbed().await;
    let run = within(runs.start(request())).await.unwrap();
    let killer = {
        let (relays, run) = (relays.clone(), run.clone());
        tokio::spawn(async move {
            for _ in 0..8 {
                if run.outcome_within(Duration::from_millis(120)).await.is_some() {
                    return;
                }
                relays.kill().await;
            }
        })
    };
    assert_eq!(outcome(&run).await, whole);
    within(killer).await.unwrap();
    ledger.assert_each_once(0..66);
}

#[tokio::test]
async fn a_run_goes_on_at_the_next_address_when_its_relay_is_gone() {
    let (folder, ledger) = (Folder::new(), Ledger::default());
    let secret = [("RELAY_JWT_SECRET", "a secret that both relays know, of enough bytes")];
    let start = || async {
        let builder = secret.iter().fold(LocalRelay::builder(), |builder, (name, value)| builder.env(*name, *value));
        within(builder.start()).await.unwrap()
    };
    let (first, second) = (start().await, start().await);
    let config = ClientConfig {
        fallbacks: vec![second.url()],
        resume: Some(Duration::from_millis(50)),
        ..first.client_config().await.unwrap()
    };
    let killed = Arc::new(tokio::sync::Mutex::new(first));
    let each = move |count| {
        let relay = Arc::clone(&killed);
        async move {
            if count == 5 {
                relay.lock().await.kill().await.unwrap();
            }
        }
    };
    let host = folder.host(tools(&ledger, each)).await;
    let client = LazyClient::new(host, move |host| Client::connect(config.clone(), host));
    let runs = runs(client);
    let code = "const seen = []; for (let n = 0; n < 9; n++) seen.push((await mcp.call('t.step', {n})).n); return seen";
    let run = within(runs.start(ExecuteRequest::new(code))).await.unwrap();
    let value = within(run.outcome()).await.unwrap().value().unwrap();
    assert_eq!(value, serde_json::json!([0, 1, 2, 3, 4, 5, 6, 7, 8]));
    ledger.assert_each_once(0..9);
}
