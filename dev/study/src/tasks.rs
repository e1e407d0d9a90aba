//! The twenty tasks, each with a way of doing it tool by tool and one by programs.

mod files;
mod git;
mod services;

use crate::task::Task;

/// All of them, in the order of the table.
pub(crate) fn all() -> Vec<Task> {
    git::TASKS.into_iter().chain(files::TASKS).chain(services::TASKS).collect()
}
