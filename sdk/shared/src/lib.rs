//! What the libraries for Python and TypeScript share, so that each of them only converts values: a host made of options,
//! with tools, approvers, tokens and models that are functions of another language.
//!
//! - [`options`]: the settings of a host, as JSON; [`relay`]: the relay that it uses
//! - [`foreign`]: the functions of the other language, as traits; [`tool`]: those that are tools
//! - [`host`]: a started host; [`request`]: what code is run with; [`execution`]: code that runs
//! - [`durable`]: runs that outlive the process; [`agent`]: `execute_code` for agent loops; [`programmatic`]: programs of
//!   a model
//! - [`shape`]: events, outcomes and reports as JSON with stable names; [`error`]: all errors, likewise
//! - [`runtime`]: the one Tokio runtime of the process
//!
//! Names in JSON are in snake case, times in milliseconds (`_ms`), sizes in bytes. The library for TypeScript makes camel
//! case of them itself.

#![warn(missing_docs)]

pub mod agent;
pub mod durable;
pub mod error;
pub mod execution;
pub mod foreign;
pub mod host;
pub mod options;
pub mod programmatic;
pub mod relay;
pub mod request;
pub mod runtime;
pub mod shape;
pub mod tool;

pub use agent::Conversation;
pub use durable::{DurableRun, DurableRuns};
pub use error::{ErrorKind, SdkError};
pub use execution::{Events, Execution, Outcome};
pub use foreign::{
    Answer, ForeignApprover, ForeignCall, ForeignContext, ForeignFault, ForeignModel, ForeignTokens, ModelFault,
    ModelFaultKind, Question, Reply, ToolFault,
};
pub use host::{Functions, SdkHost};
pub use options::HostOptions;
pub use programmatic::{Answered, ProgrammaticOptions};
pub use request::RequestOptions;
pub use tool::ToolDescription;
