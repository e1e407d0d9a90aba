//! What came of an execution that succeeded.

use bytes::Bytes;
use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::outcome::{OutputItem, Usage, Warning};

/// What came of an execution that succeeded.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The returned value, as UTF-8 JSON.
    pub json: Bytes,
    /// What the code printed.
    pub output: Vec<OutputItem>,
    /// What was noticed.
    pub warnings: Vec<Warning>,
    /// What was used.
    pub usage: Usage,
}

impl Outcome {
    /// The returned value.
    ///
    /// # Errors
    /// It is not a `T`.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Error> {
        Ok(serde_json::from_slice(&self.json)?)
    }

    /// The returned value, whatever it is.
    ///
    /// # Errors
    /// The relay sent what is no JSON.
    pub fn value(&self) -> Result<serde_json::Value, Error> {
        self.parse()
    }
}
