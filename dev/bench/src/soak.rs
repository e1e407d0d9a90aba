//! Soaks a relay: full load for a long time, one execution in twenty hostile, and a canary of another subject. The
//! resources of the relay and the times of the canary must be the same at the end as at the start.

mod cuts;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use host_client::{Client, ClientConfig, ErrorCode, ExecuteRequest, LimitName, LocalRelay, Tools};

use tokio::task::JoinSet;

use crate::measure::tools;
use crate::report::{Times, millis};

pub(crate) use cuts::cuts;

/// Number of sessions of the loading subject.
const SESSIONS: usize = 4;
/// Number of executions that each of them has at once.
const AT_ONCE: usize = 2;
/// One of this many executions is hostile.
const HOSTILE: usize = 20;
/// Number of windows that the time is divided into, each with a line in the report.
const WINDOWS: u32 = 20;

/// Code of a normal execution: some computing, some calls.
const NORMAL: &str = "const all = await Promise.all([1, 2, 3, 4].map((n) => mcp.call('bench.echo', {n}))); \
    const text = JSON.stringify(Array.from({length: 200}, (_, i) => ({i, x: `row ${i}`}))); \
    return {sum: all.reduce((a, b) => a + b, 0), rows: JSON.parse(text).length}";

/// Hostile code of each kind, with the error codes that it may end with; an empty list stands for a value.
const ATTACKS: [(&str, &[ErrorCode]); 10] = [
    ("for(;;){}", &[ErrorCode::CpuLimit, ErrorCode::Timeout]),
    ("[].indexOf.call({length: 2**53 - 1}, 1)", &[ErrorCode::CpuLimit, ErrorCode::Timeout]),
    ("/^(a+)+$/.test('a'.repeat(40) + 'b')", &[ErrorCode::CpuLimit, ErrorCode::Timeout]),
    ("const a = []; for (;;) a.push([a])", &[ErrorCode::MemoryLimit, ErrorCode::CpuLimit]),
    (
        "const a = []; for (;;) a.push(new Uint8Array(1e7).fill(1))",
        &[ErrorCode::EvalError, ErrorCode::MemoryLimit, ErrorCode::CpuLimit],
    ),
    ("for (;;) console.log('x'.repeat(1000))", &[ErrorCode::OutputLimit]),
    ("throw 'x'.repeat(1e8)", &[ErrorCode::EvalError, ErrorCode::CpuLimit]),
    ("const f = () => f(); f()", &[ErrorCode::EvalError]),
    ("await new Promise(() => {})", &[ErrorCode::Unsettled]),
    ("for (let i = 0; i < 500; i++) mcp.call('bench.wait', {n: 60000}); return 'left'", &[]),
];

/// Measurements of one window.
struct Window {
    resident_mb: f64,
    descriptors: usize,
    processes: usize,
    canary: Times,
    executions: usize,
}

