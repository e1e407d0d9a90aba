//! Tools: the description of a tool, its manifest, its schemas, and the registry of all tools.

pub mod context;
pub mod failure;
pub mod manifest;
pub mod registry;
pub mod schema;
pub mod spec;
pub mod validate;

pub use manifest::{DEFAULT_RESULT_BYTES, DEFAULT_TIMEOUT, Effect, Manifest, ManifestChange, Mode, Overflow};
pub use registry::InvalidTool;
pub(crate) use registry::{Registered, Registry, ToolDigest};
pub use spec::{CallContext, CallFuture, Tool, ToolError, ToolSpec};
