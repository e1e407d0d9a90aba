//! The relay's end of a worker's socket: what is on its way there, and what comes from there.

use std::io;

use bytes::{Buf, BytesMut};
use prost::Message as _;
use tokio::io::AsyncReadExt;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use crate::sandbox::channel::message::{self, instruction::Kind as Instruction, report::Kind as Report};
use crate::sandbox::channel::{self, ChannelError};

/// How many bytes of results may wait for a worker that is busy.
pub(super) const MAX_WAITING_BYTES: usize = 32 << 20;
/// How much of what a worker says is read at once.
const READ_BYTES: usize = 64 << 10;

pub(super) fn put_instruction(instruction: Instruction, buffer: &mut BytesMut) {
    channel::put_frame(&message::Instruction { kind: Some(instruction) }, buffer);
}

/// What is on its way to the worker.
pub(super) struct Writer {
    pub(super) socket: OwnedWriteHalf,
    pub(super) pending: BytesMut,
}

impl Writer {
    pub(super) fn put(&mut self, instruction: Instruction) {
        put_instruction(instruction, &mut self.pending);
    }

    /// Writes what the socket has room for, which most often is everything; the rest waits for its turn.
    pub(super) fn try_write(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        match self.socket.try_write(&self.pending) {
            Ok(written) => self.pending.advance(written),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // It reads no more; what it said last may still be there to be read.
            Err(_) => self.pending.clear(),
        }
    }

    pub(super) fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// A worker that does not read gets no more answers to hold, by not being heard.
    pub(super) fn has_room(&self) -> bool {
        self.pending.len() < MAX_WAITING_BYTES
    }

    /// Waits until there is room, or until trying again will tell that there never will be.
    pub(super) async fn writable(&self) {
        let _ = self.socket.writable().await;
    }
}

/// What comes from the worker.
pub(super) struct Reader {
    pub(super) socket: OwnedReadHalf,
    pub(super) buffer: BytesMut,
}

impl Reader {
    /// The next report. Safe to drop and ask again.
    pub(super) async fn next(&mut self) -> Result<Report, ChannelError> {
        loop {
            if let Some(frame) = channel::take_frame(&mut self.buffer)?
                && let Some(kind) = message::Report::decode(frame)?.kind
            {
                return Ok(kind);
            }
            self.buffer.reserve(READ_BYTES);
            if self.socket.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
        }
    }

    /// The next report, if it has arrived and is output.
    pub(super) fn try_output(&mut self) -> Result<Option<message::Output>, ChannelError> {
        /// The key of `Report.output`: field 3, length-delimited.
        const OUTPUT_KEY: u8 = 3 << 3 | 2;
        // A look at the first byte after the length, so that nothing else is taken out of its turn.
        if self.buffer.get(4) != Some(&OUTPUT_KEY) {
            return Ok(None);
        }
        match channel::take_frame(&mut self.buffer)? {
            Some(frame) => match message::Report::decode(frame)?.kind {
                Some(Report::Output(output)) => Ok(Some(output)),
                _ => Err(io::Error::from(io::ErrorKind::InvalidData).into()),
            },
            None => Ok(None),
        }
    }
}
