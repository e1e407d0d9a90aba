//! What a server prints, watched on its way: a message without an end is not collected, and junk is remembered.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

use super::words::clip;

/// The longest message that is taken, in bytes.
const MAX_MESSAGE_BYTES: usize = 64 << 20;
/// So much of what is no message is passed over, in bytes, before the server is given up.
const MAX_JUNK_BYTES: usize = 1 << 20;
/// How many bytes at the start of a line tell what it is, and stand in an error.
const HEAD_BYTES: usize = 200;

/// A server's output, one message a line, as it is read.
pub(super) struct Watched<R> {
    inner: R,
    /// The start of the line that is being read.
    head: Vec<u8>,
    line_bytes: usize,
    junk_bytes: usize,
    seen: Seen,
}

/// What was noticed in a server's output.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen(Arc<Mutex<Noticed>>);

#[derive(Debug, Default)]
struct Noticed {
    /// The first line that is no message.
    junk: Option<String>,
    has_too_long_message: bool,
    has_too_much_junk: bool,
}

impl<R> Watched<R> {
    pub(super) fn new(inner: R, seen: Seen) -> Self {
        Self { inner, head: Vec::new(), line_bytes: 0, junk_bytes: 0, seen }
    }

    /// Looks at what was read.
    fn watch(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.grow(&bytes[..end])?;
            self.end_line()?;
            bytes = &bytes[end + 1..];
        }
        self.grow(bytes)
    }

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

    fn end_line(&mut self) -> io::Result<()> {
        let line_bytes = std::mem::take(&mut self.line_bytes);
        let text = String::from_utf8_lossy(&self.head);
        let text = text.trim_start_matches('\u{feff}').trim();
        // Whoever writes JSON-RPC writes objects; all else comes from a program that takes its output for a terminal.
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

    /// What stands against the server, if its connection ended or never came about.
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
