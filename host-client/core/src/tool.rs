//! Tools: the description of a tool, its manifest, its schemas, and the registry of all tools.

pub mod context;
pub mod failure;
mod left_out;
pub mod manifest;
mod names;
mod nullable;
mod patterns;
pub mod registry;
pub mod schema;
pub mod spec;
pub mod validate;

pub use left_out::InvalidTool;
pub use manifest::{DEFAULT_RESULT_BYTES, DEFAULT_TIMEOUT, Effect, Manifest, ManifestChange, Mode, Overflow};
pub(crate) use registry::{Registered, Registry};
pub use spec::{CallContext, CallFuture, Tool, ToolError, ToolSpec};
