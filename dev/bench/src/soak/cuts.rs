//! Breaks the connections of a relay at random places under load. Each call must run once, every outcome must have the
//! same bytes, and the relay's resources must not grow.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, ensure};
use host_client::{Backoff, Client, ClientConfig, Effect, ExecuteRequest, LocalRelay, ToolError, Tools};
use relay_test_support::fault::{FaultProxy, Script};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::task::JoinSet;

use super::{AT_ONCE, SESSIONS, WINDOWS, flat, held};

/// Number of calls in one run: half of them one after the other, half at once.
const CALLS: usize = 40;
/// Heartbeat by which a silent connection is detected soon.
const HEARTBEAT: Duration = Duration::from_millis(200);

const CODE: &str = "const run = Number(read_input()), all = [];
    for (let n = 0; n < 20; n++) all.push(await mcp.call('soak.count', {run, n}));
    all.push(...await Promise.all(Array.from({length: 20}, (_, n) => mcp.call('soak.count', {run, n: n + 20}))));
    emit(String(all.length));
    return all.join()";

#[derive(Debug, Deserialize, JsonSchema)]
struct Call {
    run: u64,
    n: usize,
}

/// Number of times that each call ran, by run and by number of the call.
type Runs = Arc<Mutex<HashMap<u64, [u32; CALLS]>>>;

fn tools(runs: &Runs) -> anyhow::Result<Tools> {
    let (tools, runs) = (Tools::new(), Arc::clone(runs));
    tools.add("soak.count", "Counts its calls", Effect::ReadOnly, move |Call { run, n }| {
        let mut runs = runs.lock().unwrap_or_else(PoisonError::into_inner);
        let ran = runs.entry(run).or_insert([0; CALLS]).get_mut(n).map(|count| *count += 1);
        async move { ran.map(|()| n * 7).ok_or_else(|| ToolError::new("there is no such number")) }
    })?;
    Ok(tools)
}

/// Breaks connections `cuts` times. `seed` decides the random places; its default comes from the time.
///
/// # Errors
/// An execution failed or gave other bytes, a call did not run once, or a resource grew.
#[expect(clippy::print_stdout, reason = "the report is what it is for")]
pub(crate) async fn cuts(binary: &Path, cuts: usize, seed: Option<u64>) -> anyhow::Result<()> {
    let fresh = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| u64::from(time.subsec_nanos()));
    let seed = seed.unwrap_or_else(fresh);
    println!("{cuts} cuts; --seed {seed} gives the same places again");
    let heartbeat = HEARTBEAT.as_millis().to_string();
    let arguments = ["--heartbeat-ms", &heartbeat];
    let relay = LocalRelay::start_with(binary.to_owned(), &arguments, &[("RELAY_LOG", "error")]).await?;
    let pid = relay.process_id().context("the relay has died")?;
    let plan = move |number| if number < SESSIONS { Script::clean() } else { Script::random(seed, number) };
    let proxy = FaultProxy::start(relay.address(), plan).await?;
    let (on, runs, done) = (Arc::new(AtomicBool::new(true)), Runs::default(), Arc::new(AtomicU64::new(0)));
    let mut lanes = JoinSet::new();
    let config = ClientConfig {
        url: proxy.url(),
        heartbeat: HEARTBEAT,
        resume: Some(Duration::from_secs(60)),
        ..relay.client_config().await?
    };
    let config = ClientConfig { backoff: Backoff { first: Duration::from_millis(1), ..config.backoff }, ..config };
    for _ in 0..SESSIONS {
        let client = Client::connect(config.clone(), tools(&runs)?).await?;
        for _ in 0..AT_ONCE {
            lanes.spawn(load(client.clone(), Arc::clone(&on), Arc::clone(&runs), Arc::clone(&done)));
        }
    }
    // Break the first connections of the sessions, too.
    proxy.break_all(relay_test_support::fault::Break::Reset);
    let broken = |fates: &[relay_test_support::fault::Fate]| fates.iter().filter(|fate| fate.broken.is_some()).count();
    println!("{:>7} {:>10} {:>12} {:>10} {:>8}", "cuts", "relay MB", "descriptors", "processes", "runs");
    let (mut memory, mut descriptors, mut processes) = (Vec::new(), Vec::new(), Vec::new());
    let started = Instant::now();
    for number in 1..=WINDOWS {
        let goal = cuts * number as usize / WINDOWS as usize;
        tokio::select! {
            () = proxy.until(|fates| broken(fates) >= goal) => {}
            // A task that ends early has found a fault.
            Some(ended) = lanes.join_next() => ended??,
        }
        let (resident_mb, open, children) = held(pid)?;
        let runs = done.load(Ordering::Relaxed);
        println!("{goal:>7} {resident_mb:>10.1} {open:>12} {children:>10} {runs:>8}");
        memory.push(resident_mb);
        descriptors.push(open as f64);
        processes.push(children as f64);
    }
    on.store(false, Ordering::Relaxed);
    while let Some(ended) = lanes.join_next().await {
        ended??;
    }
    flat("memory of the relay in MB", &memory, 1.25, 8.0)?;
    flat("descriptors", &descriptors, 1.25, 20.0)?;
    flat("processes", &processes, 1.25, 10.0)?;
    let (runs, seconds) = (done.load(Ordering::Relaxed), started.elapsed().as_secs_f64());
    println!(
        "flat: {} cuts, {runs} executions, each of whose calls ran once, in {seconds:.0} s",
        broken(&proxy.fates())
    );
    Ok(())
}

/// Runs one execution after the other, until the soak is over.
async fn load(client: Client, on: Arc<AtomicBool>, runs: Runs, done: Arc<AtomicU64>) -> anyhow::Result<()> {
    static RUN: AtomicU64 = AtomicU64::new(0);
    let expected = format!("\"{}\"", (0..CALLS).map(|n| (n * 7).to_string()).collect::<Vec<_>>().join(","));
    while on.load(Ordering::Relaxed) {
        let run = RUN.fetch_add(1, Ordering::Relaxed);
        let outcome = client.run(ExecuteRequest::new(CODE).io(run.to_string())).await?;
        ensure!(outcome.json[..] == *expected.as_bytes(), "run {run} gave {:?}", outcome.json);
        let counts = runs.lock().unwrap_or_else(PoisonError::into_inner).remove(&run);
        ensure!(counts == Some([1; CALLS]), "the calls of run {run} ran {counts:?} times");
        done.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}
