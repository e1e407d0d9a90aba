//! `relay-host`: runs code on a sandbox relay from the command line, with the tools of MCP servers, and serves the same to
//! MCP clients.

mod args;
mod audit;
mod call;
mod exit;
mod progress;
mod repl;
mod run;
mod serve;
mod setup;
mod tools;

use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory as _, Parser as _};
use tracing_subscriber::EnvFilter;

use args::{Cli, Command};
use exit::{FAILED, Failure};

/// What is logged unless RELAY_LOG says otherwise. That a client asks for what is not there is its own affair.
const LOGGED: &str = "warn,rmcp::service=error";
/// How long what cannot be cancelled, such as reading a terminal, may hold up the end of the program.
const LINGER: Duration = Duration::from_millis(100);

fn main() -> ExitCode {
    let cli = Cli::parse();
    let filter = EnvFilter::try_from_env("RELAY_LOG").unwrap_or_else(|_| EnvFilter::new(LOGGED));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("relay-host: it cannot be started: {error}");
            return ExitCode::from(FAILED);
        }
    };
    let done = runtime.block_on(command(cli.command));
    runtime.shutdown_timeout(LINGER);
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.text.is_empty() {
                eprintln!("relay-host: {}", failure.text);
            }
            ExitCode::from(failure.status)
        }
    }
}

async fn command(command: Command) -> Result<(), Failure> {
    match command {
        Command::Run(args) => run::run(args).await,
        Command::Tools(args) => tools::tools(args).await,
        Command::Call(args) => call::call(args).await,
        Command::Repl(args) => repl::repl(args).await,
        Command::ServeMcp(args) => serve::serve(args).await,
        Command::Audit(args) => audit::audit(args),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "relay-host", &mut std::io::stdout());
            Ok(())
        }
    }
}
