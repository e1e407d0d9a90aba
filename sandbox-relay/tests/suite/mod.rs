//! Tests what the relay promises, by subcommand and by promise of the contract.

mod approvals;
mod bindings;
mod checks;
mod completions;
mod contract;
mod credit;
mod drain;
mod durable;
mod eval;
mod failures;
mod generated;
mod globals;
mod metrics;
mod processes;
mod programs;
mod resume;
mod settings;
mod typescript;
mod values;
mod versions;
mod wire;
