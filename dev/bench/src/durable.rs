//! Measures what durable runs cost: a call with a journal and one without, code that runs again elsewhere, and runs that wait.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use futures_util::StreamExt as _;
use host_client::page::LocalPage;
use host_client::runs::RunState;
use host_client::{
    Client, Durability, Effect, ExecuteRequest, Host, LazyClient, LocalRelay, Policy, RunOptions, Runs, SqliteJournal,
    ToolError, Tools,
};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::Notify;

use crate::measure::{anonymous_bytes, tools};
use crate::page::Browser;
use crate::report::{Table, Times, micros, millis};

/// Number of runs that wait at once.
const WAITING: usize = 10_000;
/// Number of calls that are recorded before the code runs again.
const RECORDED: u32 = 200;

/// Code that makes as many calls as its input says, one after the other.
const CALLS: &str = "const n = Number(read_input()); for (let i = 0; i < n; i++) await mcp.call('bench.echo', {n: i})";

/// The same with a tool that changes something.
const CHANGES: &str =
    "const n = Number(read_input()); for (let i = 0; i < n; i++) await mcp.call('bench.change', {n: i})";

/// Measures everything, in the order of the table.
pub(crate) async fn all(binary: &Path, scale: usize, table: &mut Table) -> anyhow::Result<()> {
    let folder = tempfile::tempdir_in(".")?;
    calls(binary, folder.path(), scale, table).await?;
    again(binary, folder.path(), scale, table).await?;
    waiting(binary, folder.path(), scale, table).await
}

async fn journal(path: &Path, durability: Durability) -> anyhow::Result<SqliteJournal> {
    Ok(SqliteJournal::options().durability(durability).open(path).await?)
}

async fn client(relay: &LocalRelay, host: Host) -> anyhow::Result<LazyClient> {
    Ok(Client::connect(relay.client_config().await?, host).await?.into())
}

/// Makes a host with a tool that changes something, beside those of all benchmarks. All may run.
fn host() -> anyhow::Result<Host> {
    let tools = tools()?;
    tools.add("bench.change", "Changes nothing, but could", Effect::Mutating, |Number { n }| async move {
        Ok::<_, ToolError>(n)
    })?;
    Ok(Host::new(tools).policy(Policy::new().allow(["*"])))
}

