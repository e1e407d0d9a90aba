//! Queue of messages to one host: bounded in messages and in bytes, and numbered in the order of writing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use relay_proto::wire;
use relay_proto::wire::message::Payload;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// Maximum number of queued messages.
const MESSAGES: usize = 256;
/// Maximum number of bytes of JSON and text that queued messages hold.
const BYTES: usize = 16 << 20;
/// Messages of up to this many bytes are bounded by their number alone.
const SMALL_BYTES: usize = 1 << 10;

/// Sending end of the queue.
#[derive(Debug, Clone)]
pub(crate) struct Outbound {
    queue: mpsc::Sender<Queued>,
    bytes: Arc<Semaphore>,
    numbers: Arc<Numbers>,
}

/// Receiving end of the queue, which also numbers the messages.
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

/// Makes a queue to one host.
pub(crate) fn outbound() -> (Outbound, OutboundQueue) {
    let (sender, receiver) = mpsc::channel(MESSAGES);
    let numbers = Arc::new(Numbers::default());
    let outbound = Outbound { queue: sender, bytes: Arc::new(Semaphore::new(BYTES)), numbers: Arc::clone(&numbers) };
    (outbound, OutboundQueue { queue: receiver, numbers, sequence: 0 })
}

impl Outbound {
    /// Waits for room for a message with `weight` bytes of JSON or text; `None`: the host is gone. Cancel safe.
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

    /// Sets whether messages carry sequence numbers: only those to a peer that said hello do.
    pub(crate) fn number_messages(&self, on: bool) {
        self.numbers.on.store(on, Ordering::Relaxed);
    }

    /// Notes the number of the last message that came, which the next message out acknowledges.
    pub(crate) fn acknowledge(&self, received: u64) {
        self.numbers.received.store(received, Ordering::Relaxed);
    }
}

impl OutboundQueue {
    /// Waits for the next message; `None`: all senders are gone. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<wire::Message> {
        let queued = self.queue.recv().await?;
        Some(self.number(queued.payload))
    }

    /// Takes the next message; `None`: none is queued.
    pub(crate) fn try_next(&mut self) -> Option<wire::Message> {
        let queued = self.queue.try_recv().ok()?;
        Some(self.number(queued.payload))
    }

    /// Numbers a payload that goes out behind every message taken so far.
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
