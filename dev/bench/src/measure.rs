//! Measures the relay. Two things that are compared are measured in turns, so that noise on the machine affects both.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use host_client::{Client, Effect, ExecuteRequest, LimitName, LocalRelay, ToolError, Tools};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::echo::Echo;
use crate::report::{Table, Times, micros, millis};

#[derive(Debug, Deserialize, JsonSchema)]
struct Number {
    n: u64,
}

pub(crate) fn tools() -> anyhow::Result<Tools> {
    let tools = Tools::new();
    tools.add("bench.echo", "Gives the number back", Effect::ReadOnly, |Number { n }| async move {
        Ok::<_, ToolError>(n)
    })?;
    tools.add("bench.wait", "Waits so many milliseconds", Effect::ReadOnly, |Number { n }| async move {
        tokio::time::sleep(Duration::from_millis(n)).await;
        Ok::<_, ToolError>(n)
    })?;
    Ok(tools)
}

pub(crate) async fn relay(binary: &Path, arguments: &[&str]) -> anyhow::Result<(LocalRelay, Client)> {
    let relay = LocalRelay::start_with(binary.to_owned(), arguments, &[]).await?;
    let client = Client::connect(relay.client_config().await?, tools()?).await?;
    // The first executions are slower: caches are cold.
    for _ in 0..50 {
        client.run(ExecuteRequest::new("return 1")).await?;
    }
    Ok((relay, client))
}

/// Measures everything, in the order of the table.
pub(crate) async fn all(binary: &Path, scale: usize, image: Option<u64>, table: &mut Table) -> anyhow::Result<()> {
    let (relay, client) = self::relay(binary, &[]).await?;
    executions(&client, scale, table).await?;
    sequential_calls(binary, &client, scale, table).await?;
    parallel_calls(&client, scale, table).await?;
    crate::script::short_paths(&client, scale, table).await?;
    endless_loops(&client, scale, table).await?;
    memory(&relay, &client, table).await?;
    drop((client, relay));
    start(binary, scale, table).await?;
    backends(binary, scale, table).await?;
    crate::pipeline::pipeline(scale, table).await?;
    crate::script::code(scale, table)?;
    crate::resume::all(binary, scale, table).await?;
    crate::neighbour::neighbour(binary, scale, table).await?;
    if let Some(bytes) = image {
        #[expect(clippy::cast_precision_loss, reason = "a size in MB")]
        table.at_most("image", bytes as f64 / 1e6, 70.0, "MB");
    }
    Ok(())
}

pub(crate) async fn one_execution(client: &Client) -> anyhow::Result<Duration> {
    let started = Instant::now();
    client.run(ExecuteRequest::new("return 1")).await?;
    Ok(started.elapsed())
}

