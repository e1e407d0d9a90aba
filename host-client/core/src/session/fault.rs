//! The reason why a session ends.

use super::state::SessionLoss;

/// The reason why a session ends: the relay ended it, broke the protocol, or cannot be reached any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub(crate) struct SessionFault {
    pub(super) reason: String,
    /// The reason why it cannot be resumed; `None`: there is another reason for its end.
    pub(super) loss: Option<SessionLoss>,
}

impl SessionFault {
    pub(crate) fn new(reason: String) -> Self {
        Self { reason, loss: None }
    }

    pub(super) fn lost(loss: SessionLoss, reason: String) -> Self {
        Self { reason, loss: Some(loss) }
    }
}
