//! The list of runs, the newest first. A page of it begins after the last run of the page before, so that it takes the same
//! time wherever it is.

use askama::Template;
use axum::Extension;
use axum::extract::{Query, State};
use axum::response::{IntoResponse as _, Redirect, Response};
use host_client_core::durable::{Journal, RunFilter, RunHead, RunId};
use host_client_core::{RunError, RunStatus, runs};
use http::StatusCode;
use serde::Deserialize;

use super::session::{Frame, SessionKey};
use super::{Page, failed};
use crate::guard;
use crate::shown::time;

/// The number of runs on one page.
const ON_PAGE: usize = 50;
/// The number of runs that are read from the journal at once, where most may not fit.
const READ: usize = 1_000;
/// The maximum number of runs that are looked through for one page.
const MAX_RUNS: usize = 100_000;
/// The maximum length of a search, in characters: that of a run's id.
const MAX_SEARCH: usize = 64;

#[derive(Template)]
#[template(path = "runs.html")]
struct RunsPage {
    frame: Frame,
    status: String,
    search: String,
    rows: Vec<Row>,
    is_first: bool,
    /// The place after which older runs are listed; `None`: there are none.
    older: Option<String>,
    /// `true`: older runs were not looked through.
    is_partial: bool,
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
    /// The beginning and the id of the run before, with a dot between them; empty: the list begins with the newest run.
    #[serde(default)]
    before: String,
}

/// One page of the list.
struct Found {
    heads: Vec<RunHead>,
    /// The run after which the next page begins; `None`: there are no older ones.
    older: Option<(i64, RunId)>,
    is_partial: bool,
}

impl Choice {
    fn fits(&self, head: &RunHead) -> bool {
        let search = self.search.trim();
        (self.status.is_empty() || self.status == head.status.as_str())
            && (search.is_empty() || head.id.as_str().contains(search))
    }

    fn is_everything(&self) -> bool {
        self.status.is_empty() && self.search.trim().is_empty()
    }

    fn before(&self) -> Option<(i64, RunId)> {
        let (created_ms, id) = self.before.split_once('.')?;
        Some((created_ms.parse().ok()?, id.parse().ok()?))
    }
}

pub(super) async fn show(
    State(page): State<Page>,
    Extension(session): Extension<SessionKey>,
    Query(choice): Query<Choice>,
) -> Response {
    let Some(journal) = page.journal() else { return Redirect::to("/live").into_response() };
    let before = choice.before();
    let is_first = before.is_none();
    let found = match newest(journal, &choice, before).await {
        Ok(found) => found,
        Err(error) => return failed(&page, &session, &error),
    };
    let row = |head: RunHead| Row {
        id: head.id.to_string(),
        status: head.status.as_str(),
        began: time(head.created_ms),
        changed: time(head.changed_ms),
        entries: head.entries,
    };
    let view = RunsPage {
        frame: session.frame(&page, "runs"),
        rows: found.heads.into_iter().map(row).collect(),
        status: choice.status,
        search: choice.search.chars().take(MAX_SEARCH).collect(),
        is_first,
        older: found.older.map(|(created_ms, id)| format!("{created_ms}.{id}")),
        is_partial: found.is_partial,
    };
    guard::page(StatusCode::OK, &view)
}

/// Returns one page of the runs that fit, the newest first.
async fn newest(journal: &dyn Journal, choice: &Choice, before: Option<(i64, RunId)>) -> Result<Found, RunError> {
    let unfinished = !choice.status.is_empty() && choice.status != RunStatus::Ended.as_str();
    let limit = if choice.is_everything() { ON_PAGE + 1 } else { READ };
    let place = |head: &RunHead| (head.created_ms, head.id.clone());
    let (mut heads, mut after, mut seen) = (Vec::new(), before, 0);
    loop {
        let filter = RunFilter { unfinished, limit, after, newest_first: true };
        let read = runs::list(journal, filter).await?;
        let is_last = read.len() < limit;
        after = read.last().map(place);
        seen += read.len();
        for head in read.into_iter().filter(|head| choice.fits(head)) {
            if heads.len() == ON_PAGE {
                return Ok(Found { older: heads.last().map(place), heads, is_partial: false });
            }
            heads.push(head);
        }
        if is_last {
            return Ok(Found { heads, older: None, is_partial: false });
        }
        if seen >= MAX_RUNS {
            return Ok(Found { heads, older: after, is_partial: true });
        }
    }
}
