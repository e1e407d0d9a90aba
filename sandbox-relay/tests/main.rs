//! The relay through its public doors: the program, its socket, its standard streams. One binary, because each links
//! everything.
//!
//! - `suite`: what it does for those who use it well
//! - `hostile`: what it withstands
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod hostile;
mod suite;
mod support;
