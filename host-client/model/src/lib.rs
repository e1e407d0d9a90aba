//! Code execution for models: tools that run a model's code, results that fit into its context, programs written from
//! requests.
//!
//! Applications name the crate `host-client`, which re-exports all of this.
//! - [`output`]: shortens results, and keeps the whole under a handle; `report`: formats an outcome for a model
//! - [`agent`]: `execute_code` as a tool of any agent loop; `serve_mcp`: the same as an MCP server
//! - [`programmatic`]: answers a user's request with a program that a model writes; `sandbox_execute`: the same as a
//!   tool of another agent, for the files of a folder
//! - `arguments`: the arguments of the tools; `surroundings`: the description of the place where code runs
#![warn(missing_docs)]

pub mod agent;
mod arguments;
pub mod output;
pub mod programmatic;
mod report;
#[cfg(feature = "sandbox-execute")]
pub mod sandbox_execute;
#[cfg(feature = "serve-mcp")]
pub mod serve_mcp;
mod surroundings;

pub use agent::{Definition, ExecuteCode, Report};
pub use output::{Attachment, OutputConfig, OutputStore, Shown};
pub use programmatic::{Programmatic, ProgrammaticAnswer, ProgrammaticRequest};
#[cfg(feature = "sandbox-execute")]
pub use sandbox_execute::SandboxExecute;
