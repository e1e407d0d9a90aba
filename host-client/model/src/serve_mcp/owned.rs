//! Whose the tools, results and runs of a request are: those of its session, and of its subject.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::request::Parts;
use rmcp::model::Implementation;
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use tokio::sync::Semaphore;

use super::CodeServer;
use super::SESSION;
use crate::agent::ExecuteCode;
use host_client_core::{RunOptions, Runs};

/// Default of the time in which clients that ask between two requests have to come back, where there is no journal.
pub(super) const ANSWERED_WITHIN: Duration = Duration::from_secs(10 * 60);
/// Maximum number of runs of one subject without a journal.
const KEPT_OF_ONE: usize = 128;
/// Maximum length of the names of a client and of a subject, in bytes.
const MAX_CLIENT_BYTES: usize = 100;
/// Maximum number of subjects whose results are kept over requests without a session.
const MAX_SUBJECTS: usize = 256;
/// Maximum number of streams of notifications of requests without a session.
const MAX_LISTENERS: usize = 1_024;

/// The owner of runs without a journal that are no subject's: it knows none of a subject's.
const NO_SUBJECT: &str = "";

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

/// Returns the subject of a request; `None`: it has none.
pub(super) fn subject(context: &RequestContext<RoleServer>) -> Option<&Arc<str>> {
    let subject = context.extensions.get::<Parts>().and_then(|parts| parts.extensions.get::<Subject>());
    subject.map(|Subject(name)| name)
}

/// Returns on whose behalf code runs: the subject, the name and version of the client, as it says, and the start of the id of its
/// HTTP session; `None` if nothing of that is known.
pub(super) fn caller(context: &RequestContext<RoleServer>) -> Option<String> {
    let cut = |text: &str| text[..text.floor_char_boundary(MAX_CLIENT_BYTES)].to_owned();
    let client = context.client_info().map(|Implementation { name, version, .. }| {
        let name = cut(format!("{} {}", cut(&name), cut(&version)).trim());
        let session = context.extensions.get::<Parts>().and_then(|parts| parts.headers.get(SESSION)?.to_str().ok());
        // The whole id would let whoever reads it take part in the session.
        match session {
            Some(id) => format!("{name}, MCP session {}", &id[..id.floor_char_boundary(8)]),
            None => name,
        }
    });
    let parts: Vec<_> = subject(context).map(|name| cut(name)).into_iter().chain(client).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Returns the name of the person who answers a client's questions, for events and the audit.
pub(super) fn answers_by(context: &RequestContext<RoleServer>) -> String {
    match subject(context) {
        Some(name) => format!("MCP elicitation, {}", &name[..name.floor_char_boundary(MAX_CLIENT_BYTES)]),
        None => "MCP elicitation".to_owned(),
    }
}

/// Returns whether a request came over HTTP without a session.
pub(super) fn is_stateless(context: &RequestContext<RoleServer>) -> bool {
    context.extensions.get::<Parts>().is_some_and(|parts| !parts.headers.contains_key(SESSION))
}

/// Returns the settings of runs without a journal.
pub(super) fn kept_options(answers_within: Duration) -> RunOptions {
    RunOptions { approval_within: answers_within, open_runs: KEPT_OF_ONE, ..RunOptions::default() }
}

impl CodeServer {
    /// Returns the tools and the runs as the subject of a request has them.
    ///
    /// # Errors
    /// Invalid request: the session is another subject's.
    pub(super) fn owned(&self, context: &RequestContext<RoleServer>) -> Result<&Owned, ErrorData> {
        let owner = subject(context).map(Arc::clone);
        let owned = self.owned.get_or_init(|| {
            let (tools, kept) = match &owner {
                Some(owner) => (self.tools.of(owner), self.kept.of(Arc::clone(owner))),
                None => (self.tools.clone(), self.kept.of(NO_SUBJECT)),
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
