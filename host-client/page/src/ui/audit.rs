//! The records of the audit log, and whether they are as they were written.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use askama::Template;
use axum::Extension;
use axum::extract::{Query, State};
use axum::response::Response;
use host_client_core::audit::show::{Filter, Shown as Record, records};
use host_client_core::audit::{AuditError, series, verify};
use http::StatusCode;
use serde::Deserialize;

use super::session::{Frame, SessionKey};
use super::{Message, Page};
use crate::guard;
use crate::shown::{Shown, Text};

/// The number of records that are shown.
const SHOWN: usize = 200;
/// The maximum length of a search, in bytes.
const MAX_SEARCH_BYTES: usize = 200;

#[derive(Template)]
#[template(path = "audit.html")]
struct AuditPage {
    frame: Frame,
    search: String,
    records: Vec<Row>,
    count: usize,
    /// What the verification says, and `true` if the log is whole; `None`: it was not asked for.
    state: Option<(Text, bool)>,
}

struct Row {
    text: Shown,
    json: Shown,
}

impl Row {
    fn new(record: &Record) -> Self {
        Self { text: Shown::line(&record.to_string()), json: Shown::line(json(record)) }
    }
}

/// Returns the JSON of a record; empty if it cannot be read.
fn json(record: &Record) -> &str {
    match record {
        Record::Record(record) => record.json(),
        Record::Unreadable { .. } => "",
    }
}

/// A choice of records.
#[derive(Deserialize)]
pub(super) struct Choice {
    #[serde(default)]
    search: String,
    #[serde(default)]
    verify: Option<String>,
}

/// What was read of a log.
struct Read {
    last: VecDeque<Record>,
    count: usize,
    state: Option<(String, bool)>,
}

pub(super) async fn show(
    State(page): State<Page>,
    Extension(session): Extension<SessionKey>,
    Query(choice): Query<Choice>,
) -> Response {
    let message = |status, text: &str| guard::page(status, &Message::new(session.frame(&page, ""), "Audit", text));
    let Some(path) = page.0.audit.clone() else {
        return message(StatusCode::OK, "No audit log was named when this page was started.");
    };
    if choice.search.len() > MAX_SEARCH_BYTES {
        return message(StatusCode::BAD_REQUEST, "A search has at most 200 bytes.");
    }
    let turn = Arc::clone(&page.0.reading).lock_owned().await;
    let (search, verifies) = (choice.search.clone(), choice.verify.is_some());
    let read = tokio::task::spawn_blocking(move || {
        // Held until the log is read, also where the browser has gone away meanwhile.
        let _turn = turn;
        read(path, &search, verifies)
    })
    .await;
    let read = match read {
        Ok(Ok(read)) => read,
        Ok(Err(error)) => return message(StatusCode::SERVICE_UNAVAILABLE, &error.to_string()),
        Err(error) => return message(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    };
    let view = AuditPage {
        frame: session.frame(&page, "audit"),
        search: choice.search,
        records: read.last.iter().rev().map(Row::new).collect(),
        count: read.count,
        state: read.state.map(|(text, is_whole)| (Text::new(text.trim_end()), is_whole)),
    };
    guard::page(StatusCode::OK, &view)
}

/// Reads the last records in which the text occurs.
///
/// # Errors
/// [`AuditError::Read`].
fn read(path: PathBuf, search: &str, verifies: bool) -> Result<Read, AuditError> {
    let files = series(&path)?;
    let state = if verifies { Some(verify(&files, None).map(|it| (it.to_string(), it.is_whole()))?) } else { None };
    let mut read = Read { last: VecDeque::new(), count: 0, state };
    for record in records(files, Filter::default()) {
        let record = record?;
        if !search.is_empty() && !json(&record).contains(search) && !record.to_string().contains(search) {
            continue;
        }
        read.count += 1;
        if read.last.len() == SHOWN {
            read.last.pop_front();
        }
        read.last.push_back(record);
    }
    Ok(read)
}
