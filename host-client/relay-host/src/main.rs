//! `relay-host`: runs code on a sandbox relay from the command line, with the tools of MCP servers, and serves code
//! execution to MCP clients.

mod approvals;
mod args;
mod audit;
mod call;
mod commands;
mod connection;
mod doctor;
mod durable;
mod exit;
mod files;
mod interrupt;
mod journal;
mod openapi;
mod output;
mod policy;
mod progress;
mod repl;
mod report;
mod run;
mod runs;
mod serve;
mod session;
mod setup;
mod tools;
mod ui;
mod user;
mod warnings;

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory as _, Parser as _};
use tracing_subscriber::EnvFilter;

use args::{Cli, Command};
use exit::{FAILED, Failure};
use output::{note, print};
use progress::Progress;

/// Maximum time that blocking work, such as reading a terminal, may delay the end of the program.
const LINGER: Duration = Duration::from_millis(200);
/// Default filter of logs, without the warnings about invalid requests of MCP clients. `RELAY_LOG` replaces it.
const LOGGED: &str = "warn,rmcp::service=error";
/// Default filter of logs for short commands, which report failed MCP servers themselves.
const LOGGED_SHORTLY: &str = "warn,host_client_sources::mcp::life=off";

fn main() -> ExitCode {
    let cli = Cli::parse();
    let progress = Progress::new();
    log(&progress, if matches!(cli.command, Command::ServeMcp(_)) { LOGGED } else { LOGGED_SHORTLY });
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            note(&format!("relay-host: it cannot be started: {error}"));
            return ExitCode::from(FAILED);
        }
    };
    let done = runtime.block_on(command(cli.command, &progress));
    progress.hide();
    runtime.shutdown_timeout(LINGER);
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.text.is_empty() {
                // Indented, so that no line of an error from code or a server looks like a message of its own.
                note(&format!("relay-host: {}", failure.text.replace('\n', "\n  ")));
            }
            ExitCode::from(failure.status)
        }
    }
}

/// Sends logs to standard error, without disturbing the progress line.
fn log(progress: &Progress, usual: &str) {
    let named = EnvFilter::try_from_env("RELAY_LOG");
    let is_person = named.is_err() && std::io::stderr().is_terminal();
    let logs = tracing_subscriber::fmt()
        .with_env_filter(named.unwrap_or_else(|_| EnvFilter::new(usual)))
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(progress.clone());
    if is_person { logs.without_time().with_target(false).init() } else { logs.init() }
}

/// Runs one command.
async fn command(command: Command, progress: &Progress) -> Result<(), Failure> {
    match command {
        Command::Run(args) if args.runs.durable => durable::run(args, progress).await,
        Command::Run(args) => run::run(args, progress).await,
        Command::Runs(args) => runs::runs(args, progress).await,
        Command::Ui(args) => ui::ui(args).await,
        Command::Tools(args) => tools::tools(args, progress).await,
        Command::Call(args) => call::call(args, progress).await,
        Command::Repl(args) => repl::repl(args, progress).await,
        Command::ServeMcp(args) => serve::serve(args).await,
        Command::Doctor(args) => doctor::doctor(args, progress).await,
        Command::Policy(args) => policy::policy(args, progress).await,
        Command::Audit(args) => audit::audit(args),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "relay-host", &mut script);
            print(String::from_utf8_lossy(&script).trim_end())
        }
    }
}
