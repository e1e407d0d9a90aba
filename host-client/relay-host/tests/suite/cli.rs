//! The program `relay-host` as people and scripts use it: real processes, real relays, real terminals.

mod approvals;
mod audits;
mod calls;
mod commands;
mod connections;
mod cuts;
mod doctors;
mod durable;
mod exits;
mod folder;
mod interrupts;
pub(crate) mod links;
mod many;
mod next_week;
mod openapi;
mod policies;
mod progress;
mod repl;
mod runs;
mod story;
mod terminal;
mod tools;
mod ui;

use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it hangs")
}

/// Waits until something holds.
async fn eventually(what: impl Fn() -> String, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "it never comes about: {}", what());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
