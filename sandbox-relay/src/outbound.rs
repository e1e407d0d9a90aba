//! What waits to be written to one host: bounded in messages and in bytes, and numbered in the order it is written.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use relay_proto::wire;
use relay_proto::wire::message::Payload;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// How many messages wait at most.
const MESSAGES: usize = 256;
/// How many bytes of JSON and text they hold at most.
const BYTES: usize = 16 << 20;
/// What is smaller than this is bounded by the number of messages alone.
const SMALL_BYTES: usize = 1 << 10;

/// The way to the host.
#[derive(Debug, Clone)]
pub(crate) struct Outbound {
    queue: mpsc::Sender<Queued>,
    bytes: Arc<Semaphore>,
    numbers: Arc<Numbers>,
}

/// What is on its way, for whoever writes it.
#[derive(Debug)]
pub(crate) struct OutboundQueue {
    queue: mpsc::Receiver<Queued>,
    numbers: Arc<Numbers>,
    sequence: u64,
}

#[derive(Debug, Default)]
struct Numbers {
    on: AtomicBool,
    received: AtomicU64,
}

#[derive(Debug)]
struct Queued {
    payload: Payload,
    _bytes: Option<OwnedSemaphorePermit>,
}

/// Room for one message.
#[derive(Debug)]
pub(crate) struct Room {
    slot: mpsc::OwnedPermit<Queued>,
    bytes: Option<OwnedSemaphorePermit>,
}

impl Room {
    /// Queues the message.
    pub(crate) fn send(self, payload: Payload) {
        self.slot.send(Queued { payload, _bytes: self.bytes });
    }
}

/// A queue to one host.
pub(crate) fn outbound() -> (Outbound, OutboundQueue) {
    let (sender, receiver) = mpsc::channel(MESSAGES);
    let numbers = Arc::new(Numbers::default());
    let outbound = Outbound { queue: sender, bytes: Arc::new(Semaphore::new(BYTES)), numbers: Arc::clone(&numbers) };
    (outbound, OutboundQueue { queue: receiver, numbers, sequence: 0 })
}

impl Outbound {
    /// Waits for room for a message with `weight` bytes of JSON or text; nothing when the host is gone.
    pub(crate) fn reserve(&self, weight: usize) -> impl Future<Output = Option<Room>> + Send + use<> {
        let Self { queue, bytes, .. } = self.clone();
        async move {
            let bytes = if weight > SMALL_BYTES {
                let weight = u32::try_from(weight.min(BYTES)).unwrap_or(u32::MAX);
                Some(bytes.acquire_many_owned(weight).await.ok()?)
            } else {
                None
            };
            let slot = queue.reserve_owned().await.ok()?;
            Some(Room { slot, bytes })
        }
    }

    /// Whether messages carry sequence numbers: they do for a peer that said hello.
    pub(crate) fn number_messages(&self, on: bool) {
        self.numbers.on.store(on, Ordering::Relaxed);
    }

    /// Notes the last message that came, to be acknowledged with the next that goes.
    pub(crate) fn acknowledge(&self, received: u64) {
        self.numbers.received.store(received, Ordering::Relaxed);
    }
}

impl OutboundQueue {
    /// The next message, when there is one; nothing when nobody can send any more.
    pub(crate) async fn next(&mut self) -> Option<wire::Message> {
        let queued = self.queue.recv().await?;
        Some(self.number(queued.payload))
    }

    /// The next message, if there is one now.
    pub(crate) fn try_next(&mut self) -> Option<wire::Message> {
        let queued = self.queue.try_recv().ok()?;
        Some(self.number(queued.payload))
    }

    /// A message that goes now, after everything that was taken out before.
    pub(crate) fn number(&mut self, payload: Payload) -> wire::Message {
        let mut message = wire::Message::from(payload);
        if self.numbers.on.load(Ordering::Relaxed) {
            self.sequence += 1;
            message.sequence = self.sequence;
            message.acknowledged = self.numbers.received.load(Ordering::Relaxed);
        }
        message
    }
}
