//! The list of runs.

use std::collections::VecDeque;

use askama::Template;
use axum::Extension;
use axum::extract::{Query, State};
use axum::response::Response;
use host_client_core::durable::{Journal, RunFilter, RunHead};
use host_client_core::{RunError, RunStatus, runs};
use http::StatusCode;
use serde::Deserialize;

use super::session::SessionKey;
use super::{Page, failed, time};
use crate::guard;

/// The number of runs on one page.
const ON_PAGE: usize = 50;
/// The number of runs that are read from the journal at once.
const READ: usize = 1_000;
/// The maximum number of runs that are looked through.
const MAX_RUNS: usize = 100_000;

#[derive(Template)]
#[template(path = "runs.html")]
struct RunsPage {
    view: &'static str,
    form_token: String,
    status: String,
    search: String,
    rows: Vec<Row>,
    /// The number of runs that fit.
    count: usize,
    page: usize,
    has_more: bool,
}

struct Row {
    id: String,
    status: &'static str,
    began: String,
    changed: String,
    entries: u64,
}

/// A choice of runs.
#[derive(Deserialize)]
pub(super) struct Choice {
    #[serde(default)]
    status: String,
    #[serde(default)]
    search: String,
    #[serde(default)]
    page: usize,
}

impl Choice {
    fn fits(&self, head: &RunHead) -> bool {
        let search = self.search.trim();
        (self.status.is_empty() || self.status == head.status.as_str())
            && (search.is_empty() || head.id.as_str().contains(search))
    }
}

pub(super) async fn show(
    State(page): State<Page>,
    Extension(session): Extension<SessionKey>,
    Query(choice): Query<Choice>,
) -> Response {
    let (heads, count) = match newest(&*page.0.journal, &choice).await {
        Ok(found) => found,
        Err(error) => return failed(&session, &error),
    };
    let row = |head: RunHead| Row {
        id: head.id.to_string(),
        status: head.status.as_str(),
        began: time(head.created_ms),
        changed: time(head.changed_ms),
        entries: head.entries,
    };
    let has_more = count > (choice.page.saturating_add(1)).saturating_mul(ON_PAGE);
    let page = RunsPage {
        view: "runs",
        form_token: session.form_token,
        rows: heads.into_iter().map(row).collect(),
        status: choice.status,
        search: choice.search.chars().take(64).collect(),
        page: choice.page,
        count,
        has_more,
    };
    guard::page(StatusCode::OK, &page)
}

/// Returns one page of the runs that fit, the newest first, and the number of all.
async fn newest(journal: &dyn Journal, choice: &Choice) -> Result<(Vec<RunHead>, usize), RunError> {
    let skipped = choice.page.min(MAX_RUNS / ON_PAGE) * ON_PAGE;
    let (mut last, mut count, mut seen) = (VecDeque::new(), 0, 0);
    let mut after = None;
    loop {
        let unfinished = !choice.status.is_empty() && choice.status != RunStatus::Ended.as_str();
        let read = runs::list(journal, RunFilter { unfinished, limit: READ, after }).await?;
        let is_last = read.len() < READ;
        after = read.last().map(|head| (head.created_ms, head.id.clone()));
        seen += read.len();
        for head in read.into_iter().filter(|head| choice.fits(head)) {
            count += 1;
            last.push_back(head);
            if last.len() > skipped + ON_PAGE {
                last.pop_front();
            }
        }
        if is_last || seen >= MAX_RUNS {
            break;
        }
    }
    // What is left are those of this page and of the newer ones, the oldest first.
    Ok((last.into_iter().rev().skip(skipped).collect(), count))
}
