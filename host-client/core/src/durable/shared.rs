//! A journal that several parts of a program share.

use std::sync::Arc;

use super::journal::{Batch, Claim, Instruction, Journal, JournalEntry, JournalFuture, NewRun, NumberedInstruction};
use super::journal::{RunFilter, RunHead, RunId};

impl<J: Journal + ?Sized> Journal for Arc<J> {
    fn create(&self, run: NewRun, claim: Claim) -> JournalFuture<'_, ()> {
        J::create(self, run, claim)
    }

    fn append(&self, run: RunId, holder: String, batch: Batch) -> JournalFuture<'_, ()> {
        J::append(self, run, holder, batch)
    }

    fn run(&self, id: RunId) -> JournalFuture<'_, Option<RunHead>> {
        J::run(self, id)
    }

    fn plan(&self, id: RunId) -> JournalFuture<'_, Option<String>> {
        J::plan(self, id)
    }

    fn entries(&self, run: RunId, after: u64) -> JournalFuture<'_, Vec<JournalEntry>> {
        J::entries(self, run, after)
    }

    fn runs(&self, filter: RunFilter) -> JournalFuture<'_, Vec<RunHead>> {
        J::runs(self, filter)
    }

    fn claim(&self, run: RunId, claim: Claim, now_ms: i64) -> JournalFuture<'_, ()> {
        J::claim(self, run, claim, now_ms)
    }

    fn renew(&self, claim: Claim) -> JournalFuture<'_, ()> {
        J::renew(self, claim)
    }

    fn release(&self, run: RunId, holder: String) -> JournalFuture<'_, ()> {
        J::release(self, run, holder)
    }

    fn instruct(&self, run: RunId, instruction: Instruction) -> JournalFuture<'_, ()> {
        J::instruct(self, run, instruction)
    }

    fn instructions(&self, after: u64) -> JournalFuture<'_, Vec<NumberedInstruction>> {
        J::instructions(self, after)
    }

    fn instructions_of(&self, run: RunId) -> JournalFuture<'_, Vec<Instruction>> {
        J::instructions_of(self, run)
    }

    fn forget(&self, run: RunId, holder: String, now_ms: i64) -> JournalFuture<'_, bool> {
        J::forget(self, run, holder, now_ms)
    }
}
