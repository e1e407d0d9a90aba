//! The state of a session's connection: connected, lost and being resumed, or lost for good.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use relay_proto::wire;
use tokio::sync::watch;
use tokio::time::Instant;

/// The state of a session's connection to its relay.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectionState {
    /// The session has a connection.
    Connected,
    /// The connection was lost, and the client tries to resume the session on another one. Executions go on at the relay, tools go
    /// on here, and what one side sends waits for the connection.
    Reconnecting {
        /// The time at which the connection was lost.
        since: Instant,
        /// The reason, for people.
        reason: Arc<str>,
    },
    /// The session is over. What ran at the relay has ended with `SESSION_LOST`.
    Lost {
        /// The reason why the session could not be resumed; `None`: it was not resumed for another reason, such as that it
        /// was ended on purpose, or cannot be resumed.
        loss: Option<SessionLoss>,
        /// The reason, for people.
        reason: Arc<str>,
    },
}

/// The reason why a session could not be resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SessionLoss {
    /// The relay does not know the session: it was restarted, or another relay answers at its address.
    Unknown,
    /// The time for resuming it is over.
    Expired,
    /// The session was resumed on another connection.
    Epoch,
    /// Messages are missing, or a peer claims to have received what was never sent.
    Gap,
    /// The session is on another relay.
    Moved,
    /// The relay has shut down.
    Drained,
    /// A reason that this version does not know, by its number.
    Other(i32),
}

impl SessionLoss {
    /// Reads the reason that a relay gives; `None`: it gives none.
    pub(super) fn of(loss: i32) -> Option<Self> {
        Some(match wire::SessionLoss::try_from(loss) {
            Ok(wire::SessionLoss::Unspecified) => return None,
            Ok(wire::SessionLoss::Unknown) => Self::Unknown,
            Ok(wire::SessionLoss::Expired) => Self::Expired,
            Ok(wire::SessionLoss::Epoch) => Self::Epoch,
            Ok(wire::SessionLoss::Gap) => Self::Gap,
            Ok(wire::SessionLoss::Moved) => Self::Moved,
            Ok(wire::SessionLoss::Drained) => Self::Drained,
            Err(_) => Self::Other(loss),
        })
    }
}

impl fmt::Display for SessionLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("UNKNOWN"),
            Self::Expired => f.write_str("EXPIRED"),
            Self::Epoch => f.write_str("EPOCH"),
            Self::Gap => f.write_str("GAP"),
            Self::Moved => f.write_str("MOVED"),
            Self::Drained => f.write_str("DRAINED"),
            Self::Other(number) => write!(f, "{number}"),
        }
    }
}

/// The states of a session's connection from now on; made by [`Client::state_changes`](crate::Client::state_changes).
#[derive(Debug, Clone)]
pub struct StateChanges(pub(super) watch::Receiver<ConnectionState>);

impl StateChanges {
    /// Waits for the next state; `None`: the session was lost before, or nothing uses it any more. A state that holds only for
    /// a moment may be missed.
    pub async fn next(&mut self) -> Option<ConnectionState> {
        if matches!(*self.0.borrow(), ConnectionState::Lost { .. }) && !self.0.has_changed().unwrap_or(false) {
            return None;
        }
        self.0.changed().await.ok()?;
        Some(self.0.borrow_and_update().clone())
    }
}

/// The state of a session's connection, and the time that the session was without one.
#[derive(Debug)]
pub(super) struct Connectedness {
    state: watch::Sender<ConnectionState>,
    /// The time without a connection, before the current state.
    away: Mutex<Duration>,
}

impl Connectedness {
    pub(super) fn new() -> Self {
        Self { state: watch::Sender::new(ConnectionState::Connected), away: Mutex::default() }
    }

    pub(super) fn state(&self) -> ConnectionState {
        self.state.borrow().clone()
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<ConnectionState> {
        self.state.subscribe()
    }

    /// Notes that the connection was lost, and that the session is being resumed.
    pub(super) fn set_reconnecting(&self, since: Instant, reason: &str) {
        self.set(ConnectionState::Reconnecting { since, reason: reason.into() });
    }

    /// Notes that the session has a connection again.
    pub(super) fn set_connected(&self) {
        self.set(ConnectionState::Connected);
    }

    /// Notes that the session is over. The first reason counts.
    pub(super) fn set_lost(&self, loss: Option<SessionLoss>, reason: &str) {
        self.set(ConnectionState::Lost { loss, reason: reason.into() });
    }

    fn set(&self, next: ConnectionState) {
        self.state.send_if_modified(|state| {
            match state {
                ConnectionState::Lost { .. } => return false,
                ConnectionState::Reconnecting { since, .. } => {
                    *self.away.lock().unwrap_or_else(PoisonError::into_inner) += since.elapsed();
                }
                ConnectionState::Connected => {}
            }
            *state = next;
            true
        });
    }

    /// Returns the time that the session was without a connection, and whether it is now.
    pub(super) fn away(&self) -> (Duration, bool) {
        let state = self.state.borrow();
        let before = *self.away.lock().unwrap_or_else(PoisonError::into_inner);
        match &*state {
            ConnectionState::Reconnecting { since, .. } => (before + since.elapsed(), true),
            _ => (before, false),
        }
    }
}
