//! Connections that lazy clients take turns with, so that clients that run nothing hold none.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use relay_proto::ErrorCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::Client;
use crate::error::{Error, ExecutionError};

/// The most time that a client waits for a connection of the pool.
const WAITS: Duration = Duration::from_secs(300);

/// A bound on the connections that several [`LazyClient`](super::LazyClient)s have at once. Clones share it.
///
/// A client holds a connection while it runs something and for a while after that. If all are in use, others wait up to
/// 300 s for their turn, and then fail with `OVERLOADED`. A connection that is not in use is given up as soon as another
/// client waits.
#[derive(Debug, Clone)]
pub struct ConnectionPool(Arc<Pool>);

#[derive(Debug)]
struct Pool {
    most: usize,
    idle: Duration,
    places: Arc<Semaphore>,
    /// The number of clients that wait for a place.
    waiting: AtomicUsize,
    slots: Mutex<Vec<Weak<Slot>>>,
}

/// The connection of one client, or room for it.
#[derive(Debug)]
pub(super) struct Slot {
    pool: Option<ConnectionPool>,
    held: Mutex<Held>,
}

#[derive(Debug)]
struct Held {
    client: Option<Client>,
    /// The number of leases.
    users: usize,
    /// The time of the last change of `users`.
    since: Instant,
}

/// A connected client that is in use. While this exists, its connection is not given up for lack of use.
#[derive(Debug)]
pub struct ClientLease {
    client: Client,
    slot: Arc<Slot>,
}

impl ConnectionPool {
    /// Creates a pool of at most `most` connections (at least 1) at once. A client that has run nothing for the time
    /// `idle` gives its connection up.
    pub fn new(most: usize, idle: Duration) -> Self {
        let most = most.clamp(1, Semaphore::MAX_PERMITS);
        let places = Arc::new(Semaphore::new(most));
        Self(Arc::new(Pool { most, idle, places, waiting: AtomicUsize::new(0), slots: Mutex::default() }))
    }

    /// Waits for a place.
    ///
    /// # Errors
    /// [`Error::Execution`] with `OVERLOADED`: there was none in time.
    pub(super) async fn place(&self) -> Result<OwnedSemaphorePermit, Error> {
        let _waiting = Waiting::new(&self.0.waiting);
        if self.0.places.available_permits() == 0 {
            self.give_up_longest_unused();
        }
        let place = tokio::time::timeout(WAITS, Arc::clone(&self.0.places).acquire_owned()).await;
        // The semaphore is never closed.
        place.ok().and_then(Result::ok).ok_or_else(|| {
            let text = format!("all {} connections to the relay are in use; try again later", self.0.most);
            Box::new(ExecutionError::new(ErrorCode::Overloaded, text)).into()
        })
    }

    /// Drops the connection that has been unused for the longest time.
    fn give_up_longest_unused(&self) {
        let slots: Vec<_> = {
            let mut slots = self.0.slots.lock().unwrap_or_else(PoisonError::into_inner);
            slots.retain(|slot| slot.strong_count() > 0);
            slots.iter().filter_map(Weak::upgrade).collect()
        };
        let unused = slots.iter().filter_map(|slot| Some((slot.unused_since()?, slot)));
        if let Some((since, slot)) = unused.min_by_key(|(since, _)| *since) {
            slot.give_up(since);
        }
    }
}

/// A guard that counts one waiting client.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::SeqCst);
        Self(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Slot {
    /// Creates the slot of a client, whose connections are those of `pool`; `None`: it keeps its connection.
    pub(super) fn new(pool: Option<ConnectionPool>, client: Option<Client>) -> Arc<Self> {
        let held = Mutex::new(Held { client, users: 0, since: Instant::now() });
        let slot = Arc::new(Self { pool, held });
        if let Some(ConnectionPool(pool)) = &slot.pool {
            let mut slots = pool.slots.lock().unwrap_or_else(PoisonError::into_inner);
            slots.retain(|slot| slot.strong_count() > 0);
            slots.push(Arc::downgrade(&slot));
        }
        slot
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn pool(&self) -> Option<&ConnectionPool> {
        self.pool.as_ref()
    }

    /// Returns the client, whether its session is over or not.
    pub(super) fn client(&self) -> Option<Client> {
        self.lock().client.clone()
    }

    /// Returns a lease of the client if new requests can go to its session. A client whose session is over, or whose relay
    /// shuts down, is dropped; what runs there keeps it.
    pub(super) fn lease(self: &Arc<Self>) -> Option<ClientLease> {
        let (client, over) = {
            let mut held = self.lock();
            let over = held.client.take_if(|client| client.is_over() || client.is_draining());
            held.users += usize::from(held.client.is_some());
            (held.client.clone(), over)
        };
        drop(over);
        client.map(|client| ClientLease { client, slot: Arc::clone(self) })
    }

    /// Puts a client in, and returns a lease of it.
    pub(super) fn put(self: &Arc<Self>, client: Client) -> ClientLease {
        let before = {
            let mut held = self.lock();
            held.users += 1;
            held.client.replace(client.clone())
        };
        drop(before);
        ClientLease { client, slot: Arc::clone(self) }
    }

    /// Takes a client out, so that the next lease is of another session.
    fn abandon(&self, client: &Client) {
        // Dropped after the lock.
        let _client = self.lock().client.take_if(|held| held.is_of_session_of(client));
    }

    /// Returns the time since which the connection is not in use; `None`: it is, or there is none.
    fn unused_since(&self) -> Option<Instant> {
        let held = self.lock();
        (held.users == 0 && held.client.is_some()).then_some(held.since)
    }

    /// Drops the connection if it is still unused since that time. Executions that run keep it.
    fn give_up(&self, since: Instant) {
        // Dropped after the lock.
        let _client = {
            let mut held = self.lock();
            if held.users == 0 && held.since == since { held.client.take() } else { None }
        };
    }
}

impl ClientLease {
    /// Gives the session up for new requests. What runs there keeps it.
    pub(crate) fn abandon(&self) {
        self.slot.abandon(&self.client);
    }

    /// Returns another lease of the same client.
    pub(super) fn again(&self) -> Self {
        self.slot.lock().users += 1;
        Self { client: self.client.clone(), slot: Arc::clone(&self.slot) }
    }
}

impl std::ops::Deref for ClientLease {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Drop for ClientLease {
    fn drop(&mut self) {
        let since = {
            let mut held = self.slot.lock();
            held.users = held.users.saturating_sub(1);
            held.since = Instant::now();
            (held.users == 0).then_some(held.since)
        };
        let (Some(ConnectionPool(pool)), Some(since)) = (&self.slot.pool, since) else { return };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) if pool.waiting.load(Ordering::SeqCst) == 0 => {
                let (slot, idle) = (Arc::downgrade(&self.slot), pool.idle);
                runtime.spawn(async move {
                    tokio::time::sleep(idle).await;
                    if let Some(slot) = slot.upgrade() {
                        slot.give_up(since);
                    }
                });
            }
            _ => self.slot.give_up(since),
        }
    }
}
