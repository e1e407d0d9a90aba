//! `relay-host serve-mcp` as its clients see it: the official Python SDK, the inspector, and clients that misbehave.

mod approvals;
mod calls;
mod cancelling;
mod http;
mod inspector;
mod life;
mod processes;
mod python;
mod raw;
mod relay;
mod results;
mod setup;
mod stdio;

use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it hangs")
}

/// Waits until something holds.
async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "it never comes about: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
