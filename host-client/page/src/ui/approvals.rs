//! The calls that wait for an approval, those of the oldest run first.

use askama::Template;
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use host_client_core::durable::RunFilter;
use host_client_core::{RunStatus, runs};
use http::StatusCode;

use super::run::{Call, find};
use super::session::SessionKey;
use super::{Page, failed};
use crate::guard;
use crate::shown::{Line, lines};

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
    has_more: bool,
}

struct Waiting {
    id: String,
    code: Vec<Line>,
    calls: Vec<Call>,
}

pub(super) async fn show(State(page): State<Page>, Extension(session): Extension<SessionKey>) -> Response {
    let (mut waiting, mut after, mut has_more) = (Vec::new(), None, false);
    'all: loop {
        let filter = RunFilter { unfinished: true, limit: READ, after };
        let heads = match runs::list(&*page.0.journal, filter).await {
            Ok(heads) => heads,
            Err(error) => return failed(&session, &error),
        };
        let is_last = heads.len() < READ;
        after = heads.last().map(|head| (head.created_ms, head.id.clone()));
        for head in heads.into_iter().filter(|head| head.status == RunStatus::Waiting) {
            // One that has ended meanwhile, or is damaged, is left out; the list of runs has it.
            let Ok((run, decided)) = find(&page, &head.id).await else { continue };
            let open = run.waiting();
            let is_open = |call: &u64| open.contains(call) && !decided.contains(call) && !decided.contains(&0);
            let calls: Vec<_> = run.calls.iter().filter(|call| is_open(&call.call)).collect();
            if calls.is_empty() {
                continue;
            }
            if waiting.len() == MAX_SHOWN {
                has_more = true;
                break 'all;
            }
            let marked = calls.iter().find_map(|call| call.line);
            let calls = calls.into_iter().map(|call| Call::new(&head.id, call, false)).collect();
            waiting.push(Waiting { id: head.id.to_string(), code: lines(&run.code, marked), calls });
        }
        if is_last {
            break;
        }
    }
    let page = ApprovalsPage { view: "approvals", form_token: session.form_token, runs: waiting, has_more };
    guard::page(StatusCode::OK, &page)
}
