//! Sessions of the HTTP server: how many there are, how long they stay, and where a broken stream goes on.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::{Stream, StreamExt as _};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::WorkerTransport;
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError, LocalSessionWorker,
};
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId, SessionManager};

use super::life::{Followed, SessionLife};

/// Sessions of the library, bounded in number and in idle time.
pub(super) struct Sessions {
    local: LocalSessionManager,
    /// Maximum number of sessions.
    most: usize,
    /// Time without requests and streams after which a session is closed.
    idle: Duration,
    known: Mutex<HashMap<SessionId, Known>>,
    /// Held while a session is created.
    turn: tokio::sync::Mutex<()>,
    own: Weak<Self>,
}

/// An open session.
struct Known {
    life: SessionLife,
    /// The subject of its first request, or none; outer `None`: its client has not heard of the session yet.
    owner: Option<Owner>,
}

/// Name of the subject of a request; `None`: it has none.
pub(super) type Owner = Option<Arc<str>>;

/// Failure of a request of a session.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionsError {
    #[error(transparent)]
    Local(#[from] LocalSessionManagerError),
    #[error("all {0} sessions run something")]
    Full(usize),
}

impl Sessions {
    /// Creates the sessions: at most `most` (at least 1), each closed when it was idle for the time `idle`.
    pub(super) fn new(most: usize, idle: Duration) -> Arc<Self> {
        let mut local = LocalSessionManager::default();
        // Closed here: the library does not know whether something still runs.
        local.session_config.keep_alive = None;
        Arc::new_cyclic(|own| Self {
            local,
            most: most.max(1),
            idle,
            known: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            own: own.clone(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the life of a session, and records that its client was heard; `None`: there is no such session.
    fn heard(&self, id: &SessionId) -> Option<SessionLife> {
        let life = self.lock().get(id).map(|known| known.life.clone());
        life.inspect(SessionLife::touch)
    }

    /// Returns `true` if there is such a session, and it is this owner's.
    pub(super) fn is_of(&self, id: &str, owner: &Owner) -> bool {
        self.lock().get(id).is_some_and(|known| known.owner.as_ref() == Some(owner))
    }

    /// Gives a new session, of which its client has not heard yet, to the owner of the request that began it.
    pub(super) fn give(&self, id: &str, owner: Owner) {
        if let Some(known) = self.lock().get_mut(id) {
            known.owner.get_or_insert(owner);
        }
    }

    /// Returns `true` if there is room for another session, or a session that can be closed for it.
    pub(super) fn has_room(&self) -> bool {
        let known = self.lock();
        known.len() < self.most || known.values().any(|known| known.life.unused_since().is_some())
    }

    /// Closes the session that has been unused for the longest time, if there are too many. Sessions whose clients listen
    /// are closed last.
    async fn make_room(&self) -> Result<(), SessionsError> {
        let unused = {
            let known = self.lock();
            if known.len() < self.most {
                return Ok(());
            }
            let unused = known.iter().filter_map(|(id, known)| Some((known.life.unused_since()?, id)));
            unused.min_by_key(|(since, _)| *since).map(|(_, id)| id.clone())
        };
        let id = unused.ok_or(SessionsError::Full(self.most))?;
        tracing::info!("an unused MCP session is closed to make room for another one");
        self.close_session(&id).await
    }
}

impl SessionManager for Sessions {
    type Error = SessionsError;
    type Transport = Followed<WorkerTransport<LocalSessionWorker>>;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        let _turn = self.turn.lock().await;
        self.make_room().await?;
        let (id, transport) = self.local.create_session().await?;
        let life = SessionLife::new();
        self.lock().insert(id.clone(), Known { life: life.clone(), owner: None });
        let (own, idle, watched, closed) = (self.own.clone(), self.idle, life.clone(), id.clone());
        tokio::spawn(async move {
            if watched.idle_for(idle).await
                && let Some(sessions) = own.upgrade()
                && let Err(error) = sessions.close_session(&closed).await
            {
                tracing::warn!(%error, "an idle MCP session could not be closed");
            }
        });
        Ok((id, Followed::new(transport, life)))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        Ok(self.local.initialize_session(id, message).await?)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        Ok(self.heard(id).is_some())
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        let known = self.lock().remove(id);
        if let Some(known) = known {
            // What runs for the session is stopped before the library closes it, which takes seconds.
            known.life.over().cancel();
        }
        Ok(self.local.close_session(id).await?)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        Ok(self.local.create_stream(id, message).await?)
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Self::Error> {
        Ok(self.local.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let open = self.heard(id).map(|life| life.open_stream());
        let stream = self.local.create_standalone_stream(id).await?;
        Ok(stream.map(move |message| {
            let _open = &open;
            message
        }))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let open = self.heard(id).map(|life| life.open_stream());
        // The library begins with the event that it is given, which the client has already.
        let next = next_event_id(&last_event_id).unwrap_or(last_event_id);
        let stream = self.local.resume(id, next).await?;
        Ok(stream.map(move |message| {
            let _open = &open;
            message
        }))
    }
}

/// Returns the id of the event after this one: `INDEX`, or `INDEX/STREAM`; `None` if it is not such an id.
fn next_event_id(id: &str) -> Option<String> {
    let (index, stream) = id.split_once('/').map_or((id, None), |(index, stream)| (index, Some(stream)));
    let index = index.parse::<usize>().ok()?.checked_add(1)?;
    Some(match stream {
        Some(stream) => format!("{index}/{stream}"),
        None => index.to_string(),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn the_next_event_of_a_stream_has_the_next_index() {
        assert_eq!(next_event_id("0").unwrap(), "1");
        assert_eq!(next_event_id("9/17").unwrap(), "10/17");
        for wrong in ["", "a", "1a/2", "-1", &usize::MAX.to_string()] {
            assert_eq!(next_event_id(wrong), None, "{wrong}");
        }
    }
}
