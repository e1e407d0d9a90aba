//! Queue of messages to one host: bounded in messages and in bytes, and numbered in the order of writing. Where the session
//! outlives its connection, messages are kept until the host acknowledges them, within the same bounds.

mod delivery;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use relay_proto::delivery::MAX_UNACKNOWLEDGED_BYTES;
use relay_proto::wire::{self, message::Payload};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

pub(crate) use delivery::{Delivery, Numbering};

/// Maximum number of queued messages.
const MESSAGES: usize = 256;
/// Maximum number of bytes of JSON and text that queued and kept messages hold.
const BYTES: usize = MAX_UNACKNOWLEDGED_BYTES;
/// Messages of up to this many bytes are bounded by their number alone.
const SMALL_BYTES: usize = 1 << 10;

/// Budgets for what the relay holds of sessions that outlive their connections, in bytes.
#[derive(Debug, Clone)]
pub(crate) struct KeptBudgets {
    /// Messages that are queued or kept for all sessions of one subject. Small ones count without a connection alone.
    pub(crate) of_subject: Arc<Semaphore>,
    /// Messages of all sessions without a connection.
    pub(crate) detached: Arc<Semaphore>,
}

/// Sending end of the queue.
#[derive(Debug, Clone)]
pub(crate) struct Outbound {
    queue: mpsc::Sender<Queued>,
    bytes: Arc<Semaphore>,
    budgets: KeptBudgets,
    delivery: Arc<Delivery>,
}

/// Receiving end of the queue, which also numbers the messages.
#[derive(Debug)]
pub(crate) struct OutboundQueue {
    queue: mpsc::Receiver<Queued>,
    delivery: Arc<Delivery>,
}

/// Message that waits to be sent. It is boxed: the queue and the list of kept messages have slots for several messages, which
/// every idle session would pay for.
#[derive(Debug)]
struct Queued {
    message: Box<wire::Message>,
    held: Held,
}

/// Bytes that are held of the budgets.
#[derive(Debug, Default)]
struct Held {
    of_session: Option<OwnedSemaphorePermit>,
    of_subject: Option<OwnedSemaphorePermit>,
    of_relay: Option<OwnedSemaphorePermit>,
}

/// Room for one message.
#[derive(Debug)]
pub(crate) struct Room {
    slot: mpsc::OwnedPermit<Queued>,
    held: Held,
}

impl Room {
    /// Queues the message.
    pub(crate) fn send(self, payload: Payload) {
        self.slot.send(Queued { message: Box::new(payload.into()), held: self.held });
    }
}

/// Makes a queue to one host.
pub(crate) fn outbound(budgets: KeptBudgets) -> (Outbound, OutboundQueue) {
    let (sender, receiver) = mpsc::channel(MESSAGES);
    let delivery = Arc::new(Delivery::new());
    let bytes = Arc::new(Semaphore::new(BYTES));
    let outbound = Outbound { queue: sender, bytes, budgets, delivery: Arc::clone(&delivery) };
    (outbound, OutboundQueue { queue: receiver, delivery })
}

impl Outbound {
    /// Waits for room for a message with `weight` bytes of JSON or text; `None`: the host is gone. Cancel safe.
    pub(crate) async fn reserve(&self, weight: usize) -> Option<Room> {
        let held = self.hold(weight).await?;
        let slot = self.queue.clone().reserve_owned().await.ok()?;
        Some(Room { slot, held })
    }

    /// Waits for the bytes of a message.
    async fn hold(&self, weight: usize) -> Option<Held> {
        let mut held = Held::default();
        let mut of_subject = if weight > SMALL_BYTES { weight } else { 0 };
        let (numbering, is_detached) = self.delivery.standing();
        if is_detached {
            of_subject = weight.max(SMALL_BYTES);
            tokio::select! {
                permit = acquire(&self.budgets.detached, of_subject) => held.of_relay = Some(permit?),
                // What others without a connection hold is no reason to wait any more.
                () = self.delivery.attached() => {}
            }
        }
        if weight > SMALL_BYTES {
            held.of_session = Some(acquire(&self.bytes, weight).await?);
        }
        if of_subject > 0 && numbering == Numbering::Kept {
            held.of_subject = Some(acquire(&self.budgets.of_subject, of_subject).await?);
        }
        Some(held)
    }

    /// Returns what numbers the messages of both directions.
    pub(crate) fn delivery(&self) -> &Delivery {
        &self.delivery
    }

    /// Notes that the connection is lost. Returns `false` if the relay has no room to keep what the session holds.
    #[must_use]
    pub(crate) fn detach(&self) -> bool {
        let large = BYTES.saturating_sub(self.bytes.available_permits());
        let small = (self.delivery.kept() + MESSAGES - self.queue.capacity() + 1) * SMALL_BYTES;
        let [all, small] = [large + small, small].map(|bytes| u32::try_from(bytes).unwrap_or(u32::MAX));
        let of_relay = Arc::clone(&self.budgets.detached).try_acquire_many_owned(all);
        // The large ones count there already.
        let of_subject = Arc::clone(&self.budgets.of_subject).try_acquire_many_owned(small);
        let (Ok(of_relay), Ok(of_subject)) = (of_relay, of_subject) else { return false };
        self.delivery.detach(Held { of_session: None, of_subject: Some(of_subject), of_relay: Some(of_relay) });
        true
    }
}

/// Waits for `bytes` of a budget, or for all of it if it is less.
async fn acquire(budget: &Arc<Semaphore>, bytes: usize) -> Option<OwnedSemaphorePermit> {
    let bytes = u32::try_from(bytes.min(BYTES)).unwrap_or(u32::MAX);
    Arc::clone(budget).acquire_many_owned(bytes).await.ok()
}

impl OutboundQueue {
    /// Returns what numbers the messages of both directions.
    pub(crate) fn delivery(&self) -> Arc<Delivery> {
        Arc::clone(&self.delivery)
    }

    /// Waits for the next message and returns its frame; `None`: all senders are gone. First come messages that were
    /// written to a connection that was lost. Waits while as many are kept as may be. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        if let Some(frame) = self.delivery.next_unsent() {
            return Some(frame);
        }
        self.delivery.room().await;
        let queued = self.queue.recv().await?;
        Some(self.delivery.frame(queued))
    }

    /// Returns the frame of the next message; `None`: none is queued, or as many are kept as may be.
    pub(crate) fn try_next(&mut self) -> Option<Bytes> {
        if let Some(frame) = self.delivery.next_unsent() {
            return Some(frame);
        }
        if !self.delivery.has_room() {
            return None;
        }
        let queued = self.queue.try_recv().ok()?;
        Some(self.delivery.frame(queued))
    }
}
