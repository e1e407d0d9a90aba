//! Journals, over the real thing: SQLite files and a Postgres server.
//!
//! - `conformance`: what every journal does, run for each storage
//! - `storage`: the storages, and runs to put into them

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod conformance;
mod storage;
