//! Ready tool sets, each off until it is mounted.

pub mod command;
pub mod workspace;
