//! The exception that carries an error to the Python layer, which makes one of its own classes of it.

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use relay_sdk::SdkError;

create_exception!(sandbox_relay._native, NativeError, PyException, "An error, as JSON.");

/// Returns an error as JSON.
pub(crate) fn json(error: &SdkError) -> String {
    // Texts and numbers alone; an error without its fields would still be one.
    serde_json::to_string(error).unwrap_or_default()
}

/// Makes the exception of an error.
pub(crate) fn raise(error: SdkError) -> PyErr {
    NativeError::new_err(json(&error))
}
