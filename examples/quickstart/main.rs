//! Audits the packages that a Rust project depends on: one script, sent once, reads them all through two tools.
//!
//! The script runs on a relay in a process of its own. It sees the tools `files.list` and `files.read`, which are confined
//! to one folder, and nothing else. Only its small answer would go to a model.

mod packages;
mod report;
mod tools;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use clap::Parser;
use host_client::{Client, ClientConfig, Error, ExecuteRequest, LocalRelay};

use report::Progress;
use tools::Traffic;

/// Audits the packages that a Rust project depends on, with one script in a sandbox.
#[derive(Debug, Parser)]
struct Args {
    /// A Rust project, or a folder of packages [default: this repository]
    folder: Option<PathBuf>,
    /// A script of your own in place of the audit
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
}

/// The limits of the audit, higher than the defaults: it reads everything.
const LIMITS: [&str; 3] = ["tool_calls=20000", "cpu_ms=60000", "wall_ms=300000"];

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let folder = args.folder.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(".."));
    let script = match &args.script {
        Some(file) => std::fs::read_to_string(file).with_context(|| format!("{} cannot be read", file.display()))?,
        None => include_str!("audit.js").to_owned(),
    };
    let packages = packages::find(&folder)?;
    eprintln!("{} packages in {}", packages.folders.len(), packages.root.display());

    let traffic = Arc::new(Traffic::default());
    let tools = tools::tools(&packages, &traffic)?;

    // A relay of our own, with a token made for this run. In production it would be a container somewhere else.
    let relay = LocalRelay::start().await?;
    let limits = LIMITS.iter().flat_map(|limit| ["--limit", limit]);
    let token = relay.token(&["--subject", "quickstart"].into_iter().chain(limits).collect::<Vec<_>>()).await?;
    let client = Client::connect(ClientConfig::new(format!("ws://{}/ws", relay.address()), token), tools).await?;

    let started = Instant::now();
    let mut execution = client.execute(ExecuteRequest::new(script.as_str())).await?;
    let events = execution.events().context("the events were taken")?;
    let progress = tokio::spawn(Progress::new(Arc::clone(&traffic)).watch(events));
    let result = execution.await;
    progress.await?;

    let outcome = match result {
        Ok(outcome) => outcome,
        Err(Error::Execution(error)) => anyhow::bail!("the script failed: {error}"),
        Err(error) => return Err(error.into()),
    };
    report::print(&outcome, &traffic, script.len(), started.elapsed())
}
