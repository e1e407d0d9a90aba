//! Finds runs in a journal.

use host_client::durable::RunFilter;
use host_client::durable::RunHead;
use host_client::{Journal, RunId, runs};

use crate::exit::Failure;
use crate::output::inline;

/// Number of runs that are read at once.
const PAGE: usize = 256;
/// Maximum number of runs that an ambiguous beginning names.
const MAX_NAMED: usize = 5;

/// Returns all runs in the order in which they began; with `unfinished`, without those that have ended.
pub(crate) async fn every(journal: &dyn Journal, unfinished: bool) -> Result<Vec<RunHead>, Failure> {
    let (mut heads, mut after) = (Vec::new(), None);
    loop {
        let page = runs::list(journal, RunFilter { unfinished, limit: PAGE, after, newest_first: false }).await?;
        let is_last = page.len() < PAGE;
        heads.extend(page);
        if is_last {
            return Ok(heads);
        }
        after = heads.last().map(|head| (head.created_ms, head.id.clone()));
    }
}

/// Finds a run by its id, or by a beginning of it that no other run has.
///
/// # Errors
/// Status 2: there is no such run, or several begin so.
pub(super) async fn find(journal: &dyn Journal, name: &str) -> Result<RunId, Failure> {
    let id = name.parse::<RunId>().map_err(Failure::usage)?;
    if journal.run(id.clone()).await?.is_some() {
        return Ok(id);
    }
    let heads = every(journal, false).await?;
    let fitting: Vec<_> = heads.into_iter().map(|head| head.id).filter(|id| id.as_str().starts_with(name)).collect();
    match fitting.as_slice() {
        [id] => Ok(id.clone()),
        [] => Err(Failure::usage(format!(
            "the journal has no run {}: `relay-host runs list --all` lists them",
            inline(name)
        ))),
        several => {
            let named: Vec<_> = several.iter().take(MAX_NAMED).map(RunId::as_str).collect();
            let more = if several.len() > MAX_NAMED { ", …" } else { "" };
            Err(Failure::usage(format!("{} runs begin with {name}: {}{more}", several.len(), named.join(", "))))
        }
    }
}
