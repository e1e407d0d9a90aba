//! Meters the bytes of a peer before the WebSocket library reads them: it counts control frames and fragments, and
//! holds a message's memory budget before the message is read. Rules of RFC 6455 itself are mostly the library's to
//! enforce.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use relay_proto::frame::MAX_FRAME_BYTES;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};

use crate::heard::LastHeard;

/// Maximum number of control frames (pings, pongs) of a peer in each [`CONTROL_PERIOD`].
const CONTROL_FRAMES: u32 = 200;
/// Period in which control frames are counted.
const CONTROL_PERIOD: Duration = Duration::from_secs(10);
/// Maximum number of frames of one message.
const MAX_FRAGMENTS: u32 = 4_096;
/// Maximum length in bytes of a control frame's payload.
const MAX_CONTROL_BYTES: u64 = 125;
/// Maximum time between the first and the last byte of one message.
const MESSAGE_WITHIN: Duration = Duration::from_secs(60);
/// Messages up to this length need no budget of their subject.
const FREE_BYTES: usize = 64 << 10;

/// Reports a peer that sends too much or too slowly, or writes a length in a form that RFC 6455 forbids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Abuse {
    #[error("too many pings")]
    ControlFrames,
    #[error("a message in too many fragments")]
    Fragments,
    #[error("a message took too long to arrive")]
    Slow,
    #[error("a length is not written as the protocol has it")]
    Length,
}

/// Parses the heads of a peer's frames, and counts.
#[derive(Debug)]
pub(crate) struct Meter {
    state: State,
    control_frames: u32,
    period_began: Instant,
    fragments: u32,
    /// Maximum number of bytes that the incoming message will hold, as far as its heads tell.
    needs: usize,
    in_message: bool,
    /// Number of messages that have arrived whole.
    ended: u64,
}

#[derive(Debug)]
enum State {
    /// Reads the head of a frame: at most two bytes, eight of an extended length, four of a mask.
    Head { bytes: [u8; 14], have: usize },
    /// Skips the payload of a frame.
    Payload { left: u64, ends_message: bool },
}

const NEW_HEAD: State = State::Head { bytes: [0; 14], have: 0 };

impl Meter {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            state: NEW_HEAD,
            control_frames: 0,
            period_began: now,
            fragments: 0,
            needs: 0,
            in_message: false,
            ended: 0,
        }
    }

    /// Counts bytes that have arrived, cut anywhere.
    ///
    /// # Errors
    /// [`Abuse::ControlFrames`], [`Abuse::Fragments`] or [`Abuse::Length`].
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
                State::Payload { left, .. } => {
                    let taken = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    *left -= taken as u64;
                    bytes = &bytes[taken..];
                    self.end_of_payload();
                }
            }
        }
        Ok(())
    }

    /// Returns the maximum number of bytes that the incoming message will hold; `None`: none is on its way.
    fn needs(&self) -> Option<usize> {
        let in_frame = match &self.state {
            State::Head { have, .. } => *have > 0,
            State::Payload { .. } => true,
        };
        (self.in_message || in_frame).then_some(self.needs)
    }

    fn frame(&mut self, head: &[u8], now: Instant) -> Result<(), Abuse> {
        let (first, second) = (head[0], head[1]);
        let (length, shortest, longest) = match second & 0x7f {
            126 => (u64::from(u16::from_be_bytes([head[2], head[3]])), 126, u64::MAX),
            127 => (u64::from_be_bytes(std::array::from_fn(|at| head[2 + at])), 1 << 16, u64::MAX >> 1),
            short => (u64::from(short), 0, u64::MAX),
        };
        // The library takes a length in a longer form than it needs.
        if !(shortest..=longest).contains(&length) {
            return Err(Abuse::Length);
        }
        let (ends, is_control) = (first & 0x80 != 0, first & 0x08 != 0);
        if is_control {
            // The library would read a longer one whole before it refuses it.
            if !ends || length > MAX_CONTROL_BYTES {
                return Err(Abuse::Length);
            }
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
            // The first fragment of several does not tell how much follows.
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            self.needs = if ends && self.fragments == 1 { length.min(MAX_FRAME_BYTES) } else { MAX_FRAME_BYTES };
        }
        self.state = State::Payload { left: length, ends_message: ends && !is_control };
        self.end_of_payload();
        Ok(())
    }

    fn end_of_payload(&mut self) {
        if let State::Payload { left: 0, ends_message, .. } = self.state {
            self.state = NEW_HEAD;
            if ends_message {
                (self.fragments, self.needs, self.in_message) = (0, 0, false);
                self.ended += 1;
            }
        }
    }
}

