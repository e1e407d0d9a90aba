//! What Python waits for: a future of the runtime, whose result comes as a message.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::IntoPyObjectExt as _;
use pyo3::prelude::*;
use pyo3::types::PyAny;
use relay_sdk::SdkError;
use relay_sdk::runtime::{self, Guard};

use crate::durable::Run;
use crate::error::raise;
use crate::host::Host;
use crate::mailbox::{Mailbox, Message};

/// The result of an operation.
pub(crate) enum Value {
    /// Nothing.
    Nothing,
    /// A text.
    Text(String),
    /// Two texts, such as a value and what belongs to it.
    Texts(String, String),
    /// A host that was started.
    Host(Host),
    /// A run that goes on.
    Run(Run),
    /// Runs that go on, and a text on the others.
    Runs(Vec<Run>, String),
}

impl Value {
    /// Makes the object of Python.
    pub(crate) fn object(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        match self {
            Self::Nothing => Ok(py.None().into_bound(py)),
            Self::Text(text) => text.into_bound_py_any(py),
            Self::Texts(one, other) => (one, other).into_bound_py_any(py),
            Self::Host(host) => host.into_bound_py_any(py),
            Self::Run(run) => run.into_bound_py_any(py),
            Self::Runs(runs, others) => {
                let runs = runs.into_iter().map(|run| Py::new(py, run)).collect::<PyResult<Vec<_>>>()?;
                (runs, others).into_bound_py_any(py)
            }
        }
    }
}

/// A future that Python waits for. When this is cancelled or collected, the future is dropped.
#[pyclass(frozen, module = "sandbox_relay._native")]
pub(crate) struct Operation {
    /// The number that the message with the result has.
    #[pyo3(get)]
    id: u64,
    guard: Mutex<Option<Guard>>,
}

#[pymethods]
impl Operation {
    /// Drops the future. No message comes, unless it is there already.
    fn cancel(&self) {
        self.guard.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// Starts a future on the runtime, whose result goes to the mailbox.
pub(crate) fn start(
    mailbox: &Mailbox,
    future: impl Future<Output = Result<Value, SdkError>> + Send + 'static,
) -> PyResult<Operation> {
    let (shared, operation) = (Arc::clone(&mailbox.0), mailbox.0.number());
    let done = move |result| shared.post(Message::Ended { operation, result });
    let guard = runtime::spawn(future, done).map_err(raise)?;
    Ok(Operation { id: operation, guard: Mutex::new(Some(guard)) })
}
