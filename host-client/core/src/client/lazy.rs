//! A client that connects when it is first needed, and again after its session was lost.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use relay_proto::ErrorCode;
use tokio::sync::Mutex;

use super::{Client, MODEL_BINDINGS};
use crate::error::{Error, ExecutionError};
use crate::host::Host;

type Connect = dyn Fn(Arc<Host>) -> BoxFuture<'static, Result<Client, Error>> + Send + Sync;

/// A client that connects when it is first needed, and again after its session was lost. Clones share one session.
#[derive(Clone)]
pub struct LazyClient {
    host: Arc<Host>,
    connect: Arc<Connect>,
    client: Arc<Mutex<Option<Client>>>,
}

impl fmt::Debug for LazyClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LazyClient").field("host", &self.host).finish_non_exhaustive()
    }
}

impl From<Client> for LazyClient {
    /// Wraps a client that is connected already. It does not connect again: when its session is lost, it stays lost.
    fn from(client: Client) -> Self {
        let (host, connected) = (client.shared_host(), client.clone());
        let again = move |_| {
            let client = connected.clone();
            async move {
                let lost = || ExecutionError::new(ErrorCode::SessionLost, "the session with the relay is over");
                if client.is_over() { Err(Box::new(lost()).into()) } else { Ok(client) }
            }
        };
        Self { client: Arc::new(Mutex::new(Some(client))), ..Self::new(host, again) }
    }
}

impl LazyClient {
    /// Creates a client that calls `connect` with its host whenever it needs a session.
    pub fn new<Fut>(host: impl Into<Arc<Host>>, connect: impl Fn(Arc<Host>) -> Fut + Send + Sync + 'static) -> Self
    where
        Fut: Future<Output = Result<Client, Error>> + Send + 'static,
    {
        let connect = Arc::new(move |host| -> BoxFuture<'static, _> { Box::pin(connect(host)) });
        Self { host: host.into(), connect, client: Arc::default() }
    }

    /// Returns the host: its tools, policy, approver and audit.
    pub fn host(&self) -> &Arc<Host> {
        &self.host
    }

    /// Returns a client of the same host with a session of its own, so that approvals for a session are not shared. One
    /// made from a connected [`Client`] has only that session, which is shared.
    #[must_use]
    pub fn separate(&self) -> Self {
        self.for_host(Arc::clone(&self.host))
    }

    /// Returns a client that connects in the same way for another host. One made from a connected [`Client`] stays with
    /// the session of its own host.
    #[must_use]
    pub fn for_host(&self, host: Arc<Host>) -> Self {
        Self { host, connect: Arc::clone(&self.connect), client: Arc::default() }
    }

    /// Returns those of [`MODEL_BINDINGS`] that the relay offers; before it is connected, all of them, since most
    /// relays offer them.
    pub fn model_bindings(&self) -> Vec<&'static str> {
        let client = self.client.try_lock().ok().and_then(|client| client.clone());
        let is_offered =
            |name: &&str| client.as_ref().is_none_or(|client| client.offered().iter().any(|it| it == name));
        MODEL_BINDINGS.into_iter().filter(is_offered).collect()
    }

    /// Returns a client whose session is not over; connects if there is none.
    ///
    /// # Errors
    /// Those of `connect`, such as [`Error::Unreachable`] or [`Error::Unauthenticated`]. If it was made from a
    /// connected [`Client`]: [`Error::Execution`] with `SESSION_LOST`.
    pub async fn get(&self) -> Result<Client, Error> {
        let mut client = self.client.lock().await;
        if let Some(client) = client.as_ref().filter(|client| !client.is_over()) {
            return Ok(client.clone());
        }
        Ok(client.insert((self.connect)(Arc::clone(&self.host)).await?).clone())
    }
}
