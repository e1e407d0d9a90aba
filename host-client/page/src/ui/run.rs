//! One run: its code, its calls with arguments and results, its end; decisions, and cancelling.

use askama::Template;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::{Extension, Form};
use host_client_core::durable::RunId;
use host_client_core::runs::{self, CallSummary, RunSummary, RunVerdict};
use host_client_core::text::clipped;
use http::StatusCode;

use super::form::Decision;
use super::session::SessionKey;
use super::{Message, Page, failed, time};
use crate::guard;
use crate::shown::{Line, Shown, lines};

/// The maximum number of calls that are shown.
const MAX_CALLS: usize = 500;
/// The maximum length of a result that is shown, in bytes.
const MAX_RESULT_BYTES: usize = 64 << 10;
/// The maximum length of a reason, in bytes.
const MAX_REASON_BYTES: usize = 1 << 10;

#[derive(Template)]
#[template(path = "run.html")]
struct RunPage {
    view: &'static str,
    form_token: String,
    id: String,
    status: &'static str,
    began: String,
    changed: String,
    attempts: u64,
    code: Vec<Line>,
    calls: Vec<Call>,
    left_out: usize,
    limits: Vec<(String, u64)>,
    result: Option<Vec<Line>>,
    error: Option<(String, Vec<Line>)>,
    is_ended: bool,
}

/// A call as the views show it.
pub(super) struct Call {
    pub(super) run: String,
    pub(super) number: u64,
    pub(super) tool: Shown,
    pub(super) state: String,
    pub(super) is_waiting: bool,
    pub(super) is_shortened: bool,
    pub(super) line: Option<usize>,
    pub(super) rule: Option<Shown>,
    pub(super) decided_by: Option<Shown>,
    pub(super) until: Option<String>,
    pub(super) description: Option<Vec<Line>>,
    pub(super) arguments: Option<Vec<Line>>,
    pub(super) answer: Option<Vec<Line>>,
    pub(super) question: String,
}

impl Call {
    /// Makes a call of a run; `is_decided`: a decision is on its way to the process that goes on with the run.
    pub(super) fn new(run: &RunId, call: &CallSummary, is_decided: bool) -> Self {
        let is_waiting = call.state == "waiting_for_approval" && !is_decided;
        let arguments = match (&call.arguments, &call.given) {
            (Some(asked), _) => serde_json::to_string_pretty(asked).ok(),
            (None, given) => given.clone(),
        };
        let answer = match (&call.result, &call.error) {
            (Some(result), _) => Some(result.clone()),
            (None, Some((code, message))) => Some(format!("{code}: {message}")),
            (None, None) => None,
        };
        let state =
            if is_decided && call.state == "waiting_for_approval" { "decided, not gone on yet" } else { call.state };
        Self {
            run: run.to_string(),
            number: call.call,
            tool: Shown::line(&call.tool),
            state: state.replace('_', " "),
            is_waiting,
            is_shortened: call.is_shortened,
            line: call.line,
            rule: call.rule.as_deref().map(Shown::line),
            decided_by: call.decided_by.as_deref().map(Shown::line),
            until: call.until_ms.filter(|_| is_waiting).map(time),
            description: call.description.as_deref().filter(|_| is_waiting).map(|text| lines(text, None)),
            arguments: arguments.map(|text| lines(&text, None)),
            answer: answer.map(|text| lines(&text, None)),
            question: call.question_sha256.map(|hash| hash.to_string()).unwrap_or_default(),
        }
    }
}

/// Returns a run, and its calls that somebody has decided on; 0 stands for cancelling.
///
/// # Errors
/// [`runs::show`]'s.
pub(super) async fn find(page: &Page, id: &RunId) -> Result<(RunSummary, Vec<u64>), host_client_core::RunError> {
    let journal = &*page.0.journal;
    let found = runs::show(journal, id).await?;
    let decided = journal.instructions_of(id.clone()).await?;
    Ok((found, decided.into_iter().map(|it| it.call).collect()))
}

