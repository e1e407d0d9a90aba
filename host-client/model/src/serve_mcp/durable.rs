//! `execute_code` as runs that outlive a request: the client's user is asked about calls, and the model gets a handle where a
//! journal keeps the run.

use std::pin::pin;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{CallToolResponse, CallToolResult, ClientResult};
use rmcp::service::RequestContext;
use tokio_util::sync::CancellationToken;

use super::elicit;
use super::execute::{beside, until_given_up};
use super::lingering::Lingering;
use super::owned::answers_by;
use super::progress::Progress;
use super::rounds::{Round, speaks_rounds};
use super::tasks;
use crate::agent::ExecuteCode;
use crate::agent::handles::{Begun, Found, wait_time};
use crate::arguments::{ExecuteArguments, WaitArguments};
use crate::report::{Report, refused};
use host_client_core::runs::RunState;
use host_client_core::{Run, Runs};

/// The place of a request for a run.
pub(super) struct Place<'a> {
    pub(super) tools: &'a ExecuteCode,
    pub(super) runs: &'a Runs,
    /// The place of runs without handles between two requests, with the maximum time there: code ends with its call, however many
    /// requests that takes; `None`: the runs have handles.
    pub(super) lingering: Option<(&'a Lingering, Duration)>,
    /// `false`: others than the client are asked about calls.
    pub(super) asks_clients: bool,
    pub(super) context: &'a RequestContext<RoleServer>,
}

impl Place<'_> {
    /// Returns a round as it counts here, and whether the client can be asked in it.
    fn asked(&self, round: Round) -> (Round, bool) {
        match self.asks_clients {
            true => {
                let may_ask = round.may_ask(self.lingering.is_none(), self.context);
                (round, may_ask)
            }
            false => (round.without_answers(), false),
        }
    }

    /// Runs code as a run, and returns its result, its handle, or the questions to answer first.
    pub(super) async fn execute(&self, arguments: ExecuteArguments, round: Round) -> CallToolResponse {
        let (mut round, may_ask) = self.asked(round);
        let has_handles = self.lingering.is_none();
        let (request, intent) = match self.tools.request(arguments) {
            Ok(request) => request,
            Err(wrong) => return answered(refused(wrong)),
        };
        let begun = match &round.run {
            None => until_given_up(self.context, self.tools.begin(self.runs, request)).await,
            Some(run) => match self.tools.find(self.runs, run).await {
                Ok(Found::Here(run)) => {
                    if let Some((lingering, _)) = self.lingering {
                        lingering.end(run.id());
                    }
                    Some(Ok(Begun::again(run, self.runs, has_handles)))
                }
                Ok(found) => return answered(self.tools.shown_found(found).await),
                Err(reason) => return answered(reason.report(run)),
            },
        };
        let begun = match begun {
            Some(Ok(begun)) => begun,
            Some(Err(report)) => return answered(report),
            None => return answered(given_up()),
        };
        let run = begun.run();
        let has_handle = |state: &RunState| has_handles && *state != RunState::Running;
        loop {
            let waited = async {
                round.answer(run, self.context).await;
                match may_ask {
                    true => round.until_asked(run, has_handle).await,
                    false => drop(run.until(has_handle).await),
                }
            };
            if self.attend(run, waited, intent.as_deref()).await.is_none() {
                // Dropping the run cancels it, unless somebody has its handle.
                return answered(given_up());
            }
            let state = run.state();
            if state == RunState::Ended {
                return answered(self.tools.ended_or_handle(begun, intent).await);
            }
            if may_ask && let Some(asked) = round.ask(run, intent.as_deref(), self.context).await {
                match self.lingering {
                    None => drop(begun.release()),
                    Some((lingering, within)) => lingering.begin(begun, self.runs, within, self.context),
                }
                return asked.into();
            }
            if has_handle(&state) {
                break;
            }
            // Somebody else has answered meanwhile, and the run goes on.
        }
        if has_handles
            && tasks::are_known(self.context)
            && let Some(task) = tasks::of(self.runs, run).await
        {
            drop(begun.release());
            return task.into();
        }
        answered(self.tools.ended_or_handle(begun, intent).await)
    }

    /// Runs `wait_for_run`.
    pub(super) async fn wait(&self, arguments: &WaitArguments, round: Round) -> CallToolResponse {
        let (mut round, may_ask) = self.asked(round);
        let name = arguments.run.as_deref().unwrap_or_default();
        let run = match until_given_up(self.context, self.tools.find(self.runs, name)).await {
            Some(Ok(Found::Here(run))) => run,
            Some(Ok(found)) => return answered(self.tools.shown_found(found).await),
            Some(Err(reason)) => return answered(reason.report(name)),
            None => return answered(given_up()),
        };
        let waited = async {
            round.answer(&run, self.context).await;
            let asked = async {
                match may_ask {
                    true => round.until_asked(&run, |_| false).await,
                    false => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = run.outcome_within(wait_time(arguments)) => {}
                () = asked => {}
            }
        };
        if self.attend(&run, waited, None).await.is_none() {
            return answered(given_up());
        }
        match may_ask && run.state() != RunState::Ended {
            true => match round.ask(&run, None, self.context).await {
                Some(asked) => asked.into(),
                None => answered(self.tools.shown(&run).await),
            },
            false => answered(self.tools.shown(&run).await),
        }
    }

    /// Waits for a run until `waited` is over; `None`: the request was given up before. Meanwhile it reports the run's progress,
    /// and asks the client's user about its calls.
    async fn attend(&self, run: &Run, waited: impl Future<Output = ()>, intent: Option<&str>) -> Option<()> {
        let context = self.context;
        let over = CancellationToken::new();
        let progress = Progress::new(context);
        let waited = async {
            let waited = until_given_up(context, waited).await;
            // The last events of a run that has ended are still told.
            if run.state() != RunState::Ended {
                over.cancel();
            }
            waited
        };
        let side = async {
            let asking = async {
                if self.asks_clients {
                    ask_all(run, context, intent, &over).await;
                }
            };
            tokio::join!(over.run_until_cancelled(progress.follow(run.events())), asking);
        };
        beside(waited, side).await
    }
}

