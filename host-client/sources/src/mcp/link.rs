//! State of a server, as its tools see it: connected, or the reason why not.

use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::handler::client::progress::ProgressDispatcher;
use rmcp::service::Peer;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::failure::Failure;
use super::text::Secrets;
use host_client_core::tool::ToolError;

/// Maximum time that a call waits for the reason why its connection ended.
const REASON_WITHIN: Duration = Duration::from_secs(3);

/// Time that is left of a call to tell the code that its server still starts.
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);

/// Shared state of one server and its tools.
#[derive(Debug)]
pub(super) struct Link {
    server: String,
    secrets: Secrets,
    trusts_annotations: bool,
    /// Maximum time that a call waits for a server that starts.
    call_waits: Duration,
    state: watch::Sender<State>,
}

/// State of a server.
#[derive(Debug, Clone)]
pub(super) enum State {
    /// The server is being started. `after`: the failure before, if it is a restart.
    Starting {
        after: Option<Arc<str>>,
        since: Instant,
    },
    Connected(Connection),
    /// The server failed, and is restarted at `until`.
    Waiting {
        why: Arc<str>,
        until: Instant,
    },
    /// The server failed too often, and is not restarted.
    GivenUp {
        why: Arc<str>,
    },
    Closed,
}

/// Open connection to a server.
#[derive(Debug, Clone)]
pub(super) struct Connection {
    pub(super) peer: Peer<RoleClient>,
    pub(super) progress: ProgressDispatcher,
    /// Receives the first failure that makes the connection useless.
    pub(super) broken: mpsc::Sender<Failure>,
    /// Number of registered tools.
    pub(super) tools: usize,
    /// Tools that are not registered, each with the reason.
    pub(super) left_out: Arc<[String]>,
}

impl State {
    /// Returns the state of a server that is started now. `after`: the failure before.
    pub(super) fn starting(after: Option<Arc<str>>) -> Self {
        Self::Starting { after, since: Instant::now() }
    }
}

impl Connection {
    /// Reports that the connection is broken, so that the server is restarted.
    pub(super) fn break_off(&self, failure: Failure) {
        // The channel is full if another call reported a failure before.
        let _ = self.broken.try_send(failure);
    }
}

impl Link {
    pub(super) fn new(server: &str, secrets: Secrets, trusts_annotations: bool, call_waits: Duration) -> Self {
        let state = watch::Sender::new(State::starting(None));
        Self { server: server.to_owned(), secrets, trusts_annotations, call_waits, state }
    }

    pub(super) fn server(&self) -> &str {
        &self.server
    }

    /// Returns `true` if the server's annotations may declare that a tool only reads.
    pub(super) fn trusts_annotations(&self) -> bool {
        self.trusts_annotations
    }

    /// Returns the values that no error message may contain.
    pub(super) fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    pub(super) fn set(&self, state: State) {
        self.state.send_replace(state);
    }

    pub(super) fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// Waits until the first attempt to connect has succeeded or failed.
    pub(super) async fn settled(&self) {
        // The wait cannot fail, because `self` holds the sender.
        let _ = self.state.subscribe().wait_for(|state| !matches!(state, State::Starting { after: None, .. })).await;
    }

    /// Returns the open connection, and waits for a server that starts: up to its time for that, and no longer than a
    /// call may take that is given up at `deadline`.
    ///
    /// # Errors
    /// Those of [`Link::connection`].
    pub(super) async fn connection_before(&self, deadline: Instant) -> Result<Connection, ToolError> {
        let now = Instant::now();
        let left = deadline.saturating_duration_since(now);
        let until = now + self.call_waits.min(left - ANSWERS_WITHIN.min(left / 4));
        let mut state = self.state.subscribe();
        let started = state.wait_for(|state| !matches!(state, State::Starting { .. }));
        // After this time the error says that the server still starts.
        let _ = tokio::time::timeout_at(until, started).await.map(drop);
        self.connection()
    }

    /// Returns the open connection.
    ///
    /// # Errors
    /// `TOOL_FAILED` with the state of the server and advice.
    pub(super) fn connection(&self) -> Result<Connection, ToolError> {
        match &*self.state.borrow() {
            State::Connected(connection) => Ok(connection.clone()),
            other => Err(ToolError::new(self.unavailable(other))),
        }
    }

    /// Returns what a caller of a tool that the server does not have is told of this state; `None` if it is connected.
    pub(super) fn note(&self, state: &State) -> Option<String> {
        match state {
            State::Connected(_) => None,
            // The time of the next start would be old by then.
            State::Waiting { why, .. } => Some(format!(
                "the MCP server {:?} is being started again, because {why}; try again in a few seconds",
                self.server
            )),
            // The time since the start is told beside this.
            State::Starting { after: None, .. } => {
                Some(format!("the MCP server {:?} is still starting; try again in a few seconds", self.server))
            }
            other => Some(self.unavailable(other)),
        }
    }

    /// Describes a server that is not connected, with advice for the caller.
    fn unavailable(&self, state: &State) -> String {
        let server = &self.server;
        match state {
            State::Starting { after: None, since } => {
                let seconds = since.elapsed().as_secs();
                format!("the MCP server {server:?} is still starting, since {seconds} s; try again in a few seconds")
            }
            State::Connected(_) => format!("the MCP server {server:?} has just started; try again"),
            State::Starting { after: Some(why), since } => {
                let seconds = since.elapsed().as_secs();
                format!(
                    "the MCP server {server:?} is being started again, since {seconds} s, because {why}; try again in a \
                     few seconds"
                )
            }
            State::Waiting { why, until } => {
                let seconds = until.saturating_duration_since(Instant::now()).as_secs() + 1;
                format!("the MCP server {server:?} is not available: {why}; it is started again in {seconds} s")
            }
            State::GivenUp { why } => format!(
                "the MCP server {server:?} is not available: {why}; it is not tried again before its configuration is \
                 put right and the host is started again: do without it"
            ),
            State::Closed => format!("the MCP server {server:?} is closed, because the host ends"),
        }
    }

    /// Returns `OUTCOME_UNKNOWN` for a call whose connection ended before the answer, with the reason if it becomes
    /// known in time.
    pub(super) async fn no_answer(&self) -> ToolError {
        let mut state = self.state.subscribe();
        let ended = state.wait_for(|state| !matches!(state, State::Connected(_)));
        let why = match tokio::time::timeout(REASON_WITHIN, ended).await.map(|state| state.map(|state| state.clone())) {
            Ok(Ok(State::Waiting { why, .. } | State::GivenUp { why } | State::Starting { after: Some(why), .. })) => {
                format!(": {why}")
            }
            _ => String::new(),
        };
        ToolError::outcome_unknown(format!(
            "the connection to the MCP server {:?} ended before it answered{why}; nobody knows whether the call was \
             done, and it is not done again: look before you repeat it",
            self.server
        ))
    }
}
