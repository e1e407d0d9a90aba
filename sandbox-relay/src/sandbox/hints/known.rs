//! Knows the servers, their tools and the bindings of the execution, and writes calls of them.

use std::cell::Cell;

use relay_proto::spelling::{nearest, sanitize};

use super::super::channel::message;
use super::super::tools;

/// Maximum number of tools that a hint names.
pub(super) const MAX_NAMED: usize = 3;
/// Maximum number of servers that a hint names.
const MAX_SERVERS: usize = 20;
/// Maximum number of tools that a hint names of a server.
const MAX_TOOLS: usize = 10;

/// Code that calls a tool, for hints.
pub(super) const HOW_TO_CALL: &str = "await mcp.call(\"server.tool\", args)";

/// Bindings of the execution on which hints depend.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Has {
    pub(super) console: bool,
    pub(super) timers: bool,
    pub(super) servers: bool,
    pub(super) introspection: bool,
}

thread_local! {
    static HAS: Cell<Has> = const { Cell::new(Has { console: false, timers: false, servers: false, introspection: false }) };
}

/// Notes the bindings of the execution.
pub(in super::super) fn set_bindings(start: &message::Start) {
    let message::Start { console, timers, servers, introspection, .. } = *start;
    HAS.set(Has { console, timers, servers, introspection });
}

/// Returns the bindings of the execution.
pub(super) fn has() -> Has {
    HAS.get()
}

/// Returns the names of the servers, as identifiers.
pub(super) fn servers() -> Vec<String> {
    tools::with(|tools| tools.keys().map(|server| sanitize(server)).collect())
}

/// Returns whether there is a server of this name, as it is or as an identifier.
pub(super) fn is_server(name: &str) -> bool {
    tools::with(|tools| tools.keys().any(|server| *server == name || sanitize(server) == name))
}

/// Returns whether a server has a tool, both by their names as they are or as identifiers.
pub(super) fn is_tool(server: &str, tool: &str) -> bool {
    tools::with(|tools| {
        let own = tools.iter().filter(|(name, _)| *name == server || sanitize(name) == server);
        own.flat_map(|(_, tools)| tools).any(|name| name == tool || sanitize(name) == tool)
    })
}

/// Returns the nearest server to a name, as an identifier; `None`: none is near.
pub(super) fn nearest_server(name: &str) -> Option<String> {
    nearest(name, servers().iter().map(String::as_str)).map(str::to_owned)
}

/// Lists the servers in words.
pub(super) fn connected() -> String {
    let mut servers = servers();
    if servers.is_empty() {
        return "there are no servers".into();
    }
    let more = if servers.len() > MAX_SERVERS { ", …" } else { "" };
    servers.truncate(MAX_SERVERS);
    format!("there are: {}{more}", servers.join(", "))
}

/// Returns the code that calls a tool.
pub(super) fn written(server: &str, tool: &str) -> String {
    if has().servers {
        format!("{}.{}({{…}})", sanitize(server), sanitize(tool))
    } else {
        format!("mcp.call(\"{server}.{tool}\", {{…}})")
    }
}

/// Returns the calls of the tools that have this name, joined in words; `None`: there are none.
pub(super) fn tools_named(name: &str) -> Option<String> {
    let named: Vec<_> = tools::with(|tools| {
        let all = tools.iter().flat_map(|(server, tools)| tools.iter().map(move |tool| (server, tool)));
        let named = all.filter(|(_, tool)| *tool == name || sanitize(tool) == name);
        named.take(MAX_NAMED).map(|(server, tool)| written(server, tool)).collect()
    });
    (!named.is_empty()).then(|| named.join(" or "))
}

/// Returns the call of the tool whose name is nearest; `None`: none is near.
pub(super) fn nearest_tool(name: &str) -> Option<String> {
    tools::with(|tools| {
        let all = || tools.iter().flat_map(|(server, tools)| tools.iter().map(move |tool| (server, tool)));
        let meant = nearest(name, all().map(|(_, tool)| tool.as_str()))?;
        all().find(|(_, tool)| *tool == meant).map(|(server, tool)| written(server, tool))
    })
}

/// Returns advice about a tool that a server does not have; `None`: there is no such server.
pub(super) fn missing_tool(server: &str, tool: &str) -> Option<String> {
    tools::with(|tools| {
        let (server, tools) = tools.iter().find(|(name, _)| **name == server || sanitize(name) == server)?;
        let spelled: Vec<_> = tools.iter().map(|tool| sanitize(tool)).collect();
        let server = sanitize(server);
        Some(match nearest(tool, spelled.iter().map(AsRef::as_ref)) {
            Some(meant) => format!("the server {server} has no tool {tool}; did you mean {server}.{meant}({{…}})?"),
            None => {
                let some = spelled.iter().take(MAX_TOOLS).map(AsRef::as_ref).collect::<Vec<&str>>().join(", ");
                format!("the server {server} has no tool {tool}; it has {some}")
            }
        })
    })
}
