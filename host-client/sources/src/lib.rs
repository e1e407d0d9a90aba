//! Sources of tools for `host-client-core`: MCP servers, OpenAPI documents, and three ready sets.
//!
//! Applications name the crate `host-client`, which re-exports all of this. Each source registers its tools through a
//! [`Mount`](host_client_core::Mount) and does not depend on the others:
//! - [`mcp`]: tools of MCP servers, each started and restarted in the background
//! - [`openapi`]: operations of OpenAPI documents
//! - [`sets`]: ready sets: one folder, listed hosts, one program
//! - `net`: the HTTP client of `openapi` and `sets`, which reaches allowed hosts only; with it, a [`Poster`] posts to one
//!   address of the application's choice
//!
//! Everything that a server or a document sends is bounded before it is parsed.
#![warn(missing_docs)]

#[cfg(feature = "mcp")]
pub mod mcp;
#[cfg(any(feature = "openapi", feature = "post", feature = "sets"))]
mod net;
#[cfg(feature = "openapi")]
pub mod openapi;
#[cfg(feature = "sets")]
pub mod sets;

#[cfg(feature = "mcp")]
pub use mcp::{McpConfig, McpConfigError, McpOptions, McpServers, ServerState, ServerStatus};
#[cfg(feature = "post")]
pub use net::post::{PostError, Poster};
#[cfg(any(feature = "openapi", feature = "post", feature = "sets"))]
pub use net::{InvalidAccess, RemoteAccess};
#[cfg(feature = "openapi")]
pub use openapi::OpenApi;
