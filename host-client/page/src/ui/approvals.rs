//! The calls that wait for an approval: those of this process, then those of the journal, the oldest run first.

use std::time::SystemTime;

use askama::Template;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::{Extension, Form};
use host_client_core::durable::{Journal, JournalError, RunFilter};
use host_client_core::runs::{self, QuestionState};
use host_client_core::{Approval, ApprovalRequest, RunError, RunStatus};
use http::StatusCode;

use super::run::{Answer, Call};
use super::session::{Frame, SessionKey};
use super::{Message, Page, failed};
use crate::decision::SHORTENED;
use crate::guard;
use crate::open::{Decided, OpenId, sha256};
use crate::shown::{Shown, Text, seconds};

/// The maximum number of runs that are shown.
const MAX_SHOWN: usize = 20;
/// The number of runs that are read from the journal at once.
const READ: usize = 1_000;

#[derive(Template)]
#[template(path = "approvals.html")]
struct ApprovalsPage {
    frame: Frame,
    /// Those of this process that are in no journal.
    questions: Vec<Question>,
    runs: Vec<Waiting>,
    /// Runs that cannot be shown, with the reasons.
    unreadable: Vec<(String, Shown)>,
    has_more: bool,
}

struct Question {
    code: Text,
    call: Call,
}

struct Waiting {
    id: String,
    code: Text,
    calls: Vec<Call>,
}

pub(super) async fn show(State(page): State<Page>, Extension(session): Extension<SessionKey>) -> Response {
    let found = match page.journal() {
        Some(journal) => in_journal(journal).await,
        None => Ok(Found::default()),
    };
    let Found { waiting, unreadable, has_more } = match found {
        Ok(found) => found,
        Err(error) => return failed(&page, &session, &error),
    };
    let questions = page.0.questions.all().into_iter().take(MAX_SHOWN);
    let questions = questions.map(|(id, request)| Question::new(&id, &request)).collect();
    let frame = session.frame(&page, "approvals");
    guard::page(StatusCode::OK, &ApprovalsPage { frame, questions, runs: waiting, unreadable, has_more })
}

/// What waits in the journal.
#[derive(Default)]
struct Found {
    waiting: Vec<Waiting>,
    unreadable: Vec<(String, Shown)>,
    has_more: bool,
}

/// Finds the calls of a journal's runs that wait for an approval.
///
/// # Errors
/// [`RunError::Journal`]: the journal cannot be read.
async fn in_journal(journal: &dyn Journal) -> Result<Found, RunError> {
    let (mut found, mut after) = (Found::default(), None);
    'all: loop {
        let filter = RunFilter { unfinished: true, limit: READ, after, newest_first: false };
        let heads = match runs::list(journal, filter).await {
            Ok(heads) => heads,
            Err(error) => return Err(error),
        };
        let is_last = heads.len() < READ;
        after = heads.last().map(|head| (head.created_ms, head.id.clone()));
        for head in heads.into_iter().filter(|head| head.status == RunStatus::Waiting) {
            let run = match runs::show(journal, &head.id).await {
                Ok(run) => run,
                // It was removed meanwhile.
                Err(RunError::Journal(JournalError::Unknown(_))) => continue,
                Err(error) => {
                    if found.unreadable.len() < MAX_SHOWN {
                        found.unreadable.push((head.id.to_string(), Shown::line(&error.to_string())));
                    }
                    continue;
                }
            };
            let open = run.waiting();
            let calls: Vec<_> = run.calls.iter().filter(|call| open.contains(&call.call)).collect();
            if calls.is_empty() {
                continue;
            }
            if found.waiting.len() == MAX_SHOWN {
                found.has_more = true;
                break 'all;
            }
            let code = Text::code(&run.code, calls.iter().filter_map(|call| Some((call.line?, call.call))));
            let calls = calls.into_iter().map(|call| Call::new(&run, call, &code)).collect();
            found.waiting.push(Waiting { id: head.id.to_string(), code, calls });
        }
        if is_last {
            break;
        }
    }
    Ok(found)
}

impl Question {
    fn new(id: &OpenId, request: &ApprovalRequest) -> Self {
        let code = Text::code(&request.code, request.line.map(|line| (line, request.call)));
        let (arguments, description) = (Text::json(&request.arguments), Text::new(&request.description));
        let id = hex(id);
        let within = request.deadline.saturating_duration_since(tokio::time::Instant::now());
        let until = SystemTime::now().checked_add(within).unwrap_or(SystemTime::UNIX_EPOCH);
        let until = until.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let call = Call {
            number: request.call,
            action: format!("/questions/{id}"),
            key: id,
            tool: Shown::line(request.tool.as_str()),
            state: QuestionState::Open.as_str().to_owned(),
            is_waiting: true,
            is_shortened: code.is_shortened || arguments.is_shortened || description.is_shortened,
            line: request.line,
            rule: Some(Shown::line(&request.rule)),
            decided_by: None,
            until: Some(seconds(until)),
            description: Some(description),
            arguments: Some(arguments),
            answer: None,
            question: hex(&sha256(request)),
            has_scope: true,
        };
        Self { code, call }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn id_of(text: &str) -> Option<OpenId> {
    let mut id = OpenId::default();
    if text.len() != 2 * id.len() || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (at, byte) in id.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(id)
}

/// Decides about a question of this process.
pub(super) async fn decide(
    State(page): State<Page>,
    Extension(session): Extension<SessionKey>,
    Path(id): Path<String>,
    Form(form): Form<Answer>,
) -> Response {
    let message = |status, title: &str, text: &str| {
        guard::page(status, &Message::new(session.frame(&page, "approvals"), title, text))
    };
    let approval = match form.decision.approval() {
        Ok(approval) => approval,
        Err(unclear) => return message(StatusCode::BAD_REQUEST, "Nothing was decided", &unclear.to_string()),
    };
    let decided = "Somebody else has decided, or the call does not wait any more. Your answer changes nothing.";
    let questions = &page.0.questions;
    let Some((id, request)) = id_of(&id).and_then(|id| Some((id, questions.get(&id)?))) else {
        return message(StatusCode::CONFLICT, "Already decided", decided);
    };
    let question = Question::new(&id, &request);
    if question.call.question != form.question {
        return message(StatusCode::CONFLICT, "Another question", "The question is another one. Load the page again.");
    }
    if question.call.is_shortened && !matches!(approval, Approval::Deny { .. }) {
        return message(StatusCode::CONFLICT, "Not approved", SHORTENED);
    }
    match questions.decide(&id, approval) {
        Decided::Now => Redirect::to("/approvals").into_response(),
        Decided::Before | Decided::Over => message(StatusCode::CONFLICT, "Already decided", decided),
    }
}
