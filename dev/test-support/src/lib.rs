//! Helpers that the tests of several crates share.
//!
//! - [`within`]: a limit on how long a step of a test may take
//! - [`fault`]: a proxy that breaks connections where a test wants it
//! - [`http`]: requests to pages of a relay
//! - [`catalogue`]: the tools of real MCP servers, and what people look for among them
//! - [`documents`]: OpenAPI documents of public APIs
//! - [`packages`]: pinned packages of npm and PyPI, installed once
//! - [`postgres`]: real Postgres servers
//! - [`servers`]: the real MCP servers and clients among them
//! - [`story`]: one run over three of these servers
//! - [`results`]: results of tools that are hard to show
//! - [`transcript`]: sessions of older versions, message by message
//! - [`rfc6455`]: the rules of WebSockets, as frames that keep or break them

pub mod catalogue;
pub mod documents;
pub mod fault;
pub mod http;
pub mod packages;
pub mod postgres;
pub mod results;
pub mod rfc6455;
pub mod servers;
pub mod story;
pub mod transcript;

use std::time::Duration;

/// The longest that one step of a test may take, 60 s: far more than it needs on a slow machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Awaits a step of a test and gives its value.
///
/// # Panics
/// The step takes longer than [`PATIENCE`].
#[track_caller]
pub fn within<T>(future: impl Future<Output = T>) -> impl Future<Output = T> {
    limited(PATIENCE, future)
}

#[track_caller]
fn limited<T>(limit: Duration, future: impl Future<Output = T>) -> impl Future<Output = T> {
    let caller = std::panic::Location::caller();
    async move {
        let Ok(value) = tokio::time::timeout(limit, future).await else {
            panic!("the step at {caller} hangs: it took more than {limit:?}");
        };
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    #[should_panic(expected = "test-support/src/lib.rs")]
    async fn a_step_that_hangs_fails_and_is_named() {
        limited(Duration::from_millis(1), std::future::pending::<()>()).await;
    }

    #[tokio::test]
    async fn a_step_that_ends_in_time_gives_its_value() {
        assert_eq!(within(async { 7 }).await, 7);
    }
}
