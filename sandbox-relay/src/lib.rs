//! A relay that runs model-written JavaScript, one V8 process per execution, and calls a host's tools for it.
//!
//! The map, in the order of one `execute` in and one `tool_call` out and back:
//! 0. [`serve`] and [`config`]: the life of the server, and its settings; `lifecycle`: its phases and sessions
//! 1. `server`: from TCP and [`tls`] to a WebSocket; `places`: how many connections there may be;
//!    `peer`: the stream of one
//! 2. [`auth`]: the token, verified before the WebSocket begins; `subject`: limits that a subject's connections share
//! 3. `connection`: messages in and out; `meter`: counts what a peer sends; `heard`: when it last did; `outbound`: the
//!    queue to it, and what is kept until it is acknowledged; `resume`: finds the session that a new connection goes on with
//! 4. `session`: messages, and what is open for this host; `build`: the build's name for `welcome`; `session::sink`: its end of one execution; `store`: its
//!    key-value store
//! 5. `engine`: leases workers; `admission`: who runs when; `fairness`: who uses the processors
//! 6. `execution`: one run from outside; `execution::run`: what it has used; `execution::clock`: its time;
//!    `execution::link`: the worker's socket
//! 7. `sandbox`: the worker processes, and what happens in them
//!
//! [`metrics`]: numbers for operators; `scrape`: the listener that answers with them.
//!
//! [`eval`], [`token`], [`healthcheck`] and [`self_test`] are the other subcommands.
//!
//! The relay itself never runs or parses JavaScript.
#![warn(missing_docs)]

mod admission;
pub mod auth;
mod build;
pub mod config;
mod connection;
mod engine;
pub mod eval;
mod execution;
mod fairness;
#[cfg(feature = "fuzzing")]
pub mod fuzz;
pub mod healthcheck;
mod heard;
mod lifecycle;
mod meter;
pub mod metrics;
mod outbound;
mod peer;
mod places;
mod resume;
mod sandbox;
mod scrape;
pub mod serve;
mod server;
mod session;
mod store;
mod subject;
pub mod tls;
pub mod token;

pub use sandbox::process::{ProcessArgs, run_worker, run_zygote};
pub use sandbox::self_test::{Finding, self_test};
