//! The library through its public doors: tools, sources, results, programs; and everything that may go wrong with a relay.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod audit;
mod client;
#[cfg(feature = "mcp")]
mod declare;
mod hostile_relay;
#[cfg(feature = "sets")]
mod http_set;
mod introspect;
mod local_relay;
mod lost_connections;
#[cfg(feature = "mcp")]
mod mcp;
#[cfg(feature = "openapi")]
mod openapi;
#[cfg(feature = "openapi")]
mod openapi_documents;
mod output;
mod pipeline;
mod programmatic;
mod resume;
mod rfc6455;
#[cfg(all(feature = "mcp", feature = "rig"))]
mod rig;
#[cfg(feature = "short-path")]
mod short_paths;
mod support;
#[cfg(feature = "macros")]
mod tool_sets;
mod typed_tools;
mod versions;

use relay_test_support::servers;
