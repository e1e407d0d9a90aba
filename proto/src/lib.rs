//! The wire between a host and a sandbox relay, shared by both ends.
//!
//! In the order in which a message is built or read:
//! - [`wire`]: protobuf messages, generated from `relay.proto`
//! - [`frame`]: encodes and decodes messages, with a cap for each kind that is checked before anything is allocated
//! - [`session`]: protocol version, features, heartbeat, time for approvals
//! - [`delivery`]: numbers messages, and keeps them until they are acknowledged
//! - [`credit`]: how much a peer may send
//! - [`binding`]: what an execution may have beside `mcp`
//! - [`id`]: identifiers and tool names as types
//! - [`code`]: error codes
//! - [`limit`]: limits, with their defaults and maxima
//! - [`pattern`]: patterns of tool names
//! - [`steps`]: in which order events reached the code of a durable execution
//! - [`spelling`]: names as JavaScript identifiers, and the name that was probably meant
//! - [`time`]: times as numbers of milliseconds
//! - [`trace`]: W3C trace context
//!
//! The crate contains no V8, no server and no client.
#![warn(missing_docs)]

pub mod binding;
pub mod code;
pub mod credit;
pub mod delivery;
pub mod frame;
pub mod id;
pub mod limit;
pub mod pattern;
pub mod session;
pub mod spelling;
pub mod steps;
pub mod time;
pub mod trace;

/// Protobuf messages, generated from `relay.proto` and committed.
///
/// Fields of type [`bytes::Bytes`] hold UTF-8 JSON. Strings and numbers that are absent on the wire read as empty and
/// 0.
pub mod wire {
    // `include!` keeps rustfmt away: the file stays exactly as it was generated.
    include!("generated/relay.rs");
}

pub use binding::Binding;
pub use code::{Code, ErrorCode};
pub use id::{CallId, ExecutionId, ToolName};
pub use limit::{LimitName, LimitOverrides, Limits};
pub use pattern::{InvalidToolPattern, ToolPattern, ToolPatterns};
pub use session::PROTOCOL_VERSION;
pub use spelling::sanitize;
pub use trace::TraceContext;

/// Server under which the tools of a basic peer (one that said no `hello`) stand.
pub const BASIC_SERVER: &str = "host";

/// Server that answers what code asks about its tools, such as `mcp.search`. The name is reserved.
pub const INTROSPECTION_SERVER: &str = "mcp";

/// Tools of [`INTROSPECTION_SERVER`].
pub const INTROSPECTION_TOOLS: [&str; 4] = ["describe", "interface", "interfaces", "search"];

/// Server under which the functions stand that run inside the sandbox. The name is reserved.
pub const LOCAL_SERVER: &str = "local";

impl From<wire::message::Payload> for wire::Message {
    /// Wraps a payload in a message without sequence numbers.
    fn from(payload: wire::message::Payload) -> Self {
        Self { payload: Some(payload), sequence: 0, acknowledged: 0 }
    }
}
