//! From a request to an answer: a model writes one program, which calls the tools of real MCP servers from a sandbox.
//!
//! The servers are those of the study: of npm and of PyPI, installed once, about a repository, files and a database that are
//! made up. Without a model, the program is played back. With one:
//! `OPENAI_API_KEY=… cargo run -p examples --features rig --bin programmatic -- --model openai:gpt-5.2`, or
//! `ANTHROPIC_API_KEY=… … --model anthropic:claude-sonnet-5-5`, and any request after it.

mod counter;
mod model;

use clap::Parser;
use host_client::programmatic::{Programmatic, ProgrammaticAnswer, ProgrammaticRequest, Step};
use host_client::{Client, Event, Host, LazyClient, LocalRelay, Policy, Tools};
use relay_study::scene::Scene;
use relay_study::servers::{Installed, target_folder};

use counter::Counter;

/// Answers a request with one program in a sandbox.
#[derive(Debug, Parser)]
struct Args {
    /// What is wanted
    #[arg(
        default_value = "Which open issues with the label bug in issues.json do the last 60 commits of repo mention, as \
        (#number), and how many of them?"
    )]
    request: String,
    /// A model, such as `openai:gpt-5.2` [default: a program that is played back]
    #[arg(long, value_name = "PROVIDER:NAME")]
    model: Option<String>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let installed = Installed::below(&target_folder()?)?;
    let scene = Scene::new(&installed)?;
    scene.reset()?;
    let tools = Tools::new();
    let servers = installed.start(&scene, &tools).await?;

    let counter = Counter::of(&tools);
    // Everything is allowed: the data are made up.
    let host = Host::new(tools).policy(Policy::new().allow(["*"])).layer(&counter.layer());
    let relay = LocalRelay::start().await?;
    let config = relay.client_config().await?;
    // It is connected while the model thinks.
    let client = LazyClient::new(host, move |host| Client::connect(config.clone(), host));
    let model = model::of(args.model.as_deref(), scene.root())?;
    let programmatic = Programmatic::shared(model, client);
    let system =
        format!("The data are in {}: files, a git repository in repo, a SQLite database.", scene.root().display());
    let request = ProgrammaticRequest::new(args.request).system(system.clone()).watch(told);
    // With the servers, their tools go.
    let teaching = programmatic.teaching();
    let answer = programmatic.run(request).await;
    servers.close().await;
    show(&answer?, &[system, teaching], &counter)
}

fn told(step: Step) {
    match step {
        Step::Execution { event: Event::ToolCallFinished { tool, result_bytes, elapsed, .. }, .. } => {
            eprintln!("  {tool}: {result_bytes} bytes in {elapsed:.1?}");
        }
        Step::Failed { attempt, message, .. } => eprintln!("attempt {attempt} failed: {message}"),
        _ => {}
    }
}

/// Prints the answer, and the number of tokens that passed through the model's context.
#[expect(clippy::print_stdout, reason = "the answer is what the example is for")]
fn show(answer: &ProgrammaticAnswer, system: &[String], counter: &Counter) -> anyhow::Result<()> {
    println!("{}\n\n{}\n", answer.code, answer.outcome.value()?);
    let texts = answer.messages.iter().map(|message| &*message.content).chain(system.iter().map(String::as_str));
    let passed: u64 = texts.map(relay_study::measure::tokens).sum();
    let Counter { tools, definitions, .. } = counter;
    let calls = counter.tokens();
    let all = definitions + calls;
    println!(
        "{passed} tokens passed through the model's context: the prompt with {tools} tools, the program and its answer.\n\
         Tool by tool, it would have been {all} at least: {definitions} for the definitions of the tools, {calls} for {} \
         calls and their results.\n\
         That is {} % saved.",
        answer.usage.execution.tool_calls,
        100 * all.saturating_sub(passed) / all.max(1),
    );
    Ok(())
}
