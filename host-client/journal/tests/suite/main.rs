//! Journals, over the real thing: SQLite files and a Postgres server.
//!
//! - `conformance`: what every journal does, run for each storage
//! - `processes`: several processes on one journal, and processes that are killed
//! - `disk`: an SQLite file on a disk that is full or read-only, and what is left in it
//! - `server`: a Postgres server that fails, and the way to it
//! - `storage`: the storages, and runs to put into them
//! - `child`: this program as a process of its own

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod child;
mod conformance;
mod disk;
mod processes;
mod server;
mod storage;
