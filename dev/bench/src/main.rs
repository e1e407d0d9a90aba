//! Runs the benchmarks and prints a table, with ratios of things that were measured side by side in the same run.

mod durable;
mod echo;
mod journal;
mod measure;
mod neighbour;
mod output;
mod page;
mod pipeline;
mod report;
mod resume;
mod script;
mod soak;

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

/// Measures the relay of the same build.
#[derive(Debug, Parser)]
struct Args {
    /// Fewer repetitions: to see that everything runs
    #[arg(long)]
    quick: bool,
    /// The image of the relay, to print its size
    #[arg(long)]
    image_bytes: Option<u64>,
    /// Measure only sequential calls, with everything on one processor
    #[arg(long, hide = true)]
    one_processor: bool,
    /// Load the relay for so many minutes instead, one execution in twenty hostile, and see that nothing grows
    #[arg(long)]
    soak_minutes: Option<u64>,
    /// Break the connections of a relay so many times instead, at random, and see that each call runs once and nothing grows
    #[arg(long)]
    soak_cuts: Option<usize>,
    /// The number that the random places of `--soak-cuts` come from; by default a fresh one, which is printed
    #[arg(long)]
    seed: Option<u64>,
    /// Measure only what a call costs on the host
    #[arg(long)]
    pipeline: bool,
    /// Measure only what it costs that a session survives its socket
    #[arg(long)]
    resume: bool,
    /// Measure only what it costs to look at code, and to make what is one call on the host
    #[arg(long)]
    script: bool,
    /// Measure only what durable runs cost
    #[arg(long)]
    durable: bool,
    /// Measure only what a call costs while a browser shows its run
    #[arg(long)]
    page: bool,
    /// Measure only what it costs to append to the journal of durable runs
    #[arg(long)]
    journal: bool,
    /// Measure only how long it takes to show the largest results to a model
    #[arg(long)]
    output: bool,
    /// The relay's binary, if not the one beside this program
    #[arg(long)]
    relay: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    if echo::is_server() {
        return tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(echo::serve());
    }
    let args = Args::parse();
    if args.one_processor {
        // Set this before any thread or child process exists: all inherit it.
        let mut only = rustix::thread::CpuSet::new();
        only.set(0);
        rustix::thread::sched_setaffinity(None, &only)?;
    }
    let relay = args.relay.unwrap_or_else(host_client::local::find_binary);
    // One thread for each core, as in most applications.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let scale = if args.quick { 10 } else { 1 };
    let mut table = report::Table::new();
    // Use a task, as applications do: a future that `block_on` polls is woken across threads.
    let measured = runtime.spawn(async move {
        if args.one_processor && args.resume {
            resume::calls_alone(&relay, scale).await?;
            return Ok(None);
        }
        if args.one_processor {
            measure::sequential_calls_alone(&relay, scale).await?;
            return Ok(None);
        }
        if let Some(minutes) = args.soak_minutes {
            soak::soak(&relay, Duration::from_secs(minutes * 60)).await?;
            return Ok(None);
        }
        if let Some(cuts) = args.soak_cuts {
            soak::cuts(&relay, cuts, args.seed).await?;
            return Ok(None);
        }
        if args.pipeline {
            pipeline::pipeline(scale, &mut table).await?;
            return Ok(Some(table));
        }
        if args.resume {
            resume::all(&relay, scale, &mut table).await?;
            return Ok(Some(table));
        }
        if args.script {
            script::all(&relay, scale, &mut table).await?;
            return Ok(Some(table));
        }
        if args.durable {
            durable::all(&relay, scale, &mut table).await?;
            return Ok(Some(table));
        }
        if args.page {
            page::calls(&relay, scale, &mut table).await?;
            return Ok(Some(table));
        }
        if args.journal {
            journal::journal(scale, &mut table).await?;
            return Ok(Some(table));
        }
        if args.output {
            output::output(scale, &mut table)?;
            return Ok(Some(table));
        }
        measure::all(&relay, scale, args.image_bytes, &mut table).await?;
        anyhow::Ok(Some(table))
    });
    if let Some(table) = runtime.block_on(measured)?? {
        table.print();
    }
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(())
}
