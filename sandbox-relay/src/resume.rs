//! Sessions that can be resumed: finds the session that a host names on a new connection, and hands it the connection.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use relay_proto::wire::{self, SessionLoss};
use tokio::sync::Notify;

use crate::admission::SessionNumber;
use crate::outbound::Outbound;
use crate::session::{Epoch, Epochs};

/// Number of lost sessions whose reason is remembered.
const REMEMBERED: usize = 1_024;

/// All sessions of a server that can be resumed, on connections of type `C`.
#[derive(Debug)]
pub(crate) struct Resumables<C> {
    sessions: Mutex<Sessions<C>>,
}

#[derive(Debug)]
struct Sessions<C> {
    live: HashMap<u64, Arc<Resumable<C>>>,
    lost: HashMap<u64, Lost>,
    /// Numbers of the lost sessions, oldest first.
    in_order: VecDeque<u64>,
}

/// Session that was lost: enough to tell its host why.
#[derive(Debug)]
struct Lost {
    subject: Arc<str>,
    epochs: Epochs,
    loss: SessionLoss,
}

/// Session that can be resumed.
#[derive(Debug)]
pub(crate) struct Resumable<C> {
    number: SessionNumber,
    subject: Arc<str>,
    epochs: Mutex<Option<Epochs>>,
    outbound: Outbound,
    /// Newest connection that the session has not taken yet. It is boxed, since it is large and mostly absent.
    next: Mutex<Option<Box<C>>>,
    arrived: Notify,
}

impl<C> Default for Resumables<C> {
    fn default() -> Self {
        let sessions = Sessions { live: HashMap::new(), lost: HashMap::new(), in_order: VecDeque::new() };
        Self { sessions: Mutex::new(sessions) }
    }
}

impl<C> Resumables<C> {
    fn lock(&self) -> MutexGuard<'_, Sessions<C>> {
        // Changed only under this lock, by code that does not panic half way.
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a session one that can be resumed.
    pub(crate) fn register(
        &self,
        number: SessionNumber,
        subject: Arc<str>,
        epochs: Epochs,
        outbound: Outbound,
    ) -> Arc<Resumable<C>> {
        let epochs = Mutex::new(Some(epochs));
        let (next, arrived) = (Mutex::new(None), Notify::new());
        let session = Arc::new(Resumable { number, subject, epochs, outbound, next, arrived });
        self.lock().live.insert(number.0, Arc::clone(&session));
        session
    }

    /// Forgets a session that is over. With a `loss`, its host is told that reason when it asks.
    pub(crate) fn forget(&self, session: &Resumable<C>, loss: Option<SessionLoss>) {
        let mut sessions = self.lock();
        sessions.live.remove(&session.number.0);
        let epochs = session.epochs.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (Some(loss), Some(epochs)) = (loss, epochs) else { return };
        sessions.lost.insert(session.number.0, Lost { subject: Arc::clone(&session.subject), epochs, loss });
        sessions.in_order.push_back(session.number.0);
        if sessions.in_order.len() > REMEMBERED
            && let Some(oldest) = sessions.in_order.pop_front()
        {
            sessions.lost.remove(&oldest);
        }
    }

    /// Checks that a host of `subject` may resume the session that it names, and begins its next epoch. The session, its id
    /// and its subject are not told apart from a wrong secret.
    ///
    /// # Errors
    /// - [`SessionLoss::Unknown`]: there is no such session of this subject, or the secret is another
    /// - [`SessionLoss::Epoch`]: it was resumed since, or with a later attempt
    /// - [`SessionLoss::Gap`]: the host misses messages that are not kept, or claims to have received some that were not
    ///   sent. The session has not changed.
    /// - Another [`SessionLoss`]: the reason why the session was lost
    pub(crate) fn resume(
        &self,
        subject: &str,
        resume: &wire::Resume,
    ) -> Result<(Arc<Resumable<C>>, Epoch), SessionLoss> {
        let number: u64 = resume.session_id.parse().map_err(|_| SessionLoss::Unknown)?;
        let session = {
            let sessions = self.lock();
            if let Some(lost) = sessions.lost.get(&number)
                && *lost.subject == *subject
            {
                lost.epochs.check(resume.epoch, &resume.secret)?;
                return Err(lost.loss);
            }
            sessions.live.get(&number).filter(|session| *session.subject == *subject).map(Arc::clone)
        };
        let session = session.ok_or(SessionLoss::Unknown)?;
        let epoch = {
            let mut epochs = session.epochs.lock().unwrap_or_else(PoisonError::into_inner);
            let epochs = epochs.as_mut().ok_or(SessionLoss::Unknown)?;
            epochs.check(resume.epoch, &resume.secret)?;
            epochs.check_attempt(resume.attempt)?;
            session.outbound.delivery().check_resend(resume.received).map_err(|_| SessionLoss::Gap)?;
            epochs.advance(resume.epoch, resume.attempt)
        };
        Ok((session, epoch))
    }
}

impl<C> Resumable<C> {
    /// Hands the session its next connection. One that it has not taken yet is dropped.
    pub(crate) fn hand_over(&self, connection: C) {
        let before = self.next.lock().unwrap_or_else(PoisonError::into_inner).replace(Box::new(connection));
        drop(before);
        self.arrived.notify_one();
    }

    /// Waits for the next connection. Cancel safe.
    pub(crate) async fn next(&self) -> Box<C> {
        loop {
            if let Some(connection) = self.next.lock().unwrap_or_else(PoisonError::into_inner).take() {
                return connection;
            }
            self.arrived.notified().await;
        }
    }

    /// Notes that the host has used an epoch: if it is the current one, the one before is not accepted any more.
    pub(crate) fn confirm(&self, epoch: u64) {
        if let Some(epochs) = self.epochs.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            epochs.confirm(epoch);
        }
    }
}
