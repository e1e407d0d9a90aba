//! Life of one MCP session, as its transport sees it: the requests that are open, and the end.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{ClientJsonRpcMessage, ClientNotification, GetExtensions as _, RequestId, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Minimum time between two looks at a session that is not idle.
const LOOKS_EVERY: Duration = Duration::from_secs(1);

/// Life of a session. Clones share it. The handlers of requests find it among the extensions of their request.
#[derive(Debug, Clone)]
pub(super) struct SessionLife(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Cancelled when no message of the client can come any more.
    over: CancellationToken,
    activity: Mutex<Activity>,
}

#[derive(Debug)]
struct Activity {
    /// Requests of the client that were not answered and not cancelled.
    open: HashSet<RequestId>,
    /// Number of open streams of events, where the transport has such streams.
    streams: usize,
    last: Instant,
}

/// Guard of an open stream of events.
pub(super) struct OpenStream(SessionLife);

impl SessionLife {
    pub(super) fn new() -> Self {
        let activity = Activity { open: HashSet::new(), streams: 0, last: Instant::now() };
        Self(Arc::new(Inner { over: CancellationToken::new(), activity: Mutex::new(activity) }))
    }

    fn lock(&self) -> MutexGuard<'_, Activity> {
        self.0.activity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the token that is cancelled at the end of the session.
    pub(super) fn over(&self) -> &CancellationToken {
        &self.0.over
    }

    /// Records that the client was heard.
    pub(super) fn touch(&self) {
        self.lock().last = Instant::now();
    }

    /// Counts an open stream of events until the guard is dropped.
    pub(super) fn open_stream(&self) -> OpenStream {
        self.lock().streams += 1;
        OpenStream(self.clone())
    }

    /// Returns whether a stream of events is open, and the time since which no request was; `None`: a request is open.
    pub(super) fn unused_since(&self) -> Option<(bool, Instant)> {
        let activity = self.lock();
        activity.open.is_empty().then_some((activity.streams > 0, activity.last))
    }

    /// Waits until the session is over (`false`), or was idle for so long that it can be closed (`true`). A session with
    /// an open request or stream is not idle.
    pub(super) async fn idle_for(&self, idle: Duration) -> bool {
        loop {
            let now = Instant::now();
            let until = match self.unused_since() {
                Some((false, since)) if since + idle <= now => return true,
                Some((false, since)) => since + idle,
                // What is open now is looked at again later.
                _ => now + idle.max(LOOKS_EVERY),
            };
            if self.over().run_until_cancelled(tokio::time::sleep_until(until)).await.is_none() {
                return false;
            }
        }
    }

    fn opened(&self, id: RequestId) {
        let mut activity = self.lock();
        activity.open.insert(id);
        activity.last = Instant::now();
    }

    fn closed(&self, id: &RequestId) {
        let mut activity = self.lock();
        activity.open.remove(id);
        activity.last = Instant::now();
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let mut activity = self.0.lock();
        activity.streams -= 1;
        activity.last = Instant::now();
    }
}

/// Transport that follows the life of its session.
pub(super) struct Followed<T> {
    inner: T,
    life: SessionLife,
}

impl<T> Followed<T> {
    pub(super) fn new(inner: T, life: SessionLife) -> Self {
        Self { inner, life }
    }
}

impl<T> Drop for Followed<T> {
    fn drop(&mut self) {
        self.life.over().cancel();
    }
}

impl<T: Transport<RoleServer>> Transport<RoleServer> for Followed<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        match &message {
            ServerJsonRpcMessage::Response(response) => self.life.closed(&response.id),
            ServerJsonRpcMessage::Error(error) => error.id.iter().for_each(|id| self.life.closed(id)),
            _ => {}
        }
        let is_over = self.life.over().is_cancelled();
        let sent = self.inner.send(message);
        async move {
            match sent.await {
                // A client that has ended its session reads nothing more.
                Err(_) if is_over => Ok(()),
                sent => sent,
            }
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        let mut message = self.inner.receive().await;
        match &mut message {
            Some(ClientJsonRpcMessage::Request(request)) => {
                self.life.opened(request.id.clone());
                request.request.extensions_mut().insert(self.life.clone());
            }
            Some(ClientJsonRpcMessage::Notification(notification)) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.life.closed(id);
                }
            }
            Some(_) => self.life.touch(),
            // From here on nobody can read a result: what runs for the session is stopped.
            None => self.life.over().cancel(),
        }
        message
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.life.over().cancel();
        self.inner.close().await
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_session_is_idle_when_nothing_is_open() {
        let life = SessionLife::new();
        let request = RequestId::Number(1);
        life.opened(request.clone());
        assert!(life.idle_for(Duration::ZERO).now_or_never().is_none() && life.unused_since().is_none());
        life.closed(&request);
        assert_eq!(life.idle_for(Duration::ZERO).now_or_never(), Some(true));
        let stream = life.open_stream();
        // A client that listens keeps its session, but may lose it to others.
        assert!(life.idle_for(Duration::ZERO).now_or_never().is_none() && life.unused_since().unwrap().0);
        drop(stream);
        assert!(life.idle_for(Duration::ZERO).await);
        assert!(life.idle_for(Duration::from_secs(3_600)).now_or_never().is_none());
        life.over().cancel();
        assert!(!life.idle_for(Duration::from_secs(3_600)).await);
    }
}
