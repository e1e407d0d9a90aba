//! Tools of MCP servers: `server.tool` is the tool `tool` of the MCP server `server`.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//!
//! use host_client_core::Tools;
//! use host_client_sources::{McpConfig, McpServers};
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
//! - `config`: the configuration file; `entry`: its JSON before it is checked; `expand`: the variables in it;
//!   `problem`: errors in an entry
//! - `servers`: the set of servers that the application holds
//! - `life`: the life of one server: connect, list, serve, wait, retry
//! - `transport`: the three kinds of server; `process`: a child process; `watched`: its standard output, bounded
//! - `lines`: messages as lines; `events`: messages in event streams; `message`: one message, as far as it can be read
//! - `listing`: the tools of a server, and notifications that they changed; `catalogue`: the last listing, on disk
//! - `link`: the state of a server, as its tools see it
//! - `tool`: one call; `content`: its result as JSON
//! - `failure`: reasons why a server is not available; `text`: texts of others, bounded and without secrets
//!
//! Everything that a server sends is treated as written by an attacker: its messages, tools, pages and texts are
//! bounded. It does not get the host's environment, and its requests (sampling, elicitation) are declined. No call is
//! made twice.

mod catalogue;
mod config;
mod content;
mod entry;
mod events;
mod expand;
mod failure;
mod life;
mod lines;
mod link;
mod listing;
mod message;
mod problem;
mod process;
mod servers;
mod text;
mod tool;
mod transport;
mod watched;

pub use config::{McpConfig, McpConfigError};
pub use expand::ExpandError;
pub use problem::ServerProblem;
pub use servers::{McpOptions, McpServers, ServerState, ServerStatus};
