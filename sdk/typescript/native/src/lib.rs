//! The native library of the npm package `sandbox-relay`: converts between JavaScript and `relay-sdk`. What it offers is
//! declared in `src/native.ts`; nobody else uses it.
//!
//! JSON passes as text. Work of the runtime is a promise, whose error is JSON, too.
//!
//! - [`host`]: a started host; [`execution`]: code that runs; [`runs`]: durable runs
//! - [`conversation`]: `execute_code` for agent loops
//! - [`ask`]: questions to JavaScript; [`functions`]: its functions, as the traits of `relay-sdk`
//! - [`task`]: work that JavaScript waits for; [`json`]: JSON in and out

#![expect(missing_debug_implementations, reason = "these types are for JavaScript alone")]

pub mod ask;
pub mod conversation;
pub mod execution;
pub mod functions;
pub mod host;
pub mod json;
pub mod runs;
pub mod task;
