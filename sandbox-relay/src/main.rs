//! The program: reads the command line, starts the log, runs a subcommand.

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;
use sandbox_relay::config::{LogFormat, ServeArgs, Settings};
use sandbox_relay::eval::EvalArgs;
use sandbox_relay::healthcheck::HealthcheckArgs;
use sandbox_relay::token::TokenArgs;
use sandbox_relay::{Finding, ProcessArgs, eval, healthcheck, serve, token};
use tracing_subscriber::EnvFilter;

/// Runs model-written JavaScript, one V8 process per execution, and calls a host's tools for it.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve hosts over WebSocket
    Serve(Box<ServeArgs>),
    /// Print the settings that `serve` would use with the same flags, as JSON
    Settings(Box<ServeArgs>),
    /// Print a token made with the configured secret
    Token(Box<TokenArgs>),
    /// Run one script from standard input: {"source","input","limits":{"wall_ms","output_kb"}}
    Eval(EvalArgs),
    /// Ask a relay on this machine whether it is ready
    Healthcheck(HealthcheckArgs),
    /// Try from inside a worker's lock what it forbids, on this machine
    SelfTest,
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    #[command(hide = true)]
    InternalZygote(ProcessArgs),
    #[command(hide = true)]
    InternalWorker(ProcessArgs),
}

/// Exit status when the settings are wrong or the server cannot start.
const EXIT_USAGE: u8 = 2;

fn main() -> ExitCode {
    let command = Cli::parse().command;
    // Some of these fork: no log, no runtime, no thread before.
    match command {
        Command::InternalZygote(args) => return internal(sandbox_relay::run_zygote(args)),
        Command::InternalWorker(args) => return internal(sandbox_relay::run_worker(args)),
        Command::SelfTest => return self_test(),
        Command::Settings(args) => return settings(&args),
        Command::Completions { shell } => return completions(shell),
        _ => {}
    }
    let filter = EnvFilter::try_from_env("RELAY_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(error, EXIT_USAGE),
    };
    match command {
        Command::Serve(args) => {
            let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
            match args.log_format {
                LogFormat::Text => log.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).init(),
                LogFormat::Json => log.json().flatten_event(true).init(),
            }
            runtime.block_on(serve::serve(*args)).map_or_else(|error| fail(error, EXIT_USAGE), |()| ExitCode::SUCCESS)
        }
        Command::Token(args) => match token::token(*args) {
            Ok(token) => print(&token),
            Err(error) => fail(error, EXIT_USAGE),
        },
        Command::Eval(args) => match runtime.block_on(eval::eval(args)) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(error) => fail(error, 1),
        },
        Command::Healthcheck(args) => {
            healthcheck::healthcheck(&args).map_or_else(|error| fail(error, 1), |()| ExitCode::SUCCESS)
        }
        Command::InternalZygote(_)
        | Command::InternalWorker(_)
        | Command::SelfTest
        | Command::Settings(_)
        | Command::Completions { .. } => ExitCode::FAILURE,
    }
}

#[expect(clippy::print_stdout, reason = "the output of the command")]
fn print(text: &str) -> ExitCode {
    println!("{text}");
    ExitCode::SUCCESS
}

/// Prints all settings with their values; secrets are not among them, only the files that hold them.
fn settings(args: &ServeArgs) -> ExitCode {
    match Settings::load(args) {
        Ok(settings) => match serde_json::to_string_pretty(&settings) {
            Ok(text) => print(&text),
            Err(error) => fail(error, EXIT_USAGE),
        },
        Err(error) => fail(error, EXIT_USAGE),
    }
}

fn completions(shell: Shell) -> ExitCode {
    // The scripts would also offer the hidden subcommands, which only the relay itself calls.
    let all = Cli::command();
    let shown = all.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    let mut shown = clap::Command::new("sandbox-relay").version(env!("CARGO_PKG_VERSION")).subcommands(shown);
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut shown, "sandbox-relay", &mut script);
    print(String::from_utf8_lossy(&script).trim_end())
}

/// Prints each attempt of the self-test, and how many of them failed as they have to.
fn self_test() -> ExitCode {
    let findings = match sandbox_relay::self_test() {
        Ok(findings) => findings,
        Err(error) => return fail(error, 1),
    };
    let mut report = String::new();
    for Finding { attempt, outcome, holds } in &findings {
        report.push_str(&format!("{} {attempt}: {outcome}\n", if *holds { "ok  " } else { "FAIL" }));
    }
    let held = findings.iter().filter(|finding| finding.holds).count();
    print(&format!("{report}{held} of {} as promised", findings.len()));
    if held == findings.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn fail(error: impl std::fmt::Display, status: u8) -> ExitCode {
    eprintln!("sandbox-relay: {error}");
    ExitCode::from(status)
}

fn internal(result: std::io::Result<()>) -> ExitCode {
    result.map_or_else(|error| fail(error, 1), |()| ExitCode::SUCCESS)
}
