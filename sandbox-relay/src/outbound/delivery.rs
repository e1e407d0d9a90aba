//! Numbers and acknowledgements of both directions of one session, and the messages that are kept for a host that loses
//! its connection.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use relay_proto::delivery::{ACKNOWLEDGE_WITHIN, Gap, OutOfTurn, Received, Unacknowledged};
use relay_proto::frame;
use relay_proto::time::millis;
use relay_proto::wire::{self, message::Payload};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::{Held, Queued};

/// Way in which messages are numbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Numbering {
    /// Not at all: the peer is basic, or has not said hello.
    Off,
    /// With sequences.
    On,
    /// With sequences, and each message is kept until it is acknowledged.
    Kept,
}

/// Numbers of one session, shared by its reader, its writer and its executions.
#[derive(Debug)]
pub(crate) struct Delivery {
    state: Mutex<State>,
    /// Notified when a message may be kept again.
    has_room: Notify,
    /// Notified when an acknowledgement of its own is owed.
    owes: Notify,
    /// Notified when there is a connection again.
    attached: Notify,
}

#[derive(Debug)]
struct State {
    numbering: Numbering,
    sent: Unacknowledged<Kept>,
    received: Received,
    /// `true`: the writer knows that it owes an acknowledgement.
    writer_knows: bool,
    connected: Connected,
    /// Room for what is kept without a connection; `None`: there is a connection.
    detached: Option<Held>,
}

/// Time since the session began in which it had a connection.
#[derive(Debug)]
struct Connected {
    /// Time until the current connection began, or the last one was lost.
    before: Duration,
    /// Instant at which the current connection began; `None`: there is none.
    since: Option<Instant>,
}

/// Message that is not acknowledged.
#[derive(Debug)]
struct Kept {
    message: Box<wire::Message>,
    /// Time with a connection at which it was sent.
    sent_at: Duration,
    _held: Held,
}

