//! The queue of messages to the relay.

use std::sync::Arc;

use relay_proto::delivery::MAX_UNACKNOWLEDGED_BYTES;
use relay_proto::frame;
use relay_proto::wire::message::Payload;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// The maximum number of messages that wait to be written.
const MESSAGES: usize = 256;
/// The maximum number of bytes of messages that wait to be written, or to be acknowledged. The largest message fits.
const BYTES: usize = MAX_UNACKNOWLEDGED_BYTES;

/// The queue of messages to the relay, bounded in number and bytes. While it is full, its senders wait.
#[derive(Debug, Clone)]
pub(crate) struct Outbound {
    queue: mpsc::Sender<Queued>,
    bytes: Arc<Semaphore>,
}

/// A queued message, and its bytes of the queue's budget.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) payload: Payload,
    pub(crate) bytes: OwnedSemaphorePermit,
}

/// A place in the queue for one message.
pub(crate) struct Room<'a> {
    place: mpsc::Permit<'a, Queued>,
    bytes: OwnedSemaphorePermit,
}

/// The connection is gone for good: nothing is sent any more.
#[derive(Debug)]
pub(crate) struct Closed;

/// The number of permits that a message of this length takes.
fn permits(bytes: usize) -> u32 {
    u32::try_from(bytes.min(BYTES)).unwrap_or(u32::MAX)
}

impl Outbound {
    /// Creates an empty queue.
    pub(crate) fn new() -> (Self, mpsc::Receiver<Queued>) {
        let (sender, queue) = mpsc::channel(MESSAGES);
        (Self { queue: sender, bytes: Arc::new(Semaphore::new(BYTES)) }, queue)
    }

    /// Waits for room for a message.
    ///
    /// # Errors
    /// [`Closed`]: nothing is sent any more.
    pub(crate) async fn reserve(&self, payload: &Payload) -> Result<Room<'_>, Closed> {
        let bytes = permits(frame::payload_len(payload));
        let bytes = Arc::clone(&self.bytes).acquire_many_owned(bytes);
        // The semaphore is never closed: the queue tells of the end.
        let bytes = tokio::select! {
            bytes = bytes => bytes.map_err(|_closed| Closed)?,
            () = self.queue.closed() => return Err(Closed),
        };
        let place = self.queue.reserve().await.map_err(|_closed| Closed)?;
        Ok(Room { place, bytes })
    }

    /// Waits for room, and queues a message.
    ///
    /// # Errors
    /// [`Closed`]: nothing is sent any more.
    pub(crate) async fn send(&self, payload: Payload) -> Result<(), Closed> {
        self.reserve(&payload).await?.send(payload);
        Ok(())
    }

    /// Queues a message if there is room at once.
    ///
    /// # Errors
    /// The message: there is none, or nothing is sent any more.
    pub(crate) fn try_send(&self, payload: Payload) -> Result<(), Box<Payload>> {
        let bytes = permits(frame::payload_len(&payload));
        let Ok(bytes) = Arc::clone(&self.bytes).try_acquire_many_owned(bytes) else {
            return Err(Box::new(payload));
        };
        self.queue.try_send(Queued { payload, bytes }).map_err(|error| Box::new(error.into_inner().payload))
    }
}

impl Room<'_> {
    /// Queues the message that the room was reserved for.
    pub(crate) fn send(self, payload: Payload) {
        self.place.send(Queued { payload, bytes: self.bytes });
    }
}
