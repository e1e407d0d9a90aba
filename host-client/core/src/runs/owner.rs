//! The owners of runs: where an application has several users, each knows its own runs alone.

use std::sync::Arc;

use super::RunError;
use super::admin::{RunSummary, cancel, show};
use super::plan::RunPlan;
use super::registry::Runs;
use crate::durable::journal::{JournalError, RunId};

impl Runs {
    /// Returns these runs as one owner has them, such as a user of the application: what begins here is the owner's, and
    /// nothing else is known here. The approvals for a session are separate, too. Without an owner, the default, all runs of
    /// the journal are known.
    #[must_use]
    pub fn of(&self, owner: impl Into<Arc<str>>) -> Self {
        Self { owner: Some(owner.into()), ..self.separate() }
    }

    /// Returns the same runs with approvals for a session of their own, such as for another conversation.
    #[must_use]
    pub fn separate(&self) -> Self {
        Self { client: self.client.separate(), ..self.clone() }
    }

    /// Names the program on whose behalf runs begin here, as [`LazyClient::on_behalf_of`] does.
    pub fn on_behalf_of(&self, caller: impl Into<String>) {
        self.client.on_behalf_of(caller);
    }

    /// Cancels a run, wherever it goes on: it ends with `CANCELLED`, also where this process dies before. First the journal has
    /// that, then the run is stopped if it goes on in this process; another one sees it within a moment. A run that no process goes
    /// on with ends when one does: [`Runs::resume`].
    ///
    /// # Errors
    /// [`RunError::Unknown`]: there is no such run, or it is another owner's. [`RunError::Over`]: it has ended.
    /// [`RunError::Journal`]: the journal cannot be used, and the run is not cancelled.
    pub async fn cancel(&self, id: &RunId) -> Result<(), RunError> {
        self.check_owner(id).await?;
        match cancel(&*self.holder.journal, id).await {
            Err(RunError::Journal(JournalError::Unknown(_))) => return Err(RunError::Unknown(id.clone())),
            cancelled => cancelled?,
        }
        if let Some(run) = self.get(id) {
            run.cancel();
        }
        Ok(())
    }

    /// Returns the owner of a run, whatever its status; `None`: it has none.
    ///
    /// # Errors
    /// [`RunError::Unknown`]: there is no such run, or it is another owner's. [`RunError::Plan`], [`RunError::Journal`].
    pub async fn owner_of(&self, id: &RunId) -> Result<Option<String>, RunError> {
        let plan = self.holder.journal.plan(id.clone()).await?;
        let plan = plan.map(|json| RunPlan::parse(id, &json)).transpose()?;
        plan.map(|plan| plan.owner)
            .filter(|owner| self.knows(owner.as_deref()))
            .ok_or_else(|| RunError::Unknown(id.clone()))
    }

    pub(super) fn knows(&self, owner: Option<&str>) -> bool {
        self.owner.is_none() || self.owner.as_deref() == owner
    }

    /// Checks that a run is known here.
    ///
    /// # Errors
    /// [`RunError::Unknown`]: it is another owner's, or there is none. [`RunError::Plan`], [`RunError::Journal`].
    pub(super) async fn check_owner(&self, id: &RunId) -> Result<(), RunError> {
        if self.owner.is_none() {
            return Ok(());
        }
        self.owner_of(id).await.map(drop)
    }

    /// Returns a run with its calls, whatever its status and whichever process has it.
    ///
    /// # Errors
    /// [`RunError::Unknown`]: there is no such run, or it is another owner's. Those of [`show`](crate::runs::show).
    pub async fn show(&self, id: &RunId) -> Result<RunSummary, RunError> {
        let unknown = || RunError::Unknown(id.clone());
        match show(&*self.holder.journal, id).await {
            Ok(summary) if self.knows(summary.owner.as_deref()) => Ok(summary),
            Ok(_) | Err(RunError::Journal(JournalError::Unknown(_))) => Err(unknown()),
            Err(error) => Err(error),
        }
    }
}
