//! Tools, policy, audit and the session with a sandbox relay: what every host application needs.
//!
//! Applications name the crate `host-client`, which exports all of this under the same names, together with sources of
//! tools and interfaces for models.
//!
//! The map, from the bottom up; no module imports one that stands below it in this list:
//! - [`text`]: untrusted texts, made safe to show and to record; [`outcome`]: parts of an execution's outcome;
//!   [`event`]: the events that an application can watch; [`tls`]: the servers that are trusted
//! - [`tool`]: the description of a tool, its schemas, and the storage of all tools
//! - [`audit`]: the log of executions and calls; each step is recorded before it is taken
//! - [`rules`]: the policy, and approvals by people
//! - `conversation`: the approvals of a session, whichever connections it uses
//! - [`error`]: the public errors
//! - [`describe`]: tools for models and code: searched, declared in TypeScript, their results learnt
//! - [`tools`]: registering, changing and finding tools; [`introspect`]: the calls that ask about tools
//! - [`watch`]: everything that a host runs, for pages
//! - [`executor`]: running a tool, with layers around it; [`host`]: the tools, policy, approver and audit of an
//!   application
//! - `outbound`: the queue of messages to the relay
//! - `call`: one call from its arrival to its answer: `call::ledger`, then `call::dispatch`, read top to bottom
//! - `session`: the messages to and from the relay; `session::begin`: connecting
//! - [`client`]: connecting, executing, outcomes; `client::short_path`: requests that need no relay
//! - [`local`]: a relay of one's own, for development and tests
//!
//! The core does not trust the relay, and does not contain V8.
#![warn(missing_docs)]

pub mod audit;
#[cfg(feature = "bench")]
pub mod bench;
mod call;
pub mod client;
mod conversation;
pub mod describe;
pub mod durable;
pub mod error;
pub mod event;
pub mod executor;
#[cfg(feature = "fuzzing")]
pub mod fuzz;
mod hash;
pub mod host;
pub mod introspect;
pub mod local;
mod outbound;
pub mod outcome;
mod random;
pub mod rules;
pub mod runs;
mod session;
pub mod text;
pub mod tls;
pub mod tool;
pub mod tools;
mod trace;
pub mod watch;

/// Items for the code that the attribute `tools` writes; they are not a part of the public interface.
#[doc(hidden)]
pub mod __private {
    pub use crate::tools::typed_tool;
    pub use schemars;
    pub use serde;
    pub use serde_json::Value;
}

pub use audit::{Audit, AuditConfig, AuditError};
pub use client::{
    Backoff, CallCapacity, Check, Client, ClientBuilder, ClientConfig, ClientLease, ConnectionPool, ConnectionState,
    ExecuteRequest, Execution, LargeIntegers, LazyClient, Outcome, SessionLoss, StateChanges, TokenError, TokenSource,
};
pub use describe::UnknownTool;
pub use durable::{Journal, JournalError, RunId, RunStatus};
pub use error::{Error, ExecutionError};
pub use event::{Event, EventStream};
pub use host::Host;
pub use local::{LocalRelay, LocalRelayBuilder, TokenRequest};
pub use outcome::{OutputItem, OutputKind, Usage, Warning};
pub use relay_proto::{
    Code, ErrorCode, ExecutionId, INTROSPECTION_SERVER, InvalidToolPattern, LOCAL_SERVER, LimitName, LimitOverrides,
    ToolName, ToolPattern, TraceContext,
};
pub use rules::{
    Approval, ApprovalRequest, Approver, Budget, CallbackApprover, Decision, Explanation, Phase, Policy, PolicyError,
    PolicyPattern, PolicyWarning, Rule, RunQuestion, TerminalApprover, ToolBudget, Verdict,
};
pub use runs::{Run, RunError, RunOptions, Runs};
pub use tool::{CallContext, Effect, Manifest, ManifestChange, Mode, Overflow, Tool, ToolError, ToolSpec};
pub use tools::{Mount, ToolBuilder, ToolFunction, ToolSet, Tools};
