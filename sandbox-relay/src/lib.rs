//! A relay that runs model-written JavaScript, one V8 process per execution, and calls a host's tools for it.
//!
//! The map, in the order of one `execute` in and one `tool_call` out and back:
//! 0. [`serve`] and [`config`]: the life of the server, its settings; `server`: from TCP and `tls` to a WebSocket
//! 1. `connection`: frames in and out; `meter`: what a peer may send; `outbound`: what waits to be written
//! 2. [`auth`]: the token, checked before the WebSocket begins; `subject`: what its connections share
//! 3. `session`: messages, and what is open for this host; `session::sink`: its end of one execution
//!    `store`: what its executions leave for those after them
//! 4. `admission`: who runs when; `fairness`: who burns CPU while others want it
//! 5. `execution`: one run from outside; `execution::run`: what it has used; `execution::link`: the worker's socket
//! 6. `sandbox`: the worker processes, and what happens in them
//!
//! [`eval`], [`token`], [`healthcheck`] and [`self_test`] are the other subcommands.
//!
//! The relay itself never runs or parses JavaScript.

mod admission;
pub mod auth;
pub mod config;
mod connection;
pub mod eval;
mod execution;
mod fairness;
#[cfg(feature = "fuzzing")]
pub mod fuzz;
pub mod healthcheck;
mod meter;
mod outbound;
mod sandbox;
pub mod serve;
mod server;
mod session;
mod store;
mod subject;
pub mod tls;
pub mod token;

pub use sandbox::process::{ProcessArgs, run_worker, run_zygote};
pub use sandbox::self_test::{Finding, self_test};

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore, watch};

use admission::Admission;
use auth::Verifier;
use config::LimitSettings;
use fairness::Fairness;
use sandbox::pool::Pool;
use subject::Subjects;

/// What every connection of a server shares.
struct App {
    verifier: Verifier,
    admission: Admission,
    pool: Pool,
    /// Workers whose V8 compiles to machine code, where the relay allows them.
    jit_pool: Option<Pool>,
    fairness: Fairness,
    subjects: Subjects,
    origins: Vec<String>,
    limits: LimitSettings,
    session_executions: usize,
    /// How many bytes of source and input the executions of all sessions may hold, running or waiting.
    source_bytes: Arc<Semaphore>,
    handshake_timeout: Duration,
    heartbeat: Duration,
    idle: Option<Duration>,
    phase: watch::Sender<Phase>,
    sessions: AtomicUsize,
    session_ended: Notify,
    next_session: AtomicU64,
}

/// Where in its life the server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It takes connections and executions.
    Serving,
    /// It takes no more; what runs may end.
    Draining,
    /// Everything ends now.
    Closing,
}
