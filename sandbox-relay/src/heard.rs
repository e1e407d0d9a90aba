//! Notes the times at which a peer was last heard, for the heartbeat and for closing idle connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use relay_proto::time::millis;
use tokio::time::Instant;

/// Instants of the last bytes and of the last message of one peer.
#[derive(Debug)]
pub(crate) struct LastHeard {
    start: Instant,
    /// Last bytes, in ms since the start; `u64::MAX` while the relay does not read.
    bytes_at_ms: AtomicU64,
    /// Last message, in ms since the start. Pings are no messages.
    message_at_ms: AtomicU64,
}

impl LastHeard {
    /// Starts with a peer that was just heard.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { start: Instant::now(), bytes_at_ms: AtomicU64::new(0), message_at_ms: AtomicU64::new(0) })
    }

    /// Suspends [`silence`](Self::silence) at zero while the relay does not read from the peer.
    pub(crate) fn suspend(&self) {
        self.bytes_at_ms.store(u64::MAX, Ordering::Relaxed);
    }

    /// Notes bytes, and ends a suspension.
    pub(crate) fn bytes(&self) {
        self.bytes_at_ms.store(self.elapsed_ms(), Ordering::Relaxed);
    }

    /// Notes a message.
    pub(crate) fn message(&self) {
        self.message_at_ms.store(self.elapsed_ms(), Ordering::Relaxed);
    }

    /// Returns the time since the last bytes.
    pub(crate) fn silence(&self) -> Duration {
        self.since(&self.bytes_at_ms)
    }

    /// Returns the time since the last message.
    pub(crate) fn quiet(&self) -> Duration {
        self.since(&self.message_at_ms)
    }

    fn elapsed_ms(&self) -> u64 {
        millis(self.start.elapsed())
    }

    fn since(&self, at_ms: &AtomicU64) -> Duration {
        Duration::from_millis(self.elapsed_ms().saturating_sub(at_ms.load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn silence_counts_bytes_quiet_counts_messages_and_a_suspension_is_no_silence() {
        let long = Duration::from_secs(5);
        let heard = LastHeard {
            start: Instant::now().checked_sub(long).unwrap(),
            bytes_at_ms: AtomicU64::new(0),
            message_at_ms: AtomicU64::new(0),
        };
        assert!(heard.silence() >= long && heard.quiet() >= long);
        heard.bytes();
        assert!(heard.silence() < long && heard.quiet() >= long, "bytes are no message");
        heard.suspend();
        assert_eq!(heard.silence(), Duration::ZERO);
        heard.message();
        assert!(heard.quiet() < long);
    }
}
