//! Ready sets of tools. None is active until it is mounted, and each enforces its own limits of access.
//!
//! - [`workspace`]: list, search, read and patch the files of one folder
//! - [`http`]: fetch from listed hosts
//! - [`command`]: start one program, without a shell

pub mod command;
pub mod http;
pub mod workspace;
