//! The relay through its public doors: the program, its socket, its standard streams.

mod contract;
mod eval;
mod globals;
mod processes;
mod programs;
mod support;
mod wire;
