//! The end of a session on a relay that shuts down: the host is told, and what it sent before it knew is still taken.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use relay_proto::time::millis;
use relay_proto::wire;
use relay_proto::wire::message::Payload;

use super::Session;
use super::state::{Announcement, SessionState};

/// Id of the ping whose answer shows that the host has read everything before it.
const PING: &str = "go_away";
/// Maximum time for the host to answer that ping.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

impl Announcement {
    /// Sets whether the host wants to know when the relay shuts down.
    pub(super) fn want(&self, is_wanted: bool) {
        self.is_wanted.store(is_wanted, Ordering::Relaxed);
    }

    /// Takes the host's answer to a ping.
    pub(super) fn answer(&self, pong: &wire::Pong) {
        if pong.id == PING {
            self.answered.notify_one();
        }
    }
}

impl Session {
    /// Announces that the relay shuts down, if the host wants to know, and waits until no execution runs or waits.
    pub(crate) fn finished(&self, within: Duration) -> impl Future<Output = ()> + Send + use<> {
        let session = Arc::clone(&self.state);
        async move {
            if session.announcement.is_wanted.load(Ordering::Relaxed) {
                session.announce_end(within).await;
            }
            loop {
                let ended = session.ended.notified();
                if session.lock().executions.is_empty() {
                    return;
                }
                ended.await;
            }
        }
    }
}

impl SessionState {
    /// Announces that the relay shuts down, and waits for the answer to a ping behind the announcement, at most
    /// [`ANSWER_WITHIN`]. Every execution that the host sent before it read the announcement comes before that answer, and
    /// is refused with `DRAINING`. Without the wait, a connection that is closed at once would lose it unanswered.
    async fn announce_end(&self, within: Duration) {
        let go_away = wire::GoAway { deadline_ms: millis(within), reason: "the relay is shutting down".into() };
        for payload in [Payload::GoAway(go_away), Payload::Ping(wire::Ping { id: PING.into() })] {
            // `None`: the host is gone.
            let Some(room) = self.outbound.reserve(0).await else { return };
            room.send(payload);
        }
        // A host that is slower loses nothing but this courtesy.
        let _ = tokio::time::timeout(ANSWER_WITHIN, self.announcement.answered.notified()).await;
    }
}
