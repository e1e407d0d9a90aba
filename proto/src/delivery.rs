//! Delivers the messages of one direction exactly once and in order, over connections that may be lost: the sender keeps
//! them until they are acknowledged, the receiver counts them. Pure code without a clock or a socket.

use std::collections::VecDeque;
use std::time::Duration;

/// Maximum number of sent messages that a peer keeps until they are acknowledged.
pub const MAX_UNACKNOWLEDGED: usize = 4_096;
/// Maximum number of bytes of JSON and text of sent messages that a peer keeps until they are acknowledged.
pub const MAX_UNACKNOWLEDGED_BYTES: usize = 16 << 20;
/// Number of messages after which a receiver acknowledges them with a message of their own.
pub const ACKNOWLEDGE_MESSAGES: u64 = 64;
/// Number of bytes after which a receiver acknowledges them with a message of their own.
pub const ACKNOWLEDGE_BYTES: usize = 256 << 10;
/// Maximum time after which a receiver acknowledges a message with a message of its own.
pub const ACKNOWLEDGE_WITHIN: Duration = Duration::from_secs(1);

/// Sent messages of one direction that are not acknowledged, and their numbering.
///
/// ```
/// use relay_proto::delivery::Unacknowledged;
///
/// let mut sent = Unacknowledged::new();
/// assert_eq!((sent.push("a"), sent.push("b")), (1, 2));
/// sent.acknowledge(1)?;
/// // The connection was lost; the peer says that it has handed over the first message alone.
/// sent.resend_after(1)?;
/// assert_eq!(sent.next_unsent(), Some((2, &mut "b")));
/// assert_eq!(sent.next_unsent(), None);
/// # Ok::<_, relay_proto::delivery::Gap>(())
/// ```
#[derive(Debug)]
pub struct Unacknowledged<T> {
    kept: VecDeque<T>,
    /// Sequence of the last message that is acknowledged; 0: none is.
    acknowledged: u64,
    /// Number of kept messages at the front that were written to the current connection.
    written: usize,
}

/// Reports that a peer's count does not fit what was sent: it misses messages that are not kept any more, or claims to
/// have received some that were never sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("message {claimed} was counted as received; of {sent} that were sent, those up to {acknowledged} are not kept")]
pub struct Gap {
    /// Sequence that the peer claims to have received.
    pub claimed: u64,
    /// Sequence of the last message that was acknowledged before.
    pub acknowledged: u64,
    /// Sequence of the last message that was sent.
    pub sent: u64,
}

impl<T> Default for Unacknowledged<T> {
    fn default() -> Self {
        Self { kept: VecDeque::new(), acknowledged: 0, written: 0 }
    }
}

impl<T> Unacknowledged<T> {
    /// Creates the numbering of a direction in which nothing was sent.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates the numbering of a direction in which `sent` messages were sent and acknowledged.
    pub fn after(sent: u64) -> Self {
        Self { acknowledged: sent, ..Self::default() }
    }

    /// Keeps a message that is written to the current connection now, and returns its sequence. Every message before it has
    /// to have been written: [`Self::next_unsent`] returns `None`.
    pub fn push(&mut self, message: T) -> u64 {
        self.kept.push_back(message);
        self.written = self.kept.len();
        self.sent()
    }

    /// Returns the sequence of the last message that was sent; 0: none was.
    pub fn sent(&self) -> u64 {
        self.acknowledged + self.kept.len() as u64
    }

    /// Returns the sequence of the last message that was acknowledged; 0: none was.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Returns the number of kept messages.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Returns whether no message is kept.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Returns whether another message may be kept.
    pub fn has_room(&self) -> bool {
        self.kept.len() < MAX_UNACKNOWLEDGED
    }

    /// Drops the messages up to `sequence`. A sequence that was acknowledged before changes nothing.
    ///
    /// # Errors
    /// [`Gap`]: that many messages were not written to the current connection.
    pub fn acknowledge(&mut self, sequence: u64) -> Result<(), Gap> {
        let Some(count) = sequence.checked_sub(self.acknowledged) else { return Ok(()) };
        match usize::try_from(count) {
            Ok(count) if count <= self.written => {
                self.kept.drain(..count);
                self.written -= count;
                self.acknowledged = sequence;
                Ok(())
            }
            _ => Err(self.gap(sequence)),
        }
    }

    /// Returns whether a peer that has received the messages up to `sequence` can go on.
    ///
    /// # Errors
    /// [`Gap`]: it cannot.
    pub fn check_resend(&self, sequence: u64) -> Result<(), Gap> {
        let can = (self.acknowledged..=self.sent()).contains(&sequence);
        if can { Ok(()) } else { Err(self.gap(sequence)) }
    }

    /// Begins a new connection to a peer that has received the messages up to `sequence`: drops those, and offers all others
    /// to [`Self::next_unsent`].
    ///
    /// # Errors
    /// [`Gap`]: messages are missing, or were never sent. Nothing has changed.
    pub fn resend_after(&mut self, sequence: u64) -> Result<(), Gap> {
        self.check_resend(sequence)?;
        self.written = self.kept.len();
        self.acknowledge(sequence)?;
        self.written = 0;
        Ok(())
    }

    /// Takes the next kept message that was not written to the current connection, with its sequence; `None`: all were.
    pub fn next_unsent(&mut self) -> Option<(u64, &mut T)> {
        let message = self.kept.get_mut(self.written)?;
        self.written += 1;
        Some((self.acknowledged + self.written as u64, message))
    }

    fn gap(&self, claimed: u64) -> Gap {
        Gap { claimed, acknowledged: self.acknowledged, sent: self.sent() }
    }
}

/// Messages of one direction that came, counted when they are handed over.
#[derive(Debug, Default)]
pub struct Received {
    last: u64,
    /// Sequence up to which the peer was told.
    told: u64,
    /// Number of bytes that came since.
    bytes: usize,
}

/// Reports a message that did not come in its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("message {came} came in the place of {expected}")]
pub struct OutOfTurn {
    /// Sequence of the message.
    pub came: u64,
    /// Sequence that it should have.
    pub expected: u64,
}

impl Received {
    /// Creates the count of a direction in which nothing came.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates the count of a direction in which `last` messages came.
    pub fn after(last: u64) -> Self {
        Self { last, told: last, bytes: 0 }
    }

    /// Returns the sequence of the last message; 0: none came.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Counts a message with this sequence and of this length in bytes, which is handed over now.
    ///
    /// # Errors
    /// [`OutOfTurn`]: another one is due.
    pub fn count(&mut self, sequence: u64, bytes: usize) -> Result<(), OutOfTurn> {
        let expected = self.last + 1;
        if sequence != expected {
            return Err(OutOfTurn { came: sequence, expected });
        }
        self.last = expected;
        self.bytes = self.bytes.saturating_add(bytes);
        Ok(())
    }

    /// Returns whether the peer was not told of some messages.
    pub fn owes(&self) -> bool {
        self.told < self.last
    }

    /// Returns whether so much came that the peer is told at once.
    pub fn is_due(&self) -> bool {
        self.last - self.told >= ACKNOWLEDGE_MESSAGES || (self.owes() && self.bytes >= ACKNOWLEDGE_BYTES)
    }

    /// Returns the sequence to tell the peer, and notes that it is told.
    pub fn tell(&mut self) -> u64 {
        (self.told, self.bytes) = (self.last, 0);
        self.last
    }
}
