//! The relay through its public doors: the program, its socket, its standard streams.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod bindings;
mod completions;
mod contract;
mod eval;
mod generated;
mod globals;
mod pipeline;
mod processes;
mod programs;
mod settings;
mod short_paths;
mod support;
mod typescript;
mod wire;
