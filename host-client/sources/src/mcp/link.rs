//! What a server's tools know of it: whether it is connected and, if not, why and what to do.

use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::service::Peer;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::failure::Failure;
use super::words::Secrets;
use host_client_core::tool::ToolError;

/// How long a call waits to learn why its connection ended.
const REASON_WITHIN: Duration = Duration::from_secs(3);

/// One server, as its tools see it.
#[derive(Debug)]
pub(super) struct Link {
    server: String,
    secrets: Secrets,
    state: watch::Sender<State>,
}

/// Where a server stands.
#[derive(Debug, Clone)]
pub(super) enum State {
    /// It is being started, perhaps again after something went wrong.
    Starting {
        after: Option<Arc<str>>,
    },
    Connected(Connection),
    /// It is started again at that time.
    Waiting {
        why: Arc<str>,
        until: Instant,
    },
    /// It is not started again.
    GivenUp {
        why: Arc<str>,
    },
    Closed,
}

/// A connection while it lasts.
#[derive(Debug, Clone)]
pub(super) struct Connection {
    pub(super) peer: Peer<RoleClient>,
    /// Takes the first reason why it is of no use any more.
    pub(super) broken: mpsc::Sender<Failure>,
    /// How many tools are registered.
    pub(super) tools: usize,
    /// Which tools are not, and why.
    pub(super) left_out: Arc<[String]>,
}

impl Connection {
    /// Says that it is of no use any more.
    pub(super) fn break_off(&self, failure: Failure) {
        // Somebody else may have said so before.
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

    /// What is not to be read in any error.
    pub(super) fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    pub(super) fn set(&self, state: State) {
        self.state.send_replace(state);
    }

    pub(super) fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// Waits until the first try to connect has come to something.
    pub(super) async fn settled(&self) {
        // This holds the sender, so the wait has no other end.
        let _ = self.state.subscribe().wait_for(|state| !matches!(state, State::Starting { after: None })).await;
    }

    /// The connection, or what to do without it.
    pub(super) fn connection(&self) -> Result<Connection, ToolError> {
        match &*self.state.borrow() {
            State::Connected(connection) => Ok(connection.clone()),
            other => Err(ToolError::new(self.unavailable(other))),
        }
    }

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
                "the MCP server {server:?} is not available: {why}; it is not tried again before its configuration is put \
                 right and the host is started again: do without it"
            ),
            State::Closed => format!("the MCP server {server:?} is closed, because the host ends"),
        }
    }

    /// Why a call on a connection that has ended was not answered. Nobody knows whether it was done.
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
            "the connection to the MCP server {:?} ended before it answered{why}; nobody knows whether the call was done, \
             and it is not done again: look before you repeat it",
            self.server
        ))
    }
}
