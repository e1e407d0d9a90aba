//! What programs save, as a chart: the sums of the file that `cargo xtask study --json` writes.

use std::io::Read as _;
use std::path::Path;

use askama::Template;
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::session::{Frame, SessionKey};
use super::{Message, Page};
use crate::guard;
use crate::shown::Shown;

/// The maximum size of the file, in bytes.
const MAX_BYTES: u64 = 4 << 20;
/// The maximum number of measures that are shown.
const MAX_MEASURES: usize = 64;
/// The width of the longest bar, in its own units.
const WIDTH: u64 = 1_000;

#[derive(Template)]
#[template(path = "study.html")]
struct StudyPage {
    frame: Frame,
    tasks: usize,
    measures: Vec<Measure>,
}

struct Measure {
    name: Shown,
    ways: [Way; 3],
}

/// One way of doing the tasks.
struct Way {
    name: &'static str,
    class: &'static str,
    figure: u64,
    width: u64,
}

#[derive(Deserialize)]
struct Study {
    tasks: Vec<IgnoredAny>,
    sums: Vec<Sum>,
}

#[derive(Deserialize)]
struct Sum {
    measure: String,
    one_by_one: u64,
    together: u64,
    programs: u64,
}

impl From<&Sum> for Measure {
    fn from(sum: &Sum) -> Self {
        let most = sum.one_by_one.max(sum.together).max(sum.programs).max(1);
        let way = |name, class, figure: u64| Way {
            name,
            class,
            figure,
            width: u64::try_from(u128::from(figure) * u128::from(WIDTH) / u128::from(most)).unwrap_or(WIDTH),
        };
        Self {
            name: Shown::line(&sum.measure),
            ways: [
                way("one call a turn", "policy", sum.one_by_one),
                way("calls together", "person", sum.together),
                way("programs", "running", sum.programs),
            ],
        }
    }
}

pub(super) async fn show(State(page): State<Page>, Extension(session): Extension<SessionKey>) -> Response {
    let message = |status, text: &str| guard::page(status, &Message::new(session.frame(&page, ""), "Study", text));
    let Some(path) = page.0.study.clone() else {
        return message(StatusCode::OK, "No file of a study was named when this page was started.");
    };
    let study = match tokio::task::spawn_blocking(move || read(&path)).await {
        Ok(Ok(study)) => study,
        Ok(Err(text)) => return message(StatusCode::SERVICE_UNAVAILABLE, &text),
        Err(error) => return message(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    };
    let view = StudyPage {
        frame: session.frame(&page, "study"),
        tasks: study.tasks.len(),
        measures: study.sums.iter().take(MAX_MEASURES).map(Into::into).collect(),
    };
    guard::page(StatusCode::OK, &view)
}

/// Reads the file of a study.
///
/// # Errors
/// The reason why it cannot be shown.
fn read(path: &Path) -> Result<Study, String> {
    let unread = |error: &dyn std::fmt::Display| format!("{} cannot be read: {error}", path.display());
    let file = std::fs::File::open(path).map_err(|error| unread(&error))?;
    let mut text = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut text).map_err(|error| unread(&error))?;
    if text.len() as u64 > MAX_BYTES {
        return Err(format!("{} has more than 4 MiB: it is not the file of a study", path.display()));
    }
    let wrong = |error| format!("{} was not written by `cargo xtask study --json`: {error}", path.display());
    serde_json::from_slice(&text).map_err(wrong)
}
