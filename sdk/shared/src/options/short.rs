//! Options that a text stands for, such as a path in the place of all settings of a file.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Options that are given as a text or as an object.
#[derive(Debug, Clone)]
pub struct Short<T>(pub T);

impl<'de, T: DeserializeOwned + From<String>> Deserialize<'de> for Short<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(Self(text.into())),
            // Its error names the member that is wrong, which that of an untagged enum does not.
            object => T::deserialize(object).map(Self).map_err(D::Error::custom),
        }
    }
}
