//! A client that connects when it is first needed, and again after its session was lost or its relay shuts down.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use relay_proto::ErrorCode;

use super::pool::{ClientLease, ConnectionPool, Slot};
use super::{Client, ExecuteRequest, Execution, MODEL_BINDINGS, Outcome};
use crate::conversation::Conversation;
use crate::error::{Error, ExecutionError};
use crate::host::Host;

type Connect = dyn Fn(Arc<Host>) -> BoxFuture<'static, Result<Client, Error>> + Send + Sync;

/// An attempt to connect, whose result all that wait for it share.
type Attempt = BoxFuture<'static, Result<Arc<ClientLease>, Arc<Error>>>;

/// The maximum number of sessions that one request is sent to, each after the one before has refused it.
const SESSIONS: usize = 3;

/// A client that connects when it is first needed, and again after its session was lost. Where the relay shuts down, it connects
/// again for the next request, and lets what runs end where it is. Clones share one session. The approvals for a session hold
/// for all its connections.
#[derive(Clone)]
pub struct LazyClient {
    host: Arc<Host>,
    connect: Arc<Connect>,
    slot: Arc<Slot>,
    /// The attempt to connect that is under way; empty: there is none, or nobody waits for it any more.
    attempt: Arc<Mutex<Option<WeakShared<Attempt>>>>,
    conversation: Arc<Conversation>,
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
        let conversation = client.conversation();
        let again = move |_| {
            let client = connected.clone();
            async move {
                let lost = || ExecutionError::new(ErrorCode::SessionLost, "the session with the relay is over");
                if client.is_over() { Err(Box::new(lost()).into()) } else { Ok(client) }
            }
        };
        Self { slot: Slot::new(None, Some(client)), conversation, ..Self::new(host, again) }
    }
}

impl LazyClient {
    /// Creates a client that calls `connect` with its host whenever it needs a session.
    pub fn new<Fut>(host: impl Into<Arc<Host>>, connect: impl Fn(Arc<Host>) -> Fut + Send + Sync + 'static) -> Self
    where
        Fut: Future<Output = Result<Client, Error>> + Send + 'static,
    {
        let connect = Arc::new(move |host| -> BoxFuture<'static, _> { Box::pin(connect(host)) });
        Self {
            host: host.into(),
            connect,
            slot: Slot::new(None, None),
            attempt: Arc::default(),
            conversation: Arc::default(),
        }
    }

    /// Returns the host: its tools, policy, approver and audit.
    pub fn host(&self) -> &Arc<Host> {
        &self.host
    }

    pub(crate) fn conversation(&self) -> Arc<Conversation> {
        Arc::clone(&self.conversation)
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
        let slot = Slot::new(self.slot.pool().cloned(), None);
        Self { host, connect: Arc::clone(&self.connect), slot, attempt: Arc::default(), conversation: Arc::default() }
    }

    /// Returns a client that takes its connections from a pool, with a session of its own. Clients that
    /// [`LazyClient::separate`] and [`LazyClient::for_host`] make of it use the same pool. Without a pool, the default,
    /// a client keeps its connection for as long as it exists.
    #[must_use]
    pub fn pooled(self, pool: ConnectionPool) -> Self {
        Self { slot: Slot::new(Some(pool), None), attempt: Arc::default(), ..self }
    }

    /// Names the program on whose behalf this client and its clones run code, as that program says: the audit records
    /// it beside the subject of the token. Only the first name counts.
    pub fn on_behalf_of(&self, caller: impl Into<String>) {
        // The name of a caller does not change while its code runs.
        let _ = self.conversation.caller.set(caller.into());
    }

    /// Returns those of [`MODEL_BINDINGS`] that the relay offers; before it is connected, all of them, since most
    /// relays offer them.
    pub fn model_bindings(&self) -> Vec<&'static str> {
        let client = self.slot.client();
        let is_offered =
            |name: &&str| client.as_ref().is_none_or(|client| client.offered().iter().any(|it| it == name));
        MODEL_BINDINGS.into_iter().filter(is_offered).collect()
    }

    /// Runs code and waits for its outcome. A request that was not begun, or that called nothing before its relay shut down,
    /// goes to another session, of three at most.
    ///
    /// # Errors
    /// Those of [`LazyClient::lease`] and [`Client::run`].
    pub async fn run(&self, request: ExecuteRequest) -> Result<Outcome, Error> {
        self.run_with(request, |execution| execution).await
    }

    /// Runs code as [`LazyClient::run`] does. `follow` gets each execution as it begins, such as to watch its events, and waits
    /// for its outcome.
    ///
    /// # Errors
    /// Those of [`LazyClient::run`].
    pub async fn run_with<F>(&self, request: ExecuteRequest, follow: impl Fn(Execution) -> F) -> Result<Outcome, Error>
    where
        F: Future<Output = Result<Outcome, Error>>,
    {
        let mut sessions = 1;
        loop {
            // The connection is this request's until it has ended.
            let client = self.lease().await?;
            let outcome = match client.execute(request.clone()).await {
                Ok(execution) => follow(execution).await,
                Err(error) => Err(error),
            };
            match outcome {
                Err(error)
                    if sessions < SESSIONS
                        && (error.wants_another_session() || (client.is_draining() && error.is_retryable())) =>
                {
                    sessions += 1;
                }
                outcome => return outcome,
            }
        }
    }

    /// Returns a client whose session is not over, and whose relay does not shut down; connects if there is none.
    ///
    /// # Errors
    /// Those of `connect`, such as [`Error::Unreachable`] or [`Error::Unauthenticated`]. If it was made from a
    /// connected [`Client`]: [`Error::Execution`] with `SESSION_LOST`.
    pub async fn get(&self) -> Result<Client, Error> {
        Ok(self.lease().await?.clone())
    }

    /// Returns the client as [`LazyClient::get`] does, as one that is in use: a client with a pool keeps its connection
    /// until the lease is dropped.
    ///
    /// # Errors
    /// Those of [`LazyClient::get`], and [`Error::Execution`] with `OVERLOADED`: all connections of the pool are in use.
    pub async fn lease(&self) -> Result<ClientLease, Error> {
        if let Some(lease) = self.slot.lease() {
            return Ok(lease);
        }
        match self.attempt().await {
            Ok(lease) => Ok(lease.again()),
            Err(error) => Err(error.copied()),
        }
    }

    /// Returns the attempt to connect that is under way, or begins one.
    fn attempt(&self) -> Shared<Attempt> {
        let mut slot = self.attempt.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(attempt) = slot.as_ref().and_then(WeakShared::upgrade) {
            return attempt;
        }
        let (this, under_way) = (self.clone(), Arc::downgrade(&self.attempt));
        let attempt: Attempt = Box::pin(async move {
            let connected = this.connect_once().await;
            if let Some(under_way) = under_way.upgrade() {
                // The next one begins anew.
                *under_way.lock().unwrap_or_else(PoisonError::into_inner) = None;
            }
            connected.map(Arc::new).map_err(Arc::new)
        });
        let attempt = attempt.shared();
        *slot = attempt.downgrade();
        attempt
    }

    async fn connect_once(&self) -> Result<ClientLease, Error> {
        let place = match self.slot.pool() {
            Some(pool) => Some(pool.place().await?),
            None => None,
        };
        let client = (self.connect)(Arc::clone(&self.host)).await?.of(Arc::clone(&self.conversation), place);
        Ok(self.slot.put(client))
    }
}
