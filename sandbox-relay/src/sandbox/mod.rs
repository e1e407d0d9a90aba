//! Where code runs: one fresh, locked process per execution.
//!
//! In the order of an execution:
//! - [`pool`]: the relay's stock of workers, forked and locked ahead; their end
//! - [`spawn`]: the two ways to make one, behind one seam: by forking a warm process, or by exec
//! - [`process`]: the entry points of those processes
//! - [`channel`]: the frames on the socket between relay and worker
//! - `worker`: the life of a worker: lock, read the script, report; `program`: its form (the crate `relay-script`),
//!   running it
//! - `jail`: the lock; [`self_test`]: whether it holds here
//! - `isolate`: V8 made ready ahead
//! - `globals`: what JavaScript may see: `console` and its `table`, `timers`, `servers`, `introspection`, `storage`,
//!   and the values that they `make`; `clock` and `random`: how it sees the time and chance
//! - `bridge`: `mcp.call`; `local`: the host's functions that run beside the code
//! - `hints`: what to do about an error
//! - `value`, `inspect`, `stack`: values as JSON, values and stacks as text
//! - `sys`: system calls; `pages`: what a fork copies

mod bridge;
mod calls;
pub(crate) mod channel;
mod clock;
mod console;
mod ending;
mod globals;
mod hints;
mod inspect;
mod introspection;
mod isolate;
mod jail;
mod leftovers;
mod link;
mod local;
mod make;
mod output;
mod pages;
pub(crate) mod pool;
pub(crate) mod process;
mod program;
mod promise;
mod random;
pub(crate) mod self_test;
mod servers;
pub(crate) mod spawn;
mod stack;
mod storage;
mod sys;
mod table;
mod timers;
mod value;
mod worker;
