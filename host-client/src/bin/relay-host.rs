//! `relay-host`: runs code on a relay from the command line.

use std::io::Read as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use host_client::{Client, ClientConfig, Error, ExecuteRequest, OutputKind, Tools};

/// Runs model-written code on a sandbox relay.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a script; its value goes to standard output as JSON, what it prints to standard error
    Run {
        /// The script, or - for standard input
        file: PathBuf,
        /// The relay's address, such as ws://127.0.0.1:8080/ws
        #[arg(long, env = "RELAY_URL")]
        relay: String,
        /// The bearer token
        #[arg(long, env = "RELAY_TOKEN", hide_env_values = true)]
        token: String,
        /// A PEM file with the authorities that the relay's certificate has to be from [default: those of the web]
        #[arg(long, env = "RELAY_CA_FILE")]
        ca_file: Option<PathBuf>,
    },
}

const EXIT_FAILED: u8 = 1;
const EXIT_USAGE: u8 = 2;
const EXIT_NO_RELAY: u8 = 3;

#[tokio::main]
async fn main() -> ExitCode {
    let Command::Run { file, relay, token, ca_file } = Cli::parse().command;
    let mut config = ClientConfig::new(relay, token);
    if let Some(path) = ca_file {
        match std::fs::read(&path) {
            Ok(pem) => config.authorities = Some(pem),
            Err(error) => {
                eprintln!("relay-host: {} cannot be read: {error}", path.display());
                return ExitCode::from(EXIT_USAGE);
            }
        }
    }
    let mut code = String::new();
    let read = if file.as_os_str() == "-" {
        std::io::stdin().read_to_string(&mut code).map(drop)
    } else {
        std::fs::read_to_string(&file).map(|text| code = text)
    };
    if let Err(error) = read {
        eprintln!("relay-host: {} cannot be read: {error}", file.display());
        return ExitCode::from(EXIT_USAGE);
    }
    match run(config, code).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("relay-host: {error}");
            ExitCode::from(match error {
                Error::Unreachable { .. } | Error::Unauthenticated | Error::Refused(_) => EXIT_NO_RELAY,
                Error::Address { .. } | Error::Tool { .. } | Error::ToolSet { .. } | Error::Local(_) => EXIT_USAGE,
                Error::Execution(_) | Error::Result(_) => EXIT_FAILED,
            })
        }
    }
}

#[expect(clippy::print_stdout, reason = "the value that was asked for")]
async fn run(config: ClientConfig, code: String) -> Result<(), Error> {
    let client = Client::connect(config, Tools::new()).await?;
    let result = client.run(ExecuteRequest::new(code)).await;
    let (output, warnings) = match &result {
        Ok(outcome) => (&outcome.output, &outcome.warnings),
        Err(Error::Execution(error)) => (&error.output, &error.warnings),
        Err(_) => return result.map(drop),
    };
    for item in output {
        match item.kind {
            OutputKind::Emit => eprint!("{}", item.text),
            _ => eprintln!("{}", item.text),
        }
    }
    for warning in warnings {
        eprintln!("warning: {}", warning.message);
    }
    println!("{}", String::from_utf8_lossy(&result?.json));
    Ok(())
}
