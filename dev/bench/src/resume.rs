//! Measures what resumable sessions cost: a call in a session with resume and in one without, the time to reconnect,
//! and the memory of an idle session.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use host_client::{Backoff, Client, ClientConfig, Effect, ExecuteRequest, LimitName, LocalRelay, ToolError, Tools};
use relay_test_support::fault::{Break, FaultProxy, Script};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::Notify;

use crate::measure::{anonymous_bytes, tools};
use crate::report::{Table, Times, micros, millis};

/// Number of sessions that are idle at once.
const IDLE: usize = 2_000;

/// Measures everything, in the order of the table.
pub(crate) async fn all(binary: &Path, scale: usize, table: &mut Table) -> anyhow::Result<()> {
    calls(binary, scale, table).await?;
    way_back(binary, scale, table).await?;
    idle(binary, scale, table).await
}

/// Connects to a relay; `is_on`: the session can be resumed.
async fn connect(relay: &LocalRelay, tools: Tools, is_on: bool) -> anyhow::Result<Client> {
    let config = relay.client_config().await?;
    let resume = if is_on { config.resume } else { None };
    Ok(Client::connect(ClientConfig { resume, ..config }, tools).await?)
}

/// Measures calls in a process of its own, with everything on one processor: see `measure::sequential_calls_alone`.
async fn calls(binary: &Path, scale: usize, table: &mut Table) -> anyhow::Result<()> {
    let mut command = tokio::process::Command::new(std::env::current_exe()?);
    command.args(["--one-processor", "--resume", "--relay"]).arg(binary);
    if scale > 1 {
        command.arg("--quick");
    }
    let output = command.stderr(Stdio::inherit()).output().await?;
    let text = String::from_utf8(output.stdout)?;
    let figures = text.split_ascii_whitespace().map(str::parse).collect::<Result<Vec<f64>, _>>()?;
    let [with, without, ratio] = figures[..] else { anyhow::bail!("no figures from --one-processor --resume") };
    table.note("a sequential call with `resume` / without it", format!("{with:.1} / {without:.1} µs"));
    table.at_most("the same, median of the ratios", ratio, 1.03, "×");
    Ok(())
}