/// Measures calls of durable runs and of others, in turns.
async fn calls(binary: &Path, folder: &Path, scale: usize, table: &mut Table) -> anyhow::Result<()> {
    const COUNT: u32 = 250;
    let relay = LocalRelay::start_with(binary.to_owned(), &[], &[]).await?;
    let plain = client(&relay, host()?).await?;
    for (name, code, durability, rounds) in [
        ("", CALLS, Durability::Process, 200),
        (" that changes something", CHANGES, Durability::Process, 200),
        (" that changes something, and survives a power failure", CHANGES, Durability::Power, 40),
    ] {
        let request = || ExecuteRequest::new(code).io(COUNT.to_string());
        let path = folder.join(format!("calls-{}", name.len()));
        let host = host()?.journal(journal(&path, durability).await?);
        let runs = Runs::new(client(&relay, host).await?, RunOptions::default())?;
        let time = async |is_durable: bool| -> anyhow::Result<Duration> {
            let started = Instant::now();
            match is_durable {
                true => runs.start(request()).await?.outcome().await?,
                false => plain.run(request()).await?,
            };
            Ok(started.elapsed() / COUNT)
        };
        for _ in 0..3 {
            time(true).await?;
            time(false).await?;
        }
        let (mut with, mut without, mut more) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..rounds / scale {
            let first = round % 2 == 0;
            let (one, other) = (time(first).await?, time(!first).await?);
            let (durable, other) = if first { (one, other) } else { (other, one) };
            more.push(durable.saturating_sub(other));
            with.push(durable);
            without.push(other);
        }
        let (with, without) = (Times::new(with).median(), Times::new(without).median());
        let both = format!("{:.0} / {:.0} µs", micros(with), micros(without));
        table.note(&format!("a sequential call of a durable run{name} / of another"), both);
        let more = micros(Times::new(more).median());
        match durability {
            Durability::Process => table.at_most("the same, median of the differences", more, 60.0, "µs"),
            _ => table.note("the same, median of the differences", format!("{more:.0} µs")),
        }
        if name.is_empty() {
            let runs_made = u64::try_from(rounds / scale + 3)? * u64::from(COUNT);
            let bytes = path.metadata()?.len().checked_div(runs_made).context("no call was made")?;
            table.note("bytes of the journal for a call", bytes.to_string());
        }
    }
    Ok(())
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Number {
    n: u32,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Nothing {}

/// Measures the time until code with recorded calls goes on at another relay, in another process.
async fn again(binary: &Path, folder: &Path, scale: usize, table: &mut Table) -> anyhow::Result<()> {
    let (one, other) = (
        LocalRelay::start_with(binary.to_owned(), &[], &[]).await?,
        LocalRelay::start_with(binary.to_owned(), &[], &[]).await?,
    );
    let held = Arc::new(Notify::new());
    let process = async |relay: &LocalRelay| -> anyhow::Result<Runs> {
        let (tools, telling) = (tools()?, Arc::clone(&held));
        tools.add("bench.hold", "Never answers", Effect::ReadOnly, move |_: Nothing| {
            telling.notify_one();
            std::future::pending::<Result<(), ToolError>>()
        })?;
        let host = Host::new(tools).journal(journal(&folder.join("again"), Durability::Process).await?);
        Ok(Runs::new(client(relay, host).await?, RunOptions::default())?)
    };
    let code = format!("{CALLS}; await mcp.call('bench.hold', {{}})");
    let mut times = Vec::new();
    for round in 0..50 / scale {
        let (from, to) = if round % 2 == 0 { (&one, &other) } else { (&other, &one) };
        let first = process(from).await?;
        let run = first.start(ExecuteRequest::new(&code).io(RECORDED.to_string())).await?;
        held.notified().await;
        first.leave().await;
        let second = process(to).await?;
        let started = Instant::now();
        let run = second.resume(run.id()).await?;
        held.notified().await;
        times.push(started.elapsed());
        run.cancel();
        ensure!(run.outcome().await.is_err(), "a cancelled run has no value");
    }
    let name = format!("until code with {RECORDED} recorded calls goes on at another relay, p50");
    table.at_most(&name, millis(Times::new(times).median()), 30.0, "ms");
    Ok(())
}

/// Measures the memory of runs that wait for people, at their host and at the relay.
async fn waiting(binary: &Path, folder: &Path, scale: usize, table: &mut Table) -> anyhow::Result<()> {
    let count = WAITING / scale;
    let relay = LocalRelay::start_with(binary.to_owned(), &[], &[]).await?;
    let relay_process = relay.process_id().context("the relay has ended")?;
    let tools = Tools::new();
    tools.add("bench.pay", "Needs an approval", Effect::Mutating, |_: Nothing| async { Ok::<_, ToolError>(()) })?;
    let waiting = Arc::new(journal(&folder.join("waiting"), Durability::Process).await?);
    let host = Host::new(tools).policy(Policy::new().ask(["*"])).journal(waiting.clone());
    let options =
        RunOptions { passivate_after: Duration::from_millis(1), open_runs: 2 * WAITING, ..RunOptions::default() };
    let runs = Runs::new(client(&relay, host).await?, options)?;
    let start = async || -> anyhow::Result<()> {
        let run = runs.start(ExecuteRequest::new("await mcp.call('bench.pay', {})")).await?;
        match run.settled().await {
            RunState::WaitingForApproval(_) => Ok(()),
            other => anyhow::bail!("a run does not wait for a person: {other:?}"),
        }
    };
    // The first runs grow caches and pools once: they are not measured.
    for _ in 0..200 {
        start().await?;
    }
    let (host_before, relay_before) = (anonymous_bytes(std::process::id())?, anonymous_bytes(relay_process)?);
    let started = Instant::now();
    let mut all = futures_util::stream::iter(0..count).map(|_| start()).buffer_unordered(16);
    while let Some(waits) = all.next().await {
        waits?;
    }
    let took = started.elapsed();
    let (host, relay) = (anonymous_bytes(std::process::id())?, anonymous_bytes(relay_process)?);
    let runs_made = f64::from(u32::try_from(count)?);
    let each = |after: f64, before: f64| (after - before) / runs_made;
    table.note(&format!("{count} runs begin and wait for a person"), format!("{:.1} s", took.as_secs_f64()));
    table.note("memory of a waiting run at its host", format!("{:.1} kB", each(host, host_before) / 1e3));
    table.note("memory of a waiting run at the relay", format!("{:.0} bytes", each(relay, relay_before)));
    listed(waiting, count, scale, table).await
}

/// Measures the list of many runs on the page.
async fn listed(journal: Arc<SqliteJournal>, count: usize, scale: usize, table: &mut Table) -> anyhow::Result<()> {
    let page = LocalPage::open((Ipv4Addr::LOCALHOST, 0).into(), |page| page.with_journal(journal)).await?;
    let browser = Browser::open(page.address()).await?;
    let mut times = Vec::new();
    for _ in 0..50 / scale {
        let started = Instant::now();
        let list = browser.view("/runs").await?;
        times.push(started.elapsed());
        ensure!(list.contains("href=\"/runs/"), "the list is empty");
    }
    let name = format!("the page's list of {count} runs, p50");
    table.at_most(&name, millis(Times::new(times).median()), 200.0, "ms");
    Ok(())
}
