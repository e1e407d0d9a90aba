//! Where code runs: one fresh, locked process per execution.
//!
//! In the order of an execution:
//! - [`pool`]: the relay's stock of workers, forked and locked ahead; their end
//! - [`spawn`]: the two ways to make one, behind one seam: by forking a warm process, or by exec
//! - [`process`]: the entry points of those processes
//! - [`channel`]: the frames on the socket between relay and worker
//! - `worker`: the life of a worker: lock, read the script, find its form (the crate `relay-script`), run it, report
//! - `jail`: the lock; [`self_test`]: whether it holds here
//! - `isolate`: V8 made ready ahead
//! - `globals`: what JavaScript may see
//! - `bridge`: `mcp.call`
//! - `value`, `inspect`, `stack`: values as JSON, values and stacks as text
//! - `sys`: system calls

mod bridge;
pub(crate) mod channel;
mod globals;
mod inspect;
mod isolate;
mod jail;
pub(crate) mod pool;
pub(crate) mod process;
pub(crate) mod self_test;
pub(crate) mod spawn;
mod stack;
mod sys;
mod value;
mod worker;
