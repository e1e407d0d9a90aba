//! The program `relay-host`: at a terminal, in a script, and as an MCP server.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod cli;
#[path = "../../../tests/story/scene.rs"]
mod scene;
mod serve_mcp;
#[path = "../../../tests/servers/mod.rs"]
mod servers;
