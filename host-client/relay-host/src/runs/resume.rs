//! `runs resume`: goes on with runs that no process goes on with, and waits for their outcomes.

use host_client::RunId;
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;

use super::find::find;
use crate::args::ResumeArgs;
use crate::durable::{DurableSession, Followed, follow, options, over};
use crate::exit::{FAILED, Failure, UNFINISHED};
use crate::interrupt::Interrupts;
use crate::journal::open_existing;
use crate::output::{inline, print, print_value};
use crate::progress::Progress;

/// Runs the command.
pub(super) async fn resume(args: &ResumeArgs, progress: &Progress) -> Result<(), Failure> {
    let mut interrupts = Interrupts::new()?;
    let journal = open_existing(&args.common.journal).await?;
    let one = match &args.run {
        Some(name) => Some(find(&*journal.journal, name).await?),
        None => None,
    };
    let opening = DurableSession::open(
        &args.host,
        &args.relay,
        (&args.approvals, &args.live),
        journal,
        options(&args.durably),
        progress,
    );
    let session = interrupts.during(opening).await?;
    let ended = match &one {
        Some(id) => resume_one(&session, id, args, progress, &mut interrupts).await,
        None => resume_all(&session, args.common.json, progress, &mut interrupts).await,
    };
    session.close().await;
    ended
}

/// Goes on with one run, and prints its end as `run` does.
async fn resume_one(
    session: &DurableSession,
    id: &RunId,
    args: &ResumeArgs,
    progress: &Progress,
    interrupts: &mut Interrupts,
) -> Result<(), Failure> {
    let run = session.runs.resume(id).await?;
    let followed = follow(&run, session.is_attended, progress, interrupts).await;
    followed.show(id.as_str(), args.common.json, None, progress)
}

/// Goes on with all runs, and prints one line for each as it ends. The status is 1 if one has failed, else 4 if one has not
/// ended.
async fn resume_all(
    session: &DurableSession,
    json: bool,
    progress: &Progress,
    interrupts: &mut Interrupts,
) -> Result<(), Failure> {
    let recovered = session.runs.recover().await?;
    let mut status = 0;
    for (id, error) in &recovered.failed {
        status = worse(status, UNFINISHED);
        line(id, json, "left", &error.to_string())?;
    }
    let is_attended = session.is_attended;
    let over = |run: host_client::Run| async move { (run.id().clone(), over(&run, is_attended).await) };
    let mut following: JoinSet<_> = recovered.runs.into_iter().map(over).collect();
    progress.say(format!("runs that go on: {}", following.len()));
    loop {
        let ended = tokio::select! {
            ended = following.join_next() => ended,
            () = interrupts.next() => return Err(Failure { status: UNFINISHED, text: "interrupted".into() }),
        };
        let Some(ended) = ended else { break };
        let (id, followed) = ended.map_err(Failure::failed)?;
        status = worse(status, end(&id, followed, json)?);
    }
    progress.clear();
    if status == 0 { Ok(()) } else { Err(Failure::printed(status)) }
}

/// Prints the end of one of several runs. Returns its exit status.
fn end(id: &RunId, followed: Followed, json: bool) -> Result<u8, Failure> {
    let ended = match followed {
        Followed::Ended(ended) => ended,
        Followed::Waiting(calls) => {
            line(id, json, "waiting_for_approval", &format!("calls {calls:?}"))?;
            return Ok(UNFINISHED);
        }
        Followed::Interrupted => return Ok(UNFINISHED),
    };
    match ended.outcome {
        Ok(outcome) => {
            line(id, json, "ended", &String::from_utf8_lossy(&outcome.json))?;
            Ok(0)
        }
        Err(error) => {
            let failure = Failure::from(error);
            line(id, json, if failure.status == FAILED { "failed" } else { "left" }, &failure.text)?;
            Ok(failure.status)
        }
    }
}

/// Prints one line about a run.
fn line(id: &RunId, json: bool, status: &str, text: &str) -> Result<(), Failure> {
    if !json {
        return print(&format!("{id}  {}  {}", status.replace('_', " "), inline(text)));
    }
    // The result of a run that has ended is JSON itself.
    let text = match status {
        "ended" => serde_json::from_str(text).unwrap_or_default(),
        _ => Value::from(text),
    };
    let name = if status == "ended" { "result" } else { "text" };
    let mut object = Map::from_iter([("run".into(), json!(id.as_str())), ("status".into(), json!(status))]);
    object.insert(name.into(), text);
    print_value(&Value::from(object).to_string())
}

/// Returns the exit status that matters more.
fn worse(one: u8, other: u8) -> u8 {
    match (one, other) {
        (FAILED, _) | (_, FAILED) => FAILED,
        (0, other) => other,
        (one, _) => one,
    }
}
