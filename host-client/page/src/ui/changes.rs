//! Tells browsers that a view has changed, as server-sent events. An event is a number and no more: the browser loads the
//! view again, so that one that was away, or did not read, has missed nothing.

use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::{Query, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use host_client_core::RunId;
use host_client_core::durable::{Journal, JournalError, RunFilter};
use http::StatusCode;
use serde::Deserialize;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::Instant;

use super::Page;
use super::session::SessionKey;

/// The shortest time between two events.
const PAUSE: Duration = Duration::from_millis(250);
/// The time between two looks at the journal, which other processes change.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The time after which a browser has to ask again, and so show its session.
const LASTS: Duration = Duration::from_secs(600);
/// The number of runs of the journal that are looked at.
const LOOKED_AT: usize = 50;

/// The view that is watched.
#[derive(Deserialize)]
pub(super) struct Watched {
    /// The durable run; empty: a list.
    #[serde(default)]
    run: String,
}

/// A browser that waits for changes.
struct Waiting {
    page: Page,
    run: Option<RunId>,
    live: Option<watch::Receiver<u64>>,
    /// What the journal was like.
    journal: Option<u64>,
    count: u64,
    until: Instant,
    _place: OwnedSemaphorePermit,
}

pub(super) async fn tell(
    State(page): State<Page>,
    Extension(_session): Extension<SessionKey>,
    Query(watched): Query<Watched>,
) -> Response {
    let Ok(place) = Arc::clone(&page.0.streams).try_acquire_owned() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "too many windows wait for changes: close some\n").into_response();
    };
    let run = match watched.run.as_str() {
        "" => None,
        name => match name.parse() {
            Ok(id) => Some(id),
            Err(_) => return (StatusCode::NOT_FOUND, "there is no such run\n").into_response(),
        },
    };
    let live = page.0.live.as_ref().map(|live| live.changes());
    let journal = state_of(&page, run.as_ref()).await;
    let waiting = Waiting { page, run, live, journal, count: 0, until: Instant::now() + LASTS, _place: place };
    let events = stream::unfold(waiting, |mut waiting| async move {
        if waiting.count > 0 && !waiting.changed().await {
            return None;
        }
        // The first event says that from now on nothing is missed.
        waiting.count += 1;
        let event = Event::default().data(waiting.count.to_string());
        Some((Ok::<_, Infallible>(event), waiting))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(Duration::from_secs(15))).into_response()
}

impl Waiting {
    /// Waits for a change. Returns `false` if the browser has to ask again.
    async fn changed(&mut self) -> bool {
        tokio::time::sleep(PAUSE).await;
        loop {
            let left = self.until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            tokio::select! {
                () = live_changed(&mut self.live) => return true,
                () = tokio::time::sleep(LOOK_EVERY.min(left)) => {}
            }
            let journal = state_of(&self.page, self.run.as_ref()).await;
            // A journal that cannot be read now says nothing.
            if journal.is_some() && std::mem::replace(&mut self.journal, journal) != journal {
                return true;
            }
        }
    }
}

async fn live_changed(live: &mut Option<watch::Receiver<u64>>) {
    let is_changed = match live {
        Some(changes) => changes.changed().await.is_ok(),
        None => false,
    };
    if !is_changed {
        std::future::pending().await
    }
}

/// Returns a number that changes with what a view shows of the journal; `None`: there is none, or it cannot be read.
async fn state_of(page: &Page, run: Option<&RunId>) -> Option<u64> {
    let read = match (page.journal()?, run) {
        (journal, Some(run)) => of_run(journal, run).await,
        (journal, None) => of_list(journal).await,
    };
    read.ok()
}

async fn of_run(journal: &dyn Journal, run: &RunId) -> Result<u64, JournalError> {
    let mut hasher = DefaultHasher::new();
    if let Some(head) = journal.run(run.clone()).await? {
        (head.entries, head.status, journal.instructions_of(run.clone()).await?.len()).hash(&mut hasher);
    }
    Ok(hasher.finish())
}

async fn of_list(journal: &dyn Journal) -> Result<u64, JournalError> {
    let mut hasher = DefaultHasher::new();
    for (unfinished, newest_first) in [(false, true), (true, false)] {
        let heads = journal.runs(RunFilter { unfinished, limit: LOOKED_AT, after: None, newest_first }).await?;
        for head in heads {
            (head.id, head.entries, head.status).hash(&mut hasher);
        }
    }
    Ok(hasher.finish())
}
