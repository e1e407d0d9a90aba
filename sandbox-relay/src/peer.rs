//! The stream of one peer, with the places that it takes until it is closed.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::places::Place;

/// Connection that keeps its place and counts for its shard until it is closed.
pub(crate) struct Counted {
    stream: Stream,
    _place: Place,
    _load: LoadGuard,
}

/// TCP, or TLS over TCP.
pub(crate) type Stream = Box<dyn Duplex>;

pub(crate) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Duplex for S {}

impl Counted {
    /// Makes the stream of a peer that holds these places.
    pub(crate) fn new(stream: Stream, place: Place, load: LoadGuard) -> Self {
        Self { stream, _place: place, _load: load }
    }
}

impl AsyncRead for Counted {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Counted {
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

/// Counts a connection for its shard until it is dropped.
pub(crate) struct LoadGuard(Arc<AtomicUsize>);

impl LoadGuard {
    /// Guards a count that was raised for the connection.
    pub(crate) fn new(count: Arc<AtomicUsize>) -> Self {
        Self(count)
    }
}

impl Drop for LoadGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
