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

use super::session::{Frame, SessionKey};
use super::waterfall::Waterfall;
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
    frame: Frame,
    id: String,
    status: &'static str,
    began: String,
    changed: String,
    attempts: u64,
    code: Text,
    calls: Vec<Call>,
    left_out: usize,
    /// The times of its calls, if it goes on in this process.
    waterfall: Option<Waterfall>,
    limits: Vec<(String, u64)>,
    result: Option<Text>,
    error: Option<(String, Text)>,
    /// `true`: it has not ended, and nobody has cancelled it.
    can_be_cancelled: bool,
    is_cancelled: bool,
}

/// A call as the views show it.
pub(super) struct Call {
    pub(super) number: u64,
    /// The place where a decision is sent.
    pub(super) action: String,
    /// A name that no other call on the page has.
    pub(super) key: String,
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
    /// `true`: an approval can be for more than this call.
    pub(super) has_scope: bool,
}

impl Call {
    /// Makes a call of a run, whose code is shown with it.
    pub(super) fn new(run: &RunSummary, call: &CallSummary, code: &Text) -> Self {
        let question = run.question(call);
        let is_waiting = question == Some(QuestionState::Open);
        let arguments = match (&call.arguments, &call.given) {
            (Some(asked), _) => Some(Text::json(asked).shortened(call.is_shortened)),
            (None, given) => given.as_deref().map(Text::new),
        };
        let answer = match (&call.result, &call.error) {
            (Some(result), _) => Some(Text::new(result)),
            (None, Some((code, message))) => Some(Text::new(&format!("{code}: {message}"))),
            (None, None) => None,
        };
        Self {
            action: format!("/runs/{}/calls/{}", run.head.id, call.call),
            key: format!("{}-{}", run.head.id, call.call),
            number: call.call,
            tool: Shown::line(&call.tool),
            state: question.map_or_else(|| call.state.replace('_', " "), |question| question.as_str().to_owned()),
            is_waiting,
            is_shortened: code.is_shortened || arguments.as_ref().is_some_and(|arguments| arguments.is_shortened),
            line: call.line,
            rule: call.rule.as_deref().map(Shown::line),
            decided_by: call.decided_by.as_deref().map(Shown::line),
            until: call.until_ms.filter(|_| is_waiting).map(time),
            description: call.description.as_deref().filter(|_| is_waiting).map(Text::new),
            arguments,
            answer,
            question: call.question_sha256.map(|hash| hash.to_string()).unwrap_or_default(),
            has_scope: false,
        }
    }
}

pub(super) async fn show(
    State(page): State<Page>,
    Extension(session): Extension<SessionKey>,
    Path(id): Path<String>,
) -> Response {
    let Ok(id) = id.parse::<RunId>() else { return unknown(&page, &session) };
    let Some(journal) = page.journal() else { return unknown(&page, &session) };
    let run = match runs::show(journal, &id).await {
        Ok(found) => found,
        Err(error) => return failed(&page, &session, &error),
    };
    let code = Text::code(&run.code, run.calls.iter().filter_map(|call| Some((call.line?, call.call))));
    let is_cancelled = run.instructed.contains(&0);
    let view = RunPage {
        frame: session.frame(&page, "runs"),
        status: run.head.status.as_str(),
        began: time(run.head.created_ms),
        changed: time(run.head.changed_ms),
        attempts: run.attempts,
        calls: run.calls.iter().take(MAX_CALLS).map(|call| Call::new(&run, call, &code)).collect(),
        code,
        left_out: run.calls.len().saturating_sub(MAX_CALLS),
        waterfall: page.0.live.as_ref().and_then(|live| live.run(id.as_str(), Waterfall::of)),
        limits: run.limits.to_wire().into_iter().collect(),
        result: run.result.as_ref().map(|value| Text::json_within(value, MAX_RESULT_BYTES)),
        error: run.error.map(|(code, message)| (code, Text::new(&message))),
        id: id.to_string(),
        can_be_cancelled: run.head.status != RunStatus::Ended && !is_cancelled,
        is_cancelled,
    };
    guard::page(StatusCode::OK, &view)
}

/// The form by which a person decides.
#[derive(Deserialize)]
pub(super) struct Answer {
    #[serde(flatten)]
    pub(super) decision: Decision,
    /// The hash of the question that the person saw.
    pub(super) question: String,
}

pub(super) async fn decide(
    State(page): State<Page>,
    Extension(session): Extension<SessionKey>,
    Path((id, call)): Path<(String, u64)>,
    Form(form): Form<Answer>,
) -> Response {
    let (Ok(id), Ok(question)) = (id.parse::<RunId>(), form.question.parse()) else { return unknown(&page, &session) };
    let verdict = match form.decision.verdict() {
        Ok(verdict) => verdict,
        Err(unclear) => {
            let text = unclear.to_string();
            let message = Message::new(session.frame(&page, ""), "Nothing was decided", &text);
            return guard::page(StatusCode::BAD_REQUEST, &message);
        }
    };
    let Some(journal) = page.journal() else { return unknown(&page, &session) };
    if verdict == RunVerdict::Approve {
        let run = match runs::show(journal, &id).await {
            Ok(run) => run,
            Err(error) => return failed(&page, &session, &error),
        };
        let code = Text::new(&run.code);
        if run.calls.iter().any(|it| it.call == call && Call::new(&run, it, &code).is_shortened) {
            return guard::page(
                StatusCode::CONFLICT,
                &Message::new(session.frame(&page, ""), "Not approved", SHORTENED),
            );
        }
    }
    match runs::decide_on(journal, (&id, call), question, verdict, &page.0.by).await {
        Ok(()) => Redirect::to(&format!("/runs/{id}")).into_response(),
        Err(error) => failed(&page, &session, &error),
    }
}

pub(super) async fn cancel(
    State(page): State<Page>,
    Extension(session): Extension<SessionKey>,
    Path(id): Path<String>,
) -> Response {
    let Ok(id) = id.parse::<RunId>() else { return unknown(&page, &session) };
    let Some(journal) = page.journal() else { return unknown(&page, &session) };
    match runs::cancel(journal, &id).await {
        Ok(()) => Redirect::to(&format!("/runs/{id}")).into_response(),
        Err(error) => failed(&page, &session, &error),
    }
}

fn unknown(page: &Page, session: &SessionKey) -> Response {
    guard::page(
        StatusCode::NOT_FOUND,
        &Message::new(session.frame(page, ""), "Not found", "There is no such run or call."),
    )
}
