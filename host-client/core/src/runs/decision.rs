//! Decisions and instructions that one process leaves in the journal for the one that holds a run.

use serde::{Deserialize, Serialize};

use crate::durable::entry::Verdict;
use crate::hash::Hash;

/// The decision on a call, as another process leaves it in the journal.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Decision {
    pub(super) verdict: Verdict,
    pub(super) by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    /// The hash of the arguments that the decision is about.
    pub(super) arguments_sha256: Hash,
}

/// An instruction as the journal has it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum InstructionJson {
    /// Decides on a call.
    Decide(Decision),
    /// Cancels the run.
    Cancel { cancel: bool },
}

impl InstructionJson {
    pub(super) fn parse(json: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(json)
    }

    pub(super) fn to_json(&self) -> String {
        // Texts and a truth value: this cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}
