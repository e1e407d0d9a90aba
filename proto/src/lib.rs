//! The wire between a host and a sandbox relay, shared by both ends.
//!
//! In the order in which a message is built or read:
//! - [`wire`]: the protobuf messages, generated from `relay.proto`
//! - [`frame`]: bytes to message and back, with a cap for each kind that is checked before anything is allocated
//! - [`id`]: identifiers and tool names as types
//! - [`code`]: the one list of error codes
//! - [`limit`]: the one list of limits, their defaults and maxima
//! - [`pattern`]: patterns of tool names
//! - [`spelling`]: names as JavaScript spells them
//! - [`trace`]: which trace a call belongs to
//!
//! There is no V8 here, no server and no client.
#![warn(missing_docs)]

pub mod code;
pub mod frame;
pub mod id;
pub mod limit;
pub mod pattern;
pub mod spelling;
pub mod trace;

/// Protobuf messages, generated from `relay.proto` and committed.
///
/// Fields of type [`bytes::Bytes`] hold UTF-8 JSON. Strings and numbers that are absent on the wire read as empty and 0.
pub mod wire {
    // `include!` keeps rustfmt away: the file stays exactly as it was generated.
    include!("generated/relay.rs");
}

pub use code::{Code, ErrorCode};
pub use id::{CallId, ExecutionId, ToolName};
pub use limit::{LimitName, LimitOverrides, Limits};
pub use pattern::ToolPatterns;
pub use spelling::sanitize;
pub use trace::TraceContext;

/// The version that `hello` and `welcome` carry.
pub const PROTOCOL_VERSION: u32 = 1;

/// The server under which the tools of a basic peer stand.
pub const BASIC_SERVER: &str = "host";

/// The server that answers what code asks about its tools, such as `mcp.search`. No other server can have its name.
pub const INTROSPECTION_SERVER: &str = "mcp";

/// What that server answers.
pub const INTROSPECTION_TOOLS: [&str; 4] = ["describe", "interface", "interfaces", "search"];

/// The server under which functions stand that run inside the sandbox. No other server can have its name.
pub const LOCAL_SERVER: &str = "local";

impl From<wire::message::Payload> for wire::Message {
    fn from(payload: wire::message::Payload) -> Self {
        Self { payload: Some(payload), sequence: 0, acknowledged: 0 }
    }
}
