//! How many runs of each owner are open: those of this process are counted, those of the journal looked at now and then.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::RunError;
use super::plan::RunPlan;
use crate::durable::journal::{Journal, JournalError, RunFilter, RunHead, RunId};

/// The time for which a look at the journal counts.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// The number of runs that are read from the journal at once.
const PAGE: usize = 256;

/// The name of an owner; `None`: the application itself.
type Owner = Option<Arc<str>>;

/// The places of the runs that are open, by their owners.
#[derive(Debug, Default)]
pub(super) struct Places {
    taken: Mutex<HashMap<Owner, usize>>,
    /// The runs of the journal that this process did not have at the last look. Held while the journal is looked at.
    elsewhere: tokio::sync::Mutex<Elsewhere>,
}

#[derive(Debug, Default)]
struct Elsewhere {
    /// The time of the last look; `None`: there was none.
    at: Option<Instant>,
    owners: HashMap<RunId, Owner>,
}

/// The place of one run, until this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    owner: Owner,
}

impl Places {
    fn taken(&self) -> MutexGuard<'_, HashMap<Owner, usize>> {
        // Changed only under this lock, by code that does not panic half way.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place, whatever the number of those that are taken: the run is in the journal already.
    pub(super) fn take(self: &Arc<Self>, owner: Option<&str>) -> Place {
        let owner: Owner = owner.map(Arc::from);
        *self.taken().entry(owner.clone()).or_default() += 1;
        Place { places: Arc::clone(self), owner }
    }

    /// Takes a place for a new run, of `most` that an owner may have. This process is the holder `name` in the journal, and
    /// `is_here` tells whether it has a run.
    ///
    /// # Errors
    /// [`RunError::TooMany`]: the owner has that many. [`RunError::Journal`]: the journal cannot be read.
    pub(super) async fn take_new(
        self: &Arc<Self>,
        owner: Option<&str>,
        most: usize,
        (journal, name): (&dyn Journal, &str),
        is_here: impl Fn(&RunId) -> bool,
    ) -> Result<Place, RunError> {
        // First the place, so that two that begin at once do not both take the last one.
        let place = self.take(owner);
        let mine = || self.taken().get(&place.owner).copied().unwrap_or_default();
        if mine() > most {
            return Err(RunError::TooMany { most });
        }
        let mut elsewhere = self.elsewhere.lock().await;
        if elsewhere.at.is_none_or(|at| at.elapsed() > LOOK_EVERY) {
            elsewhere.look(journal, name).await?;
        }
        if mine() + elsewhere.of(&place.owner, &is_here) > most {
            // Some may have ended since.
            elsewhere.look(journal, name).await?;
        }
        match mine() + elsewhere.of(&place.owner, &is_here) > most {
            true => Err(RunError::TooMany { most }),
            false => Ok(place),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        if let Some(number) = taken.get_mut(&self.owner) {
            *number -= 1;
            if *number == 0 {
                taken.remove(&self.owner);
            }
        }
    }
}

impl Elsewhere {
    /// Returns the number of an owner's runs that this process does not have.
    fn of(&self, owner: &Owner, is_here: impl Fn(&RunId) -> bool) -> usize {
        self.owners.iter().filter(|(run, of)| *of == owner && !is_here(run)).count()
    }

    /// Reads which runs of the journal have not ended, and the owners of those that were not there before.
    async fn look(&mut self, journal: &dyn Journal, name: &str) -> Result<(), JournalError> {
        let is_held_here = |head: &RunHead| head.claim.as_ref().is_some_and(|claim| claim.holder == name);
        let (mut found, mut after) = (HashMap::new(), None);
        loop {
            let page = journal
                .runs(RunFilter { unfinished: true, limit: PAGE, after: after.take(), newest_first: false })
                .await?;
            after = page.last().map(|head| (head.created_ms, head.id.clone()));
            let is_last = page.len() < PAGE;
            for RunHead { id, .. } in page.into_iter().filter(|head| !is_held_here(head)) {
                let owner = match self.owners.get(&id) {
                    Some(owner) => Some(owner.clone()),
                    None => owner_of(journal, &id).await?,
                };
                found.extend(owner.map(|owner| (id, owner)));
            }
            if is_last {
                break;
            }
        }
        (self.owners, self.at) = (found, Some(Instant::now()));
        Ok(())
    }
}

/// Reads the owner of a run; `None`: it was removed meanwhile, or its plan cannot be read, so that it is nobody's.
async fn owner_of(journal: &dyn Journal, id: &RunId) -> Result<Option<Owner>, JournalError> {
    let plan = journal.plan(id.clone()).await?.and_then(|json| RunPlan::parse(id, &json).ok());
    Ok(plan.map(|plan| plan.owner.map(Arc::from)))
}