/// Returns the length of the head that begins with these bytes, as far as they tell.
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

/// Stream whose reading is metered.
pub(crate) struct Metered<S> {
    stream: S,
    meter: Meter,
    /// Bytes of incoming messages that all connections of the subject may hold.
    budget: Arc<Semaphore>,
    held: Option<OwnedSemaphorePermit>,
    waiting: Option<Pin<Box<dyn Future<Output = Option<OwnedSemaphorePermit>> + Send>>>,
    /// Set while a message is on its way.
    deadline: Option<Pin<Box<Sleep>>>,
    /// Number of the message that `held` and `deadline` are for.
    current: u64,
    /// `true`: counting has stopped, and bytes are read to be discarded.
    is_over: bool,
    heard: Arc<LastHeard>,
}

impl<S> Metered<S> {
    /// Meters what comes after the HTTP upgrade; `read_ahead` of it has come already.
    ///
    /// # Errors
    /// [`Abuse`] in `read_ahead`.
    pub(crate) fn new(
        stream: S,
        read_ahead: &[u8],
        budget: Arc<Semaphore>,
        heard: Arc<LastHeard>,
    ) -> Result<Self, Abuse> {
        let mut meter = Meter::new(Instant::now());
        meter.take(read_ahead, Instant::now())?;
        let (held, waiting, deadline, current, is_over) = (None, None, None, 0, false);
        Ok(Self { stream, meter, budget, held, waiting, deadline, current, is_over, heard })
    }

    /// Stops counting and frees the budget: what still comes is only read to see the closing through.
    pub(crate) fn stop(&mut self) {
        self.is_over = true;
        (self.held, self.waiting, self.deadline) = (None, None, None);
    }

    /// Waits for the message's budget, for at most [`MESSAGE_WITHIN`].
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let needs = self.meter.needs();
        if needs.is_none() || self.current != self.meter.ended {
            self.current = self.meter.ended;
            (self.held, self.waiting, self.deadline) = (None, None, None);
        }
        let Some(needs) = needs else { return Poll::Ready(Ok(())) };
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(MESSAGE_WITHIN)));
        if deadline.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::Error::other(Abuse::Slow)));
        }
        // All at once: a waiting peer holds nothing, so that another one always gets on.
        if needs > FREE_BYTES && self.held.is_none() {
            let waiting = self.waiting.get_or_insert_with(|| {
                let room = Arc::clone(&self.budget).acquire_many_owned(u32::try_from(needs).unwrap_or(u32::MAX));
                Box::pin(async move { room.await.ok() })
            });
            self.heard.suspend();
            // The budget is never closed.
            self.held = ready!(waiting.as_mut().poll(cx));
            self.waiting = None;
            self.heard.bytes();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.is_over {
            return Pin::new(&mut self.stream).poll_read(cx, buffer);
        }
        ready!(self.poll_room(cx))?;
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        self.heard.bytes();
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
            _ if payload < 65_536 => {
                bytes.push(0x80 | 126);
                bytes.extend(u16::try_from(payload).unwrap().to_be_bytes());
            }
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
            assert_eq!(meter.needs(), Some(MAX_FRAME_BYTES), "the message has not ended");
            meter.take(&frame(0x80, 0), now).unwrap();
            assert_eq!((meter.needs(), meter.ended), (None, 1));
            meter.take(&frame(0x82, 100_000)[..20], now).unwrap();
            assert_eq!(meter.needs(), Some(100_000));
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
        // The library would read all of these before it refuses them.
        for long in [frame(0x89, 126), frame(0x09, 1)] {
            assert_eq!(Meter::new(now).take(&long, now), Err(Abuse::Length));
        }
        let mut meter = Meter::new(now);
        meter.take(&frame(0x02, 1), now).unwrap();
        let more = frame(0x00, 0).repeat(MAX_FRAGMENTS as usize);
        assert_eq!(meter.take(&more, now), Err(Abuse::Fragments));
    }
}
