//! A journal in memory that can fail.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use host_client::RunId;
use host_client::durable::{
    Batch, Claim, Instruction, Journal, JournalEntry, JournalError, JournalFuture, MemoryJournal, NewRun,
    NumberedInstruction, RunFilter, RunHead,
};

type OnAppend = dyn Fn(&Batch) -> Result<(), JournalError> + Send + Sync;
type OnRead = dyn Fn(&RunId) -> BoxFuture<'static, ()> + Send + Sync;

/// A journal that does something else before it appends entries or reads those of a run. Clones share it.
#[derive(Clone)]
pub(crate) struct Faulty {
    pub(crate) inner: MemoryJournal,
    append: Arc<OnAppend>,
    read: Arc<OnRead>,
    claims: Arc<AtomicUsize>,
}

impl fmt::Debug for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faulty").finish_non_exhaustive()
    }
}

impl Faulty {
    pub(crate) fn new(inner: MemoryJournal) -> Self {
        let read = |_: &RunId| -> BoxFuture<'static, ()> { Box::pin(std::future::ready(())) };
        Self { inner, append: Arc::new(|_| Ok(())), read: Arc::new(read), claims: Arc::default() }
    }

    pub(crate) fn appending(self, append: impl Fn(&Batch) -> Result<(), JournalError> + Send + Sync + 'static) -> Self {
        Self { append: Arc::new(append), ..self }
    }

    pub(crate) fn reading(self, read: impl Fn(&RunId) -> BoxFuture<'static, ()> + Send + Sync + 'static) -> Self {
        Self { read: Arc::new(read), ..self }
    }

    /// The number of times that a run was claimed.
    pub(crate) fn claims(&self) -> usize {
        self.claims.load(Ordering::SeqCst)
    }
}

/// Returns whether a batch has the end of a run.
pub(crate) fn is_end(batch: &Batch) -> bool {
    batch.entries.iter().any(|entry| entry.kind == "ended")
}

impl Journal for Faulty {
    fn append(&self, run: RunId, holder: String, batch: Batch) -> JournalFuture<'_, ()> {
        match (self.append)(&batch) {
            Ok(()) => self.inner.append(run, holder, batch),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn entries(&self, run: RunId, after: u64) -> JournalFuture<'_, Vec<JournalEntry>> {
        let before = (self.read)(&run);
        Box::pin(async move {
            before.await;
            self.inner.entries(run, after).await
        })
    }

    fn claim(&self, run: RunId, claim: Claim, now_ms: i64) -> JournalFuture<'_, ()> {
        self.claims.fetch_add(1, Ordering::SeqCst);
        self.inner.claim(run, claim, now_ms)
    }

    fn create(&self, run: NewRun, claim: Claim) -> JournalFuture<'_, ()> {
        self.inner.create(run, claim)
    }

    fn run(&self, id: RunId) -> JournalFuture<'_, Option<RunHead>> {
        self.inner.run(id)
    }

    fn plan(&self, id: RunId) -> JournalFuture<'_, Option<String>> {
        self.inner.plan(id)
    }

    fn runs(&self, filter: RunFilter) -> JournalFuture<'_, Vec<RunHead>> {
        self.inner.runs(filter)
    }

    fn renew(&self, claim: Claim) -> JournalFuture<'_, ()> {
        self.inner.renew(claim)
    }

    fn release(&self, run: RunId, holder: String) -> JournalFuture<'_, ()> {
        self.inner.release(run, holder)
    }

    fn instruct(&self, run: RunId, instruction: Instruction) -> JournalFuture<'_, ()> {
        self.inner.instruct(run, instruction)
    }

    fn instructions(&self, after: u64) -> JournalFuture<'_, Vec<NumberedInstruction>> {
        self.inner.instructions(after)
    }

    fn instructions_of(&self, run: RunId) -> JournalFuture<'_, Vec<Instruction>> {
        self.inner.instructions_of(run)
    }

    fn forget(&self, run: RunId, holder: String, now_ms: i64) -> JournalFuture<'_, bool> {
        self.inner.forget(run, holder, now_ms)
    }
}
