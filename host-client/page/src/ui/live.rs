//! The runs of this process: a list, and one with its calls over time.

use std::time::{Instant, SystemTime};

use askama::Template;
use axum::Extension;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Redirect, Response};
use host_client_core::LimitName;
use host_client_core::watch::Excerpt;
use http::StatusCode;

use super::run::Call;
use super::session::{Frame, SessionKey};
use super::waterfall::{Waterfall, took};
use super::{Message, Page};
use crate::guard;
use crate::live::run::{LiveCall, LiveRun};
use crate::shown::{Shown, Text, seconds};

/// The maximum length of the code in the list, in characters.
const MAX_FIRST_LINE: usize = 80;

#[derive(Template)]
#[template(path = "live.html")]
struct LivePage {
    frame: Frame,
    rows: Vec<Row>,
    missed: u64,
}

struct Row {
    name: String,
    href: String,
    first_line: Shown,
    status: &'static str,
    began: String,
    took: String,
    calls: u64,
}

#[derive(Template)]
#[template(path = "live_run.html")]
struct LiveRunPage {
    frame: Frame,
    status: &'static str,
    is_away: bool,
    began: String,
    took: String,
    waterfall: Waterfall,
    code: Text,
    result: Option<Text>,
    error: Option<(String, Text)>,
    calls: Vec<Call>,
    output: Option<Text>,
    has_lost_output: bool,
    limits: Vec<Limit>,
}

struct Limit {
    name: &'static str,
    value: u64,
    /// What was used of it, once the run has ended; `None`: that is not counted.
    used: Option<u64>,
}

pub(super) async fn list(State(page): State<Page>, Extension(session): Extension<SessionKey>) -> Response {
    let Some(live) = &page.0.live else { return unknown(&page, &session) };
    let (rows, missed, frame) = (live.runs(Row::of), live.missed(), session.frame(&page, "live"));
    guard::page(StatusCode::OK, &LivePage { frame, rows, missed })
}

pub(super) async fn show(
    State(page): State<Page>,
    Extension(session): Extension<SessionKey>,
    Path(name): Path<String>,
) -> Response {
    let Some(live) = &page.0.live else { return unknown(&page, &session) };
    let view = live.run(&name, |run| match &run.run {
        Some(id) if page.0.journal.is_some() => Err(format!("/runs/{id}")),
        _ => Ok(LiveRunPage::new(run, session.frame(&page, "live"))),
    });
    match view {
        Some(Ok(view)) => guard::page(StatusCode::OK, &view),
        Some(Err(place)) => Redirect::to(&place).into_response(),
        None => unknown(&page, &session),
    }
}

fn unknown(page: &Page, session: &SessionKey) -> Response {
    let text = "There is no such run in this process, or it is not kept any more.";
    guard::page(StatusCode::NOT_FOUND, &Message::new(session.frame(page, "live"), "Not found", text))
}

fn began(run: &LiveRun) -> String {
    seconds(run.began_at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs())
}

impl Row {
    fn of(run: &LiveRun) -> Self {
        let line = run.code.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
        let mut first_line: String = line.chars().take(MAX_FIRST_LINE).collect();
        if first_line.len() < run.code.trim().len() {
            first_line.push('…');
        }
        Self {
            name: run.name.to_string(),
            href: format!("/live/{}", run.name),
            first_line: Shown::line(&first_line),
            status: run.status(),
            began: began(run),
            took: took(run.elapsed(Instant::now())),
            calls: run.calls.len() as u64 + run.left_out,
        }
    }
}

impl LiveRunPage {
    fn new(run: &LiveRun, frame: Frame) -> Self {
        let calls = run.calls.iter().filter_map(|(number, call)| Some((call.line?, *number)));
        let output: Vec<_> = run.output.iter().map(|item| item.text.as_str()).collect();
        let (result, error) = match &run.outcome {
            Some(Ok(value)) => (Some(excerpt(value)), None),
            Some(Err((code, message))) => (None, Some((code.clone(), Text::new(message)))),
            None => (None, None),
        };
        Self {
            frame,
            status: run.status(),
            is_away: run.is_away,
            began: began(run),
            took: took(run.elapsed(Instant::now())),
            waterfall: Waterfall::of(run),
            code: Text::code(&run.code, calls),
            result,
            error,
            calls: run.calls.iter().map(|(number, call)| Call::of_live(*number, call)).collect(),
            output: (!output.is_empty()).then(|| Text::new(&output.join("\n"))),
            has_lost_output: run.has_lost_output,
            limits: run.limits.iter().map(|(name, value)| Limit::of(run, *name, *value)).collect(),
        }
    }
}

impl Limit {
    fn of(run: &LiveRun, name: LimitName, value: u64) -> Self {
        let millis = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let used = run.ended.as_ref().and_then(|ended| match name {
            LimitName::WallMs => Some(millis(ended.usage.wall)),
            LimitName::CpuMs => Some(millis(ended.usage.cpu)),
            LimitName::ToolCalls => Some(ended.usage.tool_calls),
            LimitName::OutputBytes => Some(ended.usage.output_bytes),
            _ => None,
        });
        Self { name: name.as_str(), value, used }
    }
}

/// Makes the lines of the start of a JSON text.
fn excerpt(json: &Excerpt) -> Text {
    match serde_json::from_str(&json.text) {
        Ok(value) => Text::json(&value),
        Err(_) => Text::new(&json.text).shortened(json.is_shortened()),
    }
}

impl Call {
    /// Makes a call of a run of this process.
    fn of_live(number: u64, call: &LiveCall) -> Self {
        let answer = match (&call.result, &call.error) {
            (_, Some((code, message))) => Some(Text::new(&format!("{code}: {message}"))),
            (Some(result), None) => Some(excerpt(result)),
            (None, None) => None,
        };
        Self {
            number,
            action: String::new(),
            key: number.to_string(),
            tool: Shown::line(&call.tool),
            state: call.state().to_owned(),
            is_waiting: false,
            is_shortened: false,
            line: call.line,
            rule: call.rule.as_deref().map(Shown::line),
            decided_by: call.decided_by.as_deref().map(Shown::line),
            until: None,
            description: None,
            arguments: Some(excerpt(&call.arguments)),
            answer,
            question: String::new(),
            has_scope: false,
        }
    }
}
