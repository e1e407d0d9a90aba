//! The tools that a host announced.

use std::collections::{HashMap, HashSet};

use relay_proto::spelling::nearest;
use relay_proto::{ErrorCode, INTROSPECTION_SERVER, LOCAL_SERVER, ToolName, wire};

use super::Violation;
use crate::execution::CallFailure;

/// The tools of one host, by name.
#[derive(Default)]
pub(super) struct AnnouncedTools {
    by_server: HashMap<String, HashSet<ToolName>>,
    /// The servers' names, for an error.
    servers: String,
}

impl AnnouncedTools {
    /// How many servers an error names.
    const NAMED: usize = 20;
    /// How many names are looked at for what was probably meant.
    const COMPARED: usize = 500;

    /// # Errors
    /// One has no name that could be called.
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
        servers.truncate(Self::NAMED);
        let servers = servers.join(", ");
        Ok(Self { by_server, servers })
    }

    /// Some full names of those that are allowed, sorted.
    pub(super) fn names(&self, is_allowed: impl Fn(&ToolName) -> bool) -> Vec<String> {
        let all = self.by_server.values().flatten().filter(|tool| is_allowed(tool));
        let mut names: Vec<_> = all.map(|tool| tool.as_str().to_owned()).collect();
        names.sort_unstable();
        names
    }

    /// `is_free`: whether the execution may call whatever there is. Others do not learn what else there is. `suggests`: whether
    /// a failure is to say what was probably meant.
    ///
    /// # Errors
    /// There is no such tool, for a script to read.
    pub(super) fn check(
        &self,
        tool: &ToolName,
        is_allowed: impl Fn(&ToolName) -> bool,
        is_free: bool,
        suggests: bool,
    ) -> Result<(), CallFailure> {
        let fail = |code: ErrorCode, message: String| Err(CallFailure { code: code.into(), message });
        match self.by_server.get(tool.server()) {
            None => {
                let others = if is_free { format!("; there are: {}", self.servers) } else { String::new() };
                let some = if suggests { Self::COMPARED } else { 0 };
                let allowed = |tools: &HashSet<ToolName>| tools.iter().take(Self::NAMED).any(&is_allowed);
                let known = self.by_server.iter().take(some / Self::NAMED).filter(|(_, tools)| allowed(tools));
                let known = known.map(|(server, _)| server.as_str());
                let meant = meant(tool.server(), known);
                fail(ErrorCode::UnknownServer, format!("there is no server {:?}{others}{meant}", tool.server()))
            }
            Some(names) if !is_allowed(tool) || !names.contains(tool) => {
                let some = if suggests { Self::COMPARED } else { 0 };
                let known = names.iter().take(some).filter(|tool| is_allowed(tool)).map(ToolName::tool);
                let meant = meant(tool.tool(), known);
                let message = format!("the server {:?} has no tool {:?}{meant}", tool.server(), tool.tool());
                fail(ErrorCode::UnknownTool, message)
            }
            Some(_) => Ok(()),
        }
    }
}

fn meant<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    nearest(name, known).map(|meant| format!("; did you mean {meant:?}?")).unwrap_or_default()
}
