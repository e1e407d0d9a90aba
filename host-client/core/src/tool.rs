//! What a tool is: its description, how its calls are treated, its schemas, and the storage of all of them.

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
