//! The delivery of a session's messages over connections that may be lost: the queue to the relay, what was sent and is not
//! acknowledged, and the count of what came.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use relay_proto::delivery::{ACKNOWLEDGE_WITHIN, Gap, Received, Unacknowledged};
use relay_proto::wire;
use relay_proto::wire::message::Payload;
use tokio::sync::{Notify, OwnedSemaphorePermit, mpsc};
use tokio::time::Instant;

use super::SessionFault;
use super::credit::CallCredit;
use crate::outbound::{Outbound, Queued};

/// A sent message that is kept until it is acknowledged.
#[derive(Debug)]
struct Kept {
    message: wire::Message,
    /// The bytes of the queue's budget; `None` for credit, which takes none.
    _bytes: Option<OwnedSemaphorePermit>,
}

/// The counts of both directions.
#[derive(Debug)]
pub(super) struct Delivery {
    counts: Mutex<Counts>,
    /// `true`: sent messages are kept until they are acknowledged, so that the session can be resumed.
    keeps: bool,
    /// Wakes the writer: there is room again, or something to acknowledge.
    changed: Notify,
    /// The tool calls that the relay may send; `None`: the relay does not count them.
    pub(super) calls: Option<CallCredit>,
}

#[derive(Debug)]
struct Counts {
    sent: Unacknowledged<Kept>,
    received: Received,
    /// The time since which the relay is owed an acknowledgement; `None`: it is owed none.
    owed_since: Option<Instant>,
}

/// The credit of one call, which the relay gets back when this is dropped: its answer is queued, or nobody waits for it.
#[derive(Debug)]
pub(super) struct CallCreditGuard {
    delivery: Weak<Delivery>,
    bytes: usize,
}

impl Drop for CallCreditGuard {
    fn drop(&mut self) {
        if let Some(delivery) = self.delivery.upgrade()
            && let Some(calls) = &delivery.calls
            && calls.give_back(self.bytes)
        {
            delivery.wake();
        }
    }
}

/// The messages of a session to the relay, in the order in which they are sent.
#[derive(Debug)]
pub(crate) struct Outbox {
    queue: mpsc::Receiver<Queued>,
    delivery: Arc<Delivery>,
}

impl Delivery {
    /// Begins the delivery after hello and welcome. `keeps`: the session can be resumed.
    pub(super) fn begin(keeps: bool, calls: Option<CallCredit>) -> (Arc<Self>, Outbound, Outbox) {
        let (outbound, queue) = Outbound::new();
        let counts = Counts { sent: Unacknowledged::after(1), received: Received::after(1), owed_since: None };
        let delivery = Arc::new(Self { counts: Mutex::new(counts), keeps, changed: Notify::new(), calls });
        let outbox = Outbox { queue, delivery: Arc::clone(&delivery) };
        (delivery, outbound, outbox)
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        // Changed only under this lock, by code that does not panic half way.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the relay's acknowledgement.
    ///
    /// # Errors
    /// [`SessionFault`]: it acknowledges what was never sent.
    pub(super) fn acknowledge(&self, sequence: u64) -> Result<(), SessionFault> {
        if !self.keeps || sequence == 0 {
            return Ok(());
        }
        let acknowledged = self.lock().sent.acknowledge(sequence);
        acknowledged.map_err(|gap| SessionFault::new(format!("the relay acknowledged what it was not sent: {gap}")))?;
        self.changed.notify_one();
        Ok(())
    }

    /// Counts a message of this length in bytes, which is handed over now.
    ///
    /// # Errors
    /// [`SessionFault`]: it does not come in its turn.
    pub(super) fn count(&self, sequence: u64, bytes: usize) -> Result<(), SessionFault> {
        let mut counts = self.lock();
        counts.received.count(sequence, bytes).map_err(|error| SessionFault::new(error.to_string()))?;
        if self.keeps {
            let is_first = counts.owed_since.is_none();
            counts.owed_since.get_or_insert_with(Instant::now);
            if is_first || counts.received.is_due() {
                self.changed.notify_one();
            }
        }
        Ok(())
    }

    /// Counts a call with this number of bytes of arguments; `None`: the relay's calls are not counted.
    ///
    /// # Errors
    /// [`SessionFault`]: the relay had no credit for it.
    pub(super) fn admit(self: &Arc<Self>, bytes: usize) -> Result<Option<CallCreditGuard>, SessionFault> {
        let Some(calls) = &self.calls else { return Ok(None) };
        calls.spend(bytes)?;
        Ok(Some(CallCreditGuard { delivery: Arc::downgrade(self), bytes }))
    }

    /// Wakes the writer: there is credit for the relay.
    pub(super) fn wake(&self) {
        self.changed.notify_one();
    }

    /// Returns the sequence of the last message that was handed over, for resume.
    pub(super) fn received(&self) -> u64 {
        self.lock().received.last()
    }

    /// Begins a new connection to a relay that has received the messages up to `sequence`: those after it are sent again.
    ///
    /// # Errors
    /// [`Gap`]: messages are missing, or were never sent.
    pub(super) fn resume_after(&self, sequence: u64) -> Result<(), Gap> {
        let mut counts = self.lock();
        counts.sent.resend_after(sequence)?;
        counts.told();
        Ok(())
    }
}

impl Counts {
    /// Notes that the relay is told of all messages that came, and returns the sequence of the last.
    fn told(&mut self) -> u64 {
        self.owed_since = None;
        self.received.tell()
    }

