//! What stands for redactions without the feature `redact`: a log that asks for any is refused.

use std::borrow::Cow;

use serde_json::Value;

use super::AuditError;
use super::redact::Redaction;

/// No redactions.
pub(super) struct Redactions;

impl Redactions {
    /// # Errors
    /// [`AuditError::Redaction`]: something is to be redacted, which this build cannot do.
    pub(super) fn parse(redactions: &[Redaction]) -> Result<Self, AuditError> {
        match redactions.first() {
            None => Ok(Self),
            Some(redaction) => Err(AuditError::Redaction {
                path: redaction.path.clone(),
                reason: "this program was built without the feature `redact` of host-client".into(),
            }),
        }
    }

    pub(super) fn apply_to(&self, _tool: &str) -> bool {
        false
    }

    pub(super) fn redact<'a>(&self, _tool: &str, arguments: &'a Value) -> Cow<'a, Value> {
        Cow::Borrowed(arguments)
    }
}
