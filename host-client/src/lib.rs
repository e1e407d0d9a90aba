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
//! - [`client`]: connecting, executing, what came of it; [`lazy_client`]: connecting when it is needed
//! - `short_path`: requests that need no relay, for they are one call
//! - `connection`: one WebSocket, its two directions and its end; `tls`: whom it trusts
//! - [`registry`]: which tools there are; [`tools`]: what a tool is; [`manifest`]: how its calls are treated
//! - `dispatch`: what a tool call passes, read top to bottom; `introspect`: the calls that ask which tools there are
//! - `call`: one call from its arrival to its end
//! - `ledger`: which executions and calls there are; [`host`]: what they are held against
//! - [`policy`]: the rules
//! - `validate`: arguments and results against their schemas; `schema`: which schemas are taken
//! - [`approval`]: a person's word; [`prompt`]: the question; `shorten`, `visible`: large and hostile texts in it
//! - [`audit`]: what is recorded of it all, before it is done
//! - [`executor`]: running the tool, with layers around it
//! - [`event`]: what an application can watch
//!
//! Where tools come from, and where they go:
//! - [`mcp`]: MCP servers as tools
//! - [`openapi`]: OpenAPI documents as tools; [`sets`]: ready tool sets; `net`: the guarded HTTP client of both
//! - [`catalogue`]: finding tools among many; [`declare`]: what they are in TypeScript; `learn`: what their results were like
//! - [`agent`]: running code as a tool of any agent loop; [`serve_mcp`]: the same as an MCP server; `surroundings`: what its
//!   model is told of the place where code runs; `arguments`: what it writes; `report`, [`output`]: what it reads of a result
//! - [`programmatic`]: from a user's request to a result, by a model that writes the code; [`sandbox_execute`]: the
//!   same as a tool of another agent, for the files of a folder
//! - [`local`]: a relay of one's own, for development and tests
//!
//! The relay is trusted with nothing. There is no V8 here.

pub mod agent;
pub mod approval;
mod arguments;
pub mod audit;
#[cfg(feature = "bench")]
pub mod bench;
mod call;
pub mod catalogue;
pub mod client;
mod connection;
pub mod declare;
mod dispatch;
pub mod error;
pub mod event;
pub mod executor;
#[cfg(feature = "fuzzing")]
pub mod fuzz;
pub mod host;
mod introspect;
pub mod lazy_client;
mod learn;
mod ledger;
pub mod local;
pub mod manifest;
#[cfg(feature = "mcp")]
pub mod mcp;
#[cfg(any(feature = "openapi", feature = "sets"))]
mod net;
#[cfg(feature = "openapi")]
pub mod openapi;
pub mod output;
pub mod policy;
pub mod programmatic;
pub mod prompt;
pub mod registry;
mod report;
#[cfg(feature = "sets")]
pub mod sandbox_execute;
mod schema;
#[cfg(feature = "mcp")]
pub mod serve_mcp;
#[cfg(feature = "sets")]
pub mod sets;
mod short_path;
mod shorten;
mod surroundings;
mod tls;
pub mod tools;
mod validate;
mod visible;

pub use agent::{Definition, ExecuteCode, Report};
pub use approval::{Approval, ApprovalRequest, Approver, CallbackApprover, TerminalApprover};
pub use audit::{Audit, AuditConfig, AuditError};
pub use catalogue::UnknownTool;
pub use client::{Client, ClientConfig, ExecuteRequest, Execution, Outcome};
pub use error::{Error, ExecutionError};
pub use event::{Event, EventStream, OutputItem, OutputKind};
pub use host::Host;
pub use lazy_client::LazyClient;
pub use local::LocalRelay;
pub use manifest::{Effect, Manifest, Mode, Overflow};
#[cfg(feature = "mcp")]
pub use mcp::{McpConfig, McpConfigError, McpOptions, McpServers, ServerState, ServerStatus};
#[cfg(any(feature = "openapi", feature = "sets"))]
pub use net::{InvalidAccess, RemoteAccess};
#[cfg(feature = "openapi")]
pub use openapi::OpenApi;
pub use output::{Attachment, OutputConfig, OutputStore, Shown};
pub use policy::{Budget, Decision, Phase, Policy, PolicyError, Verdict};
pub use programmatic::{Programmatic, ProgrammaticAnswer, ProgrammaticRequest};
pub use registry::{ManifestChange, Mount, Tools};
pub use relay_proto::{Code, ErrorCode, ExecutionId, LimitName, LimitOverrides, ToolName, TraceContext};
#[cfg(feature = "sets")]
pub use sandbox_execute::SandboxExecute;
pub use tools::{CallContext, Tool, ToolError, ToolSpec};