    /// Numbers and keeps a new message, and reads it.
    fn push<R>(
        &mut self,
        payload: Payload,
        bytes: Option<OwnedSemaphorePermit>,
        keeps: bool,
        read: impl FnOnce(&wire::Message) -> R,
    ) -> R {
        let message = wire::Message { sequence: self.sent.sent() + 1, acknowledged: self.told(), ..payload.into() };
        let read = read(&message);
        let sequence = self.sent.push(Kept { message, _bytes: bytes });
        if !keeps {
            // Cannot fail: it was sent just now.
            let _ = self.sent.acknowledge(sequence);
        }
        read
    }
}

impl Outbox {
    /// Waits for the next message, and reads it; `None`: the client is gone.
    pub(crate) async fn next_with<R>(&mut self, read: impl Fn(&wire::Message) -> R) -> Option<R> {
        loop {
            if let Some(read) = self.try_next_with(&read) {
                return Some(read);
            }
            let (has_room, owed_since) = {
                let counts = self.delivery.lock();
                (counts.sent.has_room(), counts.owed_since.filter(|_| self.delivery.keeps))
            };
            let acknowledge = async {
                match owed_since {
                    Some(since) => tokio::time::sleep_until(since + ACKNOWLEDGE_WITHIN).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                queued = self.queue.recv(), if has_room => {
                    let Queued { payload, bytes } = queued?;
                    let keeps = self.delivery.keeps;
                    return Some(self.delivery.lock().push(payload, Some(bytes), keeps, read));
                }
                () = self.delivery.changed.notified() => {}
                () = acknowledge => return Some(read(&self.acknowledgement())),
            }
        }
    }

    /// Reads the next message if there is one at once: one that has to be sent again, credit, a queued one, or an
    /// acknowledgement that is due; `None`: there is none, or the client is gone.
    pub(crate) fn try_next_with<R>(&mut self, read: impl Fn(&wire::Message) -> R) -> Option<R> {
        let (keeps, mut counts) = (self.delivery.keeps, self.delivery.lock());
        let acknowledged = counts.received.last();
        if let Some((_, Kept { message, .. })) = counts.sent.next_unsent() {
            message.acknowledged = acknowledged;
            let read = read(message);
            counts.told();
            return Some(read);
        }
        if counts.sent.has_room() {
            if let Some(credit) = self.delivery.calls.as_ref().and_then(|calls| calls.take_granted()) {
                return Some(counts.push(Payload::Credit(credit), None, keeps, read));
            }
            if let Ok(Queued { payload, bytes }) = self.queue.try_recv() {
                return Some(counts.push(payload, Some(bytes), keeps, read));
            }
        }
        let is_due = keeps && counts.received.is_due();
        drop(counts);
        is_due.then(|| read(&self.acknowledgement()))
    }

    /// Returns the sequence of the last message that was handed over, for resume.
    pub(super) fn received(&self) -> u64 {
        self.delivery.received()
    }

    /// Makes an acknowledgement of its own.
    fn acknowledgement(&self) -> wire::Message {
        wire::Message { acknowledged: self.delivery.lock().told(), ..wire::Message::default() }
    }

    /// Waits for the next message, as it would be encoded.
    #[cfg(any(test, feature = "bench", feature = "fuzzing"))]
    pub(crate) async fn next(&mut self) -> Option<wire::Message> {
        self.next_with(Clone::clone).await
    }

    /// Returns the next message if there is one at once, as it would be encoded.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn try_next(&mut self) -> Option<wire::Message> {
        self.try_next_with(Clone::clone)
    }
}