/// Prints the time of a call with `resume`, without it, and the median of their ratios.
#[expect(clippy::print_stdout, reason = "the parent process reads it")]
pub(crate) async fn calls_alone(binary: &Path, scale: usize) -> anyhow::Result<()> {
    const CALLS: u32 = 250;
    let code = "const n = Number(read_input()); for (let i = 0; i < n; i++) await mcp.call('bench.echo', {n: i})";
    let relay = LocalRelay::start_with(binary.to_owned(), &[], &[]).await?;
    let (on, off) = (connect(&relay, tools()?, true).await?, connect(&relay, tools()?, false).await?);
    let time = async |client: &Client| -> anyhow::Result<Duration> {
        let started = Instant::now();
        client.run(ExecuteRequest::new(code).io(CALLS.to_string())).await?;
        Ok(started.elapsed() / CALLS)
    };
    for _ in 0..5 {
        time(&on).await?;
        time(&off).await?;
    }
    let (mut with, mut without, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..200 / scale {
        // Each of the two goes first in half of the rounds.
        let (one, other) = if round % 2 == 0 {
            let one = time(&on).await?;
            (one, time(&off).await?)
        } else {
            let other = time(&off).await?;
            (time(&on).await?, other)
        };
        ratios.push(one.as_secs_f64() / other.as_secs_f64());
        with.push(one);
        without.push(other);
    }
    ratios.sort_by(f64::total_cmp);
    let ratio = ratios[ratios.len() / 2];
    println!("{} {} {ratio}", micros(Times::new(with).median()), micros(Times::new(without).median()));
    Ok(())
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Nothing {}

/// Measures the time from the break of a connection to the next call that reaches its tool.
async fn way_back(binary: &Path, scale: usize, table: &mut Table) -> anyhow::Result<()> {
    const CALLS: u64 = 100_000;
    let relay = LocalRelay::builder().binary(binary.to_owned()).limit(LimitName::ToolCalls, CALLS).start().await?;
    let proxy = FaultProxy::start(relay.address(), |_| Script::clean()).await?;
    let called = Arc::new(Notify::new());
    let (tools, telling) = (Tools::new(), Arc::clone(&called));
    tools.add("bench.tell", "Tells that it was called", Effect::ReadOnly, move |_: Nothing| {
        telling.notify_waiters();
        async { Ok::<_, ToolError>(()) }
    })?;
    let config = relay.client_config().await?;
    let backoff = Backoff { first: Duration::from_millis(1), ..config.backoff };
    let client = Client::connect(ClientConfig { url: proxy.url(), backoff, ..config }, tools).await?;
    let code = "for (;;) await mcp.call('bench.tell', {})";
    let running = client.execute(ExecuteRequest::new(code)).await?;
    let measured = async {
        let mut times = Vec::new();
        for _ in 0..200 / scale {
            for _ in 0..20 {
                called.notified().await;
            }
            let before = proxy.fates().len();
            proxy.break_all(Break::Reset);
            let broken = Instant::now();
            proxy.until(|fates| fates.len() > before && fates[before - 1].is_over).await;
            called.notified().await;
            times.push(broken.elapsed());
        }
        times
    };
    let times = tokio::select! {
        times = measured => Times::new(times),
        ended = running => anyhow::bail!("the code has ended: {ended:?}"),
    };
    table.at_most("a broken connection until the next call reaches its tool, p50", millis(times.median()), 5.0, "ms");
    table.note("the same, p99", format!("{:.2} ms", millis(times.at(990))));
    Ok(())
}

/// Measures the memory of the relay for each of many sessions that have run one execution and now do nothing, with `resume` and without it.
async fn idle(binary: &Path, scale: usize, table: &mut Table) -> anyhow::Result<()> {
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..3.max(scale) / scale {
        with.push(idle_bytes(binary, IDLE / scale, true).await?);
        without.push(idle_bytes(binary, IDLE / scale, false).await?);
    }
    with.sort_by(f64::total_cmp);
    without.sort_by(f64::total_cmp);
    let [with, without] = [with, without].map(|bytes| bytes[bytes.len() / 2] / 1e3);
    table.note("an idle session at the relay with `resume` / without it", format!("{with:.2} / {without:.2} kB"));
    table.at_most("the difference", with - without, 2.0, "kB");
    Ok(())
}

/// Returns the bytes that a relay's process allocates for each of `count` idle sessions. The heap grows by whole pages and
/// has one arena, so that with thousands of sessions the mean is exact to some bytes.
async fn idle_bytes(binary: &Path, count: usize, is_on: bool) -> anyhow::Result<f64> {
    let flags = ["--threads", "1", "--connections", "5000", "--address-connections", "5000"];
    let flags = [&flags[..], &["--subject-connections", "5000"]].concat();
    // One arena, which keeps nothing for large blocks apart.
    let variables = [("MALLOC_ARENA_MAX", "1"), ("MALLOC_MMAP_THRESHOLD_", "1073741824")];
    let relay = LocalRelay::start_with(binary.to_owned(), &flags, &variables).await?;
    let pid = relay.process_id().context("the relay has ended")?;
    let config = relay.client_config().await?;
    let resume = if is_on { config.resume } else { None };
    let config = ClientConfig { resume, ..config };
    let mut sessions = Vec::new();
    // The first sessions grow tables that the later ones use as well.
    for _ in 0..100 {
        sessions.push(Client::connect(config.clone(), Tools::new()).await?);
    }
    let before = anonymous_bytes(pid)?;
    for _ in 0..count {
        let client = Client::connect(config.clone(), Tools::new()).await?;
        // Both kinds of session have buffers for reading and writing after this.
        client.run(ExecuteRequest::new("return 1")).await?;
        sessions.push(client);
    }
    let after = anonymous_bytes(pid)?;
    ensure!(sessions.iter().all(|session| !session.is_over()), "a session has ended");
    #[expect(clippy::cast_precision_loss, reason = "a small number")]
    Ok((after - before) / count as f64)
}
