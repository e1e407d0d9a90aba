//! Runs the study and prints its tables.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::Parser;
use relay_study::agent::Toolbox;
use relay_study::command::CommandModel;
use relay_study::report::{Delays, Report, attempts};
use relay_study::study::{Study, tasks};
use relay_study::task::Task;
use relay_test_support::packages::target_folder;

/// Does twenty tasks over real MCP servers, tool by tool and by programs, and measures what passes through the model's
/// context.
///
/// Without a model, scripts written by hand do the tasks, as a good model would.
#[derive(Debug, Parser)]
struct Args {
    /// Do only these tasks
    tasks: Vec<String>,
    /// How long one turn of the model is taken to last, in milliseconds; it is added, not waited for
    #[arg(long, default_value_t = 1_000)]
    turn_delay_ms: u64,
    /// The same for each token that it writes, in milliseconds, for the second of the two wall times
    #[arg(long, default_value_t = 15)]
    token_delay_ms: u64,
    /// Write all figures to this file, too
    #[arg(long)]
    json: Option<PathBuf>,
    /// Let a real model do the tasks: a program that reads a conversation as JSON and prints the next turn, as the
    /// documentation of the module `command` says
    #[arg(long, conflicts_with_all = ["turn_delay_ms", "token_delay_ms", "json"])]
    model: Option<PathBuf>,
    /// The folder to install MCP servers below [default: the target folder that this program lies in]
    #[arg(long)]
    servers_below: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let chosen = chosen(&args.tasks)?;
    let below = args.servers_below.clone().map_or_else(target_folder, Ok)?;
    let study = Study::start(&below).await?;
    let done = match &args.model {
        Some(program) => ask(&study, &chosen, program).await,
        None => compare(&study, &chosen, &args).await,
    };
    study.close().await;
    done
}

fn chosen(names: &[String]) -> anyhow::Result<Vec<Task>> {
    let mut chosen = tasks();
    for name in names {
        let known: Vec<_> = chosen.iter().map(|task| task.name).collect();
        ensure!(known.contains(&name.as_str()), "there is no task {name:?}; there are: {}", known.join(", "));
    }
    chosen.retain(|task| names.is_empty() || names.iter().any(|name| name == task.name));
    Ok(chosen)
}

/// Does the tasks by the scripts.
async fn compare(study: &Study, tasks: &[Task], args: &Args) -> anyhow::Result<()> {
    let mut comparisons = Vec::new();
    for task in tasks {
        eprintln!("  {}", task.name);
        comparisons.push(study.compare(task).await.with_context(|| format!("the task {}", task.name))?);
    }
    eprintln!("  slips");
    let slips = study.slips(tasks).await?;
    let [turn, token] = [args.turn_delay_ms, args.token_delay_ms].map(Duration::from_millis);
    let report = Report { comparisons, delays: Delays { turn, token }, slips };
    print(&report.to_text());
    if let Some(file) = &args.json {
        let text = serde_json::to_string_pretty(&report.to_json())?;
        std::fs::write(file, text + "\n").with_context(|| format!("{} cannot be written", file.display()))?;
    }
    Ok(())
}

/// Lets a real model do the tasks.
async fn ask(study: &Study, tasks: &[Task], program: &std::path::Path) -> anyhow::Result<()> {
    let mut done = Vec::new();
    let ways: [(&str, &dyn Toolbox); 2] = [("tool by tool", study.by_tools()), ("by programs", study.by_program())];
    for task in tasks {
        for (way, toolbox) in ways {
            let mut model = CommandModel { program: program.to_owned() };
            let attempt = study.attempt(task, &mut model, toolbox).await?;
            let verdict = attempt.mistake.as_ref().map_or_else(|| "right".to_owned(), ToString::to_string);
            eprintln!("  {}, {way}: {verdict}", task.name);
            done.push((task.name, way, attempt));
        }
    }
    print(&attempts(&done));
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the tables are what the program is for")]
fn print(text: &str) {
    print!("{text}");
}
