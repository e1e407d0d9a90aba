//! State of a server, as its tools see it: connected, or the reason why not.

use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::service::Peer;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::failure::Failure;
use super::text::Secrets;
use host_client_core::tool::ToolError;

/// Maximum time that a call waits for the reason why its connection ended.
const REASON_WITHIN: Duration = Duration::from_secs(3);

/// Shared state of one server and its tools.
#[derive(Debug)]
pub(super) struct Link {
    server: String,
    secrets: Secrets,
    state: watch::Sender<State>,
}

/// State of a server.
#[derive(Debug, Clone)]
pub(super) enum State {
    /// The server is being started. `after`: the failure before, if it is a restart.
    Starting {
        after: Option<Arc<str>>,
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
    /// Receives the first failure that makes the connection useless.
    pub(super) broken: mpsc::Sender<Failure>,
    /// Number of registered tools.
    pub(super) tools: usize,
    /// Tools that are not registered, each with the reason.
    pub(super) left_out: Arc<[String]>,
}

impl Connection {
    /// Reports that the connection is broken, so that the server is restarted.
    pub(super) fn break_off(&self, failure: Failure) {
        // The channel is full if another call reported a failure before.
        let _ = self.broken.try_send(failure);
    }
}

impl Link {
    pub(super) fn new(server: &str, secrets: Secrets) -> Self {
        Self { server: server.to_owned(), secrets, state: watch::Sender::new(State::Starting { after: None }) }
    }

    pub(super) fn server(&self) -> &str {
        &self.server
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
        let _ = self.state.subscribe().wait_for(|state| !matches!(state, State::Starting { after: None })).await;
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

    /// Describes a server that is not connected, with advice for the caller.
    fn unavailable(&self, state: &State) -> String {
        let server = &self.server;
        match state {
            State::Starting { after: None } | State::Connected(_) => {
                format!("the MCP server {server:?} is still starting; try again in a few seconds")
            }
            State::Starting { after: Some(why) } => {
                format!("the MCP server {server:?} is being started again, because {why}; try again in a few seconds")
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
            Ok(Ok(State::Waiting { why, .. } | State::GivenUp { why } | State::Starting { after: Some(why) })) => {
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
