//! The client over sockets, at a relay that the tests write by hand.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod credit;
mod lazy;
mod relay;
mod renewal;
mod resume;
mod resume_refused;
