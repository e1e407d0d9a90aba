//! The native part of the Python package `sandbox-relay`: hosts, executions and runs of `relay-sdk` as objects of Python.
//!
//! No thread of the runtime ever takes the interpreter's lock. What it has for Python, it puts into a [`mailbox`], and wakes
//! the event loop by a socket; the loop's own thread takes it out. A busy interpreter delays its own functions alone, and an
//! interpreter that ends is called by nobody.
//!
//! - [`mailbox`]: messages for one event loop; [`function`]: functions of Python that the host calls
//! - [`operation`]: what Python waits for; [`error`]: the exception that carries an error as JSON
//! - [`host`]: a host; [`execution`]: code that runs; [`durable`]: runs; [`agent`]: tools and programs for models

mod agent;
mod durable;
mod error;
mod execution;
mod function;
mod host;
mod mailbox;
mod operation;

use pyo3::prelude::*;

#[pymodule(gil_used = true)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("NativeError", module.py().get_type::<error::NativeError>())?;
    module.add("VERSION", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<mailbox::Mailbox>()?;
    module.add_class::<operation::Operation>()?;
    module.add_class::<function::Context>()?;
    module.add_class::<host::Host>()?;
    module.add_class::<execution::Execution>()?;
    module.add_class::<durable::Runs>()?;
    module.add_class::<durable::Run>()?;
    module.add_class::<agent::Conversation>()?;
    module.add_class::<agent::Programmatic>()?;
    module.add_function(wrap_pyfunction!(host::start, module)?)
}
