//! Frames on the socket between relay and worker: a length in four bytes, then one message of `worker.proto`.
//!
//! The worker's end blocks ([`Port`]). The relay's end is in `execution::link` and decodes with [`take_frame`].

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::Message;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

/// Messages, generated from `worker.proto` and committed.
#[allow(unreachable_pub, clippy::all, reason = "generated")]
pub(crate) mod message {
    // `include!` keeps rustfmt away: the file stays exactly as it was generated.
    include!("../generated/worker.rs");
}

/// Maximum length of a frame in bytes: that of the largest value that may cross, and room for the fields around it.
pub(crate) const MAX_FRAME_BYTES: usize = 13 << 20;

const LENGTH_BYTES: usize = 4;
const READ_BYTES: usize = 16 << 10;

/// Reports a failed socket, or bytes that are no message.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChannelError {
    /// The length in front of a frame is over [`MAX_FRAME_BYTES`].
    #[error("a frame of {0} bytes is over the cap")]
    TooLong(usize),
    /// The bytes are no message.
    #[error("not a worker message: {0}")]
    Undecodable(#[from] prost::DecodeError),
    /// The socket failed or ended.
    #[error(transparent)]
    Socket(#[from] io::Error),
}

/// Appends a frame with `message` to `buffer`.
pub(crate) fn put_frame(message: &impl Message, buffer: &mut impl BufMut) {
    buffer.put_u32_le(u32::try_from(message.encoded_len()).unwrap_or(u32::MAX));
    // The buffer grows, so this cannot fail.
    let _ = message.encode(buffer);
}

/// Takes the first frame out of `buffer`; `None`: it has not arrived whole.
///
/// # Errors
/// [`ChannelError::TooLong`]: the frame is over the cap.
pub(crate) fn take_frame(buffer: &mut BytesMut) -> Result<Option<Bytes>, ChannelError> {
    let Some(head) = buffer.first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
    let length = usize::try_from(u32::from_le_bytes(*head)).unwrap_or(usize::MAX);
    if length > MAX_FRAME_BYTES {
        return Err(ChannelError::TooLong(length));
    }
    if buffer.len() < LENGTH_BYTES + length {
        buffer.reserve(LENGTH_BYTES + length - buffer.len());
        return Ok(None);
    }
    buffer.advance(LENGTH_BYTES);
    Ok(Some(buffer.split_to(length).freeze()))
}

/// The worker's end: reads block, writes are collected until [`Port::flush`].
#[derive(Debug)]
pub(super) struct Port {
    socket: UnixStream,
    incoming: BytesMut,
    scratch: Box<[u8]>,
    outgoing: Vec<u8>,
}

impl Port {
    pub(super) fn new(socket: UnixStream) -> Self {
        Self { socket, incoming: BytesMut::new(), scratch: vec![0; READ_BYTES].into(), outgoing: Vec::new() }
    }

    /// Returns the number of bytes that wait for a flush.
    pub(super) fn pending_bytes(&self) -> usize {
        self.outgoing.len()
    }

    /// Collects a report.
    pub(super) fn put(&mut self, kind: message::report::Kind) {
        put_frame(&message::Report { kind: Some(kind) }, &mut self.outgoing);
    }

    /// Writes everything that is collected. Blocks while the relay does not read.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.socket.write_all(&self.outgoing)?;
        self.outgoing.clear();
        // The memory of a large value is not kept for small ones.
        self.outgoing.shrink_to(READ_BYTES);
        Ok(())
    }

    /// Waits for the next instruction.
    pub(super) fn receive(&mut self) -> Result<message::instruction::Kind, ChannelError> {
        loop {
            if let Some(kind) = self.receive_within(None)? {
                return Ok(kind);
            }
        }
    }

    /// Waits for the next instruction; `None`: none came within the time.
    pub(super) fn receive_within(
        &mut self,
        within: Option<Duration>,
    ) -> Result<Option<message::instruction::Kind>, ChannelError> {
        let deadline = within.map(|within| Instant::now() + within);
        loop {
            if let Some(kind) = self.try_receive()? {
                return Ok(Some(kind));
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            // A time that is too long for the kernel is for ever.
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            // A thread that sleeps in `read` would also be woken when the relay reads what was written.
            let mut ready = [PollFd::new(&self.socket, PollFlags::IN)];
            match rustix::event::poll(&mut ready, left.as_ref()) {
                Ok(0) => return Ok(None),
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(error) => return Err(io::Error::from(error).into()),
            }
            let read = self.socket.read(&mut self.scratch);
            match read {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Ok(count) => self.incoming.extend_from_slice(&self.scratch[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Takes the next instruction; `None`: it has not arrived whole.
    pub(super) fn try_receive(&mut self) -> Result<Option<message::instruction::Kind>, ChannelError> {
        while let Some(frame) = take_frame(&mut self.incoming)? {
            // Both ends are the same binary: an unknown kind cannot come.
            if let Some(kind) = message::Instruction::decode(frame)?.kind {
                return Ok(Some(kind));
            }
        }
        Ok(None)
    }
}
