//! Tests of the pages: real HTTP, real relays, real journals.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod durable;
mod hostile;
mod links;
mod live;
mod stage;
mod ui;
mod webhook;
