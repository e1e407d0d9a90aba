//! JSON between the package's TypeScript and `relay-sdk`.

use relay_sdk::SdkError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

/// Reads JSON that this package's TypeScript wrote of what the application gave it.
pub(crate) fn parsed<T: DeserializeOwned>(json: &str, what: &str) -> Result<T, SdkError> {
    serde_json::from_str(json).map_err(|error| SdkError::option(format!("{what} cannot be used: {error}")))
}

/// Writes JSON for this package's TypeScript.
pub(crate) fn written(value: &impl Serialize) -> Result<String, SdkError> {
    serde_json::to_string(value).map_err(|error| SdkError::internal(error.to_string()))
}

/// Writes a value as raw JSON.
///
/// # Errors
/// It is not JSON.
pub(crate) fn raw(json: &str) -> Result<&RawValue, SdkError> {
    serde_json::from_str(json).map_err(|_| SdkError::internal("the relay's result is not JSON".into()))
}