pub(super) async fn show(
    State(page): State<Page>,
    Extension(session): Extension<SessionKey>,
    Path(id): Path<String>,
) -> Response {
    let Ok(id) = id.parse::<RunId>() else { return unknown(&session) };
    let (run, decided) = match find(&page, &id).await {
        Ok(found) => found,
        Err(error) => return failed(&session, &error),
    };
    let is_ended = run.head.status == host_client_core::RunStatus::Ended;
    let marked = run.calls.iter().find(|call| call.state == "waiting_for_approval").and_then(|call| call.line);
    let value = run.result.as_ref().and_then(|value| serde_json::to_string_pretty(value).ok());
    let page = RunPage {
        view: "runs",
        form_token: session.form_token,
        status: run.head.status.as_str(),
        began: time(run.head.created_ms),
        changed: time(run.head.changed_ms),
        attempts: run.attempts,
        code: lines(&run.code, marked),
        calls: run
            .calls
            .iter()
            .take(MAX_CALLS)
            .map(|call| Call::new(&id, call, decided.contains(&call.call)))
            .collect(),
        left_out: run.calls.len().saturating_sub(MAX_CALLS),
        limits: run.limits.to_wire().into_iter().collect(),
        result: value.map(|value| lines(&clipped(&value, MAX_RESULT_BYTES), None)),
        error: run.error.map(|(code, message)| (code, lines(&message, None))),
        id: id.to_string(),
        is_ended: is_ended || decided.contains(&0),
    };
    guard::page(StatusCode::OK, &page)
}

pub(super) async fn decide(
    State(page): State<Page>,
    Extension(session): Extension<SessionKey>,
    Path((id, call)): Path<(String, u64)>,
    Form(form): Form<Decision>,
) -> Response {
    let (Ok(id), Ok(question)) = (id.parse::<RunId>(), form.question.parse()) else { return unknown(&session) };
    let reason = form.reason.trim();
    let verdict = match form.decision.as_str() {
        "approve" if !reason.is_empty() => {
            let text =
                "A reason is for a denial. To approve the call, go back and empty the field; to deny it, press Deny.";
            return guard::page(
                StatusCode::BAD_REQUEST,
                &Message::new(&session.form_token, "Nothing was decided", text),
            );
        }
        "approve" => RunVerdict::Approve,
        "deny" => RunVerdict::Deny { reason: (!reason.is_empty()).then(|| clipped(reason, MAX_REASON_BYTES)) },
        _ => return unknown(&session),
    };
    let journal = &*page.0.journal;
    if verdict == RunVerdict::Approve {
        match runs::show(journal, &id).await {
            Ok(run) if run.calls.iter().any(|it| it.call == call && it.is_shortened) => {
                let text =
                    "The arguments are too long to be shown whole, and cannot be approved here. The call still waits.";
                return guard::page(StatusCode::CONFLICT, &Message::new(&session.form_token, "Not approved", text));
            }
            Ok(_) => {}
            Err(error) => return failed(&session, &error),
        }
    }
    match runs::decide_on(journal, (&id, call), question, verdict, &page.0.by).await {
        Ok(()) => Redirect::to(&format!("/runs/{id}")).into_response(),
        Err(error) => failed(&session, &error),
    }
}

pub(super) async fn cancel(
    State(page): State<Page>,
    Extension(session): Extension<SessionKey>,
    Path(id): Path<String>,
) -> Response {
    let Ok(id) = id.parse::<RunId>() else { return unknown(&session) };
    match runs::cancel(&*page.0.journal, &id).await {
        Ok(()) => Redirect::to(&format!("/runs/{id}")).into_response(),
        Err(error) => failed(&session, &error),
    }
}

fn unknown(session: &SessionKey) -> Response {
    guard::page(StatusCode::NOT_FOUND, &Message::new(&session.form_token, "Not found", "There is no such run or call."))
}
