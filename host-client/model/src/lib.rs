//! What a model meets: tools that run its code, results that fit, programs written from requests.
//!
//! - [`output`]: results made to fit, with handles to the rest; [`report`]: what a model reads of an outcome
//! - [`agent`]: running code as a tool of any agent loop; [`serve_mcp`]: the same as an MCP server
//! - [`programmatic`]: from a user's request to a result, by a model that writes the code; [`sandbox_execute`]: the same as a
//!   tool of another agent, for the files of a folder
//! - `arguments`: the arguments that models write; `surroundings`: what they are told of the place where code runs
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