fn answered(report: Report) -> CallToolResponse {
    CallToolResult::from(report).into()
}

fn given_up() -> Report {
    // The client seldom reads the answer of a cancelled request.
    refused("CANCELLED: the request was cancelled, or its session ended")
}

/// Asks the user of the client about the calls of a run, one question after another, until it has ended or `over` is
/// cancelled. Where the client cannot ask, people decide in another way.
async fn ask_all(run: &Run, context: &RequestContext<RoleServer>, intent: Option<&str>, over: &CancellationToken) {
    if speaks_rounds(context) {
        return;
    }
    loop {
        let asks = run.until(|_| !run.questions().is_empty());
        if over.run_until_cancelled(asks).await.is_none() {
            return;
        }
        let Some(question) = run.questions().into_iter().next() else { return };
        let call = question.call;
        let (mut asked, _file) = match elicit::ask(&context.peer, &question, intent).await {
            Ok(asked) => asked,
            Err(reason) => {
                tracing::info!(reason, run = run.id().as_str(), "the client does not ask: people decide elsewhere");
                return;
            }
        };
        let mut settled = pin!(run.until(|_| run.questions().iter().all(|question| question.call != call)));
        let withdrawn = tokio::select! {
            reply = &mut asked.rx => {
                let Ok(Ok(ClientResult::ElicitResult(reply))) = reply else {
                    tracing::warn!(?reply, "an approval could not be asked for: people decide elsewhere");
                    return;
                };
                // Somebody else may have been faster.
                let _ = run.answer(call, elicit::read_answer(&reply), &answers_by(context));
                settled.await;
                continue;
            }
            _ = &mut settled => "the call no longer waits for an answer",
            () = over.cancelled() => "the run waits on by itself; it is asked again with the next request for it",
        };
        // Without a client there is no question to withdraw.
        let _ = asked.cancel(Some(withdrawn.to_owned())).await;
    }
}
