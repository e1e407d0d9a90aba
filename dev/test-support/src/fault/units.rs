//! Splits a stream of bytes into an HTTP head and the WebSocket frames after it.

use std::io;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Maximum number of bytes of a head or frame.
const MOST_BYTES: u64 = 32 << 20;

/// HTTP head, or frame with its header.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unit {
    pub(super) bytes: Bytes,
    /// `true`: it begins a message. The HTTP head counts as a message.
    pub(super) is_first: bool,
    /// `true`: it ends a message.
    pub(super) is_last: bool,
}

/// Reader of units. It does not look at payloads, so they may be masked.
pub(super) struct Units<R> {
    from: R,
    buffer: BytesMut,
    is_head: bool,
}

impl<R: AsyncRead + Unpin> Units<R> {
    pub(super) fn new(from: R) -> Self {
        Self { from, buffer: BytesMut::new(), is_head: true }
    }

    /// Returns the next unit; `None`: the stream has ended. An incomplete unit at its end is dropped.
    ///
    /// # Errors
    /// The stream cannot be read, or a unit is longer than [`MOST_BYTES`].
    pub(super) async fn next(&mut self) -> io::Result<Option<Unit>> {
        loop {
            let length = if self.is_head { head_length(&self.buffer) } else { frame_length(&self.buffer) };
            let most = length.unwrap_or(self.buffer.len() as u64);
            if most > MOST_BYTES {
                return Err(io::Error::other("a frame is too long"));
            }
            let whole = length.and_then(|length| usize::try_from(length).ok());
            if let Some(length) = whole.filter(|length| *length <= self.buffer.len()) {
                return Ok(Some(self.take(length)));
            }
            if self.from.read_buf(&mut self.buffer).await? == 0 {
                return Ok(None);
            }
        }
    }

    fn take(&mut self, length: usize) -> Unit {
        let bytes = self.buffer.split_to(length).freeze();
        if std::mem::take(&mut self.is_head) {
            return Unit { bytes, is_first: true, is_last: true };
        }
        let (is_final, opcode) = (bytes[0] & 0x80 != 0, bytes[0] & 0x0f);
        let is_control = opcode >= 8;
        Unit { bytes, is_first: !is_control && opcode != 0, is_last: !is_control && is_final }
    }
}

/// Returns the length of the HTTP head; `None`: it is not complete yet.
fn head_length(bytes: &[u8]) -> Option<u64> {
    bytes.windows(4).position(|end| end == b"\r\n\r\n").map(|before| before as u64 + 4)
}

/// Returns the length of the first frame with its header; `None`: the header is not complete yet.
fn frame_length(bytes: &[u8]) -> Option<u64> {
    let second = *bytes.get(1)?;
    let mask = if second & 0x80 == 0 { 0 } else { 4 };
    let (header, payload) = match second & 0x7f {
        126 => (4, u64::from(u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?))),
        127 => (10, u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?)),
        short => (2, u64::from(short)),
    };
    Some(payload.saturating_add(header + mask))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::rfc6455::{From, frame};

    /// Returns the units of these bytes, given in pieces of `size` bytes.
    async fn units(bytes: &[u8], size: usize) -> Vec<Unit> {
        let (mut writer, reader) = tokio::io::duplex(size);
        let all = bytes.to_vec();
        let writing = tokio::spawn(async move {
            use tokio::io::AsyncWriteExt as _;
            writer.write_all(&all).await.unwrap();
        });
        let (mut units, mut found) = (Units::new(reader), Vec::new());
        while let Some(unit) = units.next().await.unwrap() {
            found.push(unit);
        }
        writing.await.unwrap();
        found
    }

    #[tokio::test]
    async fn a_stream_is_a_head_and_frames_however_it_is_cut_into_pieces() {
        const HEAD: &[u8] = b"GET /ws HTTP/1.1\r\nHost: relay\r\n\r\n";
        for from in [From::Client, From::Server] {
            let expected = [
                (HEAD.to_vec(), true, true),
                (frame(from, 0x82, b""), true, true),
                (frame(from, 0x82, &[b'x'; 125]), true, true),
                (frame(from, 0x02, &[b'x'; 126]), true, false),
                (frame(from, 0x89, b"a ping between"), false, false),
                (frame(from, 0x00, &[b'x'; 70_000]), false, false),
                (frame(from, 0x80, b""), false, true),
                (frame(from, 0x88, &[3, 232]), false, false),
            ];
            let bytes: Vec<u8> = expected.iter().flat_map(|(bytes, ..)| bytes.clone()).collect();
            for size in [1, 7, 4096, 1 << 20] {
                let found = units(&bytes, size).await;
                let found: Vec<_> =
                    found.into_iter().map(|unit| (unit.bytes.to_vec(), unit.is_first, unit.is_last)).collect();
                assert!(found == expected, "from {from:?} in pieces of {size}");
            }
            assert_eq!(units(&bytes[..bytes.len() - 1], 4096).await.len(), expected.len() - 1, "a half is no unit");
        }
    }

    #[tokio::test]
    async fn a_frame_of_more_than_32_mib_ends_the_stream() {
        let bytes = [b"\r\n\r\n\x82\x7f".as_slice(), &u64::MAX.to_be_bytes()].concat();
        let mut units = Units::new(&bytes[..]);
        units.next().await.unwrap().unwrap();
        units.next().await.unwrap_err();
    }
}
