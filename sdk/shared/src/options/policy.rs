//! The rules of a host: a file, the text of one, or JSON with its members.

use std::path::PathBuf;

use host_client::{Error, Policy};
use serde::Deserialize;
use serde_json::Value;

use crate::error::SdkError;

/// The rules, as one of these; a text is a path.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyOptions {
    /// The path of a policy file.
    Path(PathBuf),
    /// The text of a policy file, in TOML.
    Toml(String),
    /// The members of a policy file: `{"rule": [{"tools": ["*"], "decision": "ask"}]}`.
    Rules(Value),
}

impl From<String> for PolicyOptions {
    fn from(path: String) -> Self {
        Self::Path(path.into())
    }
}

impl PolicyOptions {
    /// Makes the policy.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](crate::ErrorKind): it cannot be read, or is no policy.
    pub(crate) fn policy(&self) -> Result<Policy, SdkError> {
        let policy = match self {
            Self::Path(path) => Policy::from_file(path),
            Self::Toml(text) => Policy::parse(text, "the policy"),
            Self::Rules(rules) => Policy::from_json(rules, "the policy"),
        };
        policy.map_err(|error| Error::from(error).into())
    }
}
