//! Durable runs with real relays, which are killed, and a journal in a file.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod approvals;
mod begins;
mod bounds;
mod cancels;
mod drivers;
mod faults;
mod handles;
mod journals;
mod relays_killed;
mod resumes;
mod spans;
mod stage;
mod takeover;
mod tokens;
