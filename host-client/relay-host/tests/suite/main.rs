//! The program `relay-host`: at a terminal, in a script, and as an MCP server.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod cli;
mod serve_mcp;

use relay_test_support::{servers, story as scene};
