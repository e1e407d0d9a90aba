//! State of a session that its executions share with it.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use relay_proto::code::warning;
use relay_proto::limit::Clamped;
use relay_proto::{CallId, ExecutionId, Limits, ToolPatterns, wire};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::Instant;

use super::SessionContext;
use super::announced::AnnouncedTools;
use super::credit::SessionCredit;
use crate::admission::SessionNumber;
use crate::auth::Grant;
use crate::execution::{CallStates, Command, WorkerCall};
use crate::outbound::Outbound;
use crate::store::Store;
use crate::subject::SubjectPermit;

/// Number of past execution ids that a session remembers, to refuse one that is used again.
const REMEMBERED_EXECUTIONS: usize = 1_024;

/// Room for a request's texts, of its session, its subject and the relay.
pub(super) type HeldSource = [OwnedSemaphorePermit; 3];

/// One session, as its executions see it too.
pub(super) struct SessionState {
    pub(super) context: SessionContext,
    pub(super) number: SessionNumber,
    pub(super) subject: Arc<str>,
    pub(super) of_subject: SubjectPermit,
    /// Grant of executions that begin now.
    pub(super) grant: RwLock<Arc<SessionGrant>>,
    /// Instant at which the newest token expires.
    pub(super) expires: watch::Sender<Instant>,
    pub(super) outbound: Outbound,
    /// Budget for the source and input of the session's executions, in bytes.
    pub(super) source_bytes: Arc<Semaphore>,
    /// Tools that the host announced last; empty without hello.
    pub(super) tools: RwLock<Arc<AnnouncedTools>>,
    pub(super) store: Mutex<Store>,
    pub(super) open: Mutex<OpenWork>,
    /// Notified when an execution has ended.
    pub(super) ended: Notify,
    /// Credit of both peers; unset: they do not count.
    pub(super) credit: OnceLock<SessionCredit>,
    pub(super) announcement: Announcement,
}

impl SessionState {
    /// Locks the open executions and calls.
    pub(super) fn lock(&self) -> MutexGuard<'_, OpenWork> {
        // Changed only under this lock, by code that does not panic half way.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the grant for executions that begin now.
    pub(super) fn grant(&self) -> Arc<SessionGrant> {
        Arc::clone(&self.grant.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the tools that the host announced last.
    pub(super) fn tools(&self) -> Arc<AnnouncedTools> {
        Arc::clone(&self.tools.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Locks the session's store.
    pub(super) fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the announced tools.
    pub(super) fn announce(&self, tools: AnnouncedTools) {
        *self.tools.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(tools);
    }
}

/// State of the announcement that the relay shuts down.
#[derive(Debug, Default)]
pub(super) struct Announcement {
    /// `true`: the host wants one.
    pub(super) is_wanted: AtomicBool,
    /// Notified when the host has answered the ping that follows it.
    pub(super) answered: Notify,
}

/// Rights of the token, within those that the relay allows.
pub(super) struct SessionGrant {
    pub(super) tools: ToolPatterns,
    pub(super) limits: Limits,
    clamped: Vec<Clamped>,
    /// `true`: V8 compiles the code to machine code.
    pub(super) compiled: bool,
}

impl SessionGrant {
    /// Makes the grant of a token.
    pub(super) fn new(context: &SessionContext, grant: Grant) -> Self {
        let limits = &context.config.limits;
        let (limits, clamped) = limits.defaults.replaced(&grant.limits, &limits.maxima);
        Self { tools: grant.tools, limits, clamped, compiled: grant.jit && context.engine.compiles() }
    }

    /// Returns a warning for each limit of the token that the relay does not grant.
    pub(super) fn warnings(&self) -> Vec<wire::Warning> {
        self.clamped.iter().map(clamp_warning).collect()
    }
}

/// Makes the warning for a limit that was clamped.
pub(super) fn clamp_warning(clamped: &Clamped) -> wire::Warning {
    wire::Warning { code: warning::LIMIT_CLAMPED.into(), message: clamped.to_string() }
}

/// Open executions and calls of a session.
#[derive(Default)]
pub(super) struct OpenWork {
    pub(super) executions: HashMap<ExecutionId, LiveExecution>,
    past: VecDeque<ExecutionId>,
    /// Fingerprints of the past executions by their ids.
    past_requests: HashMap<ExecutionId, u64>,
    pub(super) calls: HashMap<CallId, (ExecutionId, WorkerCall)>,
    /// Id of the newest call; 0: there was none.
    pub(super) last_call: u64,
}

/// Ways to tell something to an execution that runs or waits.
pub(super) struct LiveExecution {
    /// Fingerprint of its request.
    pub(super) request: u64,
    pub(super) commands: mpsc::Sender<Command>,
    pub(super) states: Arc<CallStates>,
}

impl OpenWork {
    /// Returns the fingerprint of the request of the execution that has this id or had it not long ago; `None`: there is
    /// none.
    pub(super) fn request(&self, id: &ExecutionId) -> Option<u64> {
        self.executions.get(id).map(|live| live.request).or_else(|| self.past_requests.get(id).copied())
    }

    /// Removes an execution that has ended, and remembers its id. Forgets the oldest id over the maximum.
    pub(super) fn end(&mut self, id: &ExecutionId) {
        let Some(live) = self.executions.remove(id) else { return };
        self.past.push_back(id.clone());
        self.past_requests.insert(id.clone(), live.request);
        if self.past.len() > REMEMBERED_EXECUTIONS
            && let Some(oldest) = self.past.pop_front()
        {
            self.past_requests.remove(&oldest);
        }
    }

    /// Returns whether the session has sent a call with this id, open or not.
    pub(super) fn was_sent(&self, call: CallId) -> bool {
        (1..=self.last_call).contains(&call.0)
    }

    /// Opens a call and returns its id.
    pub(super) fn open_call(&mut self, execution: ExecutionId, call: WorkerCall) -> CallId {
        self.last_call += 1;
        let id = CallId(self.last_call);
        self.calls.insert(id, (execution, call));
        id
    }
}
