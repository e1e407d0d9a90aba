//! A client that is connected when it is first needed, and again when its session was lost.

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

/// A host, and the way to a relay for it. Clones share one session.
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
    /// A client that is connected already. When its session is lost, it stays lost.
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
    /// `connect` makes a client of the host that it is given.
    pub fn new<Fut>(host: impl Into<Arc<Host>>, connect: impl Fn(Arc<Host>) -> Fut + Send + Sync + 'static) -> Self
    where
        Fut: Future<Output = Result<Client, Error>> + Send + 'static,
    {
        let connect = Arc::new(move |host| -> BoxFuture<'static, _> { Box::pin(connect(host)) });
        Self { host: host.into(), connect, client: Arc::default() }
    }

    /// The tools, the rules and who is asked.
    pub fn host(&self) -> &Arc<Host> {
        &self.host
    }

    /// The same way to a relay with a session of its own: it shares the host, and no approval of a session. Of a client that
    /// was connected already, there is only the one session.
    #[must_use]
    pub fn separate(&self) -> Self {
        self.for_host(Arc::clone(&self.host))
    }

    /// The same way to a relay for another host.
    #[must_use]
    pub fn for_host(&self, host: Arc<Host>) -> Self {
        Self { host, connect: Arc::clone(&self.connect), client: Arc::default() }
    }

    /// The bindings that code of a model has. Before anybody is connected, nobody knows what is offered; most relays offer
    /// all of them.
    pub fn model_bindings(&self) -> Vec<&'static str> {
        let client = self.client.try_lock().ok().and_then(|client| client.clone());
        let is_offered =
            |name: &&str| client.as_ref().is_none_or(|client| client.offered().iter().any(|it| it == name));
        MODEL_BINDINGS.into_iter().filter(is_offered).collect()
    }

    /// A client whose session goes on; it is connected if need be.
    ///
    /// # Errors
    /// No relay answers, or it refuses.
    pub async fn get(&self) -> Result<Client, Error> {
        let mut client = self.client.lock().await;
        if let Some(client) = client.as_ref().filter(|client| !client.is_over()) {
            return Ok(client.clone());
        }
        Ok(client.insert((self.connect)(Arc::clone(&self.host)).await?).clone())
    }
}