impl Connected {
    fn time(&self) -> Duration {
        self.before + self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

impl Delivery {
    pub(super) fn new() -> Self {
        let state = State {
            numbering: Numbering::Off,
            sent: Unacknowledged::new(),
            received: Received::new(),
            writer_knows: false,
            connected: Connected { before: Duration::ZERO, since: Some(Instant::now()) },
            detached: None,
        };
        Self { state: Mutex::new(state), has_room: Notify::new(), owes: Notify::new(), attached: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Changed only under this lock, by code that does not panic half way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets how messages are numbered.
    pub(crate) fn number(&self, numbering: Numbering) {
        self.lock().numbering = numbering;
    }

    /// Returns how messages are numbered.
    pub(crate) fn numbering(&self) -> Numbering {
        self.lock().numbering
    }

    /// Returns how messages are numbered, and whether there is no connection.
    pub(super) fn standing(&self) -> (Numbering, bool) {
        let state = self.lock();
        (state.numbering, state.detached.is_some())
    }

    /// Counts a message that came and is handed over now; `bytes` is the length of its frame.
    ///
    /// # Errors
    /// [`OutOfTurn`]: another one is due.
    pub(crate) fn count(&self, sequence: u64, bytes: usize) -> Result<(), OutOfTurn> {
        let mut state = self.lock();
        state.received.count(sequence, bytes)?;
        // The writer finds out once a second whether it owes something.
        if state.numbering == Numbering::Kept && (!state.writer_knows || state.received.is_due()) {
            state.writer_knows = true;
            self.owes.notify_one();
        }
        Ok(())
    }

    /// Returns the sequence of the last message that came.
    pub(crate) fn received(&self) -> u64 {
        self.lock().received.last()
    }

    /// Drops the kept messages up to `sequence`. Returns whether there were any.
    ///
    /// # Errors
    /// [`Gap`]: that many were not sent.
    pub(crate) fn acknowledge(&self, sequence: u64) -> Result<bool, Gap> {
        let mut state = self.lock();
        if state.numbering != Numbering::Kept || sequence <= state.sent.acknowledged() {
            return Ok(false);
        }
        let was_full = !state.sent.has_room();
        state.sent.acknowledge(sequence)?;
        drop(state);
        if was_full {
            self.has_room.notify_one();
        }
        Ok(true)
    }

    /// Returns the number of kept messages.
    pub(super) fn kept(&self) -> usize {
        self.lock().sent.len()
    }

    pub(super) fn has_room(&self) -> bool {
        self.lock().sent.has_room()
    }

    /// Waits until a message may be kept. Cancel safe.
    pub(super) async fn room(&self) {
        while !self.has_room() {
            self.has_room.notified().await;
        }
    }

    /// Numbers a queued message, keeps it if messages are kept, and returns its frame.
    pub(super) fn frame(&self, Queued { mut message, held }: Queued) -> Bytes {
        let mut state = self.lock();
        if state.numbering == Numbering::Off {
            return frame::encode(&message);
        }
        message.sequence = state.sent.sent() + 1;
        message.acknowledged = state.received.tell();
        let frame = frame::encode(&message);
        let sent_at = state.connected.time();
        let sequence = state.sent.push(Kept { message, sent_at, _held: held });
        if state.numbering == Numbering::On {
            // It was just written.
            let _ = state.sent.acknowledge(sequence);
        }
        frame
    }

    /// Returns the frame of the next message that was written to a lost connection only, with the time that its call has
    /// left now; `None`: there is none.
    pub(super) fn next_unsent(&self) -> Option<Bytes> {
        let mut state = self.lock();
        let State { sent, received, connected, .. } = &mut *state;
        let (_, Kept { message, sent_at, .. }) = sent.next_unsent()?;
        message.acknowledged = received.tell();
        if let Some(Payload::ToolCall(call)) = &mut message.payload {
            let connected = connected.time();
            let since = millis(connected.saturating_sub(*sent_at));
            call.remaining_ms = call.remaining_ms.saturating_sub(since);
            *sent_at = connected;
        }
        Some(frame::encode(message))
    }

    /// Waits until an acknowledgement of its own is due, and returns its frame. Cancel safe.
    pub(crate) async fn acknowledgement(&self) -> Bytes {
        self.lock().writer_knows = false;
        loop {
            self.owes.notified().await;
            if !self.lock().received.is_due() {
                tokio::select! {
                    () = tokio::time::sleep(ACKNOWLEDGE_WITHIN) => {}
                    // So much came meanwhile that it is due at once.
                    () = self.owes.notified() => {}
                }
            }
            let mut state = self.lock();
            state.writer_knows = false;
            if state.received.owes() {
                let acknowledged = state.received.tell();
                return frame::encode(&wire::Message { acknowledged, ..wire::Message::default() });
            }
        }
    }

    /// Returns whether there is no connection.
    pub(crate) fn is_detached(&self) -> bool {
        self.lock().detached.is_some()
    }

    pub(super) fn detach(&self, held: Held) {
        let mut state = self.lock();
        state.connected = Connected { before: state.connected.time(), since: None };
        state.detached = Some(held);
    }

    /// Returns whether a host that has received the messages up to `sequence` can go on.
    ///
    /// # Errors
    /// [`Gap`]: it cannot.
    pub(crate) fn check_resend(&self, sequence: u64) -> Result<(), Gap> {
        self.lock().sent.check_resend(sequence)
    }

    /// Begins a new connection to a host that has received the messages up to `sequence`; those after it are sent again.
    ///
    /// # Errors
    /// [`Gap`]: they are not kept, or were never sent.
    pub(crate) fn attach(&self, sequence: u64) -> Result<(), Gap> {
        let mut state = self.lock();
        state.sent.resend_after(sequence)?;
        state.detached = None;
        state.connected = Connected { before: state.connected.time(), since: Some(Instant::now()) };
        drop(state);
        self.has_room.notify_one();
        self.attached.notify_waiters();
        Ok(())
    }

    /// Waits until there is a connection. Cancel safe.
    pub(super) async fn attached(&self) {
        let attached = self.attached.notified();
        tokio::pin!(attached);
        attached.as_mut().enable();
        if self.is_detached() {
            attached.await;
        }
    }
}
