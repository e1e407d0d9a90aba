//! State of one conversation of an application, kept whichever connections its executions use.

use std::sync::OnceLock;

use crate::rules::approval::Grants;

/// The approvals that hold for a whole session, and the program that code runs for. A client that connects again for
/// the same conversation keeps them.
#[derive(Debug, Default)]
pub(crate) struct Conversation {
    /// The approvals that a person gave for the whole session.
    pub(crate) grants: Grants,
    /// The name of the program on whose behalf code runs, as that program says; empty: the application itself.
    pub(crate) caller: OnceLock<String>,
}

impl Conversation {
    /// Returns another conversation of the same program, without approvals.
    pub(crate) fn another(&self) -> Self {
        Self { grants: Grants::default(), caller: self.caller.clone() }
    }
}
