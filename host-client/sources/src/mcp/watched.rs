//! Standard output of a server with bounds: ends the connection on a message that is too long, and remembers lines that
//! are not messages.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

use super::text::clip;

/// Maximum length of a message, in bytes.
const MAX_MESSAGE_BYTES: usize = 64 << 20;
/// Maximum number of bytes in lines that are not messages, before the connection is ended.
const MAX_JUNK_BYTES: usize = 1 << 20;
/// Number of bytes at the start of a line that are kept to classify it and to quote it in an error.
const HEAD_BYTES: usize = 200;

/// Reader of a server's output, one message per line, that checks each line.
pub(super) struct Watched<R> {
    inner: R,
    /// The first bytes of the current line.
    head: Vec<u8>,
    line_bytes: usize,
    junk_bytes: usize,
    seen: Seen,
}

/// Faults seen in a server's output. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen(Arc<Mutex<Noticed>>);

#[derive(Debug, Default)]
struct Noticed {
    /// The first line that is not a message.
    junk: Option<String>,
    has_too_long_message: bool,
    has_too_much_junk: bool,
}

impl<R> Watched<R> {
    pub(super) fn new(inner: R, seen: Seen) -> Self {
        Self { inner, head: Vec::new(), line_bytes: 0, junk_bytes: 0, seen }
    }

    /// Checks the bytes that were read.
    fn watch(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.grow(&bytes[..end])?;
            self.end_line()?;
            bytes = &bytes[end + 1..];
        }
        self.grow(bytes)
    }

    /// Adds bytes to the current line.
    ///
    /// # Errors
    /// The line is too long.
    fn grow(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.line_bytes += bytes.len();
        let missing = HEAD_BYTES.saturating_sub(self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..missing]);
        if self.line_bytes > MAX_MESSAGE_BYTES {
            self.seen.lock().has_too_long_message = true;
            return Err(io::Error::other("a message is too long"));
        }
        Ok(())
    }

    /// Classifies the current line, and begins the next.
    ///
    /// # Errors
    /// Too many bytes were in lines that are not messages.
    fn end_line(&mut self) -> io::Result<()> {
        let line_bytes = std::mem::take(&mut self.line_bytes);
        let text = String::from_utf8_lossy(&self.head);
        let text = text.trim_start_matches('\u{feff}').trim();
        // JSON-RPC messages are objects; other lines are meant for a person at a terminal.
        if !text.is_empty() && !text.starts_with('{') {
            self.junk_bytes += line_bytes;
            let mut seen = self.seen.lock();
            seen.junk.get_or_insert_with(|| clip(text, HEAD_BYTES));
            if self.junk_bytes > MAX_JUNK_BYTES {
                seen.has_too_much_junk = true;
                return Err(io::Error::other("too much that is no message"));
            }
        }
        self.head.clear();
        Ok(())
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Watched<R> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        Poll::Ready(self.watch(&buf.filled()[before..]))
    }
}

impl Seen {
    fn lock(&self) -> MutexGuard<'_, Noticed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Describes the fault in the output; `None` if there was none.
    pub(super) fn evidence(&self) -> Option<String> {
        let seen = self.lock();
        if seen.has_too_long_message {
            return Some(format!("it sent a message of more than {} MiB", MAX_MESSAGE_BYTES >> 20));
        }
        let junk = seen.junk.as_ref()?;
        let much = if seen.has_too_much_junk { "too much " } else { "" };
        Some(format!("it printed {much}on its standard output that is no message: {junk:?}"))
    }
}
