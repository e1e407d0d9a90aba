//! Bindings: what code has beside `mcp` if its host asks for it.

mod console;
mod endings;
mod hint_cases;
mod hints;
mod local;
mod repeatable;
mod servers;
mod store;
mod timers;

use host_client::{ExecuteRequest, ExecutionError};
use serde_json::Value;

use crate::support::Fixture;

/// The value of code with these bindings.
async fn value(fixture: &Fixture, bindings: &[&str], code: &str) -> Value {
    let outcome = fixture.run_request(ExecuteRequest::new(code).bindings(bindings.iter().copied())).await;
    outcome.unwrap_or_else(|error| panic!("{code}: {error}")).value().unwrap()
}

/// The error of code with these bindings.
async fn error(fixture: &Fixture, bindings: &[&str], code: &str) -> ExecutionError {
    fixture.request_error(ExecuteRequest::new(code).bindings(bindings.iter().copied())).await
}
