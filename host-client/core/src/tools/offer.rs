//! Selects the tools that are offered to models and code: those that the policy denies are left out, or say why.

use std::fmt;
use std::sync::Arc;

use serde_json::json;

use crate::tool::Registered;

/// Returns the reason why a tool cannot be called; `None`: it can.
type Denial = dyn Fn(&Registered) -> Option<String> + Send + Sync;

/// A selection of tools. The default offers all.
#[derive(Clone, Default)]
pub(crate) struct Offer {
    denial: Option<Arc<Denial>>,
    /// `true`: tools that cannot be called are shown with the reason.
    shows_denied: bool,
}

impl fmt::Debug for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Offer").field("shows_denied", &self.shows_denied).finish_non_exhaustive()
    }
}

impl Offer {
    /// Creates a selection without the tools for which `denial` returns a reason; with `shows_denied`, they are shown
    /// with that reason and without types.
    pub(crate) fn new(
        shows_denied: bool,
        denial: impl Fn(&Registered) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        Self { denial: Some(Arc::new(denial)), shows_denied }
    }

    /// Returns the reason why a tool cannot be called; `None`: it can.
    pub(super) fn denial(&self, tool: &Registered) -> Option<String> {
        self.denial.as_ref()?(tool)
    }

    /// Returns a tool as it is offered; `None`: it is not.
    pub(super) fn of(&self, tool: &Arc<Registered>) -> Option<Arc<Registered>> {
        let Some(reason) = self.denial(tool) else { return Some(Arc::clone(tool)) };
        if !self.shows_denied {
            return None;
        }
        let mut denied = tool.as_ref().clone();
        denied.spec.description = format!("Not allowed: {reason}");
        denied.spec.input_schema = json!({"type": "object"});
        denied.spec.output_schema = None;
        denied.declared = Arc::default();
        Some(Arc::new(denied))
    }
}