/// Loads the relay for this time.
///
/// # Errors
/// A resource or a time grew, or an execution did not end as it should.
#[expect(clippy::print_stdout, reason = "the report is what it is for")]
pub(crate) async fn soak(binary: &Path, duration: Duration) -> anyhow::Result<()> {
    let relay = LocalRelay::start_with(binary.to_owned(), &[], &[("RELAY_LOG", "error")]).await?;
    let pid = relay.process_id().context("the relay has died")?;
    let (on, done) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicUsize::new(0)));
    let mut lanes = JoinSet::new();
    for session in 0..SESSIONS {
        let client = connect(&relay, "load", tools()?).await?;
        for lane in 0..AT_ONCE {
            let (client, on, done) = (client.clone(), Arc::clone(&on), Arc::clone(&done));
            lanes.spawn(load(client, session * AT_ONCE + lane, on, done));
        }
    }
    let canary = connect(&relay, "canary", Tools::new()).await?;
    let mut windows = Vec::new();
    let started = Instant::now();
    println!(
        "{:>7} {:>10} {:>12} {:>10} {:>22} {:>8}",
        "minute", "relay MB", "descriptors", "processes", "canary p50, p99 ms", "runs/s"
    );
    for number in 1..=WINDOWS {
        let until = started + duration / WINDOWS * number;
        let before = done.load(Ordering::Relaxed);
        let (mut times, began) = (Vec::new(), Instant::now());
        while Instant::now() < until {
            let one = Instant::now();
            canary.run(ExecuteRequest::new("return 1")).await.context("the canary")?;
            times.push(one.elapsed());
            tokio::select! {
                // A task that ends early has found a fault.
                Some(ended) = lanes.join_next() => ended??,
                () = tokio::time::sleep(Duration::from_millis(20)) => {}
            }
        }
        let (resident_mb, descriptors, processes) = held(pid)?;
        let executions = done.load(Ordering::Relaxed) - before;
        let window = Window { resident_mb, descriptors, processes, canary: Times::new(times), executions };
        println!(
            "{:>7.1} {:>10.1} {:>12} {:>10} {:>13.2}, {:>7.2} {:>8.0}",
            started.elapsed().as_secs_f64() / 60.0,
            window.resident_mb,
            window.descriptors,
            window.processes,
            millis(window.canary.at(500)),
            millis(window.canary.at(990)),
            window.executions as f64 / began.elapsed().as_secs_f64(),
        );
        windows.push(window);
    }
    on.store(false, Ordering::Relaxed);
    while let Some(ended) = lanes.join_next().await {
        ended??;
    }
    let of = |value: fn(&Window) -> f64| windows.iter().map(value).collect::<Vec<_>>();
    flat("memory of the relay in MB", &of(|window| window.resident_mb), 1.25, 8.0)?;
    flat("descriptors", &of(|window| window.descriptors as f64), 1.25, 20.0)?;
    flat("processes", &of(|window| window.processes as f64), 1.25, 10.0)?;
    flat("the canary's p99 in ms", &of(|window| millis(window.canary.at(990))), 2.0, 5.0)?;
    println!("flat: {} executions in {:.0} minutes", done.load(Ordering::Relaxed), duration.as_secs_f64() / 60.0);
    Ok(())
}

/// Fails if the median of the later half is more than `ratio` times that of the earlier one, and exceeds it by more
/// than `slack`. The first value is left out: the relay warms up.
fn flat(name: &str, values: &[f64], ratio: f64, slack: f64) -> anyhow::Result<()> {
    let median = |values: &[f64]| {
        let mut values = values.to_vec();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or_default()
    };
    let (early, late) = values.split_at(values.len() / 2);
    let (early, late) = (median(early.get(1..).unwrap_or_default()), median(late));
    ensure!(late <= early * ratio || late <= early + slack, "{name} did not stay flat: {early:.2}, then {late:.2}");
    Ok(())
}

async fn connect(relay: &LocalRelay, subject: &str, tools: Tools) -> anyhow::Result<Client> {
    let token = relay.token(&["--subject", subject, "--ttl", "24h"]).await?;
    Ok(Client::connect(ClientConfig::new(format!("ws://{}/ws", relay.address()), token), tools).await?)
}

/// Runs one execution after the other, until the soak is over.
async fn load(client: Client, lane: usize, on: Arc<AtomicBool>, done: Arc<AtomicUsize>) -> anyhow::Result<()> {
    let mut number = lane;
    while on.load(Ordering::Relaxed) {
        number += 1;
        if number.is_multiple_of(HOSTILE) {
            let (code, expected) = ATTACKS[number / HOSTILE % ATTACKS.len()];
            let request = ExecuteRequest::new(code).limit(LimitName::CpuMs, 300).limit(LimitName::WallMs, 20_000);
            match client.run(request.limit(LimitName::HeapBytes, 32 << 20)).await {
                Ok(_) => ensure!(expected.is_empty(), "{code} gave a value"),
                Err(error) => {
                    let code_of = error.code();
                    let is_expected = expected.iter().any(|it| code_of.is_some_and(|code| code == it));
                    ensure!(is_expected, "{code}: {error}");
                }
            }
        } else {
            let outcome = client.run(ExecuteRequest::new(NORMAL)).await?;
            ensure!(&outcome.json[..] == br#"{"sum":10,"rows":200}"#, "a normal execution gave {:?}", outcome.json);
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Returns what the relay uses: resident memory in MB, descriptors, and child processes.
fn held(pid: u32) -> anyhow::Result<(f64, usize, usize)> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kib: f64 = resident.trim().trim_end_matches(" kB").parse()?;
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd"))?.count();
    let mut processes = 0;
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))?.flatten() {
        let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        processes += children.split_ascii_whitespace().count();
    }
    Ok((kib * 1024.0 / 1e6, descriptors, processes))
}
