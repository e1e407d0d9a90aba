//! Tools that come from elsewhere: MCP servers, OpenAPI documents, and three ready sets.
//!
//! Each source holds a `Mount` of the tools of `host-client-core`, puts `Tool`s behind it, and knows nothing of the others:
//! - [`mcp`]: MCP servers as tools, each with a life of its own
//! - [`openapi`]: OpenAPI documents as tools
//! - [`sets`]: ready sets: one folder, listed hosts, one program
//! - [`net`]: the guarded HTTP client of `openapi` and `sets`
//!
//! What comes from a server or a document is bounded before it is looked at.
#![warn(missing_docs)]

#[cfg(feature = "mcp")]
pub mod mcp;
#[cfg(any(feature = "openapi", feature = "sets"))]
mod net;
#[cfg(feature = "openapi")]
pub mod openapi;
#[cfg(feature = "sets")]
pub mod sets;

#[cfg(feature = "mcp")]
pub use mcp::{McpConfig, McpConfigError, McpOptions, McpServers, ServerState, ServerStatus};
#[cfg(any(feature = "openapi", feature = "sets"))]
pub use net::{InvalidAccess, RemoteAccess};
#[cfg(feature = "openapi")]
pub use openapi::OpenApi;
