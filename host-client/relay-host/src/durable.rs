//! `run --durable` and `runs resume`: durable runs that go on in this program.

use std::sync::Arc;
use std::time::Duration;

use host_client::page::LocalPage;
use host_client::runs::RunState;
use host_client::{LazyClient, Run, RunOptions, RunStatus, Runs};
use serde_json::{Value, json};

use crate::approvals::{Approvals, SharedJournal};
use crate::args::{ApprovalArgs, BeginArgs, DurableArgs, HostArgs, LiveArgs, RelayArgs, RunArgs};
use crate::exit::{Failure, UNFINISHED};
use crate::interrupt::Interrupts;
use crate::journal;
use crate::output::{note, print_value};
use crate::progress::Progress;
use crate::report::{Ended, print_unstarted};
use crate::run::{read, request};
use crate::setup::{Asking, Connector, Setup, is_attended};
use crate::ui;

/// Maximum time until the journal has the status of the runs that wait, before they are left.
const NOTED_WITHIN: Duration = Duration::from_secs(2);
/// Interval between two looks at that status.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Durable runs with their tools and their relay. [`DurableSession::close`] ends what was started for them.
pub(crate) struct DurableSession {
    pub(crate) runs: Runs,
    /// `true`: people can decide at this program, which waits for them.
    pub(crate) is_attended: bool,
    approvals: Option<Approvals>,
    _page: Option<LocalPage>,
    setup: Setup,
    connector: Connector,
}

/// The end of following a run.
pub(crate) enum Followed {
    /// It has ended, or cannot go on here.
    Ended(Box<Ended>),
    /// Nobody at this program can decide on these calls.
    Waiting(Vec<u64>),
    /// A signal has ended this program's work.
    Interrupted,
}

impl DurableSession {
    /// Mounts the tools. A relay is reached with the first run.
    pub(crate) async fn open(
        host: &HostArgs,
        relay: &RelayArgs,
        (approvals, live): (&ApprovalArgs, &LiveArgs),
        journal: SharedJournal,
        options: RunOptions,
        progress: &Progress,
    ) -> Result<Self, Failure> {
        let connector = Connector::new(relay, progress.clone())?;
        let approvals = Approvals::open(approvals, Some(&journal)).await?;
        let page = ui::open(live, Some(Arc::clone(&journal.journal)), host.audit.as_deref()).await?;
        let asking = Asking { approvals: approvals.as_ref(), journal: Some(journal.journal), page: page.as_ref() };
        let setup = Setup::asking(host, Some(progress), asking).await?;
        let is_attended =
            page.is_some() || approvals.as_ref().map_or_else(is_attended, |approvals| approvals.is_served);
        let connect = {
            let connector = connector.clone();
            move |host| connector.clone().connect(host)
        };
        let runs = Runs::new(LazyClient::new(Arc::clone(&setup.host), connect), options)?;
        Ok(Self { runs, is_attended, approvals, _page: page, setup, connector })
    }

    /// Gives the runs that have not ended back to the journal, then ends the tools and the relay.
    pub(crate) async fn close(self) {
        let Self { runs, approvals, setup, connector, .. } = self;
        if let Some(approvals) = &approvals {
            approvals.delivered().await;
        }
        leave(runs).await;
        setup.close().await;
        connector.close().await;
    }
}

/// Gives the runs that have not ended back to the journal.
pub(crate) async fn leave(runs: Runs) {
    // A run that is left too early would be listed as running.
    let _ = tokio::time::timeout(NOTED_WITHIN, noted(&runs)).await;
    runs.leave().await;
}

