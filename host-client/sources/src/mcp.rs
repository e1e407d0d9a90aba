//! MCP servers as tools: `server.tool` is the tool `tool` of the MCP server `server`.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//!
//! use host_client::{McpConfig, McpServers, Tools};
//!
//! let tools = Tools::new();
//! let servers = McpServers::new(&tools);
//! servers.start(McpConfig::from_file("mcp.json")?)?;
//! for status in servers.ready(Duration::from_secs(30)).await {
//!     println!("{status}");
//! }
//! # servers.close().await;
//! # Ok(()) }
//! ```
//!
//! The map, in the order of a server's life:
//! - `config`: the file that names servers; `entry`: its JSON as it stands there; `expand`: the variables in it
//! - `servers`: the set of servers, as the application holds it
//! - `life`: one server from its first try to its end: connect, list, serve, wait, try again
//! - `transport`: the three kinds of server; `process`: a child process; `watched`: what it prints, bounded
//! - `listing`: its tools, and that they changed; `catalogue`: the last listing, on disk
//! - `link`: what the tools know of their server
//! - `tool`: one call; `content`: its result as JSON
//! - `failure`: why a server is not available; `words`: texts of others, made fit to be shown
//!
//! Whatever a server sends is taken as written by an attacker: its messages, tools, pages and texts are bounded, and it gets
//! neither the host's environment nor a say in what it is asked. No call is ever made twice.

mod catalogue;
mod config;
mod content;
mod entry;
mod expand;
mod failure;
mod life;
mod link;
mod listing;
mod problem;
mod process;
mod servers;
mod tool;
mod transport;
mod watched;
mod words;

pub use config::{McpConfig, McpConfigError};
pub use expand::ExpandError;
pub use problem::ServerProblem;
pub use servers::{McpOptions, McpServers, ServerState, ServerStatus};
