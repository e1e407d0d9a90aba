//! `relay-host serve-mcp` as its clients see it: the official SDKs for Python and TypeScript, the inspector, and clients that misbehave.

mod approvals;
mod calls;
mod cancelling;
mod durable;
mod http;
mod inspector;
mod life;
mod links;
mod offers;
mod processes;
mod python;
mod raw;
mod relay;
mod results;
mod rounds;
mod sessions;
mod setup;
mod starting;
mod stdio;
mod typescript;
mod users;
mod web;

use std::time::{Duration, Instant};

use relay_test_support::{PATIENCE, within};

/// Waits until something holds.
async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "it never comes about: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
