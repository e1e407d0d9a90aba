//! A journal in memory, for tests of applications.

use std::collections::{BTreeMap, HashMap};
use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::journal::{
    Batch, Claim, Instruction, Journal, JournalEntry, JournalError, JournalFuture, NewRun, NumberedInstruction,
    RunFilter, RunHead, RunId, RunStatus,
};

/// The maximum number of instructions that one look returns.
const INSTRUCTIONS: usize = 1_000;

/// A journal that is gone with its last clone: for tests of code that uses durable runs. Clones share one journal, as
/// processes share a file.
#[derive(Debug, Clone, Default)]
pub struct MemoryJournal(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    runs: BTreeMap<RunId, StoredRun>,
    /// The time until which each process holds its runs, in ms since 1970.
    holders: HashMap<String, i64>,
    instructions: Vec<NumberedInstruction>,
    last_instruction: u64,
}

#[derive(Debug)]
struct StoredRun {
    created_ms: i64,
    changed_ms: i64,
    status: RunStatus,
    plan: String,
    entries: Vec<JournalEntry>,
    holder: Option<String>,
}

impl State {
    fn find(&mut self, id: &RunId) -> Result<&mut StoredRun, JournalError> {
        self.runs.get_mut(id).ok_or_else(|| JournalError::Unknown(id.clone()))
    }

    fn claim_of(&self, run: &StoredRun) -> Option<Claim> {
        let holder = run.holder.clone()?;
        let until_ms = self.holders.get(&holder).copied().unwrap_or_default();
        Some(Claim { holder, until_ms })
    }

    fn head(&self, id: &RunId, run: &StoredRun) -> RunHead {
        RunHead {
            id: id.clone(),
            created_ms: run.created_ms,
            changed_ms: run.changed_ms,
            status: run.status,
            entries: run.entries.len() as u64,
            claim: self.claim_of(run),
        }
    }

    /// Checks that no process but `holder` holds a run at `now_ms`.
    fn check_free(&self, id: &RunId, holder: &str, now_ms: i64) -> Result<(), JournalError> {
        let run = self.runs.get(id).ok_or_else(|| JournalError::Unknown(id.clone()))?;
        match self.claim_of(run) {
            Some(claim) if claim.holder != holder && claim.until_ms > now_ms => {
                Err(JournalError::Claimed { run: id.clone(), until_ms: claim.until_ms })
            }
            _ => Ok(()),
        }
    }

    fn append(&mut self, id: &RunId, holder: &str, batch: Batch) -> Result<(), JournalError> {
        let run = self.runs.get(id).ok_or_else(|| JournalError::Unknown(id.clone()))?;
        match self.claim_of(run) {
            None => return Err(JournalError::Unclaimed(id.clone())),
            Some(claim) if claim.holder != holder => {
                return Err(JournalError::Claimed { run: id.clone(), until_ms: claim.until_ms });
            }
            Some(_) => {}
        }
        let run = self.find(id)?;
        let found = run.entries.len() as u64;
        if batch.first != found + 1 {
            return Err(JournalError::Conflict { run: id.clone(), expected: batch.first.saturating_sub(1), found });
        }
        run.entries.extend(batch.entries);
        run.status = batch.status.unwrap_or(run.status);
        run.changed_ms = batch.at_ms;
        Ok(())
    }

    fn list(&self, filter: &RunFilter) -> Vec<RunHead> {
        let is_after = |id: &RunId, run: &StoredRun| match &filter.after {
            Some((created_ms, after)) if filter.newest_first => (run.created_ms, id) < (*created_ms, after),
            Some((created_ms, after)) => (run.created_ms, id) > (*created_ms, after),
            None => true,
        };
        let fits =
            |id: &RunId, run: &StoredRun| !(filter.unfinished && run.status == RunStatus::Ended) && is_after(id, run);
        let mut runs: Vec<_> = self.runs.iter().filter(|(id, run)| fits(id, run)).collect();
        // The map has them by their ids already.
        runs.sort_by_key(|(_, run)| run.created_ms);
        if filter.newest_first {
            runs.reverse();
        }
        runs.into_iter().take(filter.limit).map(|(id, run)| self.head(id, run)).collect()
    }
}