async fn executions(client: &Client, scale: usize, table: &mut Table) -> anyhow::Result<()> {
    let mut times = Vec::new();
    for _ in 0..2_000 / scale {
        times.push(one_execution(client).await?);
        // Wait until the relay is at rest, so that the executions do not overlap.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let times = Times::new(times);
    table.at_most("execution without calls, one at a time, p50", millis(times.median()), 0.6, "ms");
    table.at_most("execution without calls, one at a time, p99", millis(times.at(990)), 3.0, "ms");
    let started = Instant::now();
    let mut times = Vec::new();
    for _ in 0..1_000 / scale {
        times.push(one_execution(client).await?);
    }
    let per_second = (1_000 / scale) as f64 / started.elapsed().as_secs_f64();
    let times = Times::new(times);
    table.note(
        "1,000 back to back, p50 and p99",
        format!("{:.2} and {:.2} ms", millis(times.median()), millis(times.at(990))),
    );
    table.note("executions per second, concurrency 1", format!("{per_second:.0} /s"));
    let mut rates = Vec::new();
    for _ in 0..3 {
        let started = Instant::now();
        let count = 2_000 / scale;
        let workers = (0..8).map(|_| {
            let client = client.clone();
            tokio::spawn(async move {
                for _ in 0..count / 8 {
                    one_execution(&client).await?;
                }
                anyhow::Ok(())
            })
        });
        for worker in workers.collect::<Vec<_>>() {
            worker.await??;
        }
        rates.push((count / 8 * 8) as f64 / started.elapsed().as_secs_f64());
    }
    rates.sort_by(f64::total_cmp);
    table.at_least("executions per second, concurrency 8", rates[1], 1_200.0, "/s");
    Ok(())
}

/// Times of sequential calls and of the raw echo, and their ratio.
struct Sequential {
    call: Duration,
    echo: Duration,
    ratio: f64,
}

/// Measures one call, from a loop of many, and a raw echo of as many bytes, in turns.
async fn measure_sequential(client: &Client, scale: usize) -> anyhow::Result<Sequential> {
    let calls = 500;
    let code = "const n = Number(read_input()); for (let i = 0; i < n; i++) await mcp.call('bench.echo', {n: i})";
    let mut echo = Echo::start().await?;
    // A tool_call frame with these names and numbers has about as many bytes, and its answer fewer.
    let bytes = 64;
    let (mut ours, mut floor, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..20.max(scale) / scale {
        let started = Instant::now();
        for _ in 0..calls {
            echo.round_trip(bytes).await?;
        }
        let round_trip = started.elapsed() / calls;
        let started = Instant::now();
        client.run(ExecuteRequest::new(code).io(calls.to_string())).await?;
        let call = started.elapsed() / calls;
        ratios.push(call.as_secs_f64() / round_trip.as_secs_f64());
        ours.push(call);
        floor.push(round_trip);
    }
    ratios.sort_by(f64::total_cmp);
    let ratio = ratios[ratios.len() / 2];
    Ok(Sequential { call: Times::new(ours).median(), echo: Times::new(floor).median(), ratio })
}

/// Measures the same in a process of its own, with everything on one processor. A round trip between processes takes
/// several times longer if it wakes another processor, and the scheduler decides whether it does.
pub(crate) async fn sequential_calls_alone(binary: &Path, scale: usize) -> anyhow::Result<()> {
    let (_relay, client) = relay(binary, &[]).await?;
    let Sequential { call, echo, ratio } = measure_sequential(&client, scale).await?;
    print_line(&format!("{} {} {ratio}", micros(call), micros(echo)));
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the parent process reads it")]
fn print_line(line: &str) {
    println!("{line}");
}

async fn sequential_calls(binary: &Path, client: &Client, scale: usize, table: &mut Table) -> anyhow::Result<()> {
    let Sequential { call, echo, ratio } = measure_sequential(client, scale).await?;
    let (call, echo) = (micros(call), micros(echo));
    table.note("one sequential tool call / raw echo, as scheduled", format!("{call:.0} / {echo:.0} µs = {ratio:.1} ×"));
    let mut command = tokio::process::Command::new(std::env::current_exe()?);
    command.arg("--one-processor").arg("--relay").arg(binary);
    if scale > 1 {
        command.arg("--quick");
    }
    let output = command.stderr(std::process::Stdio::inherit()).output().await?;
    let text = String::from_utf8(output.stdout)?;
    let figures = text.split_ascii_whitespace().map(str::parse).collect::<Result<Vec<f64>, _>>()?;
    let [call, echo, ratio] = figures[..] else { anyhow::bail!("no figures from --one-processor") };
    table.note("the same, all on one processor", format!("{call:.0} / {echo:.0} µs"));
    table.at_most("one sequential tool call / raw echo, same placement", ratio, 3.0, "×");
    Ok(())
}

async fn parallel_calls(client: &Client, scale: usize, table: &mut Table) -> anyhow::Result<()> {
    let code = "const all = await Promise.all(Array.from({length: 1000}, (_, n) => mcp.call('bench.echo', {n}))); \
        return all.length";
    let mut times = Vec::new();
    for _ in 0..50 / scale {
        let started = Instant::now();
        let outcome = client.run(ExecuteRequest::new(code)).await?;
        times.push(started.elapsed());
        anyhow::ensure!(outcome.parse::<u64>()? == 1_000);
    }
    let times = Times::new(times);
    table.at_most("1,000 parallel calls in one execution", millis(times.median()), 30.0, "ms");
    Ok(())
}

async fn endless_loops(client: &Client, scale: usize, table: &mut Table) -> anyhow::Result<()> {
    let limit = 100;
    for (name, code) in
        [("for(;;){}", "for(;;){}"), ("a loop that ignores termination", "[].indexOf.call({length:2**53-1},1)")]
    {
        let mut late = Vec::new();
        for _ in 0..20.max(scale) / scale {
            let started = Instant::now();
            let result = client.run(ExecuteRequest::new(code).limit(LimitName::WallMs, limit)).await;
            late.push(started.elapsed().saturating_sub(Duration::from_millis(limit)));
            anyhow::ensure!(result.is_err());
        }
        let late = Times::new(late);
        table.at_most(&format!("{name}: gone after its deadline, worst"), millis(late.at(1_000)), 50.0, "ms");
    }
    Ok(())
}

/// Returns the proportional set size of a process, in MB.
fn pss_megabytes(pid: u32) -> anyhow::Result<f64> {
    Ok(memory_bytes(pid, "Pss:")? / 1e6)
}

/// Returns the memory of a process that belongs to no file, in bytes.
pub(crate) fn anonymous_bytes(pid: u32) -> anyhow::Result<f64> {
    memory_bytes(pid, "Anonymous:")
}

/// Returns a line of the kernel's sums over all mappings of a process, in bytes.
fn memory_bytes(pid: u32, name: &str) -> anyhow::Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let line = text.lines().find(|line| line.starts_with(name)).with_context(|| format!("no {name}"))?;
    let kib: f64 = line.split_ascii_whitespace().nth(1).context("no number")?.parse()?;
    Ok(kib * 1024.0)
}

fn children(pid: u32) -> anyhow::Result<Vec<u32>> {
    let mut children = Vec::new();
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let text = std::fs::read_to_string(task?.path().join("children"))?;
        children.extend(text.split_ascii_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
    }
    Ok(children)
}

async fn memory(relay: &LocalRelay, client: &Client, table: &mut Table) -> anyhow::Result<()> {
    let pid = relay.process_id().context("the relay has ended")?;
    table.note("the relay's own process, idle (PSS)", format!("{:.1} MB", pss_megabytes(pid)?));
    let waiting: Vec<_> = {
        let mut waiting = Vec::new();
        for _ in 0..8 {
            let code = "return await mcp.call('bench.wait', {n: 3000})";
            waiting.push(client.execute(ExecuteRequest::new(code)).await?);
        }
        waiting
    };
    tokio::time::sleep(Duration::from_millis(500)).await;
    let mut sizes: Vec<_> = children(pid)?.into_iter().filter_map(|pid| pss_megabytes(pid).ok()).collect();
    sizes.sort_by(f64::total_cmp);
    drop(waiting);
    let median = sizes.get(sizes.len() / 2).copied().context("no worker was found")?;
    table.at_most("one waiting worker (PSS)", median, 3.5, "MB");
    Ok(())
}

async fn start(binary: &Path, scale: usize, table: &mut Table) -> anyhow::Result<()> {
    let mut times = Vec::new();
    for _ in 0..20.max(scale) / scale {
        let started = Instant::now();
        let relay = LocalRelay::start_with(binary.to_owned(), &[], &[]).await?;
        loop {
            let mut stream = tokio::net::TcpStream::connect(relay.address()).await?;
            use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
            stream.write_all(b"GET /ready HTTP/1.1\r\nHost: relay\r\nConnection: close\r\n\r\n").await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            if answer.starts_with("HTTP/1.1 200") {
                break;
            }
            tokio::time::sleep(Duration::from_micros(500)).await;
        }
        times.push(started.elapsed());
    }
    table.at_most("relay start until /ready", millis(Times::new(times).median()), 60.0, "ms");
    Ok(())
}

async fn backends(binary: &Path, scale: usize, table: &mut Table) -> anyhow::Result<()> {
    // Without workers made ahead, the time includes all that it costs to make one.
    let arguments = |backend| ["--worker-backend", backend, "--worker-stock", "1"];
    let (_fork_relay, fork) = relay(binary, &arguments("fork")).await?;
    let (_exec_relay, exec) = relay(binary, &arguments("exec")).await?;
    let (mut fork_times, mut exec_times) = (Vec::new(), Vec::new());
    for _ in 0..300 / scale {
        fork_times.push(one_execution(&fork).await?);
        exec_times.push(one_execution(&exec).await?);
    }
    let (fork, exec) = (Times::new(fork_times).median(), Times::new(exec_times).median());
    let ratio = exec.as_secs_f64() / fork.as_secs_f64();
    table.note(
        "a worker by fork / by exec, back to back",
        format!("{:.2} / {:.2} ms = 1 : {ratio:.1}", millis(fork), millis(exec)),
    );
    Ok(())
}
