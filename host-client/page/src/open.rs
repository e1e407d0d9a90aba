//! The questions of this process that wait for an answer from a page.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aws_lc_rs::{digest, rand};
use host_client_core::{Approval, ApprovalRequest};
use tokio::sync::oneshot;

/// The id of a question of this process.
pub(crate) type OpenId = [u8; 16];

/// The maximum number of questions that wait.
const MAX_OPEN: usize = 1_024;
/// The number of questions of which it is remembered that somebody has decided.
const MAX_DECIDED: usize = 1_024;

/// The questions of this process.
#[derive(Default)]
pub(crate) struct OpenQuestions(Mutex<State>);

/// Returns the SHA-256 of what a decision is about.
pub(crate) fn sha256(request: &ApprovalRequest) -> [u8; 32] {
    let mut hash = digest::Context::new(&digest::SHA256);
    let arguments = request.arguments.to_string();
    for part in [request.tool.as_str(), &arguments, &request.code, &request.description] {
        hash.update(&(part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    let mut result = [0; 32];
    result.copy_from_slice(hash.finish().as_ref());
    result
}

#[derive(Default)]
struct State {
    waiting: HashMap<OpenId, Waiting>,
    /// The number of questions that were opened.
    opened: u64,
    /// The last questions that were decided, the oldest first.
    decided: VecDeque<OpenId>,
}

struct Waiting {
    request: Arc<ApprovalRequest>,
    answer: oneshot::Sender<Approval>,
    /// Its place in the order in which questions were opened.
    place: u64,
}

/// The reason why a question was not opened.
#[derive(Debug, Clone, Copy, thiserror::Error)]
pub(crate) enum NotOpened {
    /// There are too many open questions.
    #[error("{0} calls wait for an answer already")]
    TooMany(usize),
    /// The operating system gives no random numbers.
    #[error("there are no random numbers")]
    Random,
}

/// The end of an attempt to decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decided {
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
    /// [`NotOpened`].
    pub(crate) fn open(
        this: &Arc<Self>,
        request: ApprovalRequest,
    ) -> Result<(OpenId, oneshot::Receiver<Approval>, OpenGuard), NotOpened> {
        let mut id = OpenId::default();
        rand::fill(&mut id).map_err(|_| NotOpened::Random)?;
        let (sender, answer) = oneshot::channel();
        let mut state = this.state();
        if state.waiting.len() >= MAX_OPEN {
            return Err(NotOpened::TooMany(MAX_OPEN));
        }
        state.opened += 1;
        let waiting = Waiting { request: Arc::new(request), answer: sender, place: state.opened };
        state.waiting.insert(id, waiting);
        Ok((id, answer, OpenGuard { questions: Arc::clone(this), id }))
    }

    /// Returns a question that waits; `None`: there is none with this id.
    pub(crate) fn get(&self, id: &OpenId) -> Option<Arc<ApprovalRequest>> {
        self.state().waiting.get(id).map(|waiting| Arc::clone(&waiting.request))
    }

    /// Returns the questions that wait, the oldest first.
    pub(crate) fn all(&self) -> Vec<(OpenId, Arc<ApprovalRequest>)> {
        let state = self.state();
        let mut all: Vec<_> = state.waiting.iter().collect();
        all.sort_by_key(|(_, waiting)| waiting.place);
        all.into_iter().map(|(id, waiting)| (*id, Arc::clone(&waiting.request))).collect()
    }

    /// Decides about a question. The first decision counts.
    pub(crate) fn decide(&self, id: &OpenId, approval: Approval) -> Decided {
        let mut state = self.state();
        let Some(Waiting { answer, .. }) = state.waiting.remove(id) else {
            return if state.decided.contains(id) { Decided::Before } else { Decided::Over };
        };
        if answer.send(approval).is_err() {
            return Decided::Over;
        }
        if state.decided.len() == MAX_DECIDED {
            state.decided.pop_front();
        }
        state.decided.push_back(*id);
        Decided::Now
    }
}
