//! The questions of this process that wait for an answer by link.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aws_lc_rs::rand;
use host_client_core::{Approval, ApprovalRequest};
use tokio::sync::oneshot;

use super::LinkError;
use super::token::OpenId;

/// The maximum number of questions that wait.
const MAX_OPEN: usize = 1_024;
/// The number of questions of which it is remembered that somebody has decided.
const MAX_DECIDED: usize = 1_024;

/// The questions of this process.
#[derive(Default)]
pub(super) struct OpenQuestions(Mutex<State>);

#[derive(Default)]
struct State {
    waiting: HashMap<OpenId, (Arc<ApprovalRequest>, oneshot::Sender<Approval>)>,
    /// The last questions that were decided, the oldest first.
    decided: VecDeque<OpenId>,
}

/// The end of an attempt to decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decided {
    /// The decision counts.
    Now,
    /// Somebody has decided before.
    Before,
    /// The question does not wait any more.
    Over,
}

/// A guard that closes a question when it is dropped: when the call was cancelled, or its time is over.
pub(crate) struct OpenGuard {
    questions: Arc<OpenQuestions>,
    id: OpenId,
}

impl Drop for OpenGuard {
    fn drop(&mut self) {
        self.questions.state().waiting.remove(&self.id);
    }
}

impl OpenQuestions {
    fn state(&self) -> MutexGuard<'_, State> {
        // Changed only under this lock, by code that does not panic half way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a question. Returns its id, the answer that is to come, and the guard that closes it.
    ///
    /// # Errors
    /// [`LinkError::TooMany`], [`LinkError::Random`].
    pub(super) fn open(
        this: &Arc<Self>,
        request: ApprovalRequest,
    ) -> Result<(OpenId, oneshot::Receiver<Approval>, OpenGuard), LinkError> {
        let mut id = OpenId::default();
        rand::fill(&mut id).map_err(|_| LinkError::Random)?;
        let (sender, answer) = oneshot::channel();
        let mut state = this.state();
        if state.waiting.len() >= MAX_OPEN {
            return Err(LinkError::TooMany(MAX_OPEN));
        }
        state.waiting.insert(id, (Arc::new(request), sender));
        Ok((id, answer, OpenGuard { questions: Arc::clone(this), id }))
    }

    /// Returns a question that waits; `None`: there is none with this id.
    pub(super) fn get(&self, id: &OpenId) -> Option<Arc<ApprovalRequest>> {
        self.state().waiting.get(id).map(|(request, _)| Arc::clone(request))
    }

    /// Decides about a question. The first decision counts.
    pub(super) fn decide(&self, id: &OpenId, approval: Approval) -> Decided {
        let mut state = self.state();
        let Some((_, sender)) = state.waiting.remove(id) else {
            return if state.decided.contains(id) { Decided::Before } else { Decided::Over };
        };
        if sender.send(approval).is_err() {
            return Decided::Over;
        }
        if state.decided.len() == MAX_DECIDED {
            state.decided.pop_front();
        }
        state.decided.push_back(*id);
        Decided::Now
    }
}
