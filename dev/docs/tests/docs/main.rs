//! Checks that README and docs are true: links lead somewhere, tables agree with the programs, JSON and TOML are read by
//! their real readers, commands run.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod data;
mod examples;
mod links;
mod pages;
mod programs;
mod shell;
mod tables;
