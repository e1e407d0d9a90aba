//! `runs`: the durable runs in a journal.

mod find;
mod resume;
mod show;

use host_client::runs::{self, RunVerdict};
use host_client::{Journal, RunId, RunStatus};
use serde_json::json;

use crate::approvals;
use crate::args::{CallName, RunName, RunsArgs, RunsCommand, RunsCommon};
use crate::exit::Failure;
use crate::interrupt::Interrupts;
use crate::journal::open_existing;
use crate::output::{print, print_json};
use crate::progress::Progress;
use crate::user::user;
pub(crate) use find::every;
use find::find;
pub(crate) use show::is_held;

/// Runs the command.
pub(crate) async fn runs(args: RunsArgs, progress: &Progress) -> Result<(), Failure> {
    match args.command {
        RunsCommand::List { all, common } => list(all, &common).await,
        RunsCommand::Show { run, common } => {
            let journal = open_existing(&common.journal).await?.journal;
            show::show(&*journal, &run.run, common.json).await
        }
        RunsCommand::Approve { call, common } => decide(&call, RunVerdict::Approve, &common).await,
        RunsCommand::Deny { call, reason, common } => decide(&call, RunVerdict::Deny { reason }, &common).await,
        RunsCommand::Resume(args) => resume::resume(&args, progress).await,
        RunsCommand::Links { links, journal } => {
            let journal = open_existing(&journal).await?;
            let mut interrupts = Interrupts::new()?;
            tokio::select! {
                served = approvals::serve(&links, &journal) => served,
                () = interrupts.next() => Ok(()),
            }
        }
        RunsCommand::Cancel { run, common } => cancel(&run, &common).await,
        RunsCommand::Forget { run, common } => forget(&run, &common).await,
    }
}

async fn list(all: bool, common: &RunsCommon) -> Result<(), Failure> {
    let journal = open_existing(&common.journal).await?.journal;
    let heads = every(&*journal, !all).await?;
    if common.json {
        let heads: Vec<_> = heads.iter().map(show::head_json).collect();
        return print_json(&json!(heads).to_string());
    }
    match heads.as_slice() {
        [] if all => print("there are no runs"),
        [] => print("all runs have ended; --all lists them"),
        heads => print(&heads.iter().map(show::head_line).collect::<Vec<_>>().join("\n")),
    }
}

/// Leaves a decision in the journal.
async fn decide(named: &CallName, verdict: RunVerdict, common: &RunsCommon) -> Result<(), Failure> {
    let journal = open_existing(&common.journal).await?.journal;
    let id = find(&*journal, &named.run.run).await?;
    let by = named.by.clone().unwrap_or_else(user);
    let word = if verdict == RunVerdict::Approve { "approved" } else { "denied" };
    runs::decide(&*journal, &id, named.call, verdict, &by).await?;
    if common.json {
        return print_json(&json!({"run": id.as_str(), "call": named.call, "decision": word, "by": by}).to_string());
    }
    print(&format!("call {} is {word}{}", named.call, next(&*journal, &id).await?))
}

async fn cancel(named: &RunName, common: &RunsCommon) -> Result<(), Failure> {
    let journal = open_existing(&common.journal).await?.journal;
    let id = find(&*journal, &named.run).await?;
    if journal.run(id.clone()).await?.is_some_and(|head| head.status == RunStatus::Ended) {
        return Err(Failure::usage(format!("the run {id} has ended; `relay-host runs forget` removes it")));
    }
    runs::cancel(&*journal, &id).await?;
    if common.json {
        return print_json(&json!({"run": id.as_str(), "cancelled": true}).to_string());
    }
    print(&format!("the run {id} is to be cancelled{}", next(&*journal, &id).await?))
}

async fn forget(named: &RunName, common: &RunsCommon) -> Result<(), Failure> {
    let journal = open_existing(&common.journal).await?.journal;
    let id = find(&*journal, &named.run).await?;
    let is_removed = runs::forget(&*journal, &id).await?;
    if common.json {
        return print_json(&json!({"run": id.as_str(), "forgotten": is_removed}).to_string());
    }
    print(&format!("the run {id} is removed"))
}

/// Says what has to happen so that an instruction takes effect.
async fn next(journal: &dyn Journal, id: &RunId) -> Result<String, Failure> {
    let head = journal.run(id.clone()).await?;
    Ok(match head.is_some_and(|head| show::is_held(&head)) {
        true => "; the process that goes on with the run is told".to_owned(),
        false => format!("; no process goes on with the run: relay-host runs resume {id}"),
    })
}