impl MemoryJournal {
    /// Creates an empty journal.
    pub fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Changed only under this lock, by code that does not panic half way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut State) -> Result<T, JournalError>,
    ) -> JournalFuture<'static, T> {
        Box::pin(ready(act(&mut self.state())))
    }
}

impl Journal for MemoryJournal {
    fn create(&self, run: NewRun, claim: Claim) -> JournalFuture<'_, ()> {
        self.with(|state| {
            if state.runs.contains_key(&run.id) {
                return Err(JournalError::Exists(run.id));
            }
            let stored = StoredRun {
                created_ms: run.created_ms,
                changed_ms: run.created_ms,
                status: RunStatus::Running,
                plan: run.plan,
                entries: Vec::new(),
                holder: Some(claim.holder.clone()),
            };
            state.holders.insert(claim.holder, claim.until_ms);
            state.runs.insert(run.id, stored);
            Ok(())
        })
    }

    fn append(&self, run: RunId, holder: String, batch: Batch) -> JournalFuture<'_, ()> {
        self.with(|state| state.append(&run, &holder, batch))
    }

    fn run(&self, id: RunId) -> JournalFuture<'_, Option<RunHead>> {
        self.with(|state| Ok(state.runs.get(&id).map(|run| state.head(&id, run))))
    }

    fn plan(&self, id: RunId) -> JournalFuture<'_, Option<String>> {
        self.with(|state| Ok(state.runs.get(&id).map(|run| run.plan.clone())))
    }

    fn entries(&self, run: RunId, after: u64) -> JournalFuture<'_, Vec<JournalEntry>> {
        self.with(|state| {
            let after = usize::try_from(after).unwrap_or(usize::MAX);
            Ok(state.find(&run)?.entries.iter().skip(after).cloned().collect())
        })
    }

    fn runs(&self, filter: RunFilter) -> JournalFuture<'_, Vec<RunHead>> {
        self.with(|state| Ok(state.list(&filter)))
    }

    fn claim(&self, run: RunId, claim: Claim, now_ms: i64) -> JournalFuture<'_, ()> {
        self.with(|state| {
            state.check_free(&run, &claim.holder, now_ms)?;
            state.find(&run)?.holder = Some(claim.holder.clone());
            state.holders.insert(claim.holder, claim.until_ms);
            Ok(())
        })
    }

    fn renew(&self, claim: Claim) -> JournalFuture<'_, ()> {
        self.with(|state| {
            state.holders.insert(claim.holder, claim.until_ms);
            Ok(())
        })
    }

    fn release(&self, run: RunId, holder: String) -> JournalFuture<'_, ()> {
        self.with(|state| {
            state.find(&run)?.holder.take_if(|it| *it == holder);
            Ok(())
        })
    }

    fn instruct(&self, run: RunId, instruction: Instruction) -> JournalFuture<'_, ()> {
        self.with(|state| {
            state.find(&run)?;
            let call = instruction.call;
            if state.instructions.iter().any(|it| it.run == run && it.instruction.call == call) {
                return Err(JournalError::Instructed { run, call });
            }
            state.last_instruction += 1;
            let number = state.last_instruction;
            state.instructions.push(NumberedInstruction { number, run, instruction });
            Ok(())
        })
    }

    fn instructions(&self, after: u64) -> JournalFuture<'_, Vec<NumberedInstruction>> {
        self.with(|state| {
            Ok(state.instructions.iter().filter(|it| it.number > after).take(INSTRUCTIONS).cloned().collect())
        })
    }

    fn instructions_of(&self, run: RunId) -> JournalFuture<'_, Vec<Instruction>> {
        self.with(|state| {
            state.find(&run)?;
            let of_run = state.instructions.iter().filter(|it| it.run == run);
            Ok(of_run.map(|it| it.instruction.clone()).collect())
        })
    }

    fn forget(&self, run: RunId, holder: String, now_ms: i64) -> JournalFuture<'_, bool> {
        self.with(|state| {
            match state.check_free(&run, &holder, now_ms) {
                Err(JournalError::Unknown(_)) => return Ok(false),
                checked => checked?,
            }
            state.runs.remove(&run);
            state.instructions.retain(|it| it.run != run);
            Ok(true)
        })
    }
}
