//! Declarations of tools, held against the real TypeScript compiler: those of real MCP servers, and hard ones.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod compiler;
mod hard;
mod hostile;
mod real;
#[path = "../servers/mod.rs"]
mod servers;
