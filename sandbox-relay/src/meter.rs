//! What a peer sends before the WebSocket library sees it: counted by frame, so that no peer makes the relay work or hold
//! memory for nothing. Rules of the protocol itself are the library's to enforce.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};

/// How many control frames (pings, pongs) a peer may send in each period, and how long one is.
const CONTROL_FRAMES: u32 = 200;
const CONTROL_PERIOD: Duration = Duration::from_secs(10);
/// In how many frames one message may come.
const MAX_FRAGMENTS: u32 = 4_096;
/// How long one message may be on its way, from its first byte to its last.
const MESSAGE_WITHIN: Duration = Duration::from_secs(60);
/// Up to here, a message on its way is not counted against its subject.
const FREE_BYTES: usize = 64 << 10;
/// How much is reserved at a time beyond that.
const STEP_BYTES: usize = 256 << 10;

/// What a peer must not do although the protocol of WebSockets allows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Abuse {
    #[error("too many pings")]
    ControlFrames,
    #[error("a message in too many fragments")]
    Fragments,
    #[error("a message took too long to arrive")]
    Slow,
}

/// Follows the bytes of a peer from frame to frame.
#[derive(Debug)]
pub(crate) struct Meter {
    state: State,
    control_frames: u32,
    period_began: Instant,
    fragments: u32,
    /// The bytes of the message that is on its way, so far.
    message_bytes: usize,
    in_message: bool,
}

#[derive(Debug)]
enum State {
    /// In the head of a frame: at most two bytes, eight of an extended length, four of a mask.
    Head { bytes: [u8; 14], have: usize },
    /// In its payload.
    Payload { left: u64, ends_message: bool, is_control: bool },
}

const NEW_HEAD: State = State::Head { bytes: [0; 14], have: 0 };

impl Meter {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            state: NEW_HEAD,
            control_frames: 0,
            period_began: now,
            fragments: 0,
            message_bytes: 0,
            in_message: false,
        }
    }

    /// Counts what came.
    ///
    /// # Errors
    /// It is too much of something.
    pub(crate) fn take(&mut self, mut bytes: &[u8], now: Instant) -> Result<(), Abuse> {
        while !bytes.is_empty() {
            match &mut self.state {
                State::Head { bytes: head, have } => {
                    let missing = head_length(&head[..*have]) - *have;
                    let (taken, rest) = bytes.split_at(missing.min(bytes.len()));
                    head[*have..*have + taken.len()].copy_from_slice(taken);
                    *have += taken.len();
                    bytes = rest;
                    if head_length(&head[..*have]) == *have {
                        let (head, have) = (*head, *have);
                        self.frame(&head[..have], now)?;
                    }
                }
                State::Payload { left, is_control, .. } => {
                    let taken = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    *left -= taken as u64;
                    if !*is_control {
                        self.message_bytes += taken;
                    }
                    bytes = &bytes[taken..];
                    self.end_of_payload();
                }
            }
        }
        Ok(())
    }

    /// How much of a message is here that is not whole yet; nothing where none is on its way.
    pub(crate) fn pending(&self) -> Option<usize> {
        let in_data = match &self.state {
            State::Head { have, .. } => *have > 0,
            State::Payload { .. } => true,
        };
        (self.in_message || in_data).then_some(self.message_bytes)
    }

    fn frame(&mut self, head: &[u8], now: Instant) -> Result<(), Abuse> {
        let (first, second) = (head[0], head[1]);
        let length = match second & 0x7f {
            126 => u64::from(u16::from_be_bytes([head[2], head[3]])),
            127 => u64::from_be_bytes(std::array::from_fn(|at| head[2 + at])),
            short => u64::from(short),
        };
        let (ends, is_control) = (first & 0x80 != 0, first & 0x08 != 0);
        if is_control {
            if now.duration_since(self.period_began) > CONTROL_PERIOD {
                (self.period_began, self.control_frames) = (now, 0);
            }
            self.control_frames += 1;
            if self.control_frames > CONTROL_FRAMES {
                return Err(Abuse::ControlFrames);
            }
        } else {
            self.in_message = true;
            self.fragments += 1;
            if self.fragments > MAX_FRAGMENTS {
                return Err(Abuse::Fragments);
            }
        }
        self.state = State::Payload { left: length, ends_message: ends && !is_control, is_control };
        self.end_of_payload();
        Ok(())
    }

    fn end_of_payload(&mut self) {
        if let State::Payload { left: 0, ends_message, .. } = self.state {
            self.state = NEW_HEAD;
            if ends_message {
                (self.fragments, self.message_bytes, self.in_message) = (0, 0, false);
            }
        }
    }
}

