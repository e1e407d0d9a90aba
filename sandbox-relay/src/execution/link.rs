//! The relay's end of a worker's socket: instructions to the worker, reports from it.

use std::io;

use bytes::{Buf, Bytes, BytesMut};
use prost::Message as _;
use tokio::io::AsyncReadExt;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use super::{CallFailure, WorkerCall, outcome};
use crate::sandbox::channel::message::{self, instruction::Kind as Instruction, report::Kind as Report};
use crate::sandbox::channel::{self, ChannelError};

/// Maximum number of bytes of results that wait for a busy worker.
pub(super) const MAX_WAITING_BYTES: usize = 32 << 20;
/// Number of bytes that one read makes room for.
const READ_BYTES: usize = 64 << 10;

/// Appends the frame of an instruction to `buffer`.
pub(super) fn put_instruction(instruction: Instruction, buffer: &mut BytesMut) {
    channel::put_frame(&message::Instruction { kind: Some(instruction) }, buffer);
}

/// Makes the instruction that answers a call.
pub(super) fn settle(call: WorkerCall, outcome: Result<Bytes, CallFailure>) -> Instruction {
    let (result, failure) = match outcome {
        Ok(result) => (result, None),
        Err(CallFailure { code, message }) => {
            (Bytes::new(), Some(message::CallFailure { code: code.as_str().into(), message: outcome::cut(message) }))
        }
    };
    Instruction::Settle(message::Settle { call: call.0, result, failure })
}

/// Instructions on their way to the worker.
pub(super) struct Writer {
    pub(super) socket: OwnedWriteHalf,
    pub(super) pending: BytesMut,
}

impl Writer {
    /// Queues an instruction; [`try_write`](Self::try_write) sends it.
    pub(super) fn put(&mut self, instruction: Instruction) {
        put_instruction(instruction, &mut self.pending);
    }

    /// Writes as much as the socket has room for, which is mostly everything.
    pub(super) fn try_write(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        match self.socket.try_write(&self.pending) {
            Ok(written) => self.pending.advance(written),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // The worker reads no more; its last report may still be there to be read.
            Err(_) => self.pending.clear(),
        }
    }

    /// Returns whether something waits to be written.
    pub(super) fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Returns whether the worker may report more: while too much waits for it, its reports are not read.
    pub(super) fn has_room(&self) -> bool {
        self.pending.len() < MAX_WAITING_BYTES
    }

    /// Waits until writing makes sense again: there is room, or the socket has failed.
    pub(super) async fn writable(&self) {
        let _ = self.socket.writable().await;
    }
}

/// Reports from the worker.
pub(super) struct Reader {
    pub(super) socket: OwnedReadHalf,
    pub(super) buffer: BytesMut,
}

impl Reader {
    /// Waits for the next report. Cancel safe.
    ///
    /// # Errors
    /// [`ChannelError`]: the socket ended or failed, or the worker sent what is no report.
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

    /// Takes the next report, if it has arrived whole, and waits for nothing. `left` is the number of bytes that may
    /// still be read for it, and is reduced by those that were. `None`: there is none, or the socket has failed.
    pub(super) fn try_next(&mut self, left: &mut usize) -> Option<Report> {
        loop {
            if let Some(frame) = channel::take_frame(&mut self.buffer).ok()? {
                return message::Report::decode(frame).ok()?.kind;
            }
            if *left == 0 {
                return None;
            }
            self.buffer.reserve(READ_BYTES);
            let read = self.socket.try_read_buf(&mut self.buffer).ok()?;
            *left = left.saturating_sub(read);
            if read == 0 {
                return None;
            }
        }
    }

    /// Takes the next report if it is output and has arrived whole; `None`: it has not, or is something else.
    ///
    /// # Errors
    /// [`ChannelError`]: the worker sent what is no report.
    pub(super) fn try_output(&mut self) -> Result<Option<message::Output>, ChannelError> {
        /// Key of `Report.output`: field 3, length-delimited.
        const OUTPUT_KEY: u8 = 3 << 3 | 2;
        // The first byte after the length tells the kind, so that no other report is taken out of its turn.
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
