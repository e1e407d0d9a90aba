//! The replacement of `redactions` without the feature `redact`: a log that is configured with redactions is refused.

use std::borrow::Cow;

use serde_json::Value;

use super::AuditError;
use super::redact::Redaction;

/// The redactions of a log: always none.
pub(super) struct Redactions;

impl Redactions {
    /// Accepts a configuration without redactions.
    ///
    /// # Errors
    /// [`AuditError::Redaction`]: there is a redaction, which this build does not support.
    pub(super) fn parse(redactions: &[Redaction]) -> Result<Self, AuditError> {
        match redactions.first() {
            None => Ok(Self),
            Some(redaction) => Err(AuditError::Redaction {
                path: redaction.path.clone(),
                reason: "this program was built without the feature `redact` of host-client".into(),
            }),
        }
    }

    /// Returns `true`: there are no redactions.
    pub(super) fn are_none(&self) -> bool {
        true
    }

    /// Returns `false`: no redaction applies to any tool.
    pub(super) fn apply_to(&self, _tool: &str) -> bool {
        false
    }

    /// Returns the arguments unchanged.
    pub(super) fn redact<'a>(&self, _tool: &str, arguments: &'a Value) -> Cow<'a, Value> {
        Cow::Borrowed(arguments)
    }
}