/// How long a head is that begins with these bytes, as far as they tell.
fn head_length(head: &[u8]) -> usize {
    let Some(second) = head.get(1) else { return 2 };
    let extended = match second & 0x7f {
        126 => 2,
        127 => 8,
        _ => 0,
    };
    let mask = if second & 0x80 != 0 { 4 } else { 0 };
    2 + extended + mask
}

/// A stream whose reading is metered.
pub(crate) struct Metered<S> {
    stream: S,
    meter: Meter,
    /// What all connections of a subject may hold of messages that are not whole yet.
    budget: Arc<Semaphore>,
    held: Vec<OwnedSemaphorePermit>,
    waiting: Option<Pin<Box<dyn Future<Output = Option<OwnedSemaphorePermit>> + Send>>>,
    /// Set while a message is on its way.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<S> Metered<S> {
    /// Meters what comes after the HTTP upgrade; `read_ahead` of it has come already.
    pub(crate) fn new(stream: S, read_ahead: &[u8], budget: Arc<Semaphore>) -> Result<Self, Abuse> {
        let mut meter = Meter::new(Instant::now());
        meter.take(read_ahead, Instant::now())?;
        Ok(Self { stream, meter, budget, held: Vec::new(), waiting: None, deadline: None })
    }

    /// Waits for room, and for no longer than a message may take.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(pending) = self.meter.pending() else {
            self.held.clear();
            self.deadline = None;
            return Poll::Ready(Ok(()));
        };
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(MESSAGE_WITHIN)));
        if deadline.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::Error::other(Abuse::Slow)));
        }
        while pending > FREE_BYTES + self.held.len() * STEP_BYTES {
            let waiting = self.waiting.get_or_insert_with(|| {
                let step = Arc::clone(&self.budget).acquire_many_owned(u32::try_from(STEP_BYTES).unwrap_or(u32::MAX));
                Box::pin(async move { step.await.ok() })
            });
            let permit = ready!(waiting.as_mut().poll(cx));
            self.waiting = None;
            // The budget is never closed.
            self.held.extend(permit);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_room(cx))?;
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        let new = &buffer.filled()[before..];
        self.meter.take(new, Instant::now()).map_err(io::Error::other)?;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    /// A client's frame: masked, with a mask of zeros.
    fn frame(first: u8, payload: usize) -> Vec<u8> {
        let mut bytes = vec![first];
        match u8::try_from(payload) {
            Ok(short) if short < 126 => bytes.push(0x80 | short),
            _ => {
                bytes.extend([0xff]);
                bytes.extend((payload as u64).to_be_bytes());
            }
        }
        bytes.extend([0; 4]);
        bytes.resize(bytes.len() + payload, 0);
        bytes
    }

    #[test]
    fn frames_are_followed_however_their_bytes_are_cut() {
        let now = Instant::now();
        let mut bytes = frame(0x02, 70_000);
        bytes.extend(frame(0x89, 5));
        bytes.extend(frame(0x00, 10));
        for size in [1, 2, 3, 7, 1_000, bytes.len()] {
            let mut meter = Meter::new(now);
            for chunk in bytes.chunks(size) {
                meter.take(chunk, now).unwrap();
            }
            assert_eq!(meter.pending(), Some(70_010), "the message has not ended");
            meter.take(&frame(0x80, 0), now).unwrap();
            assert_eq!(meter.pending(), None);
        }
    }

    #[test]
    fn pings_and_fragments_are_counted() {
        let now = Instant::now();
        let mut meter = Meter::new(now);
        let ping = frame(0x89, 0);
        for _ in 0..CONTROL_FRAMES {
            meter.take(&ping, now).unwrap();
        }
        assert_eq!(meter.take(&ping, now), Err(Abuse::ControlFrames));
        assert_eq!(Meter::new(now).take(&ping.repeat(3), now), Ok(()));
        let mut meter = Meter::new(now);
        meter.take(&frame(0x02, 1), now).unwrap();
        let more = frame(0x00, 0).repeat(MAX_FRAGMENTS as usize);
        assert_eq!(meter.take(&more, now), Err(Abuse::Fragments));
    }
}
