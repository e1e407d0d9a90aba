//! The form by which a person decides about a call, as links and the page of a journal have it.

use host_client_core::Approval;
use host_client_core::runs::RunVerdict;
use serde::Deserialize;

/// The maximum length of a reason, in characters. The forms allow as many.
const MAX_REASON: usize = 1_000;

/// The decision on a call.
#[derive(Deserialize)]
pub(crate) struct Decision {
    decision: String,
    #[serde(default)]
    reason: String,
    /// The calls that an approval is for: `call`, `execution` or `session`; forms without the choice leave it out.
    #[serde(default)]
    scope: Option<String>,
}

/// A decision that does not count, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unclear {
    #[error("A reason is for a denial. To approve the call, go back and empty the field; to deny it, press Deny.")]
    Reasoned,
    #[error("A reason has at most {MAX_REASON} characters. Go back and write a shorter one.")]
    TooLong,
    #[error("The answer cannot be read. Open the page again, and answer there.")]
    Unknown,
}

/// Says that a call cannot be approved where it is not shown whole.
pub(crate) const SHORTENED: &str =
    "The call is too long to be shown whole, and cannot be approved here. It still waits.";

impl Decision {
    /// Returns the verdict on one call.
    ///
    /// # Errors
    /// [`Unclear`]: nothing is decided.
    pub(crate) fn verdict(&self) -> Result<RunVerdict, Unclear> {
        match self.approval()? {
            Approval::Once => Ok(RunVerdict::Approve),
            Approval::Deny { reason } => Ok(RunVerdict::Deny { reason }),
            // Its form does not offer more than one call.
            Approval::Execution | Approval::Session => Err(Unclear::Unknown),
        }
    }

    /// Returns the decision, with the calls that an approval is for. A denial is for one call, whatever the choice is.
    ///
    /// # Errors
    /// [`Unclear`]: nothing is decided.
    pub(crate) fn approval(&self) -> Result<Approval, Unclear> {
        let reason = self.reason.trim();
        if reason.chars().count() > MAX_REASON {
            return Err(Unclear::TooLong);
        }
        match self.decision.as_str() {
            "approve" if !reason.is_empty() => Err(Unclear::Reasoned),
            "approve" => match self.scope.as_deref() {
                None | Some("call") => Ok(Approval::Once),
                Some("execution") => Ok(Approval::Execution),
                Some("session") => Ok(Approval::Session),
                Some(_) => Err(Unclear::Unknown),
            },
            "deny" => Ok(Approval::Deny { reason: (!reason.is_empty()).then(|| reason.to_owned()) }),
            _ => Err(Unclear::Unknown),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_whole_or_refused() {
        let verdict =
            |decision: &str, reason: String| Decision { decision: decision.into(), reason, scope: None }.verdict();
        let long = "東".repeat(MAX_REASON);
        assert_eq!(verdict("deny", format!(" {long}\n")), Ok(RunVerdict::Deny { reason: Some(long.clone()) }));
        assert_eq!(verdict("deny", format!("{long}京")), Err(Unclear::TooLong));
        assert_eq!(verdict("deny", " ".into()), Ok(RunVerdict::Deny { reason: None }));
        assert_eq!(verdict("approve", "yes".into()), Err(Unclear::Reasoned));
        assert_eq!(verdict("approve", String::new()), Ok(RunVerdict::Approve));
        assert_eq!(verdict("Approve", String::new()), Err(Unclear::Unknown));
    }

    #[test]
    fn an_approval_is_for_more_calls_only_where_the_form_offers_it() {
        let made = |decision: &str, scope: &str| Decision {
            decision: decision.into(),
            reason: String::new(),
            scope: Some(scope.into()),
        };
        for (scope, approval) in
            [("call", Approval::Once), ("execution", Approval::Execution), ("session", Approval::Session)]
        {
            assert_eq!(made("approve", scope).approval(), Ok(approval));
            assert_eq!(made("deny", scope).approval(), Ok(Approval::deny()));
        }
        for unknown in ["", "Session", "everything"] {
            assert_eq!(made("approve", unknown).approval(), Err(Unclear::Unknown));
        }
        assert_eq!(made("approve", "call").verdict(), Ok(RunVerdict::Approve));
        for wider in ["execution", "session"] {
            assert_eq!(made("approve", wider).verdict(), Err(Unclear::Unknown));
        }
    }
}
