//! Counts how often each tool was used: where not all tools can be shown, those in use are.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most tools that are counted.
const MAX_TOOLS: usize = 1_000;

/// The numbers of results by the tools' full names.
#[derive(Default)]
pub(super) struct Uses(Mutex<HashMap<String, u64>>);

impl Uses {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, u64>> {
        // A poisoned lock is usable: the code that changes the numbers does not panic midway.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a result of a tool. Does nothing for a further tool if there are too many.
    pub(super) fn count(&self, name: &str) {
        let mut tools = self.lock();
        if let Some(number) = tools.get_mut(name) {
            *number = number.saturating_add(1);
        } else if tools.len() < MAX_TOOLS {
            tools.insert(name.to_owned(), 1);
        }
    }

    /// Returns the number of results of a tool.
    pub(super) fn of(&self, name: &str) -> u64 {
        self.lock().get(name).copied().unwrap_or_default()
    }
}
