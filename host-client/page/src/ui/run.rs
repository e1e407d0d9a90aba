//! One run: its code, its calls with arguments and results, its end; decisions, and cancelling.

use askama::Template;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::{Extension, Form};
use host_client_core::RunStatus;
use host_client_core::durable::RunId;
use host_client_core::runs::{self, CallSummary, QuestionState, RunSummary, RunVerdict};
use http::StatusCode;
use serde::Deserialize;

use super::session::SessionKey;
use super::{Message, Page, failed};
use crate::decision::{Decision, SHORTENED};
use crate::guard;
use crate::shown::{Shown, Text, time};

/// The maximum number of calls that are shown.
const MAX_CALLS: usize = 500;
/// The maximum length of a result that is shown, in bytes.
const MAX_RESULT_BYTES: usize = 64 << 10;

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
    code: Text,
    calls: Vec<Call>,
    left_out: usize,
    limits: Vec<(String, u64)>,
    result: Option<Text>,
    error: Option<(String, Text)>,
    /// `true`: it has not ended, and nobody has cancelled it.
    can_be_cancelled: bool,
    is_cancelled: bool,
}

/// A call as the views show it.
pub(super) struct Call {
    pub(super) run: String,
    pub(super) number: u64,
    pub(super) tool: Shown,
    pub(super) state: String,
    pub(super) is_waiting: bool,
    /// `true`: something that a decision depends on is not shown whole.
    pub(super) is_shortened: bool,
    pub(super) line: Option<usize>,
    pub(super) rule: Option<Shown>,
    pub(super) decided_by: Option<Shown>,
    pub(super) until: Option<String>,
    pub(super) description: Option<Text>,
    pub(super) arguments: Option<Text>,
    pub(super) answer: Option<Text>,
    pub(super) question: String,
}

impl Call {
    /// Makes a call of a run, whose code is shown with it.
    pub(super) fn new(run: &RunSummary, call: &CallSummary, code: &Text) -> Self {
        let question = run.question(call);
        let is_waiting = question == Some(QuestionState::Open);
        let arguments = match (&call.arguments, &call.given) {
            (Some(asked), _) => Some(Text::json(asked).shortened(call.is_shortened)),
            (None, given) => given.as_deref().map(|given| Text::new(given, None)),
        };
        let answer = match (&call.result, &call.error) {
            (Some(result), _) => Some(Text::new(result, None)),
            (None, Some((code, message))) => Some(Text::new(&format!("{code}: {message}"), None)),
            (None, None) => None,
        };
        Self {
            run: run.head.id.to_string(),
            number: call.call,
            tool: Shown::line(&call.tool),
            state: question.map_or_else(|| call.state.replace('_', " "), |question| question.as_str().to_owned()),
            is_waiting,
            is_shortened: code.is_shortened || arguments.as_ref().is_some_and(|arguments| arguments.is_shortened),
            line: call.line,
            rule: call.rule.as_deref().map(Shown::line),
            decided_by: call.decided_by.as_deref().map(Shown::line),
            until: call.until_ms.filter(|_| is_waiting).map(time),
            description: call.description.as_deref().filter(|_| is_waiting).map(|text| Text::new(text, None)),
            arguments,
            answer,
            question: call.question_sha256.map(|hash| hash.to_string()).unwrap_or_default(),
        }
    }
}

pub(super) async fn show(
    State(page): State<Page>,
    Extension(session): Extension<SessionKey>,
    Path(id): Path<String>,
) -> Response {
    let Ok(id) = id.parse::<RunId>() else { return unknown(&session) };
    let run = match runs::show(&*page.0.journal, &id).await {
        Ok(found) => found,
        Err(error) => return failed(&session, &error),
    };
    let open = run.waiting();
    let code = Text::new(&run.code, run.calls.iter().find(|call| open.contains(&call.call)).and_then(|call| call.line));
    let is_cancelled = run.instructed.contains(&0);
    let page = RunPage {
        view: "runs",
        form_token: session.form_token,
        status: run.head.status.as_str(),
        began: time(run.head.created_ms),
        changed: time(run.head.changed_ms),
        attempts: run.attempts,
        calls: run.calls.iter().take(MAX_CALLS).map(|call| Call::new(&run, call, &code)).collect(),
        code,
        left_out: run.calls.len().saturating_sub(MAX_CALLS),
        limits: run.limits.to_wire().into_iter().collect(),
        result: run.result.as_ref().map(|value| Text::json_within(value, MAX_RESULT_BYTES)),
        error: run.error.map(|(code, message)| (code, Text::new(&message, None))),
        id: id.to_string(),
        can_be_cancelled: run.head.status != RunStatus::Ended && !is_cancelled,
        is_cancelled,
    };
    guard::page(StatusCode::OK, &page)
}

/// The form by which a person decides.
#[derive(Deserialize)]
pub(super) struct Answer {
    #[serde(flatten)]
    decision: Decision,
    /// The hash of the question that the person saw.
    question: String,
}

pub(super) async fn decide(
    State(page): State<Page>,
    Extension(session): Extension<SessionKey>,
    Path((id, call)): Path<(String, u64)>,
    Form(form): Form<Answer>,
) -> Response {
    let (Ok(id), Ok(question)) = (id.parse::<RunId>(), form.question.parse()) else { return unknown(&session) };
    let verdict = match form.decision.verdict() {
        Ok(verdict) => verdict,
        Err(unclear) => {
            let text = unclear.to_string();
            let page = Message::new(&session.form_token, "Nothing was decided", &text);
            return guard::page(StatusCode::BAD_REQUEST, &page);
        }
    };
    let journal = &*page.0.journal;
    if verdict == RunVerdict::Approve {
        let run = match runs::show(journal, &id).await {
            Ok(run) => run,
            Err(error) => return failed(&session, &error),
        };
        let code = Text::new(&run.code, None);
        if run.calls.iter().any(|it| it.call == call && Call::new(&run, it, &code).is_shortened) {
            return guard::page(StatusCode::CONFLICT, &Message::new(&session.form_token, "Not approved", SHORTENED));
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
