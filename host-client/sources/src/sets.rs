//! Tool sets that come with this crate, each off until it is mounted. What they may reach is enforced, not declared.
//!
//! - [`workspace`]: looking at, searching and patching one folder
//! - [`http`]: fetching from hosts that were listed
//! - [`command`]: one named program, without a shell

pub mod command;
pub mod http;
pub mod workspace;
