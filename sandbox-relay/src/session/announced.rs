//! Tools that a host announced, by name.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU8, Ordering};

use relay_proto::spelling::nearest;
use relay_proto::{ErrorCode, INTROSPECTION_SERVER, LOCAL_SERVER, ToolName, ToolPatterns, wire};

use super::Violation;
use crate::execution::CallFailure;

/// Maximum number of servers that an error names.
const NAMED: usize = 20;
/// Maximum number of names that are compared to find the one that was probably meant.
const COMPARED: usize = 500;

/// Tools of one host.
#[derive(Default)]
pub(super) struct AnnouncedTools {
    by_server: HashMap<String, HashSet<ToolName>>,
    /// Names of the first servers, sorted, for an error.
    servers: String,
}

/// Budget of one execution for suggestions in errors: each costs a comparison with many names.
pub(super) struct Suggestions(AtomicU8);

impl Default for Suggestions {
    fn default() -> Self {
        Self(AtomicU8::new(8))
    }
}

impl Suggestions {
    /// Takes one suggestion from the budget, or returns `false`: it is used up.
    fn take(&self) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    /// Returns the words that suggest the known name most like `name`. Empty: none is near, or the budget is used up.
    fn suggest<'a>(&self, name: &str, known: impl Iterator<Item = &'a str>) -> String {
        let meant = if self.take() { nearest(name, known) } else { None };
        meant.map(|meant| format!("; did you mean {meant:?}?")).unwrap_or_default()
    }
}

impl AnnouncedTools {
    /// Sorts the tools of a hello or of a change by server.
    ///
    /// # Errors
    /// [`Violation`]: a name is no full tool name, or its server is reserved.
    pub(super) fn new(announced: Vec<wire::Tool>) -> Result<Self, Violation> {
        let mut by_server: HashMap<String, HashSet<ToolName>> = HashMap::new();
        for tool in announced {
            let name =
                ToolName::try_from(tool.name).map_err(|error| Violation(format!("a tool was announced: {error}")))?;
            if [INTROSPECTION_SERVER, LOCAL_SERVER].contains(&name.server()) {
                return Err(Violation(format!("a tool was announced under the reserved server {:?}", name.server())));
            }
            by_server.entry(name.server().to_owned()).or_default().insert(name);
        }
        let mut servers: Vec<_> = by_server.keys().map(String::as_str).collect();
        servers.sort_unstable();
        servers.truncate(NAMED);
        let servers = servers.join(", ");
        Ok(Self { by_server, servers })
    }

    /// Returns the full names of the allowed tools, sorted.
    pub(super) fn names(&self, allowed: &ToolPatterns) -> Vec<String> {
        let all = self.by_server.values().flatten().filter(|tool| allowed.allow(tool));
        let mut names: Vec<_> = all.map(|tool| tool.as_str().to_owned()).collect();
        names.sort_unstable();
        names
    }

    /// Checks that a tool was announced and is allowed. A failure names nothing that is not allowed.
    ///
    /// # Errors
    /// [`CallFailure`] for the script, with the code `UNKNOWN_SERVER` or `UNKNOWN_TOOL`.
    pub(super) fn check(
        &self,
        tool: &ToolName,
        allowed: &ToolPatterns,
        suggestions: &Suggestions,
    ) -> Result<(), CallFailure> {
        let (code, message) = match self.by_server.get(tool.server()) {
            None => {
                let others = if allowed.are_all() { format!("; there are: {}", self.servers) } else { String::new() };
                let has_allowed = |tools: &HashSet<ToolName>| tools.iter().take(NAMED).any(|it| allowed.allow(it));
                let known = self.by_server.iter().take(COMPARED / NAMED).filter(|(_, tools)| has_allowed(tools));
                let meant = suggestions.suggest(tool.server(), known.map(|(server, _)| server.as_str()));
                (ErrorCode::UnknownServer, format!("there is no server {:?}{others}{meant}", tool.server()))
            }
            Some(names) if !allowed.allow(tool) || !names.contains(tool) => {
                let known = names.iter().take(COMPARED).filter(|tool| allowed.allow(tool)).map(ToolName::tool);
                let meant = suggestions.suggest(tool.tool(), known);
                let message = format!("the server {:?} has no tool {:?}{meant}", tool.server(), tool.tool());
                (ErrorCode::UnknownTool, message)
            }
            Some(_) => return Ok(()),
        };
        Err(CallFailure { code: code.into(), message })
    }
}
