//! Tools that a source offered and that are not registered, each with the reason, so that nothing vanishes in silence.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// The most tools of one server whose reasons are kept.
const MAX_TOOLS: usize = 2_000;
/// The most bytes of a name, and of a reason, that are kept. Servers and documents write both.
const MAX_TEXT_BYTES: usize = 500;
/// The most bytes of a note about a server.
const MAX_NOTE_BYTES: usize = 2_000;

/// The error of registering a tool or reserving a server's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the tool {name:?} cannot be registered: {reason}")]
pub struct InvalidTool {
    /// The full name of the tool, or the name of the server.
    pub name: String,
    /// The reason, as a sentence.
    pub reason: String,
}

/// The tools that are left out, by server, and what is said of servers whose tools are not there.
#[derive(Debug, Default)]
pub(super) struct LeftOutTools {
    tools: BTreeMap<String, Vec<InvalidTool>>,
    notes: BTreeMap<String, String>,
    starting: BTreeMap<String, ServerStart>,
}

/// The first start of a server whose tools are not known yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServerStart {
    pub(crate) since: Instant,
    /// The time until which code that names the server waits for it.
    pub(crate) until: Instant,
}

impl LeftOutTools {
    /// Adds tools of a server that are left out.
    pub(super) fn add(&mut self, server: &str, tools: impl IntoIterator<Item = InvalidTool>) {
        let known = self.tools.entry(server.to_owned()).or_default();
        let room = MAX_TOOLS.saturating_sub(known.len());
        known.extend(tools.into_iter().take(room).map(|InvalidTool { mut name, mut reason }| {
            name.truncate(name.floor_char_boundary(MAX_TEXT_BYTES));
            reason.truncate(reason.floor_char_boundary(MAX_TEXT_BYTES));
            InvalidTool { name, reason }
        }));
    }

    /// Forgets the tools of a server, and that it starts.
    pub(super) fn clear(&mut self, server: &str) {
        self.tools.remove(server);
        self.starting.remove(server);
    }

    /// Sets what callers of a tool that the server does not have are told; `None`: nothing.
    pub(super) fn set_note(&mut self, server: &str, note: Option<String>) {
        match note {
            Some(mut note) => {
                note.truncate(note.floor_char_boundary(MAX_NOTE_BYTES));
                self.notes.insert(server.to_owned(), note);
            }
            None => drop(self.notes.remove(server)),
        }
    }

    /// Returns what callers of a tool that the server does not have are told, after a semicolon; empty: nothing.
    pub(super) fn note(&self, server: &str) -> String {
        let note = self.notes.get(server).map(|note| format!("; {note}")).unwrap_or_default();
        match self.starting.get(server) {
            Some(start) => format!("{note} (since {} s)", start.since.elapsed().as_secs()),
            None => note,
        }
    }

    /// Sets that a server starts whose tools are not known, and how long code that names it waits; `None`: it does not.
    /// Returns `true` if that is new.
    pub(super) fn set_starting(&mut self, server: &str, waits: Option<Duration>) -> bool {
        let since = Instant::now();
        match waits {
            Some(waits) => {
                let start = ServerStart { since, until: since + waits };
                self.starting.insert(server.to_owned(), start).is_none()
            }
            None => self.starting.remove(server).is_some(),
        }
    }

    /// Returns the servers that start and whose tools are not known.
    pub(super) fn starting(&self) -> &BTreeMap<String, ServerStart> {
        &self.starting
    }

    /// Returns the reason why the tool with this full name is left out; `None`: it is not.
    pub(super) fn reason(&self, server: &str, name: &str) -> Option<&str> {
        let tools = self.tools.get(server)?;
        tools.iter().find(|tool| tool.name == name).map(|tool| tool.reason.as_str())
    }

    /// Returns all tools that are left out.
    pub(super) fn all(&self) -> Vec<InvalidTool> {
        self.tools.values().flatten().cloned().collect()
    }
}
