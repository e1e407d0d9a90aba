//! The benchmarks: prints a table of what was measured, with ratios to what was measured beside it in the same run.

mod echo;
mod measure;
mod report;

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
    /// The relay's binary, if not the one beside this program
    #[arg(long)]
    relay: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    if echo::is_server() {
        return tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(echo::serve());
    }
    let args = Args::parse();
    let relay = args.relay.unwrap_or_else(host_client::local::find_binary);
    // A thread for each core, as an application would have them.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let scale = if args.quick { 10 } else { 1 };
    let mut table = report::Table::new();
    runtime.block_on(measure::all(&relay, scale, args.image_bytes, &mut table))?;
    table.print();
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(())
}
