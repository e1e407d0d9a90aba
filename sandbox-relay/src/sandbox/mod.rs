//! Runs code: one fresh, locked process for each execution.
//!
//! In the order of an execution:
//! - [`pool`]: the relay's pools of workers, forked and locked ahead; their end
//! - [`spawn`]: makes processes, by forking a warm one or by exec; [`process`]: their entry points
//! - [`channel`]: frames on the socket between relay and worker; `link`: the worker's end of it
//! - `worker`: life of a worker; `ending`: its last report, also after a crash
//! - `jail`: the lock; [`self_test`]: checks that it holds on this machine
//! - `isolate`: prepares V8; `program`: runs the module that the crate `relay-script` makes; `thrown`: reports what it threw
//! - `record`: what is recorded of a durable execution; `turns`: the order in which events reach its code
//! - `globals`: the globals of the script: `console` with its `table` and `numerals`, `timers`, `servers`, `introspection`, `storage`;
//!   `make`: makes their values; `output`: writes what they print; `clock` and `random`: time and chance
//! - `tools`: their names; `bridge`: `mcp.call`; `calls`: the queue of calls; `promise`: their promises; `local`: the host's functions that
//!   run here
//! - `notes`: warnings that come up on the way; `leftovers`: about what the code left behind; `hints`: advice about
//!   errors; `results`: results of tools, for hints
//! - `value`, `inspect`, `stack`: values as JSON, values and stacks as text
//! - `sys`: system calls; `pages`: pages that a fork copies

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
mod notes;
mod numerals;
mod output;
mod pages;
pub(crate) mod pool;
pub(crate) mod process;
mod program;
mod promise;
mod random;
mod record;
mod results;
pub(crate) mod self_test;
mod servers;
pub(crate) mod spawn;
mod stack;
mod storage;
mod sys;
mod table;
mod thrown;
mod timers;
mod tools;
mod turns;
mod value;
mod worker;
