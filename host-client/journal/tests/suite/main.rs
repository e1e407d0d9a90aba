//! Journals, over the real thing: SQLite files and a Postgres server.
//!
//! - `conformance`: what every journal does, run for each storage and for the journal in memory
//! - `tables`: what a storage finds in its tables
//! - `processes`: several processes on one journal, and processes that are killed
//! - `damage`: an SQLite file that was cut or changed
//! - `disk`: an SQLite file on a disk that is full or read-only, and what is left in it
//! - `server`: a Postgres server that fails, and the way to it
//! - `storage`: the storages, and runs to put into them
//! - `child`: this program as a process of its own

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod child;
mod conformance;
mod damage;
mod disk;
mod processes;
mod server;
mod storage;
mod tables;
