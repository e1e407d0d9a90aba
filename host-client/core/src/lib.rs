//! Tools, policy, audit and the session with a sandbox relay: what every host application needs.
//!
//! Applications name the crate `host-client`, which passes on all of this under the same names, with sources of tools and what
//! models meet beside it.
//!
//! The map, from the bottom up; no module imports one that stands below it in this list:
//! - [`text`]: texts of strangers, made fit for people and records; [`outcome`]: parts of what came of an execution;
//!   [`event`]: what an application can watch; [`tls`]: which servers are trusted
//! - [`tool`]: what a tool is, its schemas, and the storage of all of them
//! - [`audit`]: what is recorded of everything, before it is done
//! - [`error`]: what can go wrong
//! - [`describe`]: tools for models and code: searched, declared in TypeScript, their results learnt
//! - [`tools`]: registering, changing and finding tools; [`introspect`]: the calls that ask about tools
//! - [`rules`]: the policy, and the questions to people
//! - [`executor`]: running a tool, with layers around it; [`host`]: what all calls are held against
//! - `call`: one call from its arrival to its answer: `call::ledger`, then `call::dispatch`, read top to bottom
//! - `session`: what each message of the relay means; `session::connection`: its WebSocket
//! - [`client`]: connecting, executing, what came of it; `client::short_path`: requests that need no relay
//! - [`local`]: a relay of one's own, for development and tests
//!
//! The relay is trusted with nothing. There is no V8 here.
#![warn(missing_docs)]

pub mod audit;
#[cfg(feature = "bench")]
pub mod bench;
mod call;
pub mod client;
pub mod describe;
pub mod error;
pub mod event;
pub mod executor;
#[cfg(feature = "fuzzing")]
pub mod fuzz;
pub mod host;
pub mod introspect;
pub mod local;
pub mod outcome;
mod random;
pub mod rules;
mod session;
pub mod text;
pub mod tls;
pub mod tool;
pub mod tools;
mod trace;

/// What the attribute `tools` writes refers to; nothing here is for people.
#[doc(hidden)]
pub mod __private {
    pub use crate::tools::typed_tool;
    pub use schemars;
    pub use serde;
    pub use serde_json::Value;
}

pub use audit::{Audit, AuditConfig, AuditError};
pub use client::{Client, ClientConfig, ExecuteRequest, Execution, LazyClient, Outcome};
pub use describe::UnknownTool;
pub use error::{Error, ExecutionError};
pub use event::{Event, EventStream};
pub use host::Host;
pub use local::{LocalRelay, LocalRelayBuilder, TokenRequest};
pub use outcome::{OutputItem, OutputKind, Usage, Warning};
pub use relay_proto::{
    Code, ErrorCode, ExecutionId, InvalidToolPattern, LimitName, LimitOverrides, ToolName, TraceContext,
};
pub use rules::{
    Approval, ApprovalRequest, Approver, Budget, CallbackApprover, Decision, Phase, Policy, PolicyError, Rule,
    TerminalApprover, ToolBudget, Verdict,
};
pub use tool::{CallContext, Effect, Manifest, ManifestChange, Mode, Overflow, Tool, ToolError, ToolSpec};
pub use tools::{Mount, ToolBuilder, ToolFunction, ToolSet, Tools};
