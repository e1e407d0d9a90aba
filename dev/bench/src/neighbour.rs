//! Measures what one subject's endless loops do to another subject's small executions.

use std::path::Path;
use std::time::Duration;

use host_client::{Client, ClientConfig, ExecuteRequest, LimitName, LocalRelay, Tools};

use crate::measure::one_execution;
use crate::report::{Table, Times, millis};

/// Number of loops that the other subject asks for, and the number of its sessions.
const LOOPS: usize = 200;
const SESSIONS: usize = 25;

/// Times of the quiet subject's executions, before the loops and during them.
struct Seen {
    quiet: Times,
    loud: Times,
}

pub(crate) async fn neighbour(binary: &Path, scale: usize, table: &mut Table) -> anyhow::Result<()> {
    let shared = measure(binary, &[], scale).await?;
    let ratio = |at: usize| shared.loud.at(at).as_secs_f64() / shared.quiet.at(at).as_secs_f64();
    table.at_most("beside another subject's 200 endless loops / quiet, p50", ratio(500), 2.0, "×");
    table.at_most("the same, p99", ratio(990), 5.0, "×");
    table.note("the same in ms, p50 and p99, quiet", both(&shared.quiet));
    table.note("the same in ms, p50 and p99, beside the loops", both(&shared.loud));
    let unlimited = measure(binary, &["--subject-cpus", "1000"], scale).await?;
    table.note("without the limit on CPU for each subject", both(&unlimited.loud));
    Ok(())
}

fn both(times: &Times) -> String {
    format!("{:.2} and {:.2} ms", millis(times.at(500)), millis(times.at(990)))
}

async fn connect(relay: &LocalRelay, subject: &str) -> anyhow::Result<Client> {
    let token = relay.token(&["--subject", subject]).await?;
    Ok(Client::connect(ClientConfig::new(format!("ws://{}/ws", relay.address()), token), Tools::new()).await?)
}

async fn measure(binary: &Path, arguments: &[&str], scale: usize) -> anyhow::Result<Seen> {
    let relay = LocalRelay::start_with(binary.to_owned(), arguments, &[]).await?;
    let small = connect(&relay, "small").await?;
    for _ in 0..50 {
        one_execution(&small).await?;
    }
    let quiet = times(&small, scale).await?;
    let mut loops = Vec::new();
    for _ in 0..SESSIONS {
        let client = connect(&relay, "loud").await?;
        for _ in 0..LOOPS / SESSIONS {
            let request = ExecuteRequest::new("for(;;){}").limit(LimitName::CpuMs, 60_000);
            loops.push(client.execute(request).await?);
        }
    }
    // Let the loops start: their beginning is not measured.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let loud = times(&small, scale).await?;
    drop(loops);
    Ok(Seen { quiet, loud })
}

async fn times(client: &Client, scale: usize) -> anyhow::Result<Times> {
    let mut times = Vec::new();
    for _ in 0..1_000 / scale {
        times.push(one_execution(client).await?);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(Times::new(times))
}
