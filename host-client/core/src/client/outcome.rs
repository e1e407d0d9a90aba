//! The outcome of an execution that succeeded.

use bytes::Bytes;
use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::outcome::{OutputItem, Usage, Warning};

/// The outcome of an execution that succeeded.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The returned value, as UTF-8 JSON.
    pub json: Bytes,
    /// The output that the code printed.
    pub output: Vec<OutputItem>,
    /// The warnings of the relay.
    pub warnings: Vec<Warning>,
    /// The resources that the execution used.
    pub usage: Usage,
}

impl Outcome {
    /// Reads the returned value as a `T`.
    ///
    /// # Errors
    /// [`Error::Result`]: it is not a `T`.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Error> {
        Ok(serde_json::from_slice(&self.json)?)
    }

    /// Reads the returned value as JSON of any type.
    ///
    /// # Errors
    /// [`Error::Result`]: the relay sent a value that is not JSON.
    pub fn value(&self) -> Result<serde_json::Value, Error> {
        self.parse()
    }
}
