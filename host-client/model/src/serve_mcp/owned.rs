//! Whose the tools, results and runs of a request are: those of its session, and of its subject.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::request::Parts;
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use tokio::sync::Semaphore;

use super::CodeServer;
use super::http::SESSION;
use crate::agent::ExecuteCode;
use host_client_core::{RunOptions, Runs};

/// Time in which the users of clients that ask between two requests can answer, where there is no journal.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10 * 60);
/// Maximum number of subjects whose results are kept over requests without a session.
const MAX_SUBJECTS: usize = 256;
/// Maximum number of streams of notifications of requests without a session.
const MAX_LISTENERS: usize = 1_024;

/// The subject of an HTTP request, such as the name of its user: an owner of durable runs, who knows no others. A layer around
/// [`router`](super::router) that finds out who asks puts it among the extensions of the request. Without it, everyone who may use the server
/// is the same owner.
///
/// A session belongs to the subject of its first request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject(pub Arc<str>);

/// The tools as the subject of the session's first request has them.
pub(super) struct Owned {
    owner: Option<Arc<str>>,
    pub(super) tools: ExecuteCode,
    pub(super) kept: Runs,
}

/// What requests without a session share.
pub(super) struct Stateless {
    /// The results that are not shown as a whole, for each subject: in the tool that keeps them.
    results: Mutex<VecDeque<(Option<Arc<str>>, ExecuteCode)>>,
    /// Places for streams of notifications.
    pub(super) listeners: Semaphore,
}

impl Default for Stateless {
    fn default() -> Self {
        Self { results: Mutex::default(), listeners: Semaphore::new(MAX_LISTENERS) }
    }
}

impl Stateless {
    /// Returns the tool that keeps the results of a subject, which is `new` if there is none.
    fn results(&self, owner: Option<Arc<str>>, new: &ExecuteCode) -> ExecuteCode {
        let mut all = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        let found = all.iter().position(|(of, _)| *of == owner).and_then(|index| all.remove(index));
        let (owner, tools) = found.unwrap_or_else(|| (owner, new.clone()));
        all.push_back((owner, tools.clone()));
        if all.len() > MAX_SUBJECTS {
            all.pop_front();
        }
        tools
    }
}

/// Returns whether a request came over HTTP without a session.
pub(super) fn is_stateless(context: &RequestContext<RoleServer>) -> bool {
    context.extensions.get::<Parts>().is_some_and(|parts| !parts.headers.contains_key(SESSION))
}

/// Returns the settings of runs without a journal.
pub(super) fn kept_options() -> RunOptions {
    RunOptions { approval_within: ANSWERED_WITHIN, ..RunOptions::default() }
}

impl CodeServer {
    /// Returns the tools and the runs as the subject of a request has them.
    ///
    /// # Errors
    /// Invalid request: the session is another subject's.
    pub(super) fn owned(&self, context: &RequestContext<RoleServer>) -> Result<&Owned, ErrorData> {
        let subject = context.extensions.get::<Parts>().and_then(|parts| parts.extensions.get::<Subject>());
        let owner = subject.map(|Subject(owner)| Arc::clone(owner));
        let owned = self.owned.get_or_init(|| {
            let (tools, kept) = match &owner {
                Some(owner) => (self.tools.of(owner), self.kept.of(Arc::clone(owner))),
                None => (self.tools.clone(), self.kept.clone()),
            };
            let tools = match is_stateless(context) {
                true => tools.with_results_of(&self.stateless.results(owner.clone(), &tools)),
                false => tools,
            };
            Owned { owner: owner.clone(), tools, kept }
        });
        match owned.owner == owner {
            true => Ok(owned),
            false => Err(ErrorData::invalid_request("there is no such session", None)),
        }
    }
}