/// Waits until the journal has the status of all runs that wait for a person.
async fn noted(runs: &Runs) {
    for run in runs.active() {
        while matches!(run.state(), RunState::WaitingForApproval(_))
            && matches!(runs.journal().run(run.id().clone()).await, Ok(Some(head)) if head.status == RunStatus::Running)
        {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// Returns the settings of durable runs.
pub(crate) fn options(args: &DurableArgs) -> RunOptions {
    RunOptions { passivate_after: args.passivate_after(), any_build: args.any_build, ..RunOptions::default() }
}

/// Returns the settings of durable runs that begin in this program.
pub(crate) fn begin_options(args: &BeginArgs) -> RunOptions {
    RunOptions {
        approval_within: Duration::from_secs(args.approval_within),
        open_runs: args.open_runs,
        ..options(&args.durably)
    }
}

/// Runs the command `run --durable`.
pub(crate) async fn run(args: RunArgs, progress: &Progress) -> Result<(), Failure> {
    if args.json {
        progress.hide();
    }
    match begin(&args, progress).await {
        Ok((id, followed)) => followed.show(&id, args.json, args.execution.fit.as_deref(), progress),
        Err(failure) if args.json => print_unstarted(failure),
        Err(failure) => Err(failure),
    }
}

/// Begins a run, and follows it. Returns its id, too.
async fn begin(args: &RunArgs, progress: &Progress) -> Result<(String, Followed), Failure> {
    let code = read(&args.file)?;
    let mut interrupts = Interrupts::new()?;
    let journal = journal::open(&args.runs.journal).await?;
    let options = begin_options(&args.runs);
    let opening =
        DurableSession::open(&args.host, &args.relay, (&args.approvals, &args.live), journal, options, progress);
    let session = interrupts.during(opening).await?;
    let begun = session.runs.start(request(code, &args.execution)).await;
    let followed = match begun {
        Ok(run) => {
            note(&format!("run {}", run.id()));
            Ok((run.id().to_string(), follow(&run, session.is_attended, progress, &mut interrupts).await))
        }
        Err(error) => Err(error.into()),
    };
    session.close().await;
    followed
}

/// Follows a run until it ends, until it waits for a person who is not here, or until a signal. Its output is printed with its
/// end: so it is printed once, whichever process sees the end.
pub(crate) async fn follow(run: &Run, is_attended: bool, progress: &Progress, interrupts: &mut Interrupts) -> Followed {
    let watching = progress.watch(run.events(), false);
    let followed = tokio::select! {
        followed = over(run, is_attended) => followed,
        () = interrupts.next() => Followed::Interrupted,
    };
    // The events of a run that goes on have no end.
    watching.abort();
    progress.clear();
    followed
}

/// Waits until a run ends, or waits for a person who is not here, unless `is_attended`.
pub(crate) async fn over(run: &Run, is_attended: bool) -> Followed {
    match run.until(|state| !is_attended && matches!(state, RunState::WaitingForApproval(_))).await {
        RunState::WaitingForApproval(calls) => Followed::Waiting(calls),
        _ => Followed::Ended(Box::new(Ended { outcome: run.outcome().await, printed: 0 })),
    }
}

impl Followed {
    /// Prints the end: for a program with `json`, else for a person, as a model would get it with `intent`.
    pub(crate) fn show(self, id: &str, json: bool, intent: Option<&str>, progress: &Progress) -> Result<(), Failure> {
        match self {
            Self::Ended(ended) if json => ended.show_json(),
            Self::Ended(ended) => ended.show_as(intent, progress),
            Self::Waiting(calls) => {
                let text = advice(id, &calls);
                unfinished(json, json!({"run": id, "status": "waiting_for_approval", "calls": calls}), text)
            }
            Self::Interrupted => {
                let text = format!("interrupted; the run has not ended: relay-host runs resume {id}");
                unfinished(json, json!({"run": id, "status": "interrupted"}), text)
            }
        }
    }
}

/// Tells of a run that has not ended.
fn unfinished(json: bool, object: Value, text: String) -> Result<(), Failure> {
    if json {
        print_value(&object.to_string())?;
    }
    Err(Failure { status: UNFINISHED, text })
}

/// Says what to do about calls that wait for a person.
fn advice(id: &str, calls: &[u64]) -> String {
    let mut text = format!("the run waits for an approval; see it with: relay-host runs show {id}");
    for call in calls {
        text += &format!("\nrelay-host runs approve {id} {call}");
    }
    text + &format!("\nand then: relay-host runs resume {id}")
}
