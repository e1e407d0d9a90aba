//! This process as the holder of runs in the journal: it keeps its hold, and looks for what others decide.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use relay_proto::time::{millis, now_ms};

use super::RunOptions;
use super::calls::RunCalls;
use super::decision::InstructionJson;
use super::handle::Run;
use super::places::{Place, Places};
use crate::durable::journal::{Claim, Instruction, Journal, JournalError, RunId};
use crate::random::random_key;

/// The interval at which instructions of other processes are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The runs that this process holds.
pub(super) struct Holder {
    pub(super) journal: Arc<dyn Journal>,
    pub(super) options: RunOptions,
    /// `false`: the journal is in memory, and may have what must not be stored.
    pub(super) is_stored: bool,
    /// The random name of this process in the journal.
    pub(super) name: String,
    active: Mutex<HashMap<RunId, Run>>,
    /// The runs that are being taken over, each with the lock of those that do.
    resuming: Mutex<HashMap<RunId, Weak<tokio::sync::Mutex<()>>>>,
    /// The places of the runs that this process has.
    pub(super) places: Arc<Places>,
    /// Set once there is a task that keeps the hold on the runs.
    keeper: OnceLock<()>,
}

/// A run that is driven. However that ends, its calls stop, and others may have it.
pub(super) struct Driven {
    pub(super) holder: Arc<Holder>,
    pub(super) id: RunId,
    pub(super) calls: Arc<RunCalls>,
    /// `true`: others can have it.
    pub(super) is_released: bool,
    pub(super) _place: Place,
}

impl Driven {
    pub(super) async fn end(mut self) {
        let _ = self.holder.journal.release(self.id.clone(), self.holder.name.clone()).await;
        self.is_released = true;
        // Dropping it forgets the run.
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        self.calls.stop();
        self.holder.active().remove(&self.id);
        // Its driver panicked: this process would hold it for as long as it lives.
        if !self.is_released
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let (holder, id) = (Arc::clone(&self.holder), self.id.clone());
            runtime.spawn(async move { drop(holder.journal.release(id, holder.name.clone()).await) });
        }
    }
}

impl Holder {
    pub(super) fn new(journal: Arc<dyn Journal>, options: RunOptions, is_stored: bool) -> Self {
        Self {
            is_stored,
            journal,
            options,
            name: random_key(),
            active: Mutex::default(),
            resuming: Mutex::default(),
            places: Arc::default(),
            keeper: OnceLock::new(),
        }
    }

    /// Begins the task that keeps the hold on the runs and looks for instructions, once.
    pub(super) fn keep(self: &Arc<Self>) {
        if self.keeper.set(()).is_ok() {
            tokio::spawn(keep(Arc::downgrade(self)));
        }
    }

    pub(super) fn active(&self) -> MutexGuard<'_, HashMap<RunId, Run>> {
        // Changed only under this lock, by code that does not panic half way.
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the lock of those that take a run over: two at once would both find it free.
    pub(super) fn turn_of(&self, id: &RunId) -> Arc<tokio::sync::Mutex<()>> {
        // Changed only under this lock, by code that does not panic half way.
        let mut resuming = self.resuming.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = resuming.get(id).and_then(Weak::upgrade) {
            return turn;
        }
        resuming.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::default();
        resuming.insert(id.clone(), Arc::downgrade(&turn));
        turn
    }

    pub(super) fn claim(&self) -> Claim {
        let until_ms = now_ms().saturating_add_unsigned(millis(self.options.claim));
        Claim { holder: self.name.clone(), until_ms }
    }

    /// Hands the instructions after the number `last` to their runs, and returns the number of the last.
    async fn look(&self, mut last: u64) -> Result<u64, JournalError> {
        loop {
            let instructions = self.journal.instructions(last).await?;
            let Some(newest) = instructions.last() else { return Ok(last) };
            last = newest.number;
            for it in instructions {
                let run = self.active().get(&it.run).cloned();
                if let Some(run) = run {
                    instruct(&run, it.instruction);
                }
            }
        }
    }
}

/// Hands an instruction to its run.
pub(super) fn instruct(run: &Run, instruction: Instruction) {
    match InstructionJson::parse(&instruction.json) {
        Ok(InstructionJson::Decide(decision)) => run.decide(instruction.call, decision),
        Ok(InstructionJson::Cancel { cancel }) => {
            if cancel {
                run.cancel();
            }
        }
        Err(error) => tracing::warn!(run = run.id().as_str(), %error, "an instruction cannot be read"),
    }
}

/// Keeps the hold on the runs of a process, and hands them the instructions of others, while there are any.
async fn keep(runs: Weak<Holder>) {
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let (mut last, mut renewed) = (0, tokio::time::Instant::now());
    loop {
        ticks.tick().await;
        let Some(holder) = runs.upgrade() else { return };
        if holder.active().is_empty() {
            continue;
        }
        if renewed.elapsed() >= holder.options.claim / 3 {
            renewed = tokio::time::Instant::now();
            if let Err(error) = holder.journal.renew(holder.claim()).await {
                tracing::warn!(%error, "the hold on durable runs could not be renewed");
            }
        }
        match holder.look(last).await {
            Ok(newest) => last = newest,
            Err(error) => tracing::warn!(%error, "the journal's instructions could not be read"),
        }
    }
}
