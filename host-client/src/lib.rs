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
//! This crate exports five others, each of which imports only those before it:
//! - `host-client-core`: tools, policy, approvals, audit, the client and its session with a relay
//! - `host-client-journal`: journals of durable runs, in an SQLite file or a Postgres database
//! - `host-client-sources`: MCP servers, OpenAPI documents and ready sets as tools
//! - `host-client-model`: the interfaces for models: `execute_code` for agent loops and MCP clients, results that fit,
//!   programs from requests
//! - `host-client-page`: pages for people: approval links, and a webhook that tells of them
//!
//! The attribute `tools` is that of `host-client-macros`.
//!
//! Applications name this crate alone. Its features choose what is linked; without any of them there is the core and what
//! needs no further crates.

#![warn(missing_docs)]

#[doc(hidden)]
pub use host_client_core::__private;
#[cfg(feature = "bench")]
pub use host_client_core::bench;
pub use host_client_core::client;
pub use host_client_core::describe::{self, catalogue, declare};
#[cfg(feature = "fuzzing")]
pub use host_client_core::fuzz;
pub use host_client_core::rules::{self, approval, policy, prompt};
pub use host_client_core::tool::{self, manifest};
pub use host_client_core::{audit, error, event, executor, host, introspect, local, outcome, tools, watch};
pub use host_client_core::{durable, runs};
#[cfg(feature = "sets")]
pub use host_client_model::sandbox_execute;
#[cfg(feature = "mcp")]
pub use host_client_model::serve_mcp;
pub use host_client_model::{agent, output, programmatic};
#[cfg(feature = "page")]
pub use host_client_page::{
    self as page, ApprovalLinks, LinkSecret, Page, WebhookApprover, WebhookConfig, WebhookSecret,
};
#[cfg(feature = "mcp")]
pub use host_client_sources::mcp;
#[cfg(feature = "openapi")]
pub use host_client_sources::openapi;
#[cfg(feature = "sets")]
pub use host_client_sources::sets;
#[cfg(feature = "mcp")]
pub use rmcp;

pub use host_client_core::{
    Approval, ApprovalRequest, Approver, Audit, AuditConfig, AuditError, Backoff, Budget, CallCapacity, CallContext,
    CallbackApprover, Check, Client, ClientBuilder, ClientConfig, ClientLease, Code, ConnectionPool, ConnectionState,
    Decision, Effect, Error, ErrorCode, Event, EventStream, ExecuteRequest, Execution, ExecutionError, ExecutionId,
    Explanation, Host, InvalidToolPattern, Journal, JournalError, LargeIntegers, LazyClient, LimitName, LimitOverrides,
    LocalRelay, LocalRelayBuilder, Manifest, ManifestChange, Mode, Mount, Outcome, OutputItem, OutputKind, Overflow,
    Phase, Policy, PolicyError, PolicyPattern, PolicyWarning, Rule, Run, RunError, RunId, RunOptions, RunQuestion,
    RunStatus, Runs, SessionLoss, StateChanges, TerminalApprover, TokenError, TokenRequest, TokenSource, Tool,
    ToolBudget, ToolBuilder, ToolError, ToolFunction, ToolName, ToolPattern, ToolSet, ToolSpec, Tools, TraceContext,
    UnknownTool, Usage, Verdict, Warning,
};
#[cfg(feature = "journal-sqlite")]
pub use host_client_journal::{Durability, SqliteJournal, SqliteOptions};
#[cfg(feature = "journal-postgres")]
pub use host_client_journal::{PostgresJournal, PostgresOptions};
#[cfg(all(feature = "journal-postgres", feature = "journal-sqlite"))]
pub use host_client_journal::{is_database, open_journal};
#[cfg(feature = "macros")]
pub use host_client_macros::tools;
#[cfg(feature = "sets")]
pub use host_client_model::SandboxExecute;
pub use host_client_model::{
    Attachment, Definition, ExecuteCode, OutputConfig, OutputStore, Programmatic, ProgrammaticAnswer,
    ProgrammaticRequest, Report, Shown,
};
#[cfg(feature = "openapi")]
pub use host_client_sources::OpenApi;
#[cfg(any(feature = "openapi", feature = "sets"))]
pub use host_client_sources::{InvalidAccess, RemoteAccess};
#[cfg(feature = "mcp")]
pub use host_client_sources::{McpConfig, McpConfigError, McpOptions, McpServers, ServerState, ServerStatus};
