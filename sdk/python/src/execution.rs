//! Code that runs, as an object of Python.

use std::sync::Arc;

use pyo3::prelude::*;
use relay_sdk::execution::Ended;
use relay_sdk::{Events, SdkError};

use crate::host::written;
use crate::mailbox::Mailbox;
use crate::operation::{self, Operation, Value};

/// The most events that come at once.
const EVENTS_AT_ONCE: usize = 64;

/// Code that runs. When the last reference is gone, it is cancelled.
#[pyclass(frozen, module = "sandbox_relay._native")]
pub(crate) struct Execution(pub(crate) Arc<relay_sdk::Execution>);

#[pymethods]
impl Execution {
    /// Waits for the outcome: its value and the rest, both as JSON.
    fn outcome(&self, mailbox: &Mailbox) -> PyResult<Operation> {
        let execution = Arc::clone(&self.0);
        operation::start(mailbox, async move { ended(execution.outcome().await) })
    }

    /// Waits for the next events, as a JSON array; empty: there are no more.
    fn events(&self, mailbox: &Mailbox) -> PyResult<Operation> {
        let events = self.0.events().clone();
        operation::start(mailbox, next(events))
    }

    fn cancel(&self) {
        self.0.cancel();
    }
}

/// Returns the next events.
pub(crate) async fn next(events: Events) -> Result<Value, SdkError> {
    Ok(Value::Text(written(&events.next(EVENTS_AT_ONCE).await)?))
}

/// Returns an outcome.
pub(crate) fn ended(ended: Ended) -> Result<Value, SdkError> {
    let outcome = ended?;
    Ok(Value::Texts(outcome.json.clone(), written(&*outcome)?))
}
