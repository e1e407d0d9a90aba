//! Connects an agent application to a sandbox relay: registers tools, runs code there, answers its tool calls here.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use host_client::{Client, ClientConfig, Effect, ExecuteRequest, ToolError, Tools};
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Add { a: f64, b: f64 }
//!
//! let tools = Tools::new();
//! let add = |args: Add| async move { Ok::<_, ToolError>(args.a + args.b) };
//! tools.add("math.add", "Adds two numbers", Effect::ReadOnly, add)?;
//! let client = Client::connect(ClientConfig::new("ws://127.0.0.1:8080/ws", "the token"), tools).await?;
//! let code = "return await mcp.call('math.add', {a: 1, b: 2})";
//! let outcome = client.run(ExecuteRequest::new(code)).await?;
//! assert_eq!(outcome.value()?, 3.0);
//! # Ok(()) }
//! ```
//!
//! The map, in the order of one `execute` out, one `tool_call` in and its answer back:
//! - [`client`]: connecting, executing, what came of it
//! - `connection`: one WebSocket, its two directions and its end; `tls`: whom it trusts
//! - [`tools`]: the registry
//! - `dispatch`: what a tool call passes, read top to bottom
//! - `ledger`: which executions and calls there are
//! - `validate`: arguments against their schema; `schema`: which schemas are taken
//! - [`event`]: what an application can watch
//! - [`local`]: a relay of one's own, for development and tests
//!
//! The relay is trusted with nothing. There is no V8 here.

pub mod client;
mod connection;
mod dispatch;
pub mod error;
pub mod event;
#[cfg(feature = "fuzzing")]
pub mod fuzz;
mod ledger;
pub mod local;
pub mod manifest;
pub mod registry;
mod schema;
#[cfg(feature = "sets")]
pub mod sets;
mod tls;
pub mod tools;
pub mod trace;
mod validate;

pub use client::{Client, ClientConfig, ExecuteRequest, Execution, Outcome};
pub use error::{Error, ExecutionError};
pub use event::{Event, EventStream, OutputItem, OutputKind};
pub use local::LocalRelay;
pub use manifest::{Effect, Manifest, Mode, Overflow};
pub use registry::{ManifestChange, Mount, Tools};
pub use relay_proto::{Code, ErrorCode, ExecutionId, LimitName, LimitOverrides, ToolName};
pub use tools::{CallContext, Tool, ToolError, ToolSpec};
pub use trace::TraceContext;
