//! The tools of an application: notes in memory.

use std::sync::Mutex;

use host_client::ToolError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Notes, shared by all calls.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    notes: Mutex<Vec<Note>>,
}

/// One note.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
pub(crate) struct Note {
    title: String,
    text: String,
}

#[host_client::tools(server = "notes")]
impl Notes {
    /// Keeps a note. Returns how many there are.
    #[tool(effect = "mutating", timeout_ms = 5000)]
    async fn keep(&self, args: Note) -> Result<usize, ToolError> {
        if args.title.is_empty() {
            return Err(ToolError::invalid_arguments("a note has a title"));
        }
        let mut notes = self.notes.lock().map_err(|_poisoned| "the notes are lost")?;
        notes.push(args);
        Ok(notes.len())
    }

    /// Finds the notes whose text holds some words.
    #[tool(effect = "read_only", timeout_ms = 5000)]
    async fn search(
        &self,
        /// What the text has to hold
        words: String,
        /// The most notes that are returned; without it, all are
        limit: Option<usize>,
    ) -> Result<Vec<Note>, ToolError> {
        let notes = self.notes.lock().map_err(|_poisoned| "the notes are lost")?;
        let found = notes.iter().filter(|note| note.text.contains(&words));
        Ok(found.take(limit.unwrap_or(usize::MAX)).cloned().collect())
    }
}
