//! README and docs are true: links lead somewhere, tables say what the programs say, JSON and TOML are read by those that
//! read them, commands run.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod data;
mod links;
mod pages;
mod programs;
mod shell;
mod tables;
