//! A payment that a person approves next week: the program may end meanwhile, and so may its relay.
//!
//! ```sh
//! cargo run -p examples --bin approval_next_week -- begin      # prints the run's id, and ends
//! cargo run -p examples --bin approval_next_week -- decide ID  # today or next week, in any process
//! cargo run -p examples --bin approval_next_week -- go-on      # pays, and prints the receipt
//! ```
//!
//! The relay is the one that lies beside the program, or that `SANDBOX_RELAY_BIN` names.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Parser, Subcommand};
use host_client::runs::{self, RunState, RunVerdict};
use host_client::{
    CallContext, Client, Effect, ExecuteRequest, Host, LazyClient, LocalRelay, Policy, RunOptions, Runs, SqliteJournal,
    ToolSpec, Tools,
};
use serde_json::{Value, json};

/// The code, as a model would write it. Without durable runs, its invoice would be gone with the program.
const CODE: &str = "
    const invoice = await mcp.call('books.invoice', {});
    const receipt = await mcp.call('books.pay', {to: invoice.from, amount: invoice.amount});
    return {paid: receipt}";

/// A payment that a person approves next week.
#[derive(Parser)]
struct Arguments {
    /// The journal
    #[arg(long, default_value = "approval_next_week.db")]
    journal: PathBuf,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Begin the run, and end when it waits for a person
    Begin,
    /// Approve what a run waits for
    Decide { id: String },
    /// Go on with all runs, and wait for their ends
    GoOn,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Arguments { journal, command } = Arguments::parse();
    let journal = SqliteJournal::open(journal).await?;
    match command {
        Command::Begin => begin(journal).await,
        Command::Decide { id } => decide(&journal, &id).await,
        Command::GoOn => go_on(journal).await,
    }
}

/// Begins the run, and leaves it in the journal.
#[allow(clippy::print_stdout, reason = "the result is for the person")]
async fn begin(journal: SqliteJournal) -> anyhow::Result<()> {
    let (runs, _relay) = durable(journal).await?;
    let run = runs.start(ExecuteRequest::new(CODE)).await?;
    if let RunState::WaitingForApproval(calls) = run.settled().await {
        println!("{} waits for a person: call {calls:?}", run.id());
    }
    runs.leave().await;
    Ok(())
}

/// Approves each call that waits, as a person would who has read its arguments.
#[allow(clippy::print_stdout, reason = "the result is for the person")]
async fn decide(journal: &SqliteJournal, id: &str) -> anyhow::Result<()> {
    let id = id.parse()?;
    let run = runs::show(journal, &id).await?;
    for call in run.calls.iter().filter(|call| run.waiting().contains(&call.call)) {
        runs::decide(journal, &id, call.call, RunVerdict::Approve, "the example").await?;
        println!("approved: {} {}", call.tool, call.arguments.as_ref().unwrap_or(&Value::Null));
    }
    Ok(())
}

/// Goes on with the runs that earlier processes have left.
#[allow(clippy::print_stdout, reason = "the result is for the person")]
async fn go_on(journal: SqliteJournal) -> anyhow::Result<()> {
    let (runs, _relay) = durable(journal).await?;
    for run in runs.recover().await?.runs {
        println!("{}: {}", run.id(), run.outcome().await?.value()?);
    }
    Ok(())
}

/// Makes the host with its tools, rules and journal, and a relay.
async fn durable(journal: SqliteJournal) -> anyhow::Result<(Runs, Arc<LocalRelay>)> {
    let host = Host::new(books()?).policy(Policy::new().ask(["books.pay"])).journal(journal);
    let relay = Arc::new(LocalRelay::start().await?);
    let own = Arc::clone(&relay);
    let client = LazyClient::new(host, move |host| {
        let relay = Arc::clone(&own);
        async move { Client::connect(relay.client_config().await?, host).await }
    });
    let options = RunOptions { passivate_after: Duration::from_secs(1), ..RunOptions::default() };
    Ok((Runs::new(client, options)?, relay))
}

/// Makes the tools. A bank takes the idempotency key, so that a payment whose answer was lost can be made again.
fn books() -> anyhow::Result<Tools> {
    let tools = Tools::new();
    let none = json!({"type": "object", "properties": {}});
    let invoice = ToolSpec::new("books.invoice", "Reads the next invoice", none).effect(Effect::ReadOnly);
    let read = |_: Value, _: CallContext| async { Ok(json!({"from": "Ada", "amount": 7}).to_string().into()) };
    tools.add_with(invoice, read)?;
    let arguments = json!({"type": "object", "properties": {"to": {"type": "string"}, "amount": {"type": "number"}}});
    let pay = ToolSpec::new("books.pay", "Pays an invoice", arguments).effect(Effect::Mutating).idempotent(true);
    let paid = |arguments: Value, context: CallContext| async move {
        Ok(json!({"payment": arguments, "key": context.idempotency_key()}).to_string().into())
    };
    tools.add_with(pay, paid)?;
    Ok(tools)
}
