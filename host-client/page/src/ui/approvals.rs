//! The calls that wait for an approval, those of the oldest run first.

use askama::Template;
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use host_client_core::durable::{JournalError, RunFilter};
use host_client_core::{RunError, RunStatus, runs};
use http::StatusCode;

use super::run::Call;
use super::session::SessionKey;
use super::{Page, failed};
use crate::guard;
use crate::shown::{Shown, Text};

/// The maximum number of runs that are shown.
const MAX_SHOWN: usize = 20;
/// The number of runs that are read from the journal at once.
const READ: usize = 1_000;

#[derive(Template)]
#[template(path = "approvals.html")]
struct ApprovalsPage {
    view: &'static str,
    form_token: String,
    runs: Vec<Waiting>,
    /// Runs that cannot be shown, with the reasons.
    unreadable: Vec<(String, Shown)>,
    has_more: bool,
}

struct Waiting {
    id: String,
    code: Text,
    calls: Vec<Call>,
}

pub(super) async fn show(State(page): State<Page>, Extension(session): Extension<SessionKey>) -> Response {
    let (mut waiting, mut unreadable, mut after, mut has_more) = (Vec::new(), Vec::new(), None, false);
    'all: loop {
        let filter = RunFilter { unfinished: true, limit: READ, after, newest_first: false };
        let heads = match runs::list(&*page.0.journal, filter).await {
            Ok(heads) => heads,
            Err(error) => return failed(&session, &error),
        };
        let is_last = heads.len() < READ;
        after = heads.last().map(|head| (head.created_ms, head.id.clone()));
        for head in heads.into_iter().filter(|head| head.status == RunStatus::Waiting) {
            let run = match runs::show(&*page.0.journal, &head.id).await {
                Ok(run) => run,
                // It was removed meanwhile.
                Err(RunError::Journal(JournalError::Unknown(_))) => continue,
                Err(error) => {
                    if unreadable.len() < MAX_SHOWN {
                        unreadable.push((head.id.to_string(), Shown::line(&error.to_string())));
                    }
                    continue;
                }
            };
            let open = run.waiting();
            let calls: Vec<_> = run.calls.iter().filter(|call| open.contains(&call.call)).collect();
            if calls.is_empty() {
                continue;
            }
            if waiting.len() == MAX_SHOWN {
                has_more = true;
                break 'all;
            }
            let code = Text::new(&run.code, calls.iter().find_map(|call| call.line));
            let calls = calls.into_iter().map(|call| Call::new(&run, call, &code)).collect();
            waiting.push(Waiting { id: head.id.to_string(), code, calls });
        }
        if is_last {
            break;
        }
    }
    let page = ApprovalsPage { view: "approvals", form_token: session.form_token, runs: waiting, unreadable, has_more };
    guard::page(StatusCode::OK, &page)
}
