//! The system's clock jumps, as when it is set: what runs goes on, and tokens are judged by the new time.

use std::path::{Path, PathBuf};
use std::process::Command;

use host_client::LocalRelay;
use serde_json::json;
use tokio_tungstenite::tungstenite::Error as WebSocketError;

use super::peer::{Peer, SUBJECT, limited};
use crate::suite::wire::Raw;
use crate::support::{binary, within};

const HOUR_MS: u64 = 3_600_000;

/// A clock that programs read in the place of the system's. Their monotonic clock and their processor time stay.
struct Clock(tempfile::TempDir);

impl Clock {
    fn new() -> Self {
        let clock = Self(tempfile::tempdir().unwrap());
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/resume/jumps.c");
        let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(clock.library()).arg(source).status();
        assert!(built.unwrap().success());
        clock.set_ahead(0);
        clock
    }

    fn library(&self) -> PathBuf {
        self.0.path().join("jumps.so")
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("seconds")
    }

    /// Sets how many hours it is ahead of the system's clock.
    fn set_ahead(&self, hours: i64) {
        let new = self.0.path().join("new");
        std::fs::write(&new, (hours * 3_600).to_string()).unwrap();
        std::fs::rename(new, self.file()).unwrap();
    }

    /// Starts a relay that reads this clock. So do the commands that make its tokens.
    async fn start_relay(&self) -> LocalRelay {
        let [library, file] = [self.library(), self.file()].map(|path| path.into_os_string().into_string().unwrap());
        let variables = [("LD_PRELOAD", library.as_str()), ("JUMPS_FILE", &file)];
        within(LocalRelay::start_with(binary(), &["--resume-window-ms", "600000"], &variables)).await.unwrap()
    }
}

async fn token(relay: &LocalRelay, ttl: &str) -> String {
    relay.token(&["--subject", SUBJECT, "--ttl", ttl]).await.unwrap()
}

/// Fails unless a token is good for this time, less what the test has taken, and with the leeway of 5 s.
#[track_caller]
fn assert_expires_in(expected_ms: u64, expires_in_ms: u64) {
    assert!((expected_ms - 60_000..=expected_ms + 5_000).contains(&expires_in_ms), "{expires_in_ms}");
}

/// Returns whether a relay accepts a token.
async fn accepts(relay: &LocalRelay, token: &str) -> bool {
    match Raw::open_with_token(relay, token).await {
        Ok(_) => true,
        Err(WebSocketError::Http(answer)) => {
            assert_eq!(answer.status(), 401);
            false
        }
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn a_clock_that_jumps_ends_nothing_that_runs_and_expires_tokens() {
    let clock = Clock::new();
    let relay = clock.start_relay().await;
    let [short, long] = [token(&relay, "1h").await, token(&relay, "8h").await];
    let (mut peer, welcome) = Peer::hello_over(Raw::open_with_token(&relay, &short).await.unwrap(), &["a.b"]).await;
    assert_expires_in(HOUR_MS, welcome.expires_in_ms);
    let code = "const all = []; for (let i = 0; i < 3; i++) all.push(await mcp.call('a.b')); return all";
    peer.send(limited("e", code, &[("wall_ms", 60_000), ("tool_call_ms", 20_000)])).await;
    let call = peer.call().await;

    // Two hours ahead: the execution goes on with all its time, and so does the session.
    clock.set_ahead(2);
    assert!(!accepts(&relay, &short).await, "it has expired");
    assert!(accepts(&relay, &long).await);
    peer.answer(&call, "1").await;
    let call = peer.call().await;
    assert!((1..=20_000).contains(&call.remaining_ms), "{call:?}");

    // The window and the clocks of a session without a connection do not jump either; its new token is judged.
    let ticket = peer.ticket();
    drop(peer);
    clock.set_ahead(4);
    let (mut peer, resumed) = ticket.resume_with(&relay, &long).await.unwrap();
    assert_expires_in(4 * HOUR_MS, resumed.expires_in_ms);
    peer.answer(&call, "2").await;
    let call = peer.call().await;

    // Back, before the tokens were made.
    clock.set_ahead(-2);
    peer.answer(&call, "3").await;
    assert_eq!(peer.result().await, json!([1, 2, 3]));
    assert!(accepts(&relay, &short).await, "it expires in three hours");
    assert!(accepts(&relay, &token(&relay, "1h").await).await);
    peer.close().await;
}
