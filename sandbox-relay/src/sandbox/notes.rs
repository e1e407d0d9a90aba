//! Warnings that come up while the code runs, for the outcome of the execution.

use std::cell::RefCell;

use super::channel::message;

/// Maximum number of warnings that are kept.
const MAX_NOTES: usize = 8;

thread_local! {
    static NOTES: RefCell<Notes> = const { RefCell::new(Notes { kept: Vec::new(), more: 0 }) };
}

struct Notes {
    kept: Vec<message::Warning>,
    /// Number of warnings over [`MAX_NOTES`].
    more: usize,
}

/// Makes room for the state in this thread. A fork inherits it and need not look for it any more.
pub(super) fn prepare_thread() {
    take();
}

/// Adds a warning, if it is a new one.
pub(super) fn add(code: &str, message: String) {
    NOTES.with_borrow_mut(|Notes { kept, more }| {
        if kept.iter().any(|it| it.message == message) {
        } else if kept.len() < MAX_NOTES {
            kept.push(message::Warning { code: code.into(), message });
        } else {
            *more += 1;
        }
    });
}

/// Takes the warnings, of which the last says how many more there were.
pub(super) fn take() -> Vec<message::Warning> {
    let Notes { mut kept, more } = NOTES.replace(Notes { kept: Vec::new(), more: 0 });
    if more > 0
        && let Some(last) = kept.last_mut()
    {
        last.message.push_str(&format!("; and {more} more warnings like these"));
    }
    kept
}
